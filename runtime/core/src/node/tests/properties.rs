//! Properties that hold for any answer of a provider and any state of the node.

use super::world::*;
use crate::cloud::instance::{Address, AddressType, Instance, Lookup};
use crate::reconciliation::effect::When;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Texts that are often nearly valid.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "sim://[0-9]{0,2}",
        "(10|127|224|0)\\.0\\.0\\.[0-9]{1,3}",
        "(2001:db8|fe80|)::[0-9a-f]{0,2}",
        "[a-c]{1,2}(\\.(kubernetes|k8s)\\.io|\\.example|)/[a-c]{1,2}",
        "[a-z]{0,4}",
        "\\PC{0,12}",
    ]
}

/// Mostly provider IDs of the provider, and of those only two, so that stored and answered ones meet.
fn provider_id() -> impl Strategy<Value = String> {
    prop_oneof![4 => "sim://[12]", 1 => text()]
}

fn instance() -> impl Strategy<Value = Instance> {
    let kind = prop_oneof![
        Just(AddressType::InternalIp),
        Just(AddressType::ExternalIp),
        Just(AddressType::Hostname),
        Just(AddressType::InternalDns)
    ];
    let address = (kind, text()).prop_map(|(address_type, address)| Address {
        address_type,
        address,
    });
    let parts = (
        provider_id(),
        option::of(text()),
        option::of(text()),
        vec(address, 0..5),
        vec((text(), text()), 0..4),
    );
    parts.prop_map(
        |(provider_id, instance_type, zone, addresses, labels)| Instance {
            provider_id,
            instance_type,
            zone,
            addresses,
            labels,
            ..Instance::default()
        },
    )
}

fn lookup() -> impl Strategy<Value = Lookup> {
    prop_oneof![
        9 => instance().prop_map(|instance| Lookup::Found(Box::new(instance))),
        1 => Just(Lookup::Gone),
        1 => Just(Lookup::NotMine),
        1 => text().prop_map(Lookup::Unknown),
    ]
}

/// A node with and without the taint, a provider ID, an owner, the kubelet's IP, and other writers' labels.
fn node() -> impl Strategy<Value = Value> {
    let owner = option::of(prop_oneof![Just("sim"), Just("other")]);
    let parts = (
        any::<bool>(),
        option::of(provider_id()),
        owner,
        option::weighted(0.2, text()),
        vec((text(), text()), 0..3),
    );
    parts.prop_map(|(is_tainted, provider_id, owner, node_ip, labels)| {
        let mut node = world().stored;
        let mut taints = vec![json!({ "key": "other", "value": "kept", "effect": "NoExecute" })];
        if is_tainted {
            taints.insert(0, json!({ "key": UNINITIALIZED, "effect": "NoSchedule" }));
        }
        node["spec"]["taints"] = json!(taints);
        if let Some(provider_id) = provider_id {
            node["spec"]["providerID"] = json!(provider_id);
        }
        node["metadata"]["labels"] = labels.into_iter().collect();
        if let Some(owner) = owner {
            node["metadata"]["labels"]["wasm-ccm.dev/provider"] = json!(owner);
        }
        if let Some(node_ip) = node_ip {
            node["metadata"]["annotations"]["alpha.kubernetes.io/provided-node-ip"] =
                json!(node_ip);
        }
        node
    })
}

proptest! {
    #[test]
    fn no_answer_breaks_a_node(stored in node(), answer in lookup(), refresh in any::<bool>()) {
        let mut world = world();
        world.stored = stored.clone();
        world.answer = looked(answer);
        world.refresh = refresh;
        let was_waiting = world.node().is_uninitialized();
        let run = world.reconcile();
        let is_waiting = world.node().is_uninitialized();

        let id = |node: &Value| node["spec"]["providerID"].as_str().unwrap_or_default().to_owned();
        prop_assert!(id(&stored).is_empty() || id(&stored) == id(&world.stored), "a provider ID never changes");
        if was_waiting && !is_waiting {
            prop_assert!(id(&world.stored).starts_with("sim://"), "no node without a provider ID");
        }
        prop_assert!(!is_waiting || was_waiting, "no node is tainted");
        prop_assert!(!is_waiting || run.end != When::AwaitChange, "who waits is told why");

        let others = |node: &Value| {
            let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            taints.into_iter().filter(|taint| taint["key"] != UNINITIALIZED).collect::<Vec<_>>()
        };
        prop_assert_eq!(others(&stored), others(&world.stored), "the taints of others stay");

        let labels = |node: &Value| node["metadata"]["labels"].as_object().cloned().unwrap_or_default();
        let after = labels(&world.stored);
        for (key, value) in labels(&stored) {
            prop_assert!(after.get(&key) == Some(&value), "the label {} of others stays", key);
        }
        for key in after.keys().filter(|key| !labels(&stored).contains_key(*key)) {
            let ours = ["beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type",
                "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone", "wasm-ccm.dev/provider"];
            prop_assert!(ours.contains(&key.as_str()) || !key.contains("kubernetes.io/"), "{} was added", key);
        }
        if labels(&stored).get("wasm-ccm.dev/provider").is_some_and(|owner| owner != "sim") {
            prop_assert_eq!(stored, world.stored, "what others own is not touched");
        }
    }
}
