//! What all nodes together say: which machine is whose, and which address. An answer about one node is held
//! against it, so that a provider cannot give one node's machine or address to another one. An index;
//! decides nothing.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use crate::cloud::instance::{AddressType, CloudNode, FindReply, Instance, Lookup};
use crate::moment::Moment;
use crate::node::addresses;
use crate::node::object::is_ready;
use crate::ownership::stored_provider_id;

/// See the module's documentation. Nodes are known by name; one that was made again replaces the old one.
#[derive(Debug, Default)]
pub struct NodeIndex {
    nodes: BTreeMap<Arc<str>, Neighbour>,
    by_provider_id: HashMap<Arc<str>, Names>,
    by_internal: HashMap<IpAddr, Names>,
    by_external: HashMap<IpAddr, Names>,
    by_address: HashMap<IpAddr, Names>,
}

/// Whoever has something: one name nearly always. In order, so that the same world gives the same answer.
type Names = Vec<Arc<str>>;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Neighbour {
    uid: String,
    /// The provider ID that is written down.
    stored: Option<Arc<str>>,
    /// The provider ID that was answered last, and by which provider.
    answered: Option<(Arc<str>, Arc<str>)>,
    /// When it was answered last that the machine exists.
    found: Option<Moment>,
    /// How many complete answers in a row have called the machine gone since the node was Ready.
    gone: u32,
    /// Addresses of a Ready node. One that is not may be a machine that is gone, whose address has a new owner.
    internal: Vec<IpAddr>,
    external: Vec<IpAddr>,
    /// All addresses, whether it is Ready or not: nobody else's traffic is to go there.
    all: Vec<IpAddr>,
}

/// What of an answer about one node is another node's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Clashes {
    /// Another node with the same provider ID.
    pub twin: Option<DuplicateProviderId>,
    /// Addresses that another node has.
    pub addresses: Vec<AddressClash>,
}

/// Another node with the same provider ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuplicateProviderId {
    /// Its name.
    pub name: String,
    /// Whether the provider ID is written down there. Otherwise it was answered, and nothing is decided.
    pub is_stored: bool,
}

/// An address that another node has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressClash {
    /// The address.
    pub address: IpAddr,
    /// The other node's name.
    pub name: String,
}

impl NodeIndex {
    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// `node` is like this now.
    pub fn apply(&mut self, node: &Node) {
        let Some(name) = node.metadata.name.as_deref() else {
            return;
        };
        let uid = node.metadata.uid.clone().unwrap_or_default();
        let known = self.nodes.get(name).filter(|known| known.uid == uid);
        let mut next = Neighbour {
            uid,
            stored: stored_provider_id(node).map(Arc::from),
            answered: known.and_then(|known| known.answered.clone()),
            found: known.and_then(|known| known.found),
            gone: known
                .filter(|_| !is_ready(node))
                .map_or(0, |known| known.gone),
            ..Neighbour::default()
        };
        let status = node.status.as_ref();
        let stored = status.and_then(|status| status.addresses.as_deref());
        let stored = stored.unwrap_or_default().iter();
        for one in stored.filter_map(addresses::read) {
            let list = match one.address_type {
                AddressType::InternalIp => &mut next.internal,
                AddressType::ExternalIp => &mut next.external,
                _ => continue,
            };
            if is_ready(node) {
                list.extend(one.canonical_ip());
            }
            next.all.extend(one.canonical_ip());
        }
        if known != Some(&next) {
            self.replace(name, Some(next));
        }
    }

    /// There is no node of this name any more.
    pub fn forget(&mut self, name: &str) {
        self.replace(name, None);
    }

    /// Only these nodes are left.
    pub fn keep(&mut self, is_left: impl Fn(&str) -> bool) {
        let names = self.nodes.keys().filter(|name| !is_left(name));
        let gone: Vec<Arc<str>> = names.cloned().collect();
        gone.iter().for_each(|name| self.forget(name));
    }

    /// `reply` is what the provider `by` answers at `at` about `nodes`.
    pub fn answered(&mut self, by: &str, nodes: &[CloudNode], reply: &FindReply, at: Moment) {
        let by: Arc<str> = by.into();
        for (node, lookup) in nodes.iter().zip(&reply.lookups) {
            // Whoever was deleted, or made again, while the provider was asked has no say.
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
                Lookup::Gone if reply.complete => known.gone = known.gone.saturating_add(1),
                _ => {}
            }
            let answered = match lookup {
                Lookup::Found(instance) => {
                    Some(instance.provider_id.as_str()).filter(|id| !id.is_empty())
                }
                Lookup::Gone | Lookup::NotMine | Lookup::Unknown(_) => None,
            };
            let before = known.answered.as_ref();
            // That one provider does not know a machine takes nothing away from the one that does.
            let is_anothers = before.is_some_and(|(_, who)| *who != by);
            if answered.is_none() && is_anothers || before.map(|(id, _)| &**id) == answered {
                continue;
            }
            let next = Neighbour {
                answered: answered.map(|id| (Arc::from(id), by.clone())),
                ..known.clone()
            };
            self.replace(&node.name, Some(next));
        }
    }

    /// When it was answered last that the machine of this node exists.
    pub fn found(&self, name: &str, uid: &str) -> Option<Moment> {
        let known = self.nodes.get(name).filter(|known| known.uid == uid);
        known?.found
    }

    /// What of `instance`, answered about the node `name`, is another node's. Two nodes may share an
    /// ExternalIP: machines behind one gateway do.
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
            twin: id.and_then(|id| self.twin(name, id)),
            addresses: clashes,
        }
    }

    /// A node that has this address, inside or outside. One that is not Ready and was called gone twice has none any more:
    /// clouds give addresses out again at once.
    pub fn holder(&self, address: IpAddr) -> Option<&str> {
        let is_there = |name: &&Arc<str>| self.nodes.get(*name).is_none_or(|one| one.gone < 2);
        let mut names = self.by_address.get(&address)?.iter();
        names.find(is_there).map(|name| &**name)
    }

    /// Another node with this provider ID; one that has it written down, if there is one.
    fn twin(&self, name: &str, provider_id: &str) -> Option<DuplicateProviderId> {
        let names = self.by_provider_id.get(provider_id)?;
        let others = names.iter().filter(|other| ***other != *name);
        let twins = others.map(|other| DuplicateProviderId {
            name: other.to_string(),
            is_stored: self
                .nodes
                .get(other)
                .is_some_and(|node| node.stored.as_deref() == Some(provider_id)),
        });
        twins.min_by_key(|twin| !twin.is_stored)
    }

    fn replace(&mut self, name: &str, next: Option<Neighbour>) {
        if let Some(old) = self.nodes.remove(name) {
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
        self.nodes.insert(name, next);
    }
}

impl Neighbour {
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
