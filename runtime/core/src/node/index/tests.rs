//! Provider IDs and addresses that several nodes have.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::cloud::instance::Address;
use crate::fixtures;
use crate::node::cloud_node::cloud_node;
use serde_json::{Value, json};

/// A Ready node with these InternalIPs; its UID is its name and `-1`.
fn node(name: &str, provider_id: Option<&str>, internal: &[&str]) -> PrunedNode {
    with_uid(name, &format!("{name}-1"), provider_id, internal)
}

fn with_uid(name: &str, uid: &str, provider_id: Option<&str>, internal: &[&str]) -> PrunedNode {
    changed(name, uid, provider_id, internal, |_| {})
}

/// The same, with a change.
fn changed(
    name: &str,
    uid: &str,
    provider_id: Option<&str>,
    internal: &[&str],
    change: impl FnOnce(&mut Value),
) -> PrunedNode {
    let named = fixtures::node(name).uid(uid).ready();
    let node = named.with(|node| node["spec"]["providerID"] = json!(provider_id));
    let internal = internal.iter();
    let node = internal.fold(node, |node, ip| node.address("InternalIP", ip));
    node.address("ExternalIP", "192.0.2.1").with(change).build()
}

fn instance(provider_id: &str, addresses: &[(AddressType, &str)]) -> Instance {
    let addresses = addresses.iter().map(|(address_type, address)| Address {
        address_type: *address_type,
        address: (*address).to_owned(),
    });
    Instance {
        provider_id: provider_id.to_owned(),
        addresses: addresses.collect(),
        ..Instance::default()
    }
}

/// `name: stored` or `name: answered`, if there is a twin.
fn duplicate(node_index: &NodeIndex, name: &str, provider_id: &str) -> Option<String> {
    let duplicate = node_index
        .clashes(name, &instance(provider_id, &[]))
        .duplicate?;
    let how = if duplicate.is_stored {
        "stored"
    } else {
        "answered"
    };
    Some(format!("{}: {how}", duplicate.name))
}

/// The provider `name`, which owns the scheme of that name.
fn provider(name: &str) -> OwnershipContext {
    OwnershipContext::alone(name, vec![name.to_owned()])
}

fn answer(node_index: &mut NodeIndex, about: &[(&PrunedNode, Lookup)]) {
    answer_of("sim", node_index, about);
}

fn answer_of(by: &str, node_index: &mut NodeIndex, about: &[(&PrunedNode, Lookup)]) {
    let nodes: Vec<CloudNode> = about.iter().map(|(node, _)| cloud_node(node)).collect();
    let reply = FindReply {
        lookups: about.iter().map(|(_, lookup)| lookup.clone()).collect(),
        ..FindReply::default()
    };
    let now = Moment(std::time::Duration::ZERO);
    node_index.answered(&provider(by), &nodes, &reply, now);
}

fn found(provider_id: &str) -> Lookup {
    found_with(provider_id, &[])
}

/// The answer that the machine exists and has these InternalIPs.
fn found_with(provider_id: &str, internal: &[&str]) -> Lookup {
    let internal = internal.iter().map(|ip| (AddressType::InternalIp, *ip));
    let internal: Vec<_> = internal.collect();
    Lookup::Found(Box::new(instance(provider_id, &internal)))
}

/// Those of `addresses` that neither a new node nor a Service may have.
fn held<'a>(all: &NodeIndex, addresses: &[&'a str]) -> Vec<&'a str> {
    let is_held = |address: &&&str| {
        let answer = instance("sim://new", &[(AddressType::InternalIp, **address)]);
        let clashes = !all.clashes("new", &answer).addresses.is_empty();
        let is_held = all.holder(address.parse().unwrap()).is_some();
        assert_eq!(clashes, is_held, "all nodes are Ready");
        is_held
    };
    addresses.iter().filter(is_held).copied().collect()
}

