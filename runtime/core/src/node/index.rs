//! An index over all nodes: which node has which machine and which address. Answers about one node are checked against
//! it, so that a provider cannot assign one node's machine or address to another node. Decides nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use crate::cloud::instance::{AddressType, CloudNode, FindReply, Instance, Lookup};
use crate::moment::Moment;
use crate::node::answer_check::check_provider_id;
use crate::node::object::PrunedNode;
use crate::node::ownership::{OwnershipContext, recorded_owner};

/// All nodes by name, with look-up by provider ID and address. A node that was recreated replaces the old one.
#[derive(Debug, Default)]
pub struct NodeIndex {
    /// Boxed, because the tree has room for twice as many.
    nodes: BTreeMap<Arc<str>, Box<IndexedNode>>,
    by_provider_id: HashMap<Arc<str>, Names>,
    by_internal: HashMap<IpAddr, Names>,
    by_external: HashMap<IpAddr, Names>,
    by_address: HashMap<IpAddr, Names>,
    /// The names of the nodes with [`is_unready_or_shut_down`](PrunedNode::is_unready_or_shut_down).
    unready: BTreeSet<Arc<str>>,
    version: NodeSetVersion,
}

/// State that passes over all nodes depend on: while two values are equal, no node has come, gone or been recreated in
/// between, and none has become or ceased to be one of [`NodeIndex::unready`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeSetVersion {
    /// Number of changes so far.
    changes: u64,
}

/// The nodes with one provider ID or address; nearly always one. Sorted, so that results are deterministic.
type Names = Vec<Arc<str>>;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct IndexedNode {
    uid: String,
    is_ready: bool,
    /// Result of [`is_unready_or_shut_down`].
    is_unready: bool,
    /// The recorded owner.
    owner: Option<Arc<str>>,
    /// The stored provider ID.
    stored: Option<Arc<str>>,
    /// The provider ID answered last, and the provider that answered.
    answered: Option<(Arc<str>, Arc<str>)>,
    /// When the machine was last reported to exist.
    found: Option<Moment>,
    /// Consecutive complete answers of its owner that reported the machine gone since the node was last Ready.
    gone: u32,
    /// InternalIPs of a Ready node; `external` likewise. A lost machine's address may have a new owner.
    internal: Vec<IpAddr>,
    external: Vec<IpAddr>,
    /// InternalIPs and ExternalIPs, whether the node is Ready or not: no other object's traffic may be sent to them.
    all: Vec<IpAddr>,
}

/// Provider ID and addresses in an answer about one node that other nodes have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Clashes {
    /// Another node with the same provider ID.
    pub duplicate: Option<DuplicateProviderId>,
    /// Addresses that another node has.
    pub addresses: Vec<AddressClash>,
}

impl Clashes {
    /// Names of the other nodes.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &str> {
        let addresses = self.addresses.iter().map(|clash| &clash.name);
        let duplicate = self.duplicate.iter().map(|duplicate| &duplicate.name);
        duplicate.chain(addresses).map(String::as_str)
    }
}

/// Another node with the same provider ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuplicateProviderId {
    /// The other node's name.
    pub name: String,
    /// Whether the other node has the provider ID stored. Otherwise it was only answered, and nothing is settled.
    pub is_stored: bool,
}

/// An address that another node has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressClash {
    /// The address, in canonical form.
    pub address: IpAddr,
    /// The other node's name.
    pub name: String,
}

impl NodeIndex {
    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The state that a pass over all nodes depends on.
    pub fn version(&self) -> NodeSetVersion {
        self.version
    }

    /// The names of the nodes that are not Ready, or tainted as machines that are off.
    pub fn unready(&self) -> Vec<Arc<str>> {
        self.unready.iter().cloned().collect()
    }

    /// Updates the index with the current state of `node`.
    pub fn apply(&mut self, node: &PrunedNode) {
        let (name, uid) = (node.name(), node.uid());
        if name.is_empty() {
            return;
        }
        let known = self.nodes.get(name).filter(|known| *known.uid == *uid);
        let known = known.map(|known| &**known);
        let mut next = IndexedNode {
            uid: uid.into(),
            is_ready: node.is_ready(),
            is_unready: node.is_unready_or_shut_down(),
            owner: recorded_owner(node).map(Arc::from),
            stored: node.provider_id().map(Arc::from),
            answered: known.and_then(|known| known.answered.clone()),
            found: known.and_then(|known| known.found),
            gone: known
                .filter(|_| !node.is_ready())
                .map_or(0, |known| known.gone),
            ..IndexedNode::default()
        };
        for one in node.addresses() {
            let list = match one.address_type {
                Some(AddressType::InternalIp) => &mut next.internal,
                Some(AddressType::ExternalIp) => &mut next.external,
                _ => continue,
            };
            if node.is_ready() {
                list.extend(one.canonical_ip());
            }
            next.all.extend(one.canonical_ip());
        }
        if known != Some(&next) {
            self.replace(name, Some(next));
        }
    }

