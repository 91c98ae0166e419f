//! An index over all nodes: which node has which machine and which address. Answers about one node are checked against
//! it, so that a provider cannot assign one node's machine or address to another node. A kubelet writes the addresses in
//! the status of its node: most of them count only once a provider has answered them, too. Decides nothing.

mod node_ip;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use crate::cloud::instance::{AddressType, CloudNode, FindReply, Instance, Lookup};
use crate::moment::Moment;
use crate::node::answer_check::check_provider_id;
use crate::node::object::PrunedNode;
use crate::node::ownership::{OwnershipContext, recorded_owner};
use node_ip::{NodeIp, NodeIps};

/// All nodes by name, with look-up by provider ID and address. A node that was recreated replaces the old one.
#[derive(Debug, Default)]
pub struct NodeIndex {
    /// Boxed, because the tree has room for twice as many.
    nodes: BTreeMap<Arc<str>, Box<IndexedNode>>,
    by_provider_id: HashMap<Arc<str>, Names>,
    /// The IPs of Ready nodes. A lost machine's address may have a new owner.
    by_internal: HashMap<IpAddr, Names>,
    by_external: HashMap<IpAddr, Names>,
    /// Those of all nodes: no other object's traffic may be sent to them.
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

#[derive(Debug, Clone, PartialEq, Eq)]
struct IndexedNode {
    uid: String,
    is_ready: bool,
    /// Result of [`is_unready_or_shut_down`].
    is_unready: bool,
    /// Whether the node has been initialised.
    is_initialised: bool,
    /// The recorded owner.
    owner: Option<Arc<str>>,
    /// The stored provider ID.
    stored: Option<Arc<str>>,
    /// The last answer that found the machine.
    answer: Option<Arc<MachineAnswer>>,
    /// When the machine was last reported to exist.
    found: Option<Moment>,
    /// Consecutive complete answers of its owner that reported the machine gone since the node was last Ready.
    gone: u32,
    /// The first IPs in its status.
    reported: NodeIps,
    /// Those of them that count: nobody else may have them.
    ips: NodeIps,
}

/// An answer of a provider that found the machine of a node, and that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MachineAnswer {
    /// The provider.
    by: Arc<str>,
    /// The provider ID; `None` once the provider has answered otherwise.
    provider_id: Option<Arc<str>>,
    /// The first IPs of the last answer that had any.
    ips: NodeIps,
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
        let reported = node.addresses().iter();
        let reported = reported.filter_map(|one| NodeIp::of(one.address_type?, one.canonical_ip()));
        let mut next = IndexedNode {
            uid: uid.into(),
            is_ready: node.is_ready(),
            is_unready: node.is_unready_or_shut_down(),
            is_initialised: !node.is_uninitialized(),
            owner: recorded_owner(node).map(Arc::from),
            stored: node.provider_id().map(Arc::from),
            answer: known.and_then(|known| known.answer.clone()),
            found: known.and_then(|known| known.found),
            gone: known
                .filter(|_| !node.is_ready())
                .map_or(0, |known| known.gone),
            reported: NodeIp::list(reported, known.into_iter().flat_map(IndexedNode::ip_lists)),
            ips: NodeIps::default(),
        };
        next.ips = next.counted(known);
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
        let schemes = &by.claim.schemes;
        let by: Arc<str> = by.claim.name.as_str().into();
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
            let before = known.answer.as_deref();
            let found = match lookup {
                Lookup::Found(instance) => MachineAnswer::of(instance, known, &by, schemes),
                Lookup::Gone | Lookup::NotMine | Lookup::Unknown(_) => None,
            };
            let answer = match (found, before) {
                // A provider that knows no address of the machine leaves the node those that it has.
                (Some(found), Some(before)) if found.ips.is_empty() => MachineAnswer {
                    ips: before.ips.clone(),
                    ..found
                },
                (Some(found), _) => found,
                (None, Some(before)) if before.by == by => MachineAnswer {
                    provider_id: None,
                    ..before.clone()
                },
                // If one provider does not know a machine, the answer of another provider that does stays.
                (None, _) => continue,
            };
            if before == Some(&answer) {
                continue;
            }
            let mut next = IndexedNode {
                answer: Some(Arc::new(answer)),
                ..(**known).clone()
            };
            next.ips = next.counted(Some(&**known));
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
        let is_its = |node: &IndexedNode| node.answer.as_ref().is_some_and(|one| *one.by == *by);
        let nodes = self.nodes.iter().filter(|(_, node)| is_its(node));
        let nodes: Vec<(Arc<str>, IndexedNode)> = nodes
            .map(|(name, node)| (name.clone(), IndexedNode::clone(node)))
            .collect();
        for (name, mut next) in nodes {
            next.answer = None;
            next.ips = next.counted(None);
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
            for one in old.ips.iter() {
                remove(&mut self.by_address, &one.ip, name);
                if old.is_ready {
                    remove(self.of_ready(one), &one.ip, name);
                }
            }
        }
        let Some(next) = next else {
            return;
        };
        let name: Arc<str> = name.into();
        for id in next.provider_ids() {
            add(&mut self.by_provider_id, id.clone(), &name);
        }
        for one in next.ips.iter() {
            add(&mut self.by_address, one.ip, &name);
            if next.is_ready {
                add(self.of_ready(one), one.ip, &name);
            }
        }
        if next.is_unready {
            self.unready.insert(name.clone());
        }
        self.nodes.insert(name, Box::new(next));
    }

    /// The IPs of this type of Ready nodes.
    fn of_ready(&mut self, one: &NodeIp) -> &mut HashMap<IpAddr, Names> {
        match one.is_internal {
            true => &mut self.by_internal,
            false => &mut self.by_external,
        }
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

    /// The reported IPs that count; `before` is the node as it was indexed.
    ///
    /// Those that a provider has answered, as long as they are reported: a provider takes no address from a node by
    /// answering another one. Before any answer with an address, as after a start or where no provider here knows it, one
    /// of each type and family, as a kubelet reports them by itself: whoever controls a kubelet could otherwise keep all
    /// free addresses from new nodes and load balancers.
    fn counted(&self, before: Option<&IndexedNode>) -> NodeIps {
        let reported = self.reported.iter().copied();
        let answered = self.answered_ips();
        if answered.is_empty() {
            let mut counted: Vec<NodeIp> = Vec::new();
            for one in reported.filter(|_| self.is_initialised) {
                if !counted.iter().any(|other| other.is_alike(one)) {
                    counted.push(one);
                }
            }
            return NodeIp::list(counted.into_iter(), self.ip_lists());
        }
        let before = before.filter(|before| !before.answered_ips().is_empty());
        let has_counted = |one: &NodeIp| before.is_some_and(|before| before.ips.contains(one));
        let counted = reported.filter(|one| answered.contains(one) || has_counted(one));
        NodeIp::list(counted, self.ip_lists())
    }

    /// The IPs that it reports, and those that a provider has answered.
    fn ip_lists(&self) -> impl Iterator<Item = &NodeIps> {
        let answered = self.answer.as_deref().map(|answer| &answer.ips);
        [&self.reported].into_iter().chain(answered)
    }

    /// The IPs that a provider has answered; empty before such an answer.
    fn answered_ips(&self) -> &[NodeIp] {
        let answer = self.answer.as_deref();
        answer.map(|answer| &*answer.ips).unwrap_or_default()
    }

    fn provider_ids(&self) -> impl Iterator<Item = &Arc<str>> {
        let answer = self.answer.as_deref();
        let answered = answer.and_then(|answer| answer.provider_id.as_ref());
        self.stored
            .iter()
            .chain(answered.filter(|id| self.stored.as_ref() != Some(*id)))
    }
}

impl MachineAnswer {
    /// The answer `instance` of the provider `by`, which owns `schemes`, about this node.
    /// `None` if its provider ID is rejected: it may be that of another provider's machine.
    fn of(
        instance: &Instance,
        node: &IndexedNode,
        by: &Arc<str>,
        schemes: &[String],
    ) -> Option<MachineAnswer> {
        let stored = node.stored.as_deref();
        let provider_id = check_provider_id(&instance.provider_id, stored, schemes).ok()?;
        let ips = instance.addresses.iter();
        let ips = ips.filter_map(|one| NodeIp::of(one.address_type, one.canonical_ip()));
        Some(MachineAnswer {
            by: by.clone(),
            provider_id: Some(provider_id.into()),
            ips: NodeIp::list(ips, node.ip_lists()),
        })
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
