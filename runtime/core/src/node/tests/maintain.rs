//! NODE-012 and NODE-050 to NODE-072: the maintenance of an initialised node.

use std::sync::Arc;

use super::world::*;
use crate::cloud::error::ProviderError;
use crate::cloud::instance::{AddressType, Instance, Lookup};
use crate::node::ownership::{Claim, OwnershipContext};
use crate::node::{Facts, RetainedState, decide};
use crate::reconciliation::effect::{ClusterError, Decision, When};
use crate::settings::NodeRules;
use serde_json::json;

#[test]
fn node_012_an_untainted_node_is_not_asked_about() {
    let mut world = initialised();
    world.refresh = false;
    let run = world.reconcile();
    assert!(run.effects.is_empty(), "{:?}", run.effects);
    assert_eq!(run.end, When::AwaitChange);
}

#[test]
fn what_no_provider_owns_is_never_touched() {
    for spec in [
        json!({}),
        json!({ "providerID": "other://1" }),
        json!({ "providerID": "garbage" }),
    ] {
        let mut world = initialised();
        world.stored["metadata"]["labels"] = json!({ "beta.kubernetes.io/instance-type": "t" });
        world.stored["spec"] = spec;
        assert!(world.reconcile().effects.is_empty());
    }
}

/// As after an entry was renamed. A node without a record may be of no cloud here.
#[test]
fn a_recorded_owner_that_does_not_serve_is_told_once_by_the_second_pass() {
    const WHY: &str = "the node belongs to the provider \"old\", which does not serve here: it is not configured, no version of it serves, or it contradicts another provider";
    const TOLD: &str = "event node/node0 Warning NodeNotServed";
    let blocked = format!("await change: {WHY}");
    let table = [
        ("old", false, None, "await change"),
        ("old", true, None, &*blocked),
        ("old", false, Some((WHY, 0)), &*blocked),
        ("old", true, Some((WHY, 0)), TOLD),
        ("old", true, Some((WHY, 1)), &*blocked),
        ("old", true, Some(("something else", 7)), &*blocked),
        ("", true, Some((WHY, 0)), "await change"),
    ];
    for (recorded, refresh, obstacle, expected) in table {
        let mut world = initialised();
        world.stored["metadata"]["labels"]["wasm-ccm.dev/provider"] = json!(recorded);
        world.stored["spec"] = json!({ "providerID": "gone://1" });
        let other = Claim {
            name: "west".to_owned(),
            schemes: vec!["west".to_owned()],
            selector: None,
        };
        let ownership = OwnershipContext {
            others: vec![other],
            ..OwnershipContext::alone("sim", vec!["sim".to_owned()])
        };
        let past = RetainedState {
            refresh,
            obstacle: obstacle.map(|(why, passes)| (why.to_owned(), passes)),
            ..RetainedState::default()
        };
        let rules = Arc::new(NodeRules::default());
        let facts = Facts::new(Arc::new(world.node()), Arc::new(ownership), rules, past);
        let decided: Vec<String> = match decide(&facts, NOW) {
            Decision::Do(effects) => effects.iter().map(ToString::to_string).collect(),
            Decision::Done((end, _)) => vec![end.to_string()],
        };
        assert_eq!(decided, [expected], "{recorded} {refresh} {obstacle:?}");
    }
}

#[test]
fn node_070_deprecated_labels_are_copied_to_the_current_ones_in_one_patch() {
    let mut world = initialised();
    world.refresh = false;
    world.stored["metadata"]["labels"] = json!({
        "wasm-ccm.dev/provider": "sim",
        "failure-domain.beta.kubernetes.io/zone": "z",
        "beta.kubernetes.io/instance-type": "t",
        "node.kubernetes.io/instance-type": "edited",
    });
    let run = world.reconcile();
    assert_eq!(run.effects, ["patch node/node0 labels(2)"]);
    assert_eq!(
        world.stored["metadata"]["labels"]["topology.kubernetes.io/zone"],
        "z"
    );
    assert_eq!(
        world.stored["metadata"]["labels"]["node.kubernetes.io/instance-type"],
        "t"
    );
    assert!(
        world.reconcile().effects.is_empty(),
        "nothing is left to do"
    );
}

#[test]
fn node_073_a_conflict_over_labels_is_read_again_and_retried() {
    let mut world = initialised();
    world.refresh = false;
    world.stored["metadata"]["labels"]["beta.kubernetes.io/instance-type"] = json!("t");
    world.errors = vec![ClusterError::Conflict("busy".to_owned())];
    let run = world.reconcile();
    let patch = "patch node/node0 labels(1)";
    assert_eq!(run.effects, [patch, "read node/node0", patch]);
    assert_eq!(run.end, When::AwaitChange);
}

#[test]
fn node_050_an_address_that_changed_is_stored_in_the_periodic_pass() {
    let mut world = initialised();
    let moved = addresses(&[
        (AddressType::InternalIp, "10.0.0.1"),
        (AddressType::ExternalIp, "192.0.2.9"),
    ]);
    world.answer = found(Instance {
        addresses: moved,
        ..instance()
    });
    let run = world.reconcile();
    assert_eq!(
        run.effects,
        ["find node/node0", "patch node/node0/status addresses(3)"]
    );
    assert_eq!(
        world.stored["status"]["addresses"][1]["address"],
        "192.0.2.9"
    );
    assert_eq!(
        world.reconcile().effects,
        ["find node/node0"],
        "what is equal is not written"
    );
}

#[test]
fn node_055_the_periodic_pass_leaves_labels_alone() {
    let mut world = initialised();
    world.answer = found(Instance {
        instance_type: Some("large".to_owned()),
        ..instance()
    });
    assert_eq!(world.reconcile().effects, ["find node/node0"]);
}

