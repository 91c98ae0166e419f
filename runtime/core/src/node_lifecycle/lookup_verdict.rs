//! Interprets one look-up of a node. Stateless.

use crate::node::object::PrunedNode;

use super::facts::Finding;
use crate::cloud::instance::{Instance, Lookup};

/// The power state of an existing machine; `None`: unknown.
pub(super) fn power(instance: &Instance) -> Option<Finding> {
    match instance.shutdown {
        Some(true) => Some(Finding::ShutDown),
        Some(false) => Some(Finding::Running),
        None => None,
    }
}

/// Whether the answer itself states the node's stored provider ID: other accounts may have machines of the same name.
pub fn confirms_provider_id(node: &PrunedNode, lookup: &Lookup) -> bool {
    match lookup {
        Lookup::Found(instance) => node.provider_id() == Some(&instance.provider_id),
        Lookup::Gone | Lookup::NotMine | Lookup::Unknown(_) => false,
    }
}

/// Whether the answer is about the node's machine: another provider ID means another machine; without one in the answer
/// this machine is meant (NODE-022).
pub(super) fn is_its_machine(node: &PrunedNode, instance: &Instance) -> bool {
    let answered = instance.provider_id.as_str();
    node.provider_id()
        .is_some_and(|stored| answered.is_empty() || answered == stored)
}
