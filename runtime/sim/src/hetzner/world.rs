//! The state of one project: its servers, its networks and the actions that change them.
//!
//! It knows no HTTP. Everything happens under one lock and at the moment a request (or the owner of
//! the handle) looks, so that the same requests in the same order always give the same state.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use ipnet::Ipv4Net;
use jiff::Timestamp;
use tokio::time::Instant;

use super::actions::{Actions, Effect};
use super::objects::{Network, PrivateNet, Server, ServerSpec, Subnet};
use crate::loopback::Clock;

/// One project.
pub(super) struct World {
    pub(super) servers: BTreeMap<u64, Server>,
    pub(super) networks: BTreeMap<u64, Network>,
    pub(super) actions: Actions,
    /// Which server holds which address of which network; the servers know the same from their side.
    addresses: BTreeMap<(u64, Ipv4Addr), u64>,
    pub(super) action_duration: Duration,
    /// Younger servers are in no list.
    pub(super) listing_delay: Duration,
    clock: Clock,
    first_id: u64,
    first_number: u32,
    servers_made: u32,
    networks_made: u64,
}

impl World {
    pub(super) fn new(
        first_id: u64,
        first_number: u32,
        action_duration: Duration,
        clock: Clock,
    ) -> Self {
        Self {
            servers: BTreeMap::new(),
            networks: BTreeMap::new(),
            addresses: BTreeMap::new(),
            actions: Actions::new(first_id),
            action_duration,
            listing_delay: Duration::ZERO,
            clock,
            first_id,
            first_number,
            servers_made: 0,
            networks_made: 0,
        }
    }

    /// The given clock, in whole seconds as the vendor shows times.
    pub(super) fn timestamp(&self) -> Timestamp {
        in_whole_seconds(self.now())
    }

    fn now(&self) -> Timestamp {
        Timestamp::try_from((self.clock)()).unwrap_or_default()
    }

    /// Whether lists show the server yet.
    pub(super) fn lists(&self, server: &Server) -> bool {
        let age = self.now().duration_since(server.created);
        // Of a server from the future the age is negative, and it is listed like one that is just made.
        Duration::try_from(age).unwrap_or_default() >= self.listing_delay
    }

    /// Ends every action whose time has come and applies what it was for.
    pub(super) fn settle(&mut self, now: Instant) {
        let finished = self.timestamp();
        for effect in self.actions.end_due(now, finished) {
            self.apply(effect);
        }
    }

    pub(super) fn add_server(&mut self, spec: ServerSpec) -> u64 {
        let made = self.servers_made;
        self.servers_made = self.servers_made.wrapping_add(1);
        let id = self.first_id.saturating_add(u64::from(made));
        let server = Server {
            id,
            spec,
            created: self.now(),
            number: self.first_number.wrapping_add(made),
            private_nets: Vec::new(),
        };
        self.servers.insert(id, server);
        id
    }

    pub(super) fn add_network(
        &mut self,
        name: String,
        ip_range: Ipv4Net,
        labels: BTreeMap<String, String>,
        subnets: Vec<Subnet>,
    ) -> u64 {
        let id = self.first_id.saturating_add(self.networks_made);
        self.networks_made = self.networks_made.wrapping_add(1);
        let network = Network {
            id,
            name,
            created: self.timestamp(),
            ip_range,
            labels,
            subnets,
            routes: Vec::new(),
        };
        self.networks.insert(id, network);
        id
    }

    pub(super) fn remove_network(&mut self, id: u64) -> bool {
        for server in self.attached_to(id) {
            self.detach(server, id);
        }
        self.networks.remove(&id).is_some()
    }

    pub(super) fn remove_server(&mut self, id: u64) -> bool {
        let Some(server) = self.servers.remove(&id) else {
            return false;
        };
        for net in server.private_nets {
            self.addresses.remove(&(net.network, net.ip));
        }
        true
    }

    pub(super) fn attach(&mut self, server: u64, net: PrivateNet) {
        // Both may have gone while the action ran.
        if !self.networks.contains_key(&net.network) {
            return;
        }
        if let Some(attached) = self.servers.get_mut(&server) {
            attached.private_nets.push(net);
            self.addresses.insert((net.network, net.ip), server);
        }
    }

    /// Says whether the server was in the network.
    pub(super) fn detach(&mut self, server: u64, network: u64) -> bool {
        let Some(server) = self.servers.get_mut(&server) else {
            return false;
        };
        let nets = &mut server.private_nets;
        let Some(place) = nets.iter().position(|net| net.network == network) else {
            return false;
        };
        let net = nets.remove(place);
        self.addresses.remove(&(network, net.ip));
        true
    }

    /// The servers in a network, in the order of their addresses.
    pub(super) fn attached_to(&self, network: u64) -> Vec<u64> {
        let ends = (network, Ipv4Addr::UNSPECIFIED)..=(network, Ipv4Addr::BROADCAST);
        self.addresses
            .range(ends)
            .map(|(_, server)| *server)
            .collect()
    }

    /// An address for a server in a subnet of its zone: the one after the highest in use, or the
    /// lowest free one when there is none above.
    pub(super) fn free_address(&self, server: u64, network: u64) -> Option<Ipv4Addr> {
        let zone = self.servers.get(&server)?.spec.location.network_zone();
        let subnets = &self.networks.get(&network)?.subnets;
        let mut local = subnets.iter().filter(|subnet| subnet.network_zone == zone);
        local.find_map(|subnet| {
            let (low, high) = (subnet.ip_range.network(), subnet.ip_range.broadcast());
            let mut used = self.addresses.range((network, low)..=(network, high));
            let highest = used.next_back().map_or(low, |((_, ip), _)| *ip);
            let (low, middle, high) = (u32::from(low), u32::from(highest), u32::from(high));
            let mut candidates = (middle..=high).chain(low..middle).map(Ipv4Addr::from);
            candidates.find(|ip| subnet.holds_for_servers(*ip) && !self.is_taken(network, *ip))
        })
    }

    /// Whether a server holds the address, or will once a running action ends.
    pub(super) fn is_taken(&self, network: u64, ip: Ipv4Addr) -> bool {
        self.addresses.contains_key(&(network, ip))
            || self
                .actions
                .promised_addresses(network)
                .any(|promised| promised == ip)
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Nothing => {}
            Effect::SetStatus(server, status) => {
                if let Some(server) = self.servers.get_mut(&server) {
                    server.spec.status = status;
                }
            }
            Effect::Attach { server, net } => self.attach(server, net),
            Effect::Detach { server, network } => {
                // It may be gone already: the owner of the handle can be faster.
                self.detach(server, network);
            }
            Effect::AddRoute { network, route } => {
                if let Some(network) = self.networks.get_mut(&network) {
                    network.routes.push(route);
                }
            }
            Effect::DeleteRoute { network, route } => {
                if let Some(network) = self.networks.get_mut(&network) {
                    network.routes.retain(|kept| *kept != route);
                }
            }
            Effect::AddSubnet { network, subnet } => {
                if let Some(network) = self.networks.get_mut(&network) {
                    network.subnets.push(subnet);
                }
            }
        }
    }
}

/// Times as the vendor shows them.
pub(super) fn in_whole_seconds(exact: Timestamp) -> Timestamp {
    Timestamp::from_second(exact.as_second()).unwrap_or_default()
}
