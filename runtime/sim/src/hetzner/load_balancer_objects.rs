//! Load balancers as plain data: what a request may ask for, what a project holds, what a test may change.
//!
//! Nothing here knows a rule; the modules of the requests do.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use jiff::Timestamp;

use super::load_balancer_types::LoadBalancerType;
use super::locations::Location;
use super::objects::PrivateNet;

/// How a load balancer chooses the target of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// One after the other.
    #[default]
    RoundRobin,
    /// The one with the fewest connections.
    LeastConnections,
}

impl Algorithm {
    /// The word in the API.
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

/// What a service understands of its traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Bytes.
    Tcp,
    /// Requests.
    Http,
    /// Requests inside TLS, which ends here or at the target.
    Https,
}

impl Protocol {
    /// The word in the API.
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

/// One port that a load balancer listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// What it understands.
    pub protocol: Protocol,
    /// Where it listens. No two services of a load balancer share this.
    pub listen_port: u16,
    /// Where its targets listen.
    pub destination_port: u16,
    /// Whether targets are told the client's address by the PROXY protocol.
    pub proxyprotocol: bool,
    /// Shown, and of use, only with [`Protocol::Http`] and [`Protocol::Https`].
    pub http: HttpOptions,
    /// When a target counts as healthy.
    pub health_check: HealthCheck,
}

/// What a service does with HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    /// The cookie of sticky sessions.
    pub cookie_name: String,
    /// Its life in seconds.
    pub cookie_lifetime: u32,
    /// Idle connections end after so many seconds.
    pub timeout_idle: u32,
    /// Certificates, by id.
    pub certificates: Vec<u64>,
    /// Whether port 80 answers with a redirect to HTTPS.
    pub redirect_http: bool,
    /// Whether a client stays with its target.
    pub sticky_sessions: bool,
}

impl Default for HttpOptions {
    /// The vendor's defaults.
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

/// How a service finds out whether a target is well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Present when the check asks over HTTP, absent when it only connects.
    pub http: Option<HttpCheck>,
    /// The port of the check.
    pub port: u16,
    /// Seconds from one check to the next.
    pub interval: u32,
    /// Seconds until one check has failed.
    pub timeout: u32,
    /// Checks in a row that change the verdict.
    pub retries: u32,
}

impl HealthCheck {
    /// The vendor's default: connect to the service's destination.
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

/// What a health check asks over HTTP, and what it wants to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpCheck {
    /// The host header.
    pub domain: Option<String>,
    /// The path.
    pub path: String,
    /// What the answer must contain.
    pub response: String,
    /// The statuses that are fine, such as `2??`.
    pub status_codes: Vec<String>,
    /// Whether it asks inside TLS.
    pub tls: bool,
}

impl Default for HttpCheck {
    /// The vendor's defaults.
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

/// Where a load balancer sends connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One server.
    Server {
        /// Its id.
        id: u64,
        /// Whether it is reached through the network that both are in.
        use_private_ip: bool,
    },
    /// Every server whose labels match.
    LabelSelector {
        /// The selector's text.
        selector: String,
        /// Whether they are reached through the network that all are in.
        use_private_ip: bool,
    },
    /// A machine of the owner's outside the project.
    Ip(IpAddr),
}

impl Target {
    /// Whether both name the same target; how it is reached does not matter.
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
    /// The name. Uniqueness is not checked here, so that a trial can break it.
    pub name: String,
    /// The size.
    pub load_balancer_type: LoadBalancerType,
    /// The place.
    pub location: Location,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// How targets are chosen.
    pub algorithm: Algorithm,
    /// Whether the public addresses work.
    pub public_interface: bool,
    /// The ports. Limits are not checked here.
    pub services: Vec<Service>,
    /// The targets. Limits are not checked here.
    pub targets: Vec<Target>,
    /// Whether requests may delete it.
    pub delete_protected: bool,
    /// The name of the IPv4 address, when it is not the vendor's own.
    pub ipv4_dns_ptr: Option<String>,
    /// The name of the IPv6 address.
    pub ipv6_dns_ptr: Option<String>,
}

impl LoadBalancerSpec {
    /// The smallest one in Falkenstein, public, without services and targets.
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

/// A load balancer as the project holds it.
pub(super) struct LoadBalancer {
    pub(super) id: u64,
    pub(super) spec: LoadBalancerSpec,
    pub(super) created: Timestamp,
    /// Counts the load balancers of the simulator from 0; its addresses are made from it.
    pub(super) number: u32,
    /// The one network that it is in.
    pub(super) private_net: Option<PrivateNet>,
}

impl LoadBalancer {
    /// From the last quarter of RFC 2544's benchmarking range, which servers reach only in the fourth project.
    pub(super) fn public_ipv4(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 19, 192, 1)).wrapping_add(self.number))
    }

    /// From a part of RFC 3849's documentation range that servers never reach.
    pub(super) fn public_ipv6(&self) -> Ipv6Addr {
        let prefix = u128::from(Ipv6Addr::new(0x2001, 0xdb8, 0xfffe, 0, 0, 0, 0, 1));
        Ipv6Addr::from(prefix | u128::from(self.number) << 64)
    }

    /// The name that the vendor gives the IPv4 address.
    pub(super) fn ipv4_dns_ptr(&self) -> String {
        let own = || format!("static.{}.clients.simulated.example", self.public_ipv4());
        self.spec.ipv4_dns_ptr.clone().unwrap_or_else(own)
    }
}
