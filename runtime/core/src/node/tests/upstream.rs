//! Upstream's own cases about labels, taints and metadata, each row under its ID in `tests/conformance.md`. Where
//! upstream tests a function that does not exist here, the row is a whole reconciliation with the same result.
//! Upstream's provider `fake` is `sim` here.

use super::world::*;
use crate::cloud::instance::{Address, AddressType, Instance};
use serde_json::{Value, json};

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// The answer of upstream's fake cloud.
const MACHINE: &str =
    "Hostname=node0.cloud.internal InternalIP=10.0.0.1 ExternalIP=132.143.154.163";

/// Parses `InternalIP=10.0.0.1 Hostname=a`.
fn list(text: &str) -> Vec<Address> {
    let one = |word: &str| {
        let (kind, address) = word.split_once('=').unwrap();
        Address {
            address_type: AddressType::parse(kind).unwrap(),
            address: address.to_owned(),
        }
    };
    text.split_whitespace().map(one).collect()
}

/// The stored addresses, in the same form.
fn stored(world: &World) -> String {
    let one = |value: &Value| {
        let text = |key: &str| value[key].as_str().unwrap().to_owned();
        format!("{}={}", text("type"), text("address"))
    };
    let list = world.stored["status"]["addresses"].as_array();
    let words: Vec<String> = list.into_iter().flatten().map(one).collect();
    words.join(" ")
}

#[test]
fn upstream_reconcile_node_labels_the_deprecated_names_lead() {
    let deprecated = [
        ("failure-domain.beta.kubernetes.io/zone", "foo"),
        ("failure-domain.beta.kubernetes.io/region", "bar"),
        ("beta.kubernetes.io/instance-type", "the-best-type"),
    ];
    let right = [
        ("topology.kubernetes.io/zone", "foo"),
        ("topology.kubernetes.io/region", "bar"),
        ("node.kubernetes.io/instance-type", "the-best-type"),
    ];
    let wrong = [
        ("topology.kubernetes.io/zone", "wrongfoo"),
        ("topology.kubernetes.io/region", "wrongbar"),
        ("node.kubernetes.io/instance-type", "the-wrong-type"),
    ];
    for (id, current, patches) in [
        ("Test_reconcileNodeLabels/01", [].as_slice(), 1),
        ("Test_reconcileNodeLabels/02", right.as_slice(), 0),
        ("Test_reconcileNodeLabels/03", wrong.as_slice(), 1),
    ] {
        let mut world = initialised();
        world.refresh = false;
        for (key, value) in deprecated.iter().chain(current) {
            world.stored["metadata"]["labels"][key] = json!(value);
        }
        let expected = vec!["patch node/node0 labels(3)"; patches];
        assert_eq!(world.reconcile().effects, expected, "{id}");
        let labels = world.stored["metadata"]["labels"].as_object().unwrap();
        assert_eq!(labels.len(), 7, "{id}: six, and the owner's: {labels:?}");
        for (key, value) in deprecated.iter().chain(&right) {
            assert_eq!(labels[*key], *value, "{id}: {key}");
        }
    }
}

/// Stored provider ID, answered provider ID, answered type; the provider ID and the type in the end, or the information
/// that the taint stays.
type MetadataCase = (
    &'static str,
    Option<&'static str>,
    &'static str,
    Option<&'static str>,
    Option<(&'static str, Option<&'static str>)>,
);

#[test]
fn upstream_get_instance_metadata_the_stored_provider_id_stands_in_for_a_missing_one() {
    let (answered, other) = ("sim://12345", "sim://asdasd");
    let micro = Some("t1.micro");
    let cases: [MetadataCase; 5] = [
        (
            "TestGetInstanceMetadata/01",
            None,
            answered,
            None,
            Some((answered, None)),
        ),
        (
            "TestGetInstanceMetadata/03",
            Some(other),
            "",
            None,
            Some((other, None)),
        ),
        (
            "TestGetInstanceMetadata/04",
            None,
            answered,
            None,
            Some((answered, None)),
        ),
        ("TestGetInstanceMetadata/05", None, "", None, None),
        (
            "TestGetInstanceMetadata/06",
            Some(answered),
            "",
            micro,
            Some((answered, micro)),
        ),
    ];
    for (id, stored_id, answered_id, answered_type, expected) in cases {
        let mut world = world();
        world.stored["status"] = json!({});
        if let Some(stored_id) = stored_id {
            world.stored["spec"]["providerID"] = json!(stored_id);
        }
        world.answer = found(Instance {
            provider_id: answered_id.to_owned(),
            instance_type: answered_type.map(str::to_owned),
            addresses: list(MACHINE),
            ..Instance::default()
        });
        let Some((provider_id, instance_type)) = expected else {
            changes_nothing(&mut world);
            continue;
        };
        world.reconcile();
        assert!(!world.node().is_uninitialized(), "{id}");
        assert_eq!(world.stored["spec"]["providerID"], provider_id, "{id}");
        assert_eq!(stored(&world), MACHINE, "{id}");
        let label = &world.stored["metadata"]["labels"]["node.kubernetes.io/instance-type"];
        assert_eq!(label.as_str(), instance_type, "{id}");
    }
}

