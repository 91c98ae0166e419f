//! Nodes and machines as they cross the port, in both directions. Values only.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::string_map::StringMap;

/// Maximum number of nodes in one call about machines, and of targets of a load balancer (contract, `instances` and
/// `load-balancer`).
pub const MOST_NODES: usize = 5_000;

/// The groups of calls that a provider supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Capabilities {
    /// Look-ups of machines: [`CloudProvider::find`](crate::cloud_provider::CloudProvider::find).
    pub instances: bool,
    /// Load balancers for Services.
    pub load_balancer: bool,
    /// Routes to pod networks.
    pub routes: bool,
}

crate::named_enum! {
    /// Type of an address, in the Kubernetes API's spelling.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum AddressType {
        /// A host name, not an IP address.
        Hostname = "Hostname",
        /// Reachable inside the cluster's network.
        InternalIp = "InternalIP",
        /// Reachable from outside of the cluster's network.
        ExternalIp = "ExternalIP",
        /// A DNS name for internal addresses.
        InternalDns = "InternalDNS",
        /// A DNS name for external addresses.
        ExternalDns = "ExternalDNS",
    }
}

impl AddressType {
    /// Whether an address of this type has to be an IP address.
    pub fn is_ip(self) -> bool {
        matches!(self, AddressType::InternalIp | AddressType::ExternalIp)
    }
}

/// One address of a node or an instance, in its original spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// Type of the address.
    pub address_type: AddressType,
    /// IP address or DNS name.
    pub address: String,
}

impl Address {
    /// The address as an IP, if it is one.
    pub fn ip(&self) -> Option<IpAddr> {
        self.address.parse().ok()
    }

    /// The address as an IP, with IPv4-mapped IPv6 converted to IPv4.
    pub fn canonical_ip(&self) -> Option<IpAddr> {
        self.ip().map(|ip| ip.to_canonical())
    }

    /// Whether type and meaning are equal. IPv6 has many spellings.
    pub fn is_same(&self, other: &Address) -> bool {
        self.address_type == other.address_type
            && (self.address == other.address || (self.ip().is_some() && self.ip() == other.ip()))
    }
}

/// A Kubernetes Node as a provider sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudNode {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `spec.providerID`, if set and not empty.
    pub provider_id: Option<String>,
    /// `metadata.labels`.
    pub labels: StringMap,
    /// `metadata.annotations`, without kubectl's copy of the object.
    pub annotations: StringMap,
    /// `status.addresses` of known types.
    pub addresses: Vec<Address>,
    /// `spec.podCIDRs`.
    pub pod_cidrs: Vec<String>,
    /// `status.nodeInfo.systemUUID`.
    pub system_uuid: Option<String>,
    /// `metadata.creationTimestamp`, in seconds since the Unix epoch.
    pub created: u64,
    /// Whether the node is Ready. Some checks of a machine cost one request each, and only pay off while the node is
    /// not.
    pub readiness: Readiness,
    /// Whether the node has been initialized by a cloud controller manager: its taint is off. Until then its addresses are
    /// its kubelet's.
    pub initialized: bool,
}

impl CloudNode {
    /// An initialized node, of which nothing else is known.
    pub fn bare(name: impl Into<String>, uid: impl Into<String>) -> CloudNode {
        CloudNode {
            name: name.into(),
            uid: uid.into(),
            provider_id: None,
            labels: StringMap::default(),
            annotations: StringMap::default(),
            addresses: Vec::new(),
            pod_cidrs: Vec::new(),
            system_uuid: None,
            created: 0,
            readiness: Readiness::Unknown,
            initialized: true,
        }
    }
}

crate::named_enum! {
    /// The condition `Ready` of a Node, in the spelling of the contract (`wit/`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Readiness {
        /// The kubelet reports `True`.
        Ready = "true",
        /// The kubelet reports `False`.
        NotReady = "false",
        /// Not reported: the kubelet is silent, or has never reported (LIFE-004).
        #[default]
        Unknown = "unknown",
    }
}

