//! Which rule a node gets, with properties that hold for random documents and nodes.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::{config, node};
use ccm_guest::{Address, Config, Instances as _, Provider as _};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;
use crate::Static;
use crate::document::KEY;

fn provider(text: &str) -> Static {
    let config = Config {
        schemes: ["static", "metal"].map(str::to_owned).to_vec(),
        ..config(&[(KEY, text)])
    };
    Static::init(&config).unwrap()
}

fn ask(provider: &Static, node: &Node) -> Lookup {
    let mut reply = provider.find(vec![node.clone()]).unwrap();
    assert!(reply.events.is_empty());
    reply.lookups.remove(0)
}

/// A look-up in short, for the tables.
fn brief(lookup: &Lookup) -> String {
    match lookup {
        Lookup::Found(one) => format!("{} {}", one.provider_id, one.zone.as_deref().unwrap_or("-")),
        Lookup::Gone => "gone".to_owned(),
        Lookup::NotMine => "not mine".to_owned(),
        Lookup::Unknown(_) => "unknown".to_owned(),
    }
}

const TWO_RACKS: &str = "
rules:
- {names: [a-1], zone: first}
- {names: ['a-*'], providerID: 'metal://{name}', zone: second}
- {selector: {matchLabels: {rack: b}}, zone: third}
- {selector: {matchLabels: {rack: c}}, zone: fourth}
retired: [a-1, a-2]
";

#[test]
fn the_first_rule_counts_until_a_provider_id_is_stored() {
    let provider = provider(TWO_RACKS);
    let node = |name: &str, id: Option<&str>| Node {
        addresses: vec![Address::internal("10.0.0.1")],
        ..node(name, id)
    };
    let labelled = |mut node: Node, rack: &str| {
        node.labels = vec![("rack".to_owned(), rack.to_owned())];
        node
    };
    let table = [
        (node("a-3", None), "metal://a-3 second"),
        (labelled(node("a-3", None), "b"), "metal://a-3 second"),
        (labelled(node("x", None), "b"), "static://x third"),
        (node("x", None), "not mine"),
        (node("x", Some("")), "not mine"),
        // A stored provider ID: the rule that gives this ID, whatever the labels are now.
        (
            labelled(node("a-3", Some("static://a-3")), "b"),
            "static://a-3 third",
        ),
        (node("a-3", Some("metal://a-3")), "metal://a-3 second"),
        // Two rules give this ID, and neither matches any more.
        (node("x", Some("static://x")), "unknown"),
        (
            labelled(node("x", Some("static://x")), "c"),
            "static://x fourth",
        ),
        // IDs of other providers, and own ones that no rule gives.
        (node("x", Some("hcloud://7")), "not mine"),
        (node("x", Some("static://y")), "not mine"),
        (node("x", Some("metal://x")), "not mine"),
        // Retired names.
        (node("a-1", Some("static://a-1")), "gone"),
        (node("a-2", Some("metal://a-2")), "gone"),
        (node("a-1", None), "not mine"),
        (node("a-1", Some("hcloud://7")), "not mine"),
    ];
    for (node, expected) in table {
        let answer = brief(&ask(&provider, &node));
        assert_eq!(
            answer, expected,
            "{} {:?} {:?}",
            node.name, node.provider_id, node.labels
        );
    }
}

/// Kubelets without `--node-ip` report no address, and an initialised node without one would stay without one.
#[test]
fn a_new_node_waits_for_an_ip_address() {
    const WAITS: &str = "the node has no IP address: start its kubelet with --node-ip, or list its addresses in the document";
    let provider = provider(
        "
rules:
- {names: [a], addresses: {a: [{type: InternalIP, address: 10.0.7.2}]}}
- {names: [b], zone: first}
- {names: [b, c], zone: second}
",
    );
    let provided = |ips: &str| {
        let key = "alpha.kubernetes.io/provided-node-ip";
        vec![(key.to_owned(), ips.to_owned())]
    };
    for id in [None, Some("static://b"), Some("static://c")] {
        let name = id.map_or("b", |id| id.trim_start_matches("static://"));
        let mut node = node(name, id);
        node.addresses = vec![Address::hostname(name)];
        match ask(&provider, &node) {
            Lookup::Unknown(why) => assert_eq!(why, WAITS, "{id:?}"),
            other => panic!("{id:?}: {other:?}"),
        }
        let with_node_ip = Node {
            annotations: provided("10.0.7.3"),
            ..node.clone()
        };
        let reported = Node {
            addresses: vec![Address::internal("10.0.7.3")],
            ..node.clone()
        };
        node.initialized = true;
        for node in [with_node_ip, reported, node] {
            let lookup = ask(&provider, &node);
            assert!(matches!(lookup, Lookup::Found(_)), "{node:?}: {lookup:?}");
        }
    }
    assert_eq!(brief(&ask(&provider, &node("a", None))), "static://a -");
}

const NAMES: &[&str] = &["a", "a-1", "a-2", "b-1", "b-2", "ab-1"];
const SCHEMES: &[&str] = &["static://{name}", "metal://{name}", "metal://x/{name}"];

