//! Data types for load balancers: requests to a provider for a Service, and its replies. They mirror the contract in
//! `wit/` but are defined here; their contents are unchecked (see `service`).

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::cloud::error::Owner;
use crate::cloud::instance::{CloudEvent, CloudNode};

crate::named_enum! {
    /// Transport protocol of a port, in the Kubernetes API's spelling.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Protocol {
        /// The default of the Kubernetes API.
        Tcp = "TCP",
        /// Not supported by every cloud.
        Udp = "UDP",
        /// Supported by few clouds.
        Sctp = "SCTP",
    }
}

crate::named_enum! {
    /// IP family of a Service, in the Kubernetes API's spelling.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum IpFamily {
        /// IPv4.
        V4 = "IPv4",
        /// IPv6.
        V6 = "IPv6",
    }
}

crate::named_enum! {
    /// `spec.ipFamilyPolicy`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum IpFamilyPolicy {
        /// Exactly one family.
        SingleStack = "SingleStack",
        /// Both families, if the cluster has both.
        PreferDualStack = "PreferDualStack",
        /// Both families.
        RequireDualStack = "RequireDualStack",
    }
}

crate::named_enum! {
    /// `spec.externalTrafficPolicy`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum TrafficPolicy {
        /// Any node accepts the traffic.
        Cluster = "Cluster",
        /// Only nodes with endpoints, detected by `healthCheckNodePort`.
        Local = "Local",
    }
}

/// One port of a Service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServicePort {
    /// Name of the port; may be `None` if it is the only one.
    pub name: Option<String>,
    /// Transport protocol of the port.
    pub protocol: Protocol,
    /// `appProtocol`.
    pub app_protocol: Option<String>,
    /// Port on which the load balancer listens, 1 to 65535.
    pub port: u16,
    /// Port on every node; `None` when node ports are not allocated.
    pub node_port: Option<u16>,
}

/// A Service of type LoadBalancer as a provider sees it. The default value has no name and no ports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CloudService {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`: identifies the owner of cloud objects.
    pub uid: String,
    /// `metadata.annotations`, without kubectl's copy of the object and this project's own.
    pub annotations: BTreeMap<String, String>,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `spec.ports`, in their order.
    pub ports: Vec<ServicePort>,
    /// `spec.loadBalancerClass`.
    pub class: Option<String>,
    /// `spec.loadBalancerIP`.
    pub requested_ip: Option<String>,
    /// `spec.loadBalancerSourceRanges`, or those of the annotation (SVC-090). Empty: no restriction.
    pub source_ranges: Vec<String>,
    /// `spec.externalTrafficPolicy`.
    pub external_traffic_policy: Option<TrafficPolicy>,
    /// `spec.healthCheckNodePort`.
    pub health_check_node_port: Option<u16>,
    /// `spec.ipFamilies`.
    pub ip_families: Vec<IpFamily>,
    /// `spec.ipFamilyPolicy`.
    pub ip_family_policy: Option<IpFamilyPolicy>,
    /// Timeout of `spec.sessionAffinity: ClientIP` in seconds; `None` without affinity.
    pub session_affinity_seconds: Option<u32>,
    /// `spec.clusterIPs`.
    pub cluster_ips: Vec<String>,
    /// `status.loadBalancer`.
    pub status: LoadBalancerStatus,
}

crate::named_enum! {
    /// How kube-proxy treats an ingress IP, in the Kubernetes API's spelling.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum IpMode {
        /// Traffic from within the cluster bypasses the load balancer.
        Vip = "VIP",
        /// Traffic from within the cluster goes through the load balancer.
        Proxy = "Proxy",
    }
}

/// The state of one port of an ingress.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PortStatus {
    /// Port number, 1 to 65535.
    pub port: u16,
    /// Transport protocol of the port.
    pub protocol: Protocol,
    /// CamelCase reason or a qualified name; `None`: the port works.
    pub error: Option<String>,
}

/// One ingress point of a load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Ingress {
    /// IP address in the provider's spelling.
    pub ip: Option<String>,
    /// DNS name in the provider's spelling.
    pub hostname: Option<String>,
    /// Only with an IP; `None`: the cluster's default.
    pub ip_mode: Option<IpMode>,
    /// State per port; may be empty.
    pub ports: Vec<PortStatus>,
}

