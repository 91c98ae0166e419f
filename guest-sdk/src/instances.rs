//! The interface `instances`, for providers that know machines.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::events::Events;
use crate::{Address, AddressType, Error, Event, Instance, Node, Provider};

pub use crate::bindings::instances::exports::ccm::provider::instances::{
    FindReply, Lookup, NodeEvent,
};

#[cfg(test)]
mod tests;

/// The contract's maximum length of the reason of an unknown machine, in bytes.
pub(crate) const REASON_BYTES: usize = 1024;
const PROVIDER_ID_BYTES: usize = 512;
/// The addresses of `--node-ip`, separated by commas.
const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";
/// The contract's maximum length of a label's value, in bytes.
const LABEL_VALUE_BYTES: usize = 63;
const LABELS: usize = 64;
const ADDRESSES: usize = 64;
const ADDRESS_BYTES: usize = 253;

/// Looks up the machines behind nodes.
pub trait Instances: Provider {
    /// Looks up at most 5000 nodes: whether the machine exists, whether it is off, and its properties.
    ///
    /// The reply has exactly one lookup per node, in the order of `nodes`. [`Lookup::Gone`] may lead to the deletion
    /// of the Node, so it needs proof: a complete response of the cloud, in which at least one request of the call was
    /// answered with 2xx. Anything that could not be read is [`Lookup::Unknown`]. A node with another provider's ID, or
    /// with no provider ID and an unknown name, is [`Lookup::NotMine`].
    ///
    /// # Errors
    /// An error counts as `Unknown` for every node of the call.
    fn find(&self, nodes: Vec<Node>) -> Result<FindReply, Error>;
}

/// The condition `Ready` of a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// The kubelet reports that the node is ready.
    Ready,
    /// The kubelet reports that the node is not ready.
    NotReady,
    /// Not reported: the kubelet has stopped reporting or has never reported.
    Unknown,
}

impl Node {
    /// The node's readiness. Send requests that cost one per machine, such as for the power state, only for nodes that
    /// are not ready: see [`Readiness::is_ready`].
    pub fn readiness(&self) -> Readiness {
        match self.ready {
            Some(true) => Readiness::Ready,
            Some(false) => Readiness::NotReady,
            None => Readiness::Unknown,
        }
    }

    /// The IP addresses that the kubelet reports or that were stored before, and those that `--node-ip` gave it.
    pub fn ips(&self) -> impl Iterator<Item = IpAddr> {
        let reported = self.addresses.iter().filter_map(Address::ip);
        reported.chain(self.provided_ips())
    }

    fn provided_ips(&self) -> impl Iterator<Item = IpAddr> {
        let provided = self.annotations.iter();
        let provided = provided.filter(|(key, _)| key == PROVIDED_NODE_IP);
        let provided = provided.flat_map(|(_, text)| text.split(','));
        let provided = provided.filter_map(|text| text.trim().parse().ok());
        let provided = provided.map(|ip: IpAddr| ip.to_canonical());
        provided.filter(|ip| !ip.is_unspecified())
    }

    /// The addresses of a node for which the cloud has none. Of a new node they are its name, and its [`Node::ips`]: the
    /// manager initialises a node whose kubelet has `--node-ip` only if the answer has that address. Empty if it has no IP
    /// address: see [`Lookup::found_with_ip`]. An initialised node keeps what is stored, so its list is empty, too, until
    /// its InternalIPs are others than those of `--node-ip`: then these are added, and the manager drops those that they
    /// replace.
    pub fn own_addresses(&self) -> Vec<Address> {
        let provided: Vec<IpAddr> = self.provided_ips().collect();
        let is_internal = |one: &&Address| matches!(one.address_type, AddressType::InternalIp);
        let internal = self.addresses.iter().filter(is_internal);
        let has_provided = || {
            internal
                .filter_map(Address::ip)
                .eq(provided.iter().copied())
        };
        let mut addresses = self.addresses.clone();
        if !self.initialized {
            addresses.retain(|one| one.ip().is_some());
        } else if provided.is_empty() || has_provided() {
            return Vec::new();
        }
        for ip in provided {
            if addresses.iter().all(|known| known.ip() != Some(ip)) {
                addresses.push(Address::internal(ip));
            }
        }
        if !self.initialized && !addresses.is_empty() {
            addresses.insert(0, Address::hostname(&self.name));
        }
        addresses
    }
}

/// What [`Instances::find`] has to ask the cloud about a node, for a provider that chooses its requests itself.
/// [`machines`](crate::machines) chooses them for clouds with a list.
#[derive(Debug, Clone, PartialEq)]
pub enum Question<Id, Name> {
    /// Nothing: the provider ID determines the answer.
    Answered(Lookup),
    /// For the machine with this ID.
    Id(Id),
    /// For the machines with this name.
    Name(Name),
}

