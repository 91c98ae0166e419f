//! Nodes and machines as they cross the port, in both directions. Values only.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Which groups of calls may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// [`CloudProvider::find`].
    pub instances: bool,
    /// Load balancers for Services.
    pub load_balancer: bool,
    /// Routes to pod networks.
    pub routes: bool,
}

/// What an address is (IFACE, end of 1.5: the type names of the Kubernetes API).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressType {
    /// A name, not an IP address.
    Hostname,
    /// Reachable inside the cluster's network.
    InternalIp,
    /// Reachable from outside.
    ExternalIp,
    /// A DNS name for internal addresses.
    InternalDns,
    /// A DNS name for external addresses.
    ExternalDns,
}

impl AddressType {
    /// The spelling of the Kubernetes API.
    pub fn as_str(self) -> &'static str {
        match self {
            AddressType::Hostname => "Hostname",
            AddressType::InternalIp => "InternalIP",
            AddressType::ExternalIp => "ExternalIP",
            AddressType::InternalDns => "InternalDNS",
            AddressType::ExternalDns => "ExternalDNS",
        }
    }

    /// Reads the spelling of the Kubernetes API; `None` for a type that it does not define.
    pub fn parse(text: &str) -> Option<AddressType> {
        [
            AddressType::Hostname,
            AddressType::InternalIp,
            AddressType::ExternalIp,
            AddressType::InternalDns,
            AddressType::ExternalDns,
        ]
        .into_iter()
        .find(|kind| kind.as_str() == text)
    }

    /// Whether an address of this type has to be an IP address.
    pub fn is_ip(self) -> bool {
        matches!(self, AddressType::InternalIp | AddressType::ExternalIp)
    }
}

/// One address of a node or an instance, in the writer's own spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// What it is.
    pub address_type: AddressType,
    /// The address itself.
    pub address: String,
}

impl Address {
    /// The address as an IP, if it is one.
    pub fn ip(&self) -> Option<IpAddr> {
        self.address.parse().ok()
    }

    /// The same, with an IPv4 address that is written as IPv6 as what it is.
    pub fn canonical_ip(&self) -> Option<IpAddr> {
        self.ip().map(|ip| ip.to_canonical())
    }

    /// Whether both say the same: type and meaning are equal. IPv6 has many spellings.
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
    /// `spec.providerID`, when set and not empty.
    pub provider_id: Option<String>,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`, without kubectl's copy of the object.
    pub annotations: BTreeMap<String, String>,
    /// `status.addresses`, those of known types.
    pub addresses: Vec<Address>,
    /// `spec.podCIDRs`.
    pub pod_cidrs: Vec<String>,
    /// `status.nodeInfo.systemUUID`.
    pub system_uuid: Option<String>,
    /// `metadata.creationTimestamp`, in seconds since the Unix epoch.
    pub created: u64,
    /// Whether it is ready. Some questions about a machine cost a request each, and are only worth it while it is not.
    pub readiness: Readiness,
}

/// What the condition `Ready` of a Node says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Readiness {
    /// The kubelet says that it is.
    Ready,
    /// The kubelet says that it is not.
    NotReady,
    /// Nobody says: the kubelet is silent, or never spoke (LIFE-004).
    #[default]
    Unknown,
}

impl Readiness {
    /// The spelling of the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Readiness::Ready => "true",
            Readiness::NotReady => "false",
            Readiness::Unknown => "unknown",
        }
    }
}

/// A machine at the cloud, as a provider describes it. Its meaning is unchecked: see `answer`.
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
    /// In the order to be stored; empty keeps what is stored (NODE-056).
    pub addresses: Vec<Address>,
    /// More labels, added where absent (NODE-034).
    pub labels: Vec<(String, String)>,
    /// Whether it is switched off; `None` when the cloud cannot tell.
    pub shutdown: Option<bool>,
}

/// What is known about one node's machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// The machine exists.
    Found(Box<Instance>),
    /// A complete answer says that it does not exist.
    Gone,
    /// Not a machine of this provider.
    NotMine,
    /// Could not be told; the reason is for people.
    Unknown(String),
}

/// How loud an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// Something happened as it should.
    Normal,
    /// Somebody should look.
    Warning,
}

impl EventType {
    /// The spelling of the Kubernetes API.
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

/// Something to be recorded as a Kubernetes Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudEvent {
    /// How loud.
    pub event_type: EventType,
    /// CamelCase, at most 64 bytes.
    pub reason: String,
    /// At most 1024 bytes.
    pub message: String,
}

/// The answer to [`CloudProvider::find`]. The host has checked its shape: one lookup per node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FindReply {
    /// One per node asked for, in the same order.
    pub lookups: Vec<Lookup>,
    /// Events about nodes: index into the list asked for, and the event.
    pub events: Vec<(usize, CloudEvent)>,
    /// Whether the answer may prove absence: every exchange of the call ended 2xx (or 404 on a path
    /// that names one object), and with an HTTP grant at least one 2xx was among them.
    pub complete: bool,
}