impl Ingress {
    /// The IP in canonical form, if there is a valid one.
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

/// An unfinished operation: when to call again, and with which hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Between 100 ms and 10 min: the host clamps it.
    pub retry_after: Duration,
    /// At most 4 KiB, passed back in the next call. Only a hint.
    pub hint: Option<Arc<[u8]>>,
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pending {:?}", self.retry_after)
    }
}

/// The part of a request's label that shows its hint.
pub(crate) fn hint_label(hint: &Option<Arc<[u8]>>) -> &'static str {
    match hint {
        Some(_) => " hint",
        None => "",
    }
}

/// A requested change of one annotation of the Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotationChange {
    /// The annotation's key, without a check of its prefix.
    pub key: String,
    /// The new value; `None` removes the annotation.
    pub value: Option<String>,
}

/// The load balancers that a provider may take over for a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adoptable {
    /// Load balancers of this owner, which no longer exists.
    Of(Owner),
    /// Load balancers without an owner.
    Unowned,
}

impl From<Option<Owner>> for Adoptable {
    fn from(owner: Option<Owner>) -> Adoptable {
        owner.map_or(Adoptable::Unowned, Adoptable::Of)
    }
}

/// Nodes that receive traffic, sorted by name. Each list is as long as the cluster has nodes, and many are kept: lists of
/// different times share the nodes that have not changed.
pub type TargetNodes = Arc<[Arc<CloudNode>]>;

/// A request to bring the cloud in line with a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnsureRequest {
    /// The Service that the cloud has to match.
    pub service: Arc<CloudService>,
    /// The nodes that receive traffic.
    pub targets: TargetNodes,
    /// The load balancers that may be taken over; set only after a conflict.
    pub adopt: Option<Adoptable>,
    /// The hint of the last `pending` reply about this Service.
    pub hint: Option<Arc<[u8]>>,
}

/// Progress of `ensure`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ensured {
    /// The cloud matches the Service.
    Ready(LoadBalancerStatus),
    /// The cloud has begun and is not finished.
    Pending(Pending),
}

/// The reply to `ensure`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnsureReply {
    /// Whether the cloud matches the Service already.
    pub ensured: Ensured,
    /// Events to record about the Service.
    pub events: Vec<CloudEvent>,
    /// Annotation changes that the provider requests; unchecked.
    pub annotations: Vec<AnnotationChange>,
}

/// A request to change the set of nodes behind a load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateRequest {
    /// The Service whose load balancer is changed.
    pub service: Arc<CloudService>,
    /// The complete new set.
    pub targets: TargetNodes,
    /// The hint of the last `pending` reply about this Service.
    pub hint: Option<Arc<[u8]>>,
}

/// A request to remove all cloud objects of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteRequest {
    /// The last known state of the Service.
    pub service: Arc<CloudService>,
    /// The hint of the last `pending` reply about this Service.
    pub hint: Option<Arc<[u8]>>,
}

/// Progress of a change or a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// The change or deletion is finished.
    Done,
    /// The cloud has begun and is not finished.
    Pending(Pending),
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Progress::Done => f.write_str("done"),
            Progress::Pending(pending) => pending.fmt(f),
        }
    }
}

/// The reply to `update-targets` and `delete`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgressReply {
    /// Whether the change or deletion is finished.
    pub progress: Progress,
    /// Events to record about the Service.
    pub events: Vec<CloudEvent>,
    /// Annotation changes that the provider requests; unchecked.
    pub annotations: Vec<AnnotationChange>,
}

/// The result of `get`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The load balancer exists, with this status.
    Present(LoadBalancerStatus),
    /// The provider says that there is none.
    Absent,
}

/// The reply to `get`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetReply {
    /// Whether the load balancer exists.
    pub found: Found,
    /// Whether the answer may prove absence: as [`crate::cloud::instance::FindReply::complete`].
    pub complete: bool,
}

/// How many ingress points the `Display` output names; the contract allows sixteen.
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
