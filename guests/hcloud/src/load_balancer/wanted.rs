//! The desired state of a load balancer, from a Service, its annotations, its nodes and the configuration. Pure: no
//! request, no clock. References that only the cloud can resolve (names of networks and certificates, numbers of
//! dedicated servers) stay unresolved; other modules look them up.
//!
//! This file has the types. [`Wanted::read`] combines the results of [`services`](super::services),
//! [`targets`](super::targets), [`certificates`](super::wanted_certificates) and
//! [`status_addresses`](super::status_addresses).
//!
//! `None` always means unspecified: the load balancer keeps its current value. So a value stays after its annotation
//! is removed: the Go manager's rule, on which its users rely.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use ccm_guest::Event;
use serde::Serialize;

mod read;
#[cfg(test)]
mod tests;

/// The Go manager's default type.
pub const DEFAULT_TYPE: &str = "lb11";

/// The desired state of a load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The name at creation, and, if `is_named`, from then on.
    pub name: String,
    /// Whether the name is annotated. Otherwise a name that a person set in the cloud stays.
    pub is_named: bool,
    /// Required labels; other labels stay.
    pub labels: BTreeMap<String, String>,
    /// The load balancer type, such as `lb11`.
    pub type_name: String,
    /// Where the type comes from.
    pub type_source: TypeSource,
    /// Where it is created. Ignored for an existing one, which cannot be moved.
    pub place: Option<Place>,
    /// How connections are distributed.
    pub algorithm: Option<Algorithm>,
    /// Whether the public interface is enabled.
    pub public_interface: Option<bool>,
    /// The one attached network. `None`: detached from all networks.
    pub network: Option<WantedNetwork>,
    /// Reverse DNS name of the IPv4 address. Never empty.
    pub rdns_ipv4: Option<String>,
    /// Reverse DNS name of the IPv6 address. Never empty.
    pub rdns_ipv6: Option<String>,
    /// Services by listen port.
    pub services: BTreeMap<u16, WantedService>,
    /// The certificates of every service whose `http` is set.
    pub certificates: Certificates,
    /// The servers and addresses that receive traffic.
    pub targets: WantedTargets,
    /// Which addresses appear in the Service's status.
    pub shown: Shown,
    /// Whether ports that the Service does not name stay: see
    /// [`LoadBalancerSettings`](crate::config::LoadBalancerSettings).
    pub keep_foreign: bool,
    /// Events for the operator, without those of the targets: see [`Wanted::all_events`].
    pub events: Vec<Event>,
}

/// Where the wanted type comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeSource {
    /// An annotation of the Service.
    Annotation,
    /// The configuration, for all Services.
    Configuration,
    /// The default, only for creation. An existing load balancer keeps its type.
    Default,
}

/// Where a load balancer is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In this location, such as `fsn1`.
    Location(String),
    /// Anywhere in this network zone, such as `eu-central`.
    NetworkZone(String),
}

/// How connections are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Each target in turn.
    RoundRobin,
    /// The target with the fewest connections.
    LeastConnections,
}

impl Algorithm {
    /// All variants, each with its name in the API.
    pub const WORDS: [(&'static str, Algorithm); 2] = [
        ("round_robin", Algorithm::RoundRobin),
        ("least_connections", Algorithm::LeastConnections),
    ];

    /// The variant's name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::RoundRobin => "round_robin",
            Algorithm::LeastConnections => "least_connections",
        }
    }
}

/// The network that a load balancer is attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedNetwork {
    /// Name or id, as configured in `HCLOUD_NETWORK`.
    pub network: String,
    /// The load balancer's address in the network. If it differs, the load balancer is detached and attached again.
    pub ip: Option<Ipv4Addr>,
    /// The subnet of that address, such as `10.0.1.0/24`. Used only when attaching.
    pub ip_range: Option<String>,
}

/// One port of a load balancer. As JSON, with the types below, it is a part of requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WantedService {
    /// The port of the targets: the node port.
    pub destination_port: u16,
    /// The protocol on the listening port.
    pub protocol: ServiceProtocol,
    /// Whether targets get the client's address by the proxy protocol.
    #[serde(rename = "proxyprotocol")]
    pub proxy_protocol: Option<bool>,
    /// HTTP options; sent if present, whatever the protocol.
    pub http: Option<WantedHttp>,
    /// The health check of targets.
    pub health_check: WantedHealthCheck,
}

