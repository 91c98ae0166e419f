//! NODE-010 to NODE-048: the initialisation of a tainted node.

use super::world::*;
use crate::cloud::instance::Instance;
use crate::reconciliation::effect::{ClusterError, When};
use serde_json::json;

fn stored_addresses(world: &World) -> String {
    let list = world.stored["status"]["addresses"].as_array().unwrap();
    let one = |value: &serde_json::Value| {
        format!(
            "{}={}",
            value["type"].as_str().unwrap(),
            value["address"].as_str().unwrap()
        )
    };
    list.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn node_045_addresses_are_stored_before_the_taint_goes() {
    let mut world = world();
    let run = world.reconcile();
    assert_eq!(
        run.effects,
        [
            "find node/node0",
            "patch node/node0/status addresses(3)",
            "patch node/node0 providerID=sim://42 labels(7) -taint(uninitialized) taints(0)",
            "event node/node0 Normal Synced",
        ]
    );
    assert_eq!(run.end, When::AwaitChange);
    assert_eq!(
        stored_addresses(&world),
        "InternalIP=10.0.0.1 ExternalIP=192.0.2.1 Hostname=kubelets-name"
    );
    assert_eq!(world.stored["spec"]["providerID"], "sim://42");
    assert_eq!(world.stored["spec"]["taints"], json!([]));
    assert_eq!(
        world.stored["metadata"]["labels"],
        json!({
            "beta.kubernetes.io/instance-type": "small",
            "failure-domain.beta.kubernetes.io/region": "region-a",
            "failure-domain.beta.kubernetes.io/zone": "zone-a",
            "node.kubernetes.io/instance-type": "small",
            "topology.kubernetes.io/region": "region-a",
            "topology.kubernetes.io/zone": "zone-a",
            "wasm-ccm.dev/provider": "sim",
        })
    );
}

#[test]
fn node_046_the_event_is_recorded_only_after_the_patch() {
    let mut world = world();
    world.errors = vec![ClusterError::Unavailable("gone away".to_owned()); 2];
    let run = world.reconcile();
    assert!(run.events.is_empty());
    let run = world.reconcile();
    assert!(run.events.is_empty());
    let run = world.reconcile();
    assert_eq!(
        run.events,
        [("Synced".to_owned(), "Node synced successfully".to_owned())]
    );
}

#[test]
fn node_011_the_key_alone_makes_a_node_uninitialised() {
    for (value, effect) in [
        ("true", "NoSchedule"),
        ("", "NoExecute"),
        ("x", "PreferNoSchedule"),
    ] {
        let mut world = world();
        world.stored["spec"]["taints"][0]["value"] = json!(value);
        world.stored["spec"]["taints"][0]["effect"] = json!(effect);
        assert!(world.node().is_uninitialized(), "{value} {effect}");
        world.reconcile();
        assert!(!world.node().is_uninitialized(), "{value} {effect}");
    }
}

#[test]
fn node_035_every_taint_of_the_key_goes_and_the_others_keep_their_order() {
    let mut world = world();
    let ours =
        json!({ "key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule" });
    let again =
        json!({ "key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoExecute" });
    let other = |key: &str| json!({ "key": key, "value": "v", "effect": "NoSchedule" });
    world.stored["spec"]["taints"] = json!([other("z"), ours, other("a"), again, other("m")]);
    world.reconcile();
    assert_eq!(
        world.stored["spec"]["taints"],
        json!([other("z"), other("a"), other("m")])
    );
}

#[test]
fn node_022_a_stored_provider_id_is_enough() {
    let mut world = world();
    world.stored["spec"]["providerID"] = json!("sim://42");
    world.answer = found(Instance {
        provider_id: String::new(),
        ..instance()
    });
    let run = world.reconcile();
    assert!(!world.node().is_uninitialized());
    assert!(
        !run.effects
            .iter()
            .any(|effect| effect.contains("providerID")),
        "{:?}",
        run.effects
    );
}

#[test]
fn node_025_a_node_ip_that_is_known_comes_first() {
    let mut world = world();
    world.stored["metadata"]["annotations"] =
        json!({ "alpha.kubernetes.io/provided-node-ip": "192.0.2.1" });
    world.reconcile();
    assert_eq!(
        stored_addresses(&world),
        "ExternalIP=192.0.2.1 InternalIP=10.0.0.1 Hostname=kubelets-name"
    );
}

#[test]
fn node_056_an_answer_without_addresses_initialises_and_keeps_what_is_stored() {
    let mut world = world();
    world.answer = found(Instance {
        addresses: Vec::new(),
        ..instance()
    });
    world.reconcile();
    assert!(!world.node().is_uninitialized());
    assert_eq!(stored_addresses(&world), "Hostname=kubelets-name");
}

#[test]
fn an_answer_with_one_wrong_part_initialises_and_says_what_was_left_out() {
    let mut world = world();
    world.answer = found(Instance {
        zone: Some("no zone".to_owned()),
        labels: vec![("node-role.kubernetes.io/master".to_owned(), String::new())],
        ..instance()
    });
    let run = world.reconcile();
    assert!(!world.node().is_uninitialized());
    assert_eq!(
        world.stored["metadata"]["labels"]["topology.kubernetes.io/zone"],
        json!(null)
    );
    let reasons: Vec<&str> = run
        .events
        .iter()
        .map(|(reason, _)| reason.as_str())
        .collect();
    assert_eq!(reasons, ["InvalidProviderAnswer", "Synced"]);
    assert!(run.events[0].1.contains("no zone") && run.events[0].1.contains("node-role"));
}

#[test]
fn node_041_a_conflict_is_answered_by_reading_and_deciding_again() {
    let mut world = world();
    world.meanwhile = Some(|stored| {
        stored["spec"]["taints"]
            .as_array_mut()
            .unwrap()
            .push(json!({ "key": "meanwhile", "effect": "NoExecute" }));
        stored["metadata"]["resourceVersion"] = json!("7");
    });
    world.stored["status"]["addresses"] = json!([
        { "type": "InternalIP", "address": "10.0.0.1" },
        { "type": "ExternalIP", "address": "192.0.2.1" }
    ]);
    let run = world.reconcile();
    assert_eq!(
        run.effects
            .iter()
            .filter(|effect| effect.starts_with("find"))
            .count(),
        1
    );
    assert_eq!(
        run.effects[1],
        run.effects[3].replace("taints(1)", "taints(0)")
    );
    assert_eq!(run.effects[2], "read node/node0");
    assert_eq!(
        world.stored["spec"]["taints"],
        json!([{ "key": "meanwhile", "effect": "NoExecute" }])
    );
    assert_eq!(run.end, When::AwaitChange);
}

#[test]
fn node_048_the_taint_put_back_initialises_again_and_refreshes_the_labels() {
    let mut world = world();
    world.reconcile();
    world.stored["spec"]["taints"] = json!([{ "key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule" }]);
    world.answer = found(Instance {
        instance_type: Some("large".to_owned()),
        ..instance()
    });
    let run = world.reconcile();
    assert!(!world.node().is_uninitialized());
    assert_eq!(
        world.stored["metadata"]["labels"]["node.kubernetes.io/instance-type"],
        "large"
    );
    assert_eq!(run.events.last().unwrap().0, "Synced");
}

#[test]
fn in_plan_mode_everything_is_said_and_nothing_is_written() {
    let mut world = world();
    world.withholds = true;
    let run = changes_nothing(&mut world);
    assert_eq!(run.effects.len(), 3, "{:?}", run.effects);
    assert!(run.effects[2].contains("-taint(uninitialized)"));
    assert_eq!(run.end, When::AwaitChange);
}

#[test]
fn node_046_a_lost_answer_to_the_last_write_loses_no_event() {
    for is_cached in [false, true] {
        let mut world = world();
        world.loses = true;
        let stale = world.node();
        let first = world.reconcile();
        assert_eq!(
            (first.events, world.stored["spec"]["taints"].clone()),
            (vec![], json!([]))
        );
        // The cache may contain the write by now, or not.
        let cached = if is_cached { world.node() } else { stale };
        let next = world.reconcile_from(cached);
        assert_eq!(next.events.len(), 1, "{:?}", next.effects);
        assert_eq!(next.events[0].0, "Synced");
        assert_eq!(world.reconcile().events, [], "it is said once");
    }
}