    /// Removes the node with this name.
    pub fn forget(&mut self, name: &str) {
        self.replace(name, None);
    }

    /// Removes all other nodes.
    pub fn keep(&mut self, is_left: impl Fn(&str) -> bool) {
        let names = self.nodes.keys().filter(|name| !is_left(name));
        let gone: Vec<Arc<str>> = names.cloned().collect();
        gone.iter().for_each(|name| self.forget(name));
    }

    /// Records the `reply` of the provider `by` about `nodes`, received at `at`.
    pub fn answered(
        &mut self,
        by: &OwnershipContext,
        nodes: &[CloudNode],
        reply: &FindReply,
        at: Moment,
    ) {
        let schemes = &by.schemes;
        let by: Arc<str> = by.name.as_str().into();
        for (node, lookup) in nodes.iter().zip(&reply.lookups) {
            // Skip nodes that were deleted or recreated while the provider was asked.
            let Some(known) = self
                .nodes
                .get_mut(node.name.as_str())
                .filter(|known| known.uid == node.uid)
            else {
                continue;
            };
            match lookup {
                Lookup::Found(_) => {
                    known.found = Some(at);
                    known.gone = 0;
                }
                // A Ready node is a witness, and keeps its addresses whatever its provider says.
                Lookup::Gone if reply.complete && !known.is_ready && known.counts_gone(&by) => {
                    known.gone = known.gone.saturating_add(1);
                }
                _ => {}
            }
            let answered = match lookup {
                // A provider ID that the answer is rejected for holds no machine: it may be another provider's.
                Lookup::Found(instance) => {
                    let stored = known.stored.as_deref();
                    check_provider_id(&instance.provider_id, stored, schemes).ok()
                }
                Lookup::Gone | Lookup::NotMine | Lookup::Unknown(_) => None,
            };
            let before = known.answered.as_ref();
            // If one provider does not know a machine, the answer of another provider that does stays.
            let is_anothers = before.is_some_and(|(_, who)| *who != by);
            if answered.is_none() && is_anothers
                || before.map(|(id, _)| &**id) == answered.as_deref()
            {
                continue;
            }
            let next = IndexedNode {
                answered: answered.map(|id| (id.into(), by.clone())),
                ..(**known).clone()
            };
            self.replace(&node.name, Some(next));
        }
    }

    /// Removes the answers of the provider `by`, which is not asked any more: nothing would correct them.
    pub fn withdraw(&mut self, by: &str) {
        for node in self.nodes.values_mut() {
            if node.counts_gone(by) {
                node.gone = 0;
            }
        }
        let is_its =
            |node: &IndexedNode| node.answered.as_ref().is_some_and(|(_, who)| **who == *by);
        let nodes = self.nodes.iter().filter(|(_, node)| is_its(node));
        let nodes: Vec<(Arc<str>, IndexedNode)> = nodes
            .map(|(name, node)| (name.clone(), IndexedNode::clone(node)))
            .collect();
        for (name, node) in nodes {
            let next = IndexedNode {
                answered: None,
                ..node
            };
            self.replace(&name, Some(next));
        }
    }

    /// Whether there is a node with this name and UID.
    pub fn contains(&self, name: &str, uid: &str) -> bool {
        let known = self.nodes.get(name);
        known.is_some_and(|known| known.uid == uid)
    }

    /// When the machine of this node was last reported to exist.
    pub fn found(&self, name: &str, uid: &str) -> Option<Moment> {
        let known = self.nodes.get(name).filter(|known| known.uid == uid);
        known?.found
    }