#[test]
fn two_new_nodes_of_one_answer_are_twins_and_neither_has_it_written_down() {
    let (a, b) = (node("a", None, &[]), node("b", None, &[]));
    let mut node_index = NodeIndex::default();
    node_index.apply(&a);
    node_index.apply(&b);
    assert_eq!(duplicate(&node_index, "a", "sim://1"), None);
    answer(
        &mut node_index,
        &[(&a, found("sim://1")), (&b, found("sim://1"))],
    );
    assert_eq!(
        duplicate(&node_index, "a", "sim://1").unwrap(),
        "b: answered"
    );
    assert_eq!(
        duplicate(&node_index, "b", "sim://1").unwrap(),
        "a: answered"
    );
    // The next answer withdraws the last one.
    answer(&mut node_index, &[(&b, Lookup::NotMine)]);
    assert_eq!(duplicate(&node_index, "a", "sim://1"), None);
}

#[test]
fn of_several_twins_the_one_that_has_it_written_down_counts() {
    let (a, b, c) = (
        node("a", None, &[]),
        node("b", None, &[]),
        node("c", Some("sim://1"), &[]),
    );
    let mut node_index = NodeIndex::default();
    for node in [&a, &b, &c] {
        node_index.apply(node);
    }
    answer(&mut node_index, &[(&a, found("sim://1"))]);
    assert_eq!(duplicate(&node_index, "b", "sim://1").unwrap(), "c: stored");
    assert_eq!(
        duplicate(&node_index, "c", "sim://1").unwrap(),
        "a: answered"
    );
    // An answer without a provider ID is about the stored one.
    assert!(
        node_index
            .clashes("c", &instance("", &[]))
            .duplicate
            .is_some()
    );
}

#[test]
fn f29_a_provider_id_that_is_not_its_own_or_not_that_nodes_holds_no_machine() {
    for (stored, answered, holder) in [
        (None, "sim://1", Some("a: answered")),
        (Some("sim://1"), "sim://1", Some("a: stored")),
        (None, "hrobot://1234", None),
        (None, "hrobot", None),
        (Some("sim://1"), "sim://2", None),
    ] {
        let a = node("a", stored, &[]);
        let mut all = NodeIndex::default();
        all.apply(&a);
        all.apply(&node("new", None, &[]));
        answer(&mut all, &[(&a, found(answered))]);
        let held = duplicate(&all, "new", answered);
        assert_eq!(held.as_deref(), holder, "{stored:?} {answered}");
    }
    // A rejected answer withdraws that provider's last one, and no other provider's.
    let a = node("a", None, &[]);
    let mut all = NodeIndex::default();
    all.apply(&a);
    answer(&mut all, &[(&a, found("sim://1"))]);
    answer_of("other", &mut all, &[(&a, found("sim://1"))]);
    let held = duplicate(&all, "new", "sim://1");
    assert_eq!(held.as_deref(), Some("a: answered"));
    answer(&mut all, &[(&a, found("hrobot://1234"))]);
    assert_eq!(duplicate(&all, "new", "sim://1"), None);
}

#[test]
fn a_node_that_was_deleted_or_made_again_has_no_say() {
    let old = node("a", None, &[]);
    let mut node_index = NodeIndex::default();
    node_index.apply(&old);
    node_index.apply(&node("b", None, &[]));
    node_index.apply(&with_uid("a", "a-2", None, &[]));
    answer(&mut node_index, &[(&old, found("sim://1"))]);
    assert_eq!(duplicate(&node_index, "b", "sim://1"), None);
    node_index.apply(&node("a", Some("sim://1"), &["10.0.0.1"]));
    assert_eq!(duplicate(&node_index, "b", "sim://1").unwrap(), "a: stored");
    node_index.forget("a");
    assert_eq!(duplicate(&node_index, "b", "sim://1"), None);
    answer(&mut node_index, &[(&old, found("sim://1"))]);
    assert_eq!(duplicate(&node_index, "b", "sim://1"), None);
    assert_eq!(node_index.len(), 1);
}

