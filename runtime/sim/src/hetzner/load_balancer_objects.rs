//! Load balancers as plain data, used in requests, in the project's state and by tests.
//!
//! Contains no rules; those are in the modules of the requests.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use jiff::Timestamp;

use super::load_balancer_types::LoadBalancerType;
use super::locations::Location;
use super::objects::PrivateNet;

/// The algorithm that selects the target of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Each target in turn.
    #[default]
    RoundRobin,
    /// The target with the fewest connections.
    LeastConnections,
}

impl Algorithm {
    /// The name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round_robin",
            Self::LeastConnections => "least_connections",
        }
    }

    pub(super) fn named(word: &str) -> Option<Self> {
        let all = [Self::RoundRobin, Self::LeastConnections];
        all.into_iter().find(|one| one.name() == word)
    }
}

/// The protocol of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TCP connections, forwarded as they are.
    Tcp,
    /// HTTP without TLS.
    Http,
    /// HTTPS, with TLS terminated here or at the target.
    Https,
}

impl Protocol {
    /// The name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    pub(super) fn named(word: &str) -> Option<Self> {
        let all = [Self::Tcp, Self::Http, Self::Https];
        all.into_iter().find(|one| one.name() == word)
    }
}

/// A service: one port that a load balancer listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The protocol on the listening port.
    pub protocol: Protocol,
    /// The listening port, unique within a load balancer.
    pub listen_port: u16,
    /// The port of its targets.
    pub destination_port: u16,
    /// Whether the PROXY protocol sends the client's address to the targets.
    pub proxyprotocol: bool,
    /// HTTP options, shown and used only with [`Protocol::Http`] and [`Protocol::Https`].
    pub http: HttpOptions,
    /// How the health of targets is checked.
    pub health_check: HealthCheck,
}

/// HTTP options of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    /// The cookie of sticky sessions.
    pub cookie_name: String,
    /// The cookie's lifetime in seconds.
    pub cookie_lifetime: u32,
    /// Timeout of idle connections in seconds.
    pub timeout_idle: u32,
    /// The IDs of the certificates.
    pub certificates: Vec<u64>,
    /// Whether port 80 answers with a redirect to HTTPS.
    pub redirect_http: bool,
    /// Whether requests of one client go to the same target.
    pub sticky_sessions: bool,
}

impl Default for HttpOptions {
    /// The vendor's default options.
    fn default() -> Self {
        Self {
            cookie_name: "HCLBSTICKY".to_owned(),
            cookie_lifetime: 300,
            timeout_idle: 50,
            certificates: Vec::new(),
            redirect_http: false,
            sticky_sessions: false,
        }
    }
}

/// The health check of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The HTTP request; `None` for TCP checks.
    pub http: Option<HttpCheck>,
    /// The port to check.
    pub port: u16,
    /// Interval between checks in seconds.
    pub interval: u32,
    /// Timeout of one check in seconds.
    pub timeout: u32,
    /// Number of consecutive results that change the state.
    pub retries: u32,
}

impl HealthCheck {
    /// The vendor's default: a TCP check of the service's destination port.
    #[must_use]
    pub fn connects_to(port: u16) -> Self {
        Self {
            http: None,
            port,
            interval: 15,
            timeout: 10,
            retries: 3,
        }
    }
}

/// Request of an HTTP health check and its expected response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpCheck {
    /// The `Host` header; `None`: the vendor's default.
    pub domain: Option<String>,
    /// The path of the request.
    pub path: String,
    /// Text that the response must contain.
    pub response: String,
    /// The accepted status codes, such as `2??`.
    pub status_codes: Vec<String>,
    /// Whether the check uses TLS.
    pub tls: bool,
}

impl Default for HttpCheck {
    /// The vendor's default request.
    fn default() -> Self {
        Self {
            domain: None,
            path: "/".to_owned(),
            response: String::new(),
            status_codes: vec!["2??".to_owned(), "3??".to_owned()],
            tls: false,
        }
    }
}

