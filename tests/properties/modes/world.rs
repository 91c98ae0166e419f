//! Worlds for the law of plan mode: some nodes, the state of each machine, and the cloud's answer about it.

use ccm_core::cloud::{Address, AddressType, Instance, Lookup};
use ccm_core::well_known;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// The state of a node's machine, and of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The node has just joined.
    New,
    /// The same, and its kubelet has reported the cloud's addresses.
    NewWithAddresses,
    /// The node has just joined, and the cloud answers that the machine is another's.
    NewOfSomebodyElse,
    /// The machine died before its node was initialised.
    NewAndGone,
    /// The node needs no change.
    Well,
    /// The cloud's answer is unknown.
    Unknown,
    /// The cloud answers that the machine is gone, and the kubelet reports Ready.
    ReadyAndGone,
    /// The machine has another ExternalIP.
    OtherExternalIp,
    /// The machine has another InternalIP, and the node is Ready.
    OtherInternalIp,
    /// The machine has another type.
    OtherType,
    /// The machine was switched off.
    Stopped,
    /// The machine was switched on again.
    StartedAgain,
    /// The machine does not exist any more.
    Vanished,
    /// The same, and the cluster autoscaler has marked the node before.
    VanishedAsWanted,
}

impl Fate {
    pub(crate) const ALL: [Fate; 14] = [
        Fate::New,
        Fate::NewWithAddresses,
        Fate::NewOfSomebodyElse,
        Fate::NewAndGone,
        Fate::Well,
        Fate::Unknown,
        Fate::ReadyAndGone,
        Fate::OtherExternalIp,
        Fate::OtherInternalIp,
        Fate::OtherType,
        Fate::Stopped,
        Fate::StartedAgain,
        Fate::Vanished,
        Fate::VanishedAsWanted,
    ];
    const QUIET: [Fate; 5] = [
        Fate::NewOfSomebodyElse,
        Fate::NewAndGone,
        Fate::Well,
        Fate::Unknown,
        Fate::ReadyAndGone,
    ];

    fn is_new(self) -> bool {
        matches!(
            self,
            Fate::New | Fate::NewWithAddresses | Fate::NewOfSomebodyElse | Fate::NewAndGone
        )
    }

    fn is_ready(self) -> bool {
        !matches!(
            self,
            Fate::Stopped | Fate::Vanished | Fate::VanishedAsWanted | Fate::Unknown
        )
    }
}

/// The initial state of a cluster.
#[derive(Debug, Clone)]
pub(crate) struct World {
    /// The fates of the nodes `n0`, `n1`, and so on.
    pub(crate) fates: Vec<Fate>,
    /// The flag `--reconcile-node-labels`.
    pub(crate) reconcile_labels: bool,
}

/// Any fates beside a node that is known good, so that no change waits for another one.
pub(crate) fn any_world() -> impl Strategy<Value = World> {
    of(Fate::ALL.to_vec())
}

/// Only fates that need no change.
pub(crate) fn quiet_world() -> impl Strategy<Value = World> {
    of(Fate::QUIET.to_vec())
}

fn of(fates: Vec<Fate>) -> impl Strategy<Value = World> {
    (vec(select(fates), 0..9), any::<bool>()).prop_map(|(mut fates, reconcile_labels)| {
        fates.push(Fate::Well);
        World {
            fates,
            reconcile_labels,
        }
    })
}

impl World {
    /// The nodes as they are stored at the beginning, in the order of their names.
    pub(crate) fn nodes(&self) -> Vec<Value> {
        let fates = self.fates.iter().enumerate();
        fates.map(|(index, fate)| node(index, *fate)).collect()
    }

    /// The cloud's answer about the node with this name.
    pub(crate) fn lookup(&self, name: &str) -> Lookup {
        let index = name.strip_prefix('n').and_then(|text| text.parse().ok());
        let fate = index.and_then(|index: usize| self.fates.get(index));
        match (index, fate) {
            (Some(index), Some(fate)) => lookup(index, *fate),
            _ => Lookup::NotMine,
        }
    }
}

fn internal(index: usize) -> String {
    format!("10.0.0.{}", index + 1)
}

fn external(index: usize) -> String {
    format!("203.0.113.{}", index + 1)
}

fn node(index: usize, fate: Fate) -> Value {
    let name = format!("n{index}");
    let ready = if fate.is_ready() { "True" } else { "Unknown" };
    let since = Timestamp::now() - SignedDuration::from_mins(10);
    let mut node = json!({
        "metadata": { "name": name },
        "spec": {},
        "status": { "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": since.to_string() }] },
    });
    let taint =
        |key: &str, effect: &str| json!([{ "key": key, "value": "true", "effect": effect }]);
    match fate {
        _ if fate.is_new() => {
            node["spec"]["taints"] = taint(well_known::UNINITIALIZED_TAINT, "NoSchedule")
        }
        Fate::StartedAgain => {
            node["spec"]["taints"] =
                json!([{ "key": well_known::SHUTDOWN_TAINT, "effect": "NoSchedule" }]);
        }
        Fate::VanishedAsWanted => {
            node["spec"]["taints"] = taint(well_known::TO_BE_DELETED_TAINT, "NoSchedule");
        }
        _ => {}
    }
    if !fate.is_new() {
        node["spec"]["providerID"] = json!(format!("sim://{name}"));
        node["metadata"]["labels"] = json!({
            well_known::OWNER_LABEL: "sim",
            well_known::INSTANCE_TYPE: "small",
            well_known::INSTANCE_TYPE_BETA: "small",
        });
    }
    if !fate.is_new() || fate == Fate::NewWithAddresses {
        node["status"]["addresses"] = json!([
            { "type": "InternalIP", "address": internal(index) },
            { "type": "ExternalIP", "address": external(index) },
            { "type": "Hostname", "address": name },
        ]);
    }
    node
}

fn lookup(index: usize, fate: Fate) -> Lookup {
    let name = format!("n{index}");
    match fate {
        Fate::NewOfSomebodyElse => return Lookup::NotMine,
        Fate::NewAndGone | Fate::ReadyAndGone | Fate::Vanished | Fate::VanishedAsWanted => {
            return Lookup::Gone;
        }
        Fate::Unknown => return Lookup::Unknown("the cloud cannot tell".to_owned()),
        _ => {}
    }
    let moved = |is_so: bool, address: String| {
        if is_so {
            address.replacen(".0.", ".9.", 1)
        } else {
            address
        }
    };
    let address = |address_type, address| Address {
        address_type,
        address,
    };
    let size = if fate == Fate::OtherType {
        "large"
    } else {
        "small"
    };
    Lookup::Found(Box::new(Instance {
        provider_id: format!("sim://{name}"),
        instance_type: Some(size.to_owned()),
        addresses: vec![
            address(
                AddressType::InternalIp,
                moved(fate == Fate::OtherInternalIp, internal(index)),
            ),
            address(
                AddressType::ExternalIp,
                moved(fate == Fate::OtherExternalIp, external(index)),
            ),
            address(AddressType::Hostname, name),
        ],
        shutdown: Some(fate == Fate::Stopped),
        ..Instance::default()
    }))
}
