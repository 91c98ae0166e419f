//! The nouns of load balancers: what a provider is asked to make for a Service, and what it answers. They mirror the
//! contract in `wit/` and are ours; their meaning is unchecked (see `service`).

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::cloud::instance::{CloudEvent, CloudNode};

/// Transport protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// The default of the Kubernetes API.
    Tcp,
    /// Not every cloud has it.
    Udp,
    /// Few clouds have it.
    Sctp,
}

impl Protocol {
    /// The spelling of the Kubernetes API.
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        }
    }

    /// Reads the spelling of the Kubernetes API; `None` for one that it does not define.
    pub fn parse(text: &str) -> Option<Protocol> {
        [Protocol::Tcp, Protocol::Udp, Protocol::Sctp]
            .into_iter()
            .find(|protocol| protocol.as_str() == text)
    }
}

/// IP family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// `spec.ipFamilyPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IpFamilyPolicy {
    /// One family.
    SingleStack,
    /// Both, where the cluster has both.
    PreferDualStack,
    /// Both.
    RequireDualStack,
}

/// `spec.externalTrafficPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrafficPolicy {
    /// Any node takes the traffic.
    Cluster,
    /// Only nodes with endpoints, told apart by `healthCheckNodePort`.
    Local,
}

/// One port of a Service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServicePort {
    /// Its name; none where there is only one port.
    pub name: Option<String>,
    /// Its protocol.
    pub protocol: Protocol,
    /// `appProtocol`.
    pub app_protocol: Option<String>,
    /// 1 to 65535: what the load balancer listens on.
    pub port: u16,
    /// The port on every node; none when node ports are not allocated.
    pub node_port: Option<u16>,
}

/// A Service of type LoadBalancer as a provider sees it. The default one has no name and asks for nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CloudService {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`: what cloud objects are owned by.
    pub uid: String,
    /// `metadata.annotations`, without kubectl's copy of the object and without ours.
    pub annotations: BTreeMap<String, String>,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `spec.ports`, in their order.
    pub ports: Vec<ServicePort>,
    /// `spec.loadBalancerClass`.
    pub class: Option<String>,
    /// `spec.loadBalancerIP`.
    pub requested_ip: Option<String>,
    /// `spec.loadBalancerSourceRanges`, or those of the annotation (SVC-090). Empty: everybody.
    pub source_ranges: Vec<String>,
    /// `spec.externalTrafficPolicy`.
    pub external_traffic_policy: Option<TrafficPolicy>,
    /// `spec.healthCheckNodePort`.
    pub health_check_node_port: Option<u16>,
    /// `spec.ipFamilies`.
    pub ip_families: Vec<IpFamily>,
    /// `spec.ipFamilyPolicy`.
    pub ip_family_policy: Option<IpFamilyPolicy>,
    /// Seconds of `spec.sessionAffinity: ClientIP`; none without affinity.
    pub session_affinity_seconds: Option<u32>,
    /// `spec.clusterIPs`.
    pub cluster_ips: Vec<String>,
    /// `status.loadBalancer`.
    pub status: LoadBalancerStatus,
}

/// How kube-proxy treats an ingress IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IpMode {
    /// Traffic from within the cluster goes past the load balancer.
    Vip,
    /// Traffic from within the cluster goes to the load balancer, too.
    Proxy,
}

impl IpMode {
    /// The spelling of the Kubernetes API.
    pub fn as_str(self) -> &'static str {
        match self {
            IpMode::Vip => "VIP",
            IpMode::Proxy => "Proxy",
        }
    }
}

/// The state of one port of an ingress.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PortStatus {
    /// 1 to 65535.
    pub port: u16,
    /// Its protocol.
    pub protocol: Protocol,
    /// CamelCase reason or a qualified name; none: it works.
    pub error: Option<String>,
}