    /// The provider ID and the addresses in the answer `instance` about the node `name` that other nodes have. Two
    /// nodes may share an ExternalIP: machines behind one gateway do.
    pub fn clashes(&self, name: &str, instance: &Instance) -> Clashes {
        let own = self.nodes.get(name).and_then(|own| own.stored.as_ref());
        let id = match instance.provider_id.as_str() {
            "" => own.map(|id| &**id),
            answered => Some(answered),
        };
        let mut clashes = Vec::new();
        for one in &instance.addresses {
            let Some(address) = one.canonical_ip() else {
                continue;
            };
            let internal = other(&self.by_internal, &address, name);
            let holder = match one.address_type {
                AddressType::InternalIp => {
                    internal.or_else(|| other(&self.by_external, &address, name))
                }
                AddressType::ExternalIp => internal,
                AddressType::Hostname | AddressType::InternalDns | AddressType::ExternalDns => None,
            };
            clashes.extend(holder.map(|holder| AddressClash {
                address,
                name: holder.to_owned(),
            }));
        }
        Clashes {
            duplicate: id.and_then(|id| self.duplicate(name, id)),
            addresses: clashes,
        }
    }

    /// A node that has this address, internal or external. A node that is not Ready and was reported gone twice no
    /// longer counts, because clouds reassign addresses at once.
    pub fn holder(&self, address: IpAddr) -> Option<&str> {
        let is_there = |name: &&Arc<str>| self.nodes.get(*name).is_none_or(|one| one.gone < 2);
        let mut names = self.by_address.get(&address)?.iter();
        names.find(is_there).map(|name| &**name)
    }

    /// Another node with this provider ID; preferably one that has it stored.
    fn duplicate(&self, name: &str, provider_id: &str) -> Option<DuplicateProviderId> {
        let names = self.by_provider_id.get(provider_id)?;
        let others = names.iter().filter(|other| ***other != *name);
        let duplicates = others.map(|other| DuplicateProviderId {
            name: other.to_string(),
            is_stored: self
                .nodes
                .get(other)
                .is_some_and(|node| node.stored.as_deref() == Some(provider_id)),
        });
        duplicates.min_by_key(|duplicate| !duplicate.is_stored)
    }

    fn replace(&mut self, name: &str, next: Option<IndexedNode>) {
        let old = self.nodes.remove(name);
        self.version.count(old.as_deref(), next.as_ref());
        self.unready.remove(name);
        if let Some(old) = old {
            for id in old.provider_ids() {
                remove(&mut self.by_provider_id, id, name);
            }
            for address in &old.internal {
                remove(&mut self.by_internal, address, name);
            }
            for address in &old.external {
                remove(&mut self.by_external, address, name);
            }
            for address in &old.all {
                remove(&mut self.by_address, address, name);
            }
        }
        let Some(next) = next else {
            return;
        };
        let name: Arc<str> = name.into();
        for id in next.provider_ids() {
            add(&mut self.by_provider_id, id.clone(), &name);
        }
        for address in &next.internal {
            add(&mut self.by_internal, *address, &name);
        }
        for address in &next.external {
            add(&mut self.by_external, *address, &name);
        }
        for address in &next.all {
            add(&mut self.by_address, *address, &name);
        }
        if next.is_unready {
            self.unready.insert(name.clone());
        }
        self.nodes.insert(name, Box::new(next));
    }
}

impl NodeSetVersion {
    fn count<'a>(&mut self, old: Option<&'a IndexedNode>, next: Option<&'a IndexedNode>) {
        let seen = |one: Option<&'a IndexedNode>| one.map(|one| (&*one.uid, one.is_unready));
        self.changes += u64::from(seen(old) != seen(next));
    }
}

impl IndexedNode {
    /// Whether it counts that the provider `by` calls the machine gone: only of its owner. About a node that has
    /// neither an owner nor a provider ID, providers are asked that know nothing of it.
    fn counts_gone(&self, by: &str) -> bool {
        match &self.owner {
            Some(owner) => **owner == *by,
            None => self.stored.is_some(),
        }
    }

    fn provider_ids(&self) -> impl Iterator<Item = &Arc<str>> {
        let answered = self.answered.as_ref().map(|(id, _)| id);
        self.stored
            .iter()
            .chain(answered.filter(|id| self.stored.as_ref() != Some(*id)))
    }
}

fn other<'a, K: Hash + Eq>(index: &'a HashMap<K, Names>, key: &K, name: &str) -> Option<&'a str> {
    let mut names = index.get(key)?.iter().map(|name| &**name);
    names.find(|other| *other != name)
}

fn add<K: Hash + Eq>(index: &mut HashMap<K, Names>, key: K, name: &Arc<str>) {
    let names = index.entry(key).or_insert_with(|| Vec::with_capacity(1));
    if let Err(place) = names.binary_search(name) {
        names.insert(place, name.clone());
    }
}

fn remove<K: Hash + Eq>(index: &mut HashMap<K, Names>, key: &K, name: &str) {
    if let Some(names) = index.get_mut(key) {
        names.retain(|other| **other != *name);
        if names.is_empty() {
            index.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