#[test]
fn node_057_dual_stack_addresses_are_not_written_again_and_again() {
    let mut world = initialised();
    let dual = addresses(&[
        (AddressType::InternalIp, "10.0.0.1"),
        (AddressType::InternalIp, "2001:db8::1"),
        (AddressType::ExternalIp, "192.0.2.1"),
    ]);
    world.answer = found(Instance {
        addresses: dual,
        ..instance()
    });
    assert_eq!(world.reconcile().effects.len(), 2);
    assert_eq!(world.reconcile().effects, ["find node/node0"]);
}

#[test]
fn node_053_a_failed_look_up_waits_for_the_next_pass() {
    for answer in [
        Err(ProviderError::Unavailable("502".to_owned())),
        looked(Lookup::Unknown("?".to_owned())),
        looked(Lookup::NotMine),
    ] {
        let mut world = initialised();
        world.answer = answer;
        let run = world.reconcile();
        assert_eq!(run.effects, ["find node/node0"]);
        assert!(matches!(run.end, When::Blocked { .. }), "{:?}", run.end);
    }
}

/// Unlike other failures: the node may share its call with one that crashes the provider.
#[test]
fn a_look_up_that_crashed_is_repeated_before_the_next_pass() {
    let mut world = initialised();
    world.answer = Err(ProviderError::Trapped("unreachable".to_owned()));
    let run = world.reconcile();
    assert_eq!(run.effects, ["find node/node0"]);
    assert!(matches!(run.end, When::Retry { .. }), "{:?}", run.end);
}

#[test]
fn a_gone_instance_changes_nothing_here() {
    let mut world = initialised();
    world.answer = looked(Lookup::Gone);
    let before = world.stored.clone();
    assert_eq!(world.reconcile().effects, ["find node/node0"]);
    assert_eq!(world.stored, before);
}

#[test]
fn node_059_a_failed_write_of_addresses_is_retried() {
    let mut world = initialised();
    world.answer = found(Instance {
        addresses: addresses(&[(AddressType::InternalIp, "10.0.0.7")]),
        ..instance()
    });
    world.errors = vec![ClusterError::Unavailable("restarting".to_owned())];
    let run = world.reconcile();
    assert!(matches!(run.end, When::Retry { .. }), "{:?}", run.end);
    assert_eq!(world.reconcile().end, When::AwaitChange);
    assert_eq!(
        world.stored["status"]["addresses"][0]["address"],
        "10.0.0.7"
    );
}

#[test]
fn node_060_a_changed_node_ip_is_followed_in_the_next_pass() {
    let mut world = initialised();
    world.stored["metadata"]["annotations"] =
        json!({ "alpha.kubernetes.io/provided-node-ip": "192.0.2.1" });
    world.reconcile();
    assert_eq!(
        world.stored["status"]["addresses"][0]["address"],
        "192.0.2.1"
    );
    world.stored["metadata"]["annotations"] =
        json!({ "alpha.kubernetes.io/provided-node-ip": "nonsense" });
    let run = world.reconcile();
    assert_eq!(run.events[0].0, "InvalidProvidedNodeIP");
    assert_eq!(
        world.stored["status"]["addresses"][0]["address"], "192.0.2.1",
        "nothing is written"
    );
}

#[test]
fn another_provider_id_in_the_periodic_pass_is_told_and_changes_nothing() {
    let mut world = initialised();
    world.answer = found(Instance {
        provider_id: "sim://43".to_owned(),
        ..instance()
    });
    let before = world.stored.clone();
    let run = world.reconcile();
    assert_eq!(run.events[0].0, "InvalidProviderAnswer");
    assert!(matches!(run.end, When::Blocked { .. }));
    assert_eq!(world.stored, before);
}

#[test]
fn the_owner_of_a_node_that_another_manager_initialised_is_written_down_once() {
    let mut world = initialised();
    world.stored["metadata"]["labels"] = json!({});
    let run = world.reconcile();
    assert_eq!(
        run.effects,
        ["find node/node0", "patch node/node0 labels(1)"]
    );
    assert_eq!(
        world.stored["metadata"]["labels"]["wasm-ccm.dev/provider"],
        "sim"
    );
    assert_eq!(world.reconcile().effects, ["find node/node0"]);
}

/// Our own write wakes nothing, and the next periodic pass is minutes away.
#[test]
fn a_node_of_another_manager_gets_its_labels_and_its_owner_in_one_pass() {
    let mut world = initialised();
    world.stored["metadata"]["labels"] = json!({
        "beta.kubernetes.io/instance-type": "t",
        "node.kubernetes.io/instance-type": "edited",
    });
    let run = world.reconcile();
    let patch = "patch node/node0 labels(1)";
    assert_eq!(run.effects, [patch, "find node/node0", patch]);
    let labels = &world.stored["metadata"]["labels"];
    assert_eq!(labels["node.kubernetes.io/instance-type"], "t");
    assert_eq!(labels["wasm-ccm.dev/provider"], "sim");
}

#[test]
fn an_owner_that_is_recorded_meanwhile_stays() {
    let mut world = initialised();
    world.stored["metadata"]["labels"] = json!({});
    world.meanwhile = Some(|node| {
        node["metadata"]["labels"]["wasm-ccm.dev/provider"] = json!("other");
        node["metadata"]["resourceVersion"] = json!("2");
    });
    let run = world.reconcile();
    assert_eq!(
        run.effects,
        [
            "find node/node0",
            "patch node/node0 labels(1)",
            "read node/node0"
        ]
    );
    assert_eq!(run.end, When::AwaitChange);
    assert_eq!(
        world.stored["metadata"]["labels"]["wasm-ccm.dev/provider"],
        "other"
    );
}
