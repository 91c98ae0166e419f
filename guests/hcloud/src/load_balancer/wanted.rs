//! What a load balancer has to look like, as a value: everything that a Service, its annotations, its nodes and the
//! configuration say about it. Pure: no request, no clock. What only the cloud knows (the ids of a network and of
//! certificates, the addresses of dedicated servers) stands in it as it was written, for others to look up.
//!
//! Here are the types. [`Wanted::read`] puts together what [`services`](super::services), [`targets`](super::targets),
//! [`certificates`](super::wanted_certificates) and [`shown`](super::shown) read.
//!
//! `None` always means that nothing is wanted, and that whatever the load balancer has stays. So a value that was
//! annotated once and is no longer stays too: the Go manager's rule, on which its users rely.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use ccm_guest::Event;

mod read;
#[cfg(test)]
mod tests;

/// The contract's cap on events of one reply.
pub const MAX_EVENTS: usize = 16;
/// The type that the Go manager takes when nobody chose one.
pub const DEFAULT_TYPE: &str = "lb11";

/// What a load balancer has to look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// What it is called when it is made, and, if `is_named`, from then on.
    pub name: String,
    /// Whether the name is annotated. Otherwise one that a person gave it in the cloud stays.
    pub is_named: bool,
    /// The labels that it must have, beside whatever others it has.
    pub labels: BTreeMap<String, String>,
    /// The type, such as `lb11`.
    pub type_name: String,
    /// Who chose the type.
    pub type_source: TypeSource,
    /// Where it is made. Nothing about one that exists: it cannot be moved.
    pub place: Option<Place>,
    /// How connections are shared out.
    pub algorithm: Option<Algorithm>,
    /// Whether it can be reached from outside.
    pub public_interface: Option<bool>,
    /// The one network that it is attached to. `None`: it is attached to none, and detached from any.
    pub network: Option<WantedNetwork>,
    /// The name that its IPv4 address resolves to. Never empty.
    pub rdns_ipv4: Option<String>,
    /// The name that its IPv6 address resolves to. Never empty.
    pub rdns_ipv6: Option<String>,
    /// By the port that it listens on.
    pub services: BTreeMap<u16, WantedService>,
    /// The certificates of every service: services whose `http` is set, and nothing else, carry them.
    pub certificates: Certificates,
    /// Where it sends connections to.
    pub targets: WantedTargets,
    /// How its addresses become the Service's status.
    pub shown: Shown,
    /// Whether ports that the Service does not name stay: see
    /// [`LoadBalancerSettings`](crate::config::LoadBalancerSettings).
    pub keep_foreign: bool,
    /// What the operator should read, without the events of the targets: see [`Wanted::all_events`].
    pub events: Vec<Event>,
}

/// Who chose the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeSource {
    /// The Service.
    Annotation,
    /// The operator, for all Services.
    Configuration,
    /// Nobody: it is the type to make one with. One that exists keeps its own.
    Default,
}

/// Where a load balancer is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In this location, such as `fsn1`.
    Location(String),
    /// Anywhere in this network zone, such as `eu-central`.
    NetworkZone(String),
}

/// How connections are shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// One target after the other.
    RoundRobin,
    /// The target with the fewest.
    LeastConnections,
}

impl Algorithm {
    /// All, by the API's word.
    pub const WORDS: [(&'static str, Algorithm); 2] = [
        ("round_robin", Algorithm::RoundRobin),
        ("least_connections", Algorithm::LeastConnections),
    ];

    /// The API's word.
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
    /// Name or id, as it is configured (`HCLOUD_NETWORK`).
    pub network: String,
    /// Its address there. Attached with another one, it is attached anew.
    pub ip: Option<Ipv4Addr>,
    /// The subnet that its address is taken from, such as `10.0.1.0/24`. Only looked at when it is attached.
    pub ip_range: Option<String>,
}

/// One port of a load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedService {
    /// The port of every target.
    pub destination_port: u16,
    /// How connections are understood.
    pub protocol: ServiceProtocol,
    /// Whether targets are told the client's address by the proxy protocol.
    pub proxy_protocol: Option<bool>,
    /// The options of HTTP; sent if there are any, whatever the protocol is.
    pub http: Option<WantedHttp>,
    /// How it is found out whether a target works.
    pub health_check: WantedHealthCheck,
}

