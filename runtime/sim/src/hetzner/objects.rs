//! What a project holds: servers and networks, as plain data (load balancers have a module of their own).

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
    /// The vendor does not know.
    Unknown,
}

impl ServerStatus {
    /// The word in the API.
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
    /// The name. Uniqueness is not checked here, so that a trial can break it.
    pub name: String,
    /// The size.
    pub server_type: ServerType,
    /// The place.
    pub location: Location,
    /// The state.
    pub status: ServerStatus,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// Whether the server gets a public IPv4 address.
    pub public_ipv4: bool,
    /// Whether the server gets a public IPv6 network.
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

/// A server as the project holds it.
pub(super) struct Server {
    pub(super) id: u64,
    pub(super) spec: ServerSpec,
    pub(super) created: Timestamp,
    /// Counts the servers of the simulator from 0; its addresses are made from it.
    pub(super) number: u32,
    pub(super) private_nets: Vec<PrivateNet>,
}

/// A server's place in one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PrivateNet {
    pub(super) network: u64,
    pub(super) ip: Ipv4Addr,
}

impl Server {
    /// From the benchmarking range of RFC 2544, which is nobody's and holds 131 000 servers.
    pub(super) fn public_ipv4(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 1)).wrapping_add(self.number))
    }

    /// The first address of the server's /64, from the documentation range of RFC 3849.
    pub(super) fn public_ipv6(&self) -> Ipv6Addr {
        let prefix = u128::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0));
        Ipv6Addr::from(prefix | (u128::from(self.number) + 1) << 64)
    }
}

/// What has an address in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member {
    Server(u64),
    LoadBalancer(u64),
}

/// A private network as the project holds it.
pub(super) struct Network {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) created: Timestamp,
    pub(super) ip_range: Ipv4Net,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) subnets: Vec<Subnet>,
    pub(super) routes: Vec<Route>,
    /// Whether the machines behind a vSwitch are told of the routes.
    pub(super) exposes_routes: bool,
}

/// A part of a network in which servers and load balancers of one zone get their addresses, or dedicated servers theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subnet {
    pub(super) ip_range: Ipv4Net,
    pub(super) network_zone: String,
    /// The vSwitch of Robot whose servers are in it, and nothing of the cloud's.
    pub(super) vswitch: Option<u64>,
}

impl Subnet {
    /// The vendor's gateway is always the first address.
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

    /// Whether the address is that of a dedicated server, or may be.
    pub(super) fn holds_behind_vswitch(&self, ip: Ipv4Addr) -> bool {
        self.vswitch.is_some() && self.ip_range.contains(&ip)
    }
}

/// Packets for `destination` go to `gateway`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) destination: Ipv4Net,
    pub(super) gateway: Ipv4Addr,
}

/// The first address after the one that names the range.
pub(super) fn first_address(range: Ipv4Net) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(range.network()).wrapping_add(1))
}