/// One way in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Ingress {
    /// As the provider spells it.
    pub ip: Option<String>,
    /// A DNS name.
    pub hostname: Option<String>,
    /// Only with an IP; none: the cluster's default.
    pub ip_mode: Option<IpMode>,
    /// Per port; may be empty.
    pub ports: Vec<PortStatus>,
}

impl Ingress {
    /// The IP in its canonical form, if there is one and it is one.
    pub fn canonical_ip(&self) -> Option<IpAddr> {
        let ip: IpAddr = self.ip.as_deref()?.parse().ok()?;
        Some(ip.to_canonical())
    }
}

/// `status.loadBalancer`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct LoadBalancerStatus {
    /// In the order to be stored.
    pub ingress: Vec<Ingress>,
}

/// What to call again with, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Between 100 ms and 10 min: the host clamps.
    pub retry_after: Duration,
    /// At most 4 KiB, to be handed back. Only a hint.
    pub hint: Option<Arc<[u8]>>,
}

/// One wish about an annotation of the Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotationChange {
    /// The key.
    pub key: String,
    /// None removes it.
    pub value: Option<String>,
}

/// One request to make the cloud agree with a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnsureRequest {
    /// The Service.
    pub service: Arc<CloudService>,
    /// The nodes that are to receive traffic, sorted by name. Many Services share one list.
    pub targets: Arc<[CloudNode]>,
    /// Only after a conflict: the owner that is not alive, or empty for a thing without an owner.
    pub adopt: Option<String>,
    /// What the last `pending` about this Service carried.
    pub hint: Option<Arc<[u8]>>,
}

/// How far `ensure` came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ensured {
    /// The cloud agrees with the Service.
    Ready(LoadBalancerStatus),
    /// Begun.
    Pending(Pending),
}

/// The answer to `ensure`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnsureReply {
    /// How far it came.
    pub ensured: Ensured,
    /// To be recorded about the Service.
    pub events: Vec<CloudEvent>,
    /// Wishes about its annotations.
    pub annotations: Vec<AnnotationChange>,
}

/// One request to change the set of nodes behind a load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateRequest {
    /// The Service.
    pub service: Arc<CloudService>,
    /// The complete new set, sorted by name.
    pub targets: Arc<[CloudNode]>,
    /// What the last `pending` about this Service carried.
    pub hint: Option<Arc<[u8]>>,
}

/// One request to remove what belongs to a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteRequest {
    /// The Service, as it was when it was known last.
    pub service: Arc<CloudService>,
    /// What the last `pending` about this Service carried.
    pub hint: Option<Arc<[u8]>>,
}

/// How far a change or a deletion came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// To the end.
    Done,
    /// Begun.
    Pending(Pending),
}

/// The answer to `update-targets` and `delete`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgressReply {
    /// How far it came.
    pub progress: Progress,
    /// To be recorded about the Service.
    pub events: Vec<CloudEvent>,
    /// Wishes about its annotations.
    pub annotations: Vec<AnnotationChange>,
}

/// What `get` found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// There is one, with this status.
    Present(LoadBalancerStatus),
    /// The provider says that there is none.
    Absent,
}

/// The answer to `get`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetReply {
    /// What it found.
    pub found: Found,
    /// Whether the answer may prove absence: as [`crate::cloud::instance::FindReply::complete`].
    pub complete: bool,
}

/// How many ways in are named in a line of text; the contract allows sixteen.
const SHOWN: usize = 4;

impl fmt::Display for LoadBalancerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ingress.is_empty() {
            return write!(f, "no ingress");
        }
        for (index, ingress) in self.ingress.iter().take(SHOWN).enumerate() {
            let separator = if index == 0 { "" } else { " " };
            let place = ingress.ip.as_deref().or(ingress.hostname.as_deref());
            write!(f, "{separator}{}", place.unwrap_or("-"))?;
            if let Some(mode) = ingress.ip_mode {
                write!(f, "({})", mode.as_str())?;
            }
        }
        match self.ingress.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