/// How connections are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceProtocol {
    /// Not at all.
    Tcp,
    /// As HTTP.
    Http,
    /// As HTTP, decrypted with the certificates.
    Https,
}

impl ServiceProtocol {
    /// All, by the API's word.
    pub const WORDS: [(&'static str, ServiceProtocol); 3] = [
        ("tcp", ServiceProtocol::Tcp),
        ("http", ServiceProtocol::Http),
        ("https", ServiceProtocol::Https),
    ];

    /// The API's word.
    pub fn as_str(self) -> &'static str {
        match self {
            ServiceProtocol::Tcp => "tcp",
            ServiceProtocol::Http => "http",
            ServiceProtocol::Https => "https",
        }
    }
}

/// The options of HTTP, without the certificates: those are [`Wanted::certificates`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WantedHttp {
    /// The name of the cookie for sticky sessions.
    pub cookie_name: Option<String>,
    /// In seconds.
    pub cookie_lifetime: Option<u64>,
    /// Whether port 80 redirects to this one.
    pub redirect_http: Option<bool>,
    /// Whether a client comes back to the same target.
    pub sticky_sessions: Option<bool>,
    /// In seconds.
    pub timeout_idle: Option<u64>,
}

/// How it is found out whether a target works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedHealthCheck {
    /// What is spoken with the target.
    pub protocol: ServiceProtocol,
    /// The target's port.
    pub port: u16,
    /// In seconds.
    pub interval: Option<u64>,
    /// In seconds.
    pub timeout: Option<u64>,
    /// How often it may fail.
    pub retries: Option<u32>,
    /// Only if the protocol is HTTP or HTTPS, and then also if nothing is in it.
    pub http: Option<HealthCheckHttp>,
}

/// What a health check asks by HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HealthCheckHttp {
    /// The host that is asked for.
    pub domain: Option<String>,
    /// The path that is asked for.
    pub path: Option<String>,
    /// The codes of a working target, such as `2??`.
    pub status_codes: Option<Vec<String>>,
    /// Whether the target's certificate must be valid.
    pub tls: Option<bool>,
}

/// The certificates of a load balancer's services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificates {
    /// Nothing is said about them.
    None,
    /// These, which are there already.
    Uploaded(Vec<Certificate>),
    /// One that the cloud makes and renews, and that this guest asks it to make.
    Managed(ManagedCertificate),
}

/// A certificate that is there already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificate {
    /// The one with this id; taken as it is.
    Id(u64),
    /// The one with this name, to be looked up. Never empty and never a number.
    Name(String),
}

/// A certificate that the cloud makes and renews.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedCertificate {
    /// Unique in the project. A certificate that has it already is fine.
    pub name: String,
    /// At least one.
    pub domains: Vec<String>,
    /// By the label of [`SERVICE_UID`](super::names::SERVICE_UID) among them it is found, whatever it is called.
    pub labels: BTreeMap<String, String>,
}

/// Where a load balancer sends connections to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WantedTargets {
    /// Every target, and the node that it is.
    pub targets: BTreeMap<Target, String>,
    /// Dedicated servers whose public address Robot has to be asked for, by their number, and the nodes that they are. Empty
    /// once [`WantedTargets::resolve`] was called, and without any such node from the beginning.
    pub dedicated: BTreeMap<u64, String>,
    /// What the operator should read about them.
    pub events: Vec<Event>,
}

/// One target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A server of the cloud.
    Server {
        /// The server's id.
        id: u64,
        /// Whether it is reached by its address in the network.
        use_private_ip: bool,
    },
    /// A dedicated server, by its address.
    Ip(IpAddr),
}

/// How a load balancer's addresses become a Service's status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Shown instead of any address. Never empty.
    pub hostname: Option<String>,
    /// Whether the client's address comes by the proxy protocol: then the addresses' mode is `Proxy`, otherwise `VIP`.
    pub proxy_protocol: bool,
    /// Whether the public IPv6 address is shown.
    pub ipv6: bool,
    /// Whether the addresses in networks are shown.
    pub private_ingress: bool,
}