/// A machine at the cloud, as a provider describes it. Its contents are unchecked: see `answer_check`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Instance {
    /// `<scheme>://<id>`.
    pub provider_id: String,
    /// For the instance type labels; `None` leaves them alone (NODE-033).
    pub instance_type: Option<String>,
    /// For the zone labels; `None` leaves them alone.
    pub zone: Option<String>,
    /// For the region labels; `None` leaves them alone.
    pub region: Option<String>,
    /// In the order to be stored; empty keeps the stored ones (NODE-056).
    pub addresses: Vec<Address>,
    /// Additional labels, added where absent (NODE-034).
    pub labels: Vec<(String, String)>,
    /// Whether the machine is shut down; `None` when the cloud cannot tell.
    pub shutdown: Option<bool>,
}

/// The result of looking up one node's machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// The machine exists; contains its description.
    Found(Box<Instance>),
    /// A complete answer says that it does not exist.
    Gone,
    /// Not a machine of this provider.
    NotMine,
    /// The provider could not tell; contains the reason.
    Unknown(String),
}

impl fmt::Display for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lookup::Found(instance) => {
                let provider_id = Some(instance.provider_id.as_str()).filter(|id| !id.is_empty());
                write!(f, "found {}", provider_id.unwrap_or("-"))?;
                for part in [&instance.instance_type, &instance.zone, &instance.region] {
                    write!(f, " {}", part.as_deref().unwrap_or("-"))?;
                }
                write!(f, " addresses({})", instance.addresses.len())?;
                match instance.shutdown {
                    Some(true) => write!(f, " switched off"),
                    Some(false) => write!(f, " running"),
                    None => Ok(()),
                }
            }
            Lookup::Gone => write!(f, "gone"),
            Lookup::NotMine => write!(f, "not mine"),
            Lookup::Unknown(why) => write!(f, "unknown: {why}"),
        }
    }
}

crate::named_enum! {
    /// The type of a Kubernetes Event, in the API's spelling.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum EventType {
        /// Something happened as expected.
        Normal = "Normal",
        /// Something needs attention.
        Warning = "Warning",
    }
}

/// Content of a Kubernetes Event to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudEvent {
    /// Normal or Warning.
    pub event_type: EventType,
    /// CamelCase, at most 64 bytes.
    pub reason: String,
    /// At most 1024 bytes.
    pub message: String,
    /// Whether a provider has chosen type, reason and message. The reason may be any, also one of this manager's.
    pub is_from_provider: bool,
}

impl CloudEvent {
    /// An Event. A provider's counts as this manager's own until `answer_check::check_event` has judged it. The caller keeps
    /// `message` within its limits.
    pub fn new(event_type: EventType, reason: &str, message: String) -> CloudEvent {
        CloudEvent {
            event_type,
            reason: reason.to_owned(),
            message,
            is_from_provider: false,
        }
    }
}

/// Type and reason, without the message.
impl fmt::Display for CloudEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.event_type.as_str(), self.reason)
    }
}

/// The reply to [`CloudProvider::find`](crate::cloud_provider::CloudProvider::find). The host has checked its shape: one
/// lookup per node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FindReply {
    /// One per requested node, in the same order.
    pub lookups: Vec<Lookup>,
    /// Events about nodes: index into the requested list, and the event.
    pub events: Vec<(usize, CloudEvent)>,
    /// Whether the answer may prove absence. Every exchange of the call, other than supplementary ones, ended with 2xx
    /// or said that the object does not exist (404 on a path that ends with a placeholder, or an answer that the rule's
    /// `absence` names). With a granted target, at least one of them was sent by this call itself and answered with
    /// 2xx.
    pub complete: bool,
}

impl fmt::Display for FindReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.complete {
            write!(f, "incomplete: ")?;
        }
        let lookups: Vec<String> = self.lookups.iter().map(Lookup::to_string).collect();
        f.write_str(&lookups.join(", "))
    }
}