#[test]
fn upstream_add_to_node_addresses_the_same_address_of_the_same_type_is_stored_once() {
    let pair = "ExternalIP=1.1.1.1 Hostname=localhost";
    for (id, offered, expected) in [
        ("TestAddToNodeAddresses/01", String::new(), ""),
        ("TestAddToNodeAddresses/02", pair.to_owned(), pair),
        (
            "TestAddToNodeAddresses/03",
            "ExternalIP=1.1.1.1 ExternalIP=1.1.1.1".to_owned(),
            "ExternalIP=1.1.1.1",
        ),
        (
            "TestAddToNodeAddresses/04",
            format!("ExternalIP=1.1.1.1 InternalIP=10.1.1.1 {pair}"),
            "ExternalIP=1.1.1.1 InternalIP=10.1.1.1 Hostname=localhost",
        ),
    ] {
        let mut world = world();
        world.stored["status"] = json!({});
        world.answer = found(Instance {
            addresses: list(&offered),
            ..instance()
        });
        world.reconcile();
        assert!(!world.node().is_uninitialized(), "{id}");
        assert_eq!(stored(&world), expected, "{id}");
    }
}

fn taint(key: &str, effect: &str) -> Value {
    json!({ "key": key, "value": "bar_1", "effect": effect })
}

#[test]
fn upstream_taint_exists_the_taint_is_recognised_by_its_key() {
    let other = taint("foo_2", "NoSchedule");
    for (id, first, expected) in [
        (
            "TestTaintExists/01",
            taint(UNINITIALIZED, "NoSchedule"),
            true,
        ),
        (
            "TestTaintExists/02",
            taint("no_such_key", "NoSchedule"),
            false,
        ),
        // Upstream's function compares effects, but the taint of this controller is looked up by key alone.
        (
            "TestTaintExists/03",
            taint(UNINITIALIZED, "NoExecute"),
            true,
        ),
    ] {
        for taints in [
            json!([first.clone(), other.clone()]),
            json!([other.clone(), first.clone()]),
        ] {
            let mut world = world();
            world.stored["spec"]["taints"] = taints;
            assert_eq!(world.node().is_uninitialized(), expected, "{id}");
        }
    }
}

/// The taints after a reconciliation that began with `taints`, and whether it wrote anything. Upstream's functions do
/// not depend on other fields of the node, so no refresh is requested.
fn left_of(taints: &Value) -> (Value, bool) {
    let mut world = initialised();
    world.refresh = false;
    world.stored["spec"]["taints"] = taints.clone();
    let run = world.reconcile();
    (
        world.stored["spec"]["taints"].clone(),
        !run.effects.is_empty(),
    )
}

#[test]
fn upstream_remove_taint_only_our_taint_is_taken_from_a_node() {
    let foreign = json!([taint("foo", "NoSchedule")]);
    let ours = json!([taint(UNINITIALIZED, "NoSchedule")]);
    for (id, taints, expected, removed) in [
        ("TestRemoveTaint/01", &foreign, &foreign, false),
        ("TestRemoveTaint/02", &ours, &json!([]), true),
        ("TestRemoveTaint/03", &json!([]), &json!([]), false),
    ] {
        assert_eq!(left_of(taints), (expected.clone(), removed), "{id}");
    }
}

#[test]
fn upstream_delete_taint_the_taint_goes_with_any_effect_and_no_other_taint_does() {
    let foreign = json!([taint("foo", "NoSchedule")]);
    let ours = json!([taint(UNINITIALIZED, "NoSchedule")]);
    let other_effect = json!([taint(UNINITIALIZED, "NoExecute")]);
    for (id, taints, expected, removed) in [
        ("TestDeleteTaint/01", &foreign, &foreign, false),
        // As with TestTaintExists/03: the key alone decides.
        ("TestDeleteTaint/02", &other_effect, &json!([]), true),
        ("TestDeleteTaint/03", &ours, &json!([]), true),
        ("TestDeleteTaint/04", &json!([]), &json!([]), false),
    ] {
        assert_eq!(left_of(taints), (expected.clone(), removed), "{id}");
    }
}