/// A target of a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One server of the project.
    Server {
        /// The id of the server.
        id: u64,
        /// Whether it is reached through the private network of both.
        use_private_ip: bool,
    },
    /// All servers whose labels match.
    LabelSelector {
        /// The label selector as text.
        selector: String,
        /// Whether they are reached through the private network.
        use_private_ip: bool,
    },
    /// A machine of the project's owner outside the project.
    Ip(IpAddr),
}

impl Target {
    /// Whether both name the same target, regardless of how it is reached.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Server { id: left, .. }, Self::Server { id: right, .. }) => left == right,
            (
                Self::LabelSelector { selector: left, .. },
                Self::LabelSelector {
                    selector: right, ..
                },
            ) => left == right,
            (Self::Ip(left), Self::Ip(right)) => left == right,
            _ => false,
        }
    }

    pub(super) fn uses_private_ip(&self) -> bool {
        match self {
            Self::Server { use_private_ip, .. } | Self::LabelSelector { use_private_ip, .. } => {
                *use_private_ip
            }
            Self::Ip(_) => false,
        }
    }
}

/// A load balancer to add. Start from [`LoadBalancerSpec::named`] and change what matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalancerSpec {
    /// The name. Uniqueness is not checked here, so that a test can violate it.
    pub name: String,
    /// The load balancer type.
    pub load_balancer_type: LoadBalancerType,
    /// The location of the load balancer.
    pub location: Location,
    /// Labels by their keys.
    pub labels: BTreeMap<String, String>,
    /// The algorithm that selects targets.
    pub algorithm: Algorithm,
    /// Whether the public interface is enabled.
    pub public_interface: bool,
    /// The services. Limits are not checked here.
    pub services: Vec<Service>,
    /// The targets. Limits are not checked here.
    pub targets: Vec<Target>,
    /// Whether requests to delete it are refused.
    pub delete_protected: bool,
    /// The reverse DNS name of the IPv4 address; `None`: the vendor's own.
    pub ipv4_dns_ptr: Option<String>,
    /// The reverse DNS name of the IPv6 address.
    pub ipv6_dns_ptr: Option<String>,
}

impl LoadBalancerSpec {
    /// A load balancer of the smallest type in Falkenstein, public, without services and targets.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            load_balancer_type: LoadBalancerType::default(),
            location: Location::default(),
            labels: BTreeMap::new(),
            algorithm: Algorithm::default(),
            public_interface: true,
            services: Vec::new(),
            targets: Vec::new(),
            delete_protected: false,
            ipv4_dns_ptr: None,
            ipv6_dns_ptr: None,
        }
    }
}

/// A load balancer of the project.
pub(super) struct LoadBalancer {
    pub(super) id: u64,
    pub(super) spec: LoadBalancerSpec,
    pub(super) created: Timestamp,
    /// Number of the load balancer in the simulator, from 0; determines its addresses.
    pub(super) number: u32,
    /// The network that it is attached to; at most one.
    pub(super) private_net: Option<PrivateNet>,
}

impl LoadBalancer {
    /// From the last quarter of RFC 2544's benchmarking range, which servers use only from the fourth project on.
    pub(super) fn public_ipv4(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 19, 192, 1)).wrapping_add(self.number))
    }

    /// From a part of RFC 3849's documentation range that servers never use.
    pub(super) fn public_ipv6(&self) -> Ipv6Addr {
        let prefix = u128::from(Ipv6Addr::new(0x2001, 0xdb8, 0xfffe, 0, 0, 0, 0, 1));
        Ipv6Addr::from(prefix | u128::from(self.number) << 64)
    }

    /// The reverse DNS name of the IPv4 address.
    pub(super) fn ipv4_dns_ptr(&self) -> String {
        let own = || format!("static.{}.clients.simulated.example", self.public_ipv4());
        self.spec.ipv4_dns_ptr.clone().unwrap_or_else(own)
    }
}