#[test]
fn an_internal_ip_of_a_ready_node_is_nobody_elses() {
    let mut node_index = NodeIndex::default();
    node_index.apply(&node("a", None, &["10.0.0.1", "fd00::1"]));
    node_index.apply(&node("b", None, &["10.0.0.2"]));
    let clashing = |node_index: &NodeIndex, kind, address: &str| {
        let clashes = node_index.clashes("b", &instance("sim://2", &[(kind, address)]));
        clashes.addresses.first().map(|clash| clash.name.clone())
    };
    use AddressType::{ExternalIp, Hostname, InternalIp};
    for (kind, address, holder) in [
        (InternalIp, "10.0.0.1", Some("a")),
        (ExternalIp, "10.0.0.1", Some("a")),
        (InternalIp, "::ffff:10.0.0.1", Some("a")),
        (InternalIp, "fd00:0::1", Some("a")),
        (InternalIp, "192.0.2.1", Some("a")),
        (InternalIp, "10.0.0.2", None),
        (InternalIp, "10.0.0.3", None),
        // As machines behind one gateway do.
        (ExternalIp, "192.0.2.1", None),
        (Hostname, "10.0.0.1", None),
    ] {
        let clash = clashing(&node_index, kind, address);
        assert_eq!(clash.as_deref(), holder, "{kind:?} {address}");
    }
    let not_ready = changed("a", "a-1", None, &["10.0.0.1"], |node| {
        node["status"]["conditions"] = json!([]);
    });
    node_index.apply(&not_ready);
    assert_eq!(clashing(&node_index, InternalIp, "10.0.0.1"), None);
}

#[test]
fn f30_an_address_that_only_a_kubelet_names_is_held_from_nobody() {
    let all_four = ["10.0.0.1", "10.0.0.7", "10.0.0.8", "10.0.0.9"];
    let reports = |addresses: &[&str]| node("x", Some("sim://1"), addresses);
    let mut all = NodeIndex::default();
    all.apply(&reports(&["10.0.0.7"]));
    assert_eq!(held(&all, &all_four), ["10.0.0.7"], "before any answer");
    let x = reports(&["10.0.0.7", "10.0.0.1", "10.0.0.8"]);
    all.apply(&x);
    assert_eq!(held(&all, &all_four), ["10.0.0.7"], "the first one");
    answer(&mut all, &[(&x, Lookup::NotMine)]);
    answer(&mut all, &[(&x, found_with("other://1", &["10.0.0.8"]))]);
    answer(&mut all, &[(&x, found("sim://1"))]);
    assert_eq!(held(&all, &all_four), ["10.0.0.7"], "no answer about it");
    answer(&mut all, &[(&x, found_with("sim://1", &["10.0.0.1"]))]);
    assert_eq!(held(&all, &all_four), ["10.0.0.1"]);
    answer(&mut all, &[(&x, found("sim://1"))]);
    assert_eq!(held(&all, &all_four), ["10.0.0.1"], "no other answer");

    // A provider takes no address from a node by another answer; what is not reported any more is free.
    answer(&mut all, &[(&x, found_with("sim://1", &["10.0.0.9"]))]);
    answer(&mut all, &[(&x, Lookup::Gone)]);
    assert_eq!(held(&all, &all_four), ["10.0.0.1"]);
    all.apply(&reports(&["10.0.0.9"]));
    all.apply(&reports(&["10.0.0.9", "10.0.0.1"]));
    assert_eq!(held(&all, &all_four), ["10.0.0.9"]);
    all.withdraw("sim");
    all.apply(&reports(&["10.0.0.8", "10.0.0.9"]));
    assert_eq!(held(&all, &all_four), ["10.0.0.8"]);
}