impl<Id: Ord + Clone, Name: Ord + Clone> Question<Id, Name> {
    /// The IDs and the names that these questions are about, each of them once.
    pub fn subjects(questions: &[Question<Id, Name>]) -> (BTreeSet<Id>, BTreeSet<Name>) {
        let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
        for question in questions {
            match question {
                Question::Answered(_) => {}
                Question::Id(id) => drop(ids.insert(id.clone())),
                Question::Name(name) => drop(names.insert(name.clone())),
            }
        }
        (ids, names)
    }
}

impl Lookup {
    /// [`Lookup::Found`] from a provider that may know no address of a machine. A new node without any IP address is
    /// unknown instead: the manager would initialise it, pods would be scheduled to it, and no later answer about it would
    /// have an address either. `remedy` continues the reason with what else gives the node one.
    pub fn found_with_ip(node: &Node, instance: Instance, remedy: &str) -> Lookup {
        let has_ip = match instance.addresses.as_slice() {
            [] => node.ips().next().is_some(),
            answered => answered.iter().any(|one| one.ip().is_some()),
        };
        match node.initialized || has_ip {
            true => Lookup::Found(instance),
            false => Lookup::Unknown(format!(
                "the node has no IP address: start its kubelet with --node-ip, or {remedy}"
            )),
        }
    }

    /// The answer about a node whose machine a person has to sort out, such as one of two with the same name: unknown,
    /// and an event with the same text.
    pub fn unclear(why: String) -> (Lookup, Option<Event>) {
        let event = Event::warning("InstanceLookupFailed", &why);
        (Lookup::Unknown(why), Some(event))
    }
}

impl Readiness {
    /// Whether the kubelet reports that the node is ready.
    pub fn is_ready(self) -> bool {
        matches!(self, Readiness::Ready)
    }
}

impl FindReply {
    /// Sets the events: the first 8 about each node and the first 256 of these, which are as many as the contract allows.
    #[must_use]
    pub fn with_events(self, events: Vec<NodeEvent>) -> FindReply {
        let mut first = Events::default();
        events.into_iter().for_each(|event| first.push(event));
        FindReply {
            events: first.into_vec(),
            ..self
        }
    }

    /// A reply without events. The host would refuse all of it for one answer beyond the contract's limits, and clients
    /// can write provider IDs and addresses of any length into their Node. So a reason is cut, and an instance beyond a
    /// limit is [`Lookup::Unknown`].
    pub fn new(lookups: Vec<Lookup>) -> FindReply {
        FindReply {
            lookups: lookups.into_iter().map(within_limits).collect(),
            events: Vec::new(),
        }
    }
}

/// The answers about the nodes in their order, each with events about its node, within the limits of [`FindReply::new`] and
/// of [`Events`].
impl<Of: IntoIterator<Item = Event>> FromIterator<(Lookup, Of)> for FindReply {
    fn from_iter<Answers: IntoIterator<Item = (Lookup, Of)>>(answers: Answers) -> FindReply {
        let (mut lookups, mut events) = (Vec::new(), Events::default());
        for (lookup, of_node) in answers {
            for event in of_node {
                events.add(lookups.len(), event);
            }
            // Before the next one is made: thousands may quote the same long text.
            lookups.push(within_limits(lookup));
        }
        FindReply {
            lookups,
            events: events.into_vec(),
        }
    }
}

fn within_limits(lookup: Lookup) -> Lookup {
    match lookup {
        Lookup::Found(instance) => match check_limits(&instance) {
            Ok(()) => Lookup::Found(instance),
            Err(what) => Lookup::Unknown(format!("the machine was found, with {what}")),
        },
        Lookup::Unknown(mut reason) => {
            reason.truncate(reason.floor_char_boundary(REASON_BYTES));
            reason.shrink_to_fit();
            Lookup::Unknown(reason)
        }
        Lookup::Gone | Lookup::NotMine => lookup,
    }
}

/// Checks the contract's limits of an instance.
pub(crate) fn check_limits(instance: &Instance) -> Result<(), String> {
    at_most(
        "bytes of a provider ID",
        instance.provider_id.len(),
        PROVIDER_ID_BYTES,
    )?;
    for (what, value) in [
        ("bytes of an instance type", &instance.instance_type),
        ("bytes of a zone", &instance.zone),
        ("bytes of a region", &instance.region),
    ] {
        let bytes = value.as_ref().map_or(0, String::len);
        at_most(what, bytes, LABEL_VALUE_BYTES)?;
    }
    at_most("addresses", instance.addresses.len(), ADDRESSES)?;
    for address in &instance.addresses {
        at_most("bytes of an address", address.address.len(), ADDRESS_BYTES)?;
    }
    at_most("labels", instance.labels.len(), LABELS)
}

pub(crate) fn at_most(what: &str, found: usize, limit: usize) -> Result<(), String> {
    if found <= limit {
        Ok(())
    } else {
        Err(format!("{found} {what}, at most {limit} allowed"))
    }
}