/// Documents of a few rules whose conditions overlap in every way.
fn documents() -> impl Strategy<Value = String> {
    let names = subsequence(vec!["a", "a-*", "*-1", "b-2", "*"], 0..=2);
    let racks = select(vec!["", "x", "y"]);
    let cidrs = select(vec!["", "10.0.0.0/25", "10.0.0.0/24"]);
    let rule = (names, racks, cidrs, select(SCHEMES), any::<bool>()).prop_filter_map(
        "a rule about nothing",
        |(names, rack, cidr, id, addressed)| {
            if names.is_empty() && rack.is_empty() && cidr.is_empty() {
                return None;
            }
            let list = |one: &str| {
                if one.is_empty() {
                    vec![]
                } else {
                    vec![one.to_owned()]
                }
            };
            let labels = match rack {
                "" => serde_json::json!({}),
                rack => serde_json::json!({"rack": rack}),
            };
            let addresses = match addressed && (names.is_empty() || names.contains(&"*")) {
                true => serde_json::json!({"a": [{"type": "InternalIP", "address": "10.9.9.9"}]}),
                false => serde_json::json!({}),
            };
            Some(serde_json::json!({
                "names": names, "selector": {"matchLabels": labels}, "cidrs": list(cidr),
                "providerID": id, "zone": format!("z{}", rack), "addresses": addresses,
            }))
        },
    );
    let retired = subsequence(NAMES.to_vec(), 0..=2);
    (proptest::collection::vec(rule, 1..5), retired).prop_map(|(rules, retired)| {
        serde_json::json!({"rules": rules, "retired": retired}).to_string()
    })
}

fn nodes() -> impl Strategy<Value = Node> {
    let ids = select(vec![
        "",
        "static://a",
        "metal://a-1",
        "metal://x/b-1",
        "hcloud://1",
    ]);
    let rack = select(vec!["", "x", "y"]);
    (select(NAMES), ids, rack, 0..256u16).prop_map(|(name, id, rack, host)| {
        let mut node = node(name, Some(id).filter(|id| !id.is_empty()));
        if !rack.is_empty() {
            node.labels = vec![("rack".to_owned(), rack.to_owned())];
        }
        node.addresses = vec![Address::internal(format!("10.0.0.{host}"))];
        node
    })
}

proptest! {
    /// A new node gets the first rule that matches, and its answer is what that rule says; without one it is not this
    /// provider's.
    #[test]
    fn a_new_node_has_the_first_rule_that_matches_or_none(text in documents(), mut node in nodes()) {
        node.provider_id = None;
        let provider = provider(&text);
        let rules = &provider.document.rules;
        let is_retired = provider.document.retired.contains(&node.name);
        let first = rules.iter().find(|rule| rule.matches(&node)).filter(|_| !is_retired);
        let expected = first.map_or(Lookup::NotMine, |rule| Lookup::Found(rule.instance(&node)));
        prop_assert_eq!(format!("{:?}", ask(&provider, &node)), format!("{expected:?}"));
    }

    /// A stored answer is answered again, also when it has replaced the addresses or added labels.
    #[test]
    fn a_stored_answer_is_answered_again(text in documents(), mut node in nodes()) {
        node.provider_id = None;
        let provider = provider(&text);
        if let Lookup::Found(instance) = ask(&provider, &node) {
            let its = provider.document.rules.iter().filter(|rule| {
                rule.is_about(&node.name) && rule.provider_id(&node.name) == instance.provider_id
            });
            let is_only = its.count() == 1;
            node.provider_id = Some(instance.provider_id.clone());
            node.labels.extend(instance.labels.clone());
            if !instance.addresses.is_empty() {
                node.addresses = instance.addresses.clone();
            }
            match ask(&provider, &node) {
                Lookup::Found(again) => prop_assert_eq!(again.provider_id, instance.provider_id),
                Lookup::Unknown(_) => prop_assert!(!is_only),
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }

    /// `gone` is only returned for a retired name whose provider ID is the one that a rule gives it.
    #[test]
    fn only_a_retired_machine_is_gone(text in documents(), node in nodes()) {
        let provider = provider(&text);
        let stored = node.provider_id.clone().unwrap_or_default();
        let is_ours = provider.document.rules.iter().any(|rule| rule.provider_id(&node.name) == stored);
        if matches!(ask(&provider, &node), Lookup::Gone) {
            prop_assert!(is_ours && provider.document.retired.contains(&node.name));
        }
    }

    /// A stored provider ID is never answered with another one.
    #[test]
    fn a_provider_id_never_changes(text in documents(), node in nodes()) {
        if let (Some(stored), Lookup::Found(instance)) = (&node.provider_id, ask(&provider(&text), &node)) {
            prop_assert_eq!(stored, &instance.provider_id);
        }
    }

    /// Many nodes in one call get the same answers as each alone, and two names never get one provider ID.
    #[test]
    fn an_answer_depends_on_its_own_node_alone(text in documents(), all in proptest::collection::vec(nodes(), 0..8)) {
        let provider = provider(&text);
        let together = provider.find(all.clone()).unwrap().lookups;
        let alone: Vec<Lookup> = all.iter().map(|node| ask(&provider, node)).collect();
        prop_assert_eq!(format!("{together:?}"), format!("{alone:?}"));
        for (a, first) in all.iter().zip(&together) {
            for (b, second) in all.iter().zip(&together) {
                if let (Lookup::Found(first), Lookup::Found(second)) = (first, second) {
                    prop_assert_eq!(first.provider_id == second.provider_id, a.name == b.name && first.provider_id == second.provider_id);
                }
            }
        }
    }
}