/// The protocol of a service or health check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServiceProtocol {
    /// TCP connections, forwarded as they are.
    Tcp,
    /// HTTP without TLS.
    Http,
    /// HTTPS, terminated with the certificates.
    Https,
}

impl ServiceProtocol {
    /// All variants, each with its name in the API.
    pub const WORDS: [(&'static str, ServiceProtocol); 3] = [
        ("tcp", ServiceProtocol::Tcp),
        ("http", ServiceProtocol::Http),
        ("https", ServiceProtocol::Https),
    ];
}

/// HTTP options, without the certificates: see [`Wanted::certificates`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct WantedHttp {
    /// The name of the cookie for sticky sessions.
    pub cookie_name: Option<String>,
    /// Lifetime of the cookie in seconds.
    pub cookie_lifetime: Option<u64>,
    /// Whether port 80 redirects to this one.
    pub redirect_http: Option<bool>,
    /// Whether a client stays at the same target.
    pub sticky_sessions: Option<bool>,
    /// Seconds until an idle connection is closed.
    pub timeout_idle: Option<u64>,
}

/// The health check of targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WantedHealthCheck {
    /// The protocol of the check.
    pub protocol: ServiceProtocol,
    /// The port of the target.
    pub port: u16,
    /// Seconds between two checks.
    pub interval: Option<u64>,
    /// Seconds until a check without an answer fails.
    pub timeout: Option<u64>,
    /// Number of failures before a target counts as unhealthy.
    pub retries: Option<u32>,
    /// Set exactly if the protocol is HTTP or HTTPS, even if empty.
    pub http: Option<HealthCheckHttp>,
}

/// The HTTP request of a health check.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct HealthCheckHttp {
    /// The request's `Host` header.
    pub domain: Option<String>,
    /// The request's path.
    pub path: Option<String>,
    /// Status codes of a healthy target, such as `2??`.
    pub status_codes: Option<Vec<String>>,
    /// Whether the target's certificate must be valid.
    pub tls: Option<bool>,
}

/// The certificates of a load balancer's services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificates {
    /// No annotation specifies certificates.
    None,
    /// Existing certificates, by id or name.
    Uploaded(Vec<Certificate>),
    /// A certificate that this guest orders and the cloud issues and renews.
    Managed(ManagedCertificate),
}

/// A reference to an existing certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificate {
    /// By id; not checked.
    Id(u64),
    /// By name, to be looked up. Never empty and never a number.
    Name(String),
}

/// A certificate that the cloud issues and renews.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedCertificate {
    /// Unique in the project. An existing certificate of this name is used only if its label names this Service.
    pub name: String,
    /// The certificate's domains; at least one.
    pub domains: Vec<String>,
    /// Labels. [`SERVICE_UID`](super::names::SERVICE_UID) among them identifies the certificate, whatever its name.
    pub labels: BTreeMap<String, String>,
}

/// The targets of a load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WantedTargets {
    /// Targets and their nodes' names.
    pub targets: BTreeMap<Target, String>,
    /// Dedicated servers whose public address must be read from Robot, by number, with their nodes' names. Empty after
    /// [`WantedTargets::resolve`]; until then targets with addresses stay.
    pub dedicated: BTreeMap<u64, String>,
    /// Events for the operator about the targets.
    pub events: Vec<Event>,
}

/// A target of a load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A cloud server, by its id.
    Server {
        /// The cloud server's id.
        id: u64,
        /// Whether it is reached by its private address.
        use_private_ip: bool,
    },
    /// A dedicated server, by its address.
    Ip(IpAddr),
}

impl Target {
    /// Whether it is a server that is reached by its private address.
    pub fn is_private(self) -> bool {
        match self {
            Target::Server { use_private_ip, .. } => use_private_ip,
            Target::Ip(_) => false,
        }
    }
}

/// Which addresses appear in a Service's status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Host name in the status, instead of addresses. Never empty.
    pub hostname: Option<String>,
    /// Whether the proxy protocol carries the client's address: the IP mode is then `Proxy`, otherwise `VIP`.
    pub proxy_protocol: bool,
    /// Whether the public IPv6 address is shown.
    pub ipv6: bool,
    /// Whether the private addresses are shown.
    pub private_ingress: bool,
}
