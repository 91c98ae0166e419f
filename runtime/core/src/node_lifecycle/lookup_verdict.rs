//! What one look-up says of its node. Remembers nothing.

use k8s_openapi::api::core::v1::Node;

use super::history::Noted;
use crate::cloud::instance::{Instance, Lookup};
use crate::ownership::stored_provider_id;

/// What there may be to do about a machine that exists.
pub(super) fn power(instance: &Instance) -> Option<Noted> {
    match instance.shutdown {
        Some(true) => Some(Noted::ShutDown),
        Some(false) => Some(Noted::Running),
        None => None,
    }
}

/// Found under the provider ID that is written down, by the answer's own word: machines of the same name there are in
/// other accounts, too.
pub fn vouches(node: &Node, lookup: &Lookup) -> bool {
    match lookup {
        Lookup::Found(instance) => stored_provider_id(node) == Some(&instance.provider_id),
        Lookup::Gone | Lookup::NotMine | Lookup::Unknown(_) => false,
    }
}

/// Another provider ID than the one that is written down is another machine; where the answer has none, this one is
/// meant (NODE-022).
pub(super) fn is_its_machine(node: &Node, instance: &Instance) -> bool {
    let answered = instance.provider_id.as_str();
    stored_provider_id(node).is_some_and(|stored| answered.is_empty() || answered == stored)
}
