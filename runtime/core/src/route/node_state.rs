//! The state of one node between reconciliations, besides that of its destinations. Decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use ipnet::IpNet;

use crate::moment::Moment;
use crate::node::object::PrunedNode;
use crate::node::ownership::recorded_owner;
use crate::reconciliation::own_write::OwnWrite;

/// State of one node.
#[derive(Debug, Default)]
pub(super) struct NodeState {
    /// Its current fingerprint, while it wants routes.
    pub(super) wants: Option<u64>,
    /// State left by earlier reconciliations of the node.
    pub(super) record: NodeRecord,
}

/// State left by the reconciliations of a node, identified by its UID.
#[derive(Debug, Default)]
pub(super) struct NodeRecord {
    uid: String,
    /// Destinations whose routes another component creates, as the provider says; the value is the node's fingerprint
    /// then, and the generation of the provider: its next one may create them.
    pub(super) elsewhere: BTreeMap<IpNet, (u64, u64)>,
    /// Messages already recorded as Events.
    pub(super) reported: BTreeSet<String>,
    /// The last write of this process to the node.
    pub(super) written: Option<OwnWrite>,
    /// Number of consecutive failed writes of the condition.
    pub(super) failures: u32,
    /// When to retry a failed write of the condition.
    pub(super) due: Option<Moment>,
}

impl NodeRecord {
    /// Creates an empty record of `node`.
    pub(super) fn new(node: &PrunedNode) -> NodeRecord {
        NodeRecord {
            uid: node.uid().to_owned(),
            ..NodeRecord::default()
        }
    }

    pub(super) fn is_about(&self, node: &PrunedNode) -> bool {
        node.uid() == self.uid
    }

    /// Whether another component creates this route for a node with this fingerprint, as this generation of the
    /// provider has said.
    pub(super) fn is_elsewhere(&self, destination: &IpNet, state: (u64, u64)) -> bool {
        self.elsewhere.get(destination) == Some(&state)
    }

    /// While the cache is older than our own last write: until when that is waited for.
    pub(super) fn waits_for_cache(&self, cached: &PrunedNode, now: Moment) -> Option<Moment> {
        let written = self.written?;
        let is_newer = written.is_newer_than(cached.resource_version());
        Some(written.expires_at()).filter(|until| is_newer && *until > now)
    }
}

/// Hash of the node fields that affect its routes. Heartbeats, conditions, labels and images do not.
pub(super) fn fingerprint(node: &PrunedNode) -> u64 {
    let mut hasher = DefaultHasher::new();
    node.uid().hash(&mut hasher);
    recorded_owner(node).hash(&mut hasher);
    node.provider_id().hash(&mut hasher);
    node.pod_cidrs().hash(&mut hasher);
    node.addresses().hash(&mut hasher);
    hasher.finish()
}