#[test]
fn f30_a_node_that_has_not_been_initialised_holds_no_address_before_an_answer() {
    let new = changed("x", "x-1", None, &["10.0.0.1"], |node| {
        let key = crate::well_known::UNINITIALIZED_TAINT;
        node["spec"]["taints"] = json!([{ "key": key, "effect": "NoSchedule" }]);
    });
    let mut all = NodeIndex::default();
    all.apply(&new);
    assert!(held(&all, &["10.0.0.1"]).is_empty());
    answer(&mut all, &[(&new, found_with("sim://1", &["10.0.0.1"]))]);
    assert_eq!(held(&all, &["10.0.0.1"]), ["10.0.0.1"]);
}

#[test]
fn f30_one_node_adds_at_most_64_addresses() {
    let many = (0..10_000).map(|number| format!("10.9.{}.{}", number / 250, number % 250));
    let many: Vec<String> = many.collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let x = node("x", Some("sim://1"), &many);
    let mut all = NodeIndex::default();
    all.apply(&x);
    assert_eq!(all.by_address.len(), 1);
    answer(&mut all, &[(&x, found_with("sim://1", &many))]);
    assert_eq!(all.by_address.len(), 64);
}

#[test]
fn equal_lists_of_addresses_are_kept_once() {
    let mut all = NodeIndex::default();
    let new = node("x", Some("sim://1"), &["10.0.0.1"]);
    all.apply(&new);
    let addresses = [
        (AddressType::InternalIp, "10.0.0.2"),
        (AddressType::ExternalIp, "192.0.2.1"),
    ];
    let found = Lookup::Found(Box::new(instance("sim://1", &addresses)));
    answer(&mut all, &[(&new, found)]);
    all.apply(&node("x", Some("sim://1"), &["10.0.0.2"]));

    let x = &all.nodes["x"];
    assert_eq!(x.reported.len(), 2);
    let answered = &x.answer.as_ref().unwrap().ips;
    for list in [answered, &x.ips] {
        assert!(Arc::ptr_eq(list, &x.reported), "{x:?}");
    }
}

#[test]
fn what_is_forgotten_leaves_nothing_behind() {
    let mut node_index = NodeIndex::default();
    let a = node("a", Some("sim://1"), &["10.0.0.1"]);
    for _ in 0..3 {
        node_index.apply(&a);
        answer(&mut node_index, &[(&a, found("sim://2"))]);
        node_index.forget("a");
    }
    assert!(node_index.is_empty());
    assert!(node_index.by_provider_id.is_empty());
    assert!(node_index.by_internal.is_empty() && node_index.by_external.is_empty());
    assert!(node_index.by_address.is_empty());
}

#[test]
fn the_address_of_a_machine_that_is_gone_is_free_again_and_not_before() {
    let address = "10.0.0.7".parse().unwrap();
    let reported = |status: &str| {
        changed("dead", "dead-1", Some("sim://7"), &["10.0.0.7"], |node| {
            node["status"]["conditions"][0]["status"] = json!(status);
        })
    };
    let dead = reported("True");
    let mut all = NodeIndex::default();
    all.apply(&dead);
    let asked = [cloud_node(&dead)];
    let answer = |all: &mut NodeIndex, lookup: Lookup, complete| {
        let reply = FindReply {
            lookups: vec![lookup],
            complete,
            ..FindReply::default()
        };
        let now = Moment(std::time::Duration::ZERO);
        all.answered(&provider("sim"), &asked, &reply, now);
        all.holder(address).map(str::to_owned)
    };
    all.apply(&reported("Unknown"));
    let holds = Some("dead".to_owned());
    assert_eq!(answer(&mut all, Lookup::Gone, false), holds, "not complete");
    assert_eq!(answer(&mut all, Lookup::Gone, true), holds, "once");
    assert_eq!(answer(&mut all, Lookup::Gone, true), None);
    let found = found_with("sim://7", &["10.0.0.7"]);
    assert_eq!(answer(&mut all, found, true), holds);
    answer(&mut all, Lookup::Gone, true);
    assert_eq!(answer(&mut all, Lookup::Gone, true), None);
    all.apply(&dead);
    assert_eq!(all.holder(address), Some("dead"), "its kubelet speaks");
    for _ in 0..3 {
        let holds = Some("dead".to_owned());
        assert_eq!(answer(&mut all, Lookup::Gone, true), holds, "and goes on");
    }
}

