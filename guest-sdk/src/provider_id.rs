//! Provider IDs: `<scheme>://<rest>`, as in `spec.providerID` of a Node. Pure.
//!
//! A provider ID never changes once it is written, so every form that a provider ever wrote has to stay readable, and
//! only the canonical spelling of an ID counts.

use crate::Node;

#[cfg(test)]
mod tests;

/// The meaning of a node's provider ID for this provider. See [`Node::machine_id`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineId<'a> {
    /// The node has no provider ID yet: only its name and its addresses can identify its machine.
    Unset,
    /// The machine with this ID: the text after `<scheme>://`. May be empty or nonsense: people can write provider IDs.
    Own(&'a str),
    /// A machine of another provider: [`Lookup::NotMine`](crate::Lookup::NotMine).
    Foreign,
}

impl<'a> MachineId<'a> {
    /// The text after `<scheme>://`, if the machine is this provider's.
    pub fn own(self) -> Option<&'a str> {
        match self {
            MachineId::Own(id) => Some(id),
            MachineId::Unset | MachineId::Foreign => None,
        }
    }
}

impl Node {
    /// The node's machine, as its provider ID says; `scheme` is one of the manifest's, without `://`.
    pub fn machine_id(&self, scheme: &str) -> MachineId<'_> {
        let provider_id = self.provider_id.as_deref().filter(|text| !text.is_empty());
        match provider_id.map(|text| without_scheme(text, scheme)) {
            None => MachineId::Unset,
            Some(Some(id)) => MachineId::Own(id),
            Some(None) => MachineId::Foreign,
        }
    }
}

/// The text after `<scheme>://` in a provider ID; `None` for another scheme.
pub fn without_scheme<'a>(provider_id: &'a str, scheme: &str) -> Option<&'a str> {
    provider_id.strip_prefix(scheme)?.strip_prefix("://")
}

/// A number above 0 in its canonical spelling. Not `042` or `+42`: the provider ID would not be the one that the
/// provider writes.
pub fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = digits && !text.starts_with('0');
    canonical.then(|| text.parse().ok()).flatten()
}
