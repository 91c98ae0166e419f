//! The servers and networks of a project, as plain data (load balancers have their own module).

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::Ipv4Net;
use jiff::Timestamp;

use super::locations::Location;
use super::server_types::ServerType;

/// Life-cycle state of a server, named as the vendor names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerStatus {
    /// Powered on.
    #[default]
    Running,
    /// Being created.
    Initializing,
    /// Being powered on.
    Starting,
    /// Being powered off.
    Stopping,
    /// Powered off.
    Off,
    /// Being deleted.
    Deleting,
    /// Being rebuilt from an image.
    Rebuilding,
    /// Being moved to another host.
    Migrating,
    /// Unknown to the vendor.
    Unknown,
}

impl ServerStatus {
    /// The name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Initializing => "initializing",
            Self::Starting => "starting",
            Self::Stopping => "stopping",
            Self::Off => "off",
            Self::Deleting => "deleting",
            Self::Rebuilding => "rebuilding",
            Self::Migrating => "migrating",
            Self::Unknown => "unknown",
        }
    }
}

/// A server to add. Start from [`ServerSpec::named`] and change what matters.
#[derive(Clone, Debug)]
pub struct ServerSpec {
    /// The name. Uniqueness is not checked here, so that a test can violate it.
    pub name: String,
    /// The server type, such as `cx23`.
    pub server_type: ServerType,
    /// The location of the server.
    pub location: Location,
    /// The status that clients see.
    pub status: ServerStatus,
    /// Labels by their keys.
    pub labels: BTreeMap<String, String>,
    /// Whether the server has a public IPv4 address.
    pub public_ipv4: bool,
    /// Whether the server has a public IPv6 network.
    pub public_ipv6: bool,
}

impl ServerSpec {
    /// A running server of the smallest type in Falkenstein with both public addresses.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            server_type: ServerType::default(),
            location: Location::default(),
            status: ServerStatus::default(),
            labels: BTreeMap::new(),
            public_ipv4: true,
            public_ipv6: true,
        }
    }
}

/// A server of the project.
pub(super) struct Server {
    pub(super) id: u64,
    pub(super) spec: ServerSpec,
    pub(super) created: Timestamp,
    /// Number of the server in the simulator, from 0; determines its addresses.
    pub(super) number: u32,
    pub(super) private_nets: Vec<PrivateNet>,
}

/// A member's attachment to one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PrivateNet {
    pub(super) network: u64,
    pub(super) ip: Ipv4Addr,
}

impl Server {
    /// From RFC 2544's benchmarking range, which is publicly unused and has room for 131 000 servers.
    pub(super) fn public_ipv4(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 1)).wrapping_add(self.number))
    }

    /// The first address of the server's /64, from RFC 3849's documentation range.
    pub(super) fn public_ipv6(&self) -> Ipv6Addr {
        let prefix = u128::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0));
        Ipv6Addr::from(prefix | (u128::from(self.number) + 1) << 64)
    }
}

/// A holder of an address in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member {
    Server(u64),
    LoadBalancer(u64),
}

/// A private network of the project.
pub(super) struct Network {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) created: Timestamp,
    pub(super) ip_range: Ipv4Net,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) subnets: Vec<Subnet>,
    pub(super) routes: Vec<Route>,
    /// Whether the routes are exposed to the machines behind a vSwitch.
    pub(super) exposes_routes: bool,
}

/// A part of a network that provides the addresses of one zone's servers and load balancers, or of dedicated servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subnet {
    pub(super) ip_range: Ipv4Net,
    pub(super) network_zone: String,
    /// The Robot vSwitch of its dedicated servers; such a subnet holds no cloud servers.
    pub(super) vswitch: Option<u64>,
}

impl Subnet {
    /// The gateway, always the first address at this vendor.
    pub(super) fn gateway(&self) -> Ipv4Addr {
        first_address(self.ip_range)
    }

    /// Whether a member may have this address: neither the gateway nor an end of the range.
    pub(super) fn holds_for_members(&self, ip: Ipv4Addr) -> bool {
        let ends = [self.ip_range.network(), self.ip_range.broadcast()];
        self.vswitch.is_none()
            && self.ip_range.contains(&ip)
            && ip != self.gateway()
            && !ends.contains(&ip)
    }

    /// Whether a dedicated server may have this address.
    pub(super) fn holds_behind_vswitch(&self, ip: Ipv4Addr) -> bool {
        self.vswitch.is_some() && self.ip_range.contains(&ip)
    }
}

/// Routes packets for `destination` to `gateway`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) destination: Ipv4Net,
    pub(super) gateway: Ipv4Addr,
}

/// The first address after the network address.
pub(super) fn first_address(range: Ipv4Net) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(range.network()).wrapping_add(1))
}