#[test]
fn the_roll_changes_with_what_a_pass_depends_on_and_nothing_else() {
    let mut all = NodeIndex::default();
    let (a, b) = (node("a", None, &["10.0.0.1"]), node("b", None, &[]));
    let mut version = all.version();
    let mut changes =
        |all: &NodeIndex| std::mem::replace(&mut version, all.version()) != all.version();
    all.apply(&a);
    all.apply(&b);
    assert!(changes(&all), "two nodes");
    // Ordinary changes by kubelets and by answers of providers.
    let a = node("a", Some("sim://1"), &[]);
    all.apply(&a);
    answer(&mut all, &[(&a, found("sim://2"))]);
    assert!(!changes(&all));
    let mut taint = |key: &str| {
        all.apply(&changed("a", "a-1", Some("sim://1"), &[], |node| {
            node["spec"]["taints"] = json!([{ "key": key, "effect": "NoSchedule" }]);
        }));
        (changes(&all), all.unready().len())
    };
    assert_eq!(taint("node.kubernetes.io/unschedulable"), (false, 0));
    assert_eq!(taint(crate::well_known::SHUTDOWN_TAINT), (true, 1));
    all.apply(&changed("a", "a-1", Some("sim://1"), &[], |node| {
        node["status"]["conditions"] = json!([]);
    }));
    assert_eq!((changes(&all), all.unready().len()), (false, 1));
    all.apply(&with_uid("a", "a-2", None, &[]));
    assert_eq!((changes(&all), all.unready().len()), (true, 0));
    all.forget("b");
    assert!(changes(&all));
    all.keep(|_| false);
    assert!(changes(&all));
    all.forget("a");
    assert!(!changes(&all), "it was not there");
}

#[test]
fn a_provider_that_does_not_own_the_node_frees_no_address() {
    let address = "10.0.0.7".parse().unwrap();
    for (owner, id, is_freed) in [
        ("sim", None, true),
        ("other", Some("sim://7"), false),
        ("", Some("sim://7"), true),
        ("", None, false),
    ] {
        let dead = fixtures::node("dead").uid("dead-1").ready();
        let dead = dead.address("InternalIP", "10.0.0.7").with(|node| {
            node["spec"]["providerID"] = json!(id);
            node["metadata"]["labels"] = json!({ "wasm-ccm.dev/provider": owner });
            node["status"]["conditions"][0]["status"] = json!("Unknown");
        });
        let dead = dead.build();
        let mut all = NodeIndex::default();
        all.apply(&dead);
        for _ in 0..2 {
            let reply = FindReply {
                lookups: vec![Lookup::Gone],
                complete: true,
                ..FindReply::default()
            };
            let asked = [cloud_node(&dead)];
            let now = Moment(std::time::Duration::ZERO);
            all.answered(&provider("sim"), &asked, &reply, now);
        }
        assert_eq!(all.holder(address).is_none(), is_freed, "{owner:?} {id:?}");
    }
}

#[test]
fn the_answers_of_a_provider_go_with_it() {
    let (a, b) = (node("a", None, &[]), node("b", None, &[]));
    let mut all = NodeIndex::default();
    all.apply(&a);
    all.apply(&b);
    answer(&mut all, &[(&a, found("sim://1"))]);
    all.withdraw("another");
    assert_eq!(
        duplicate(&all, "b", "sim://1").as_deref(),
        Some("a: answered")
    );
    all.withdraw("sim");
    assert_eq!(duplicate(&all, "b", "sim://1"), None);
}
