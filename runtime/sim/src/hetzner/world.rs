//! The state of one project: its servers, networks and the actions that change them. Load balancers and certificates
//! have their own modules.
//!
//! Knows no HTTP. Everything happens under one lock, during a request or an access through the handle, so that the same
//! requests in the same order always give the same state.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::Ipv4Net;
use jiff::Timestamp;
use tokio::time::Instant;

use super::Options;
use super::actions::{Actions, Effect};
use super::certificates::Certificate;
use super::load_balancer_objects::LoadBalancer;
use super::load_balancer_state::LoadBalancerRules;
use super::objects::{Member, Network, PrivateNet, Server, ServerSpec, Subnet};
use crate::loopback::Clock;

/// Distance between the IDs and addresses of two projects.
const PROJECT_SIZE: u32 = 32_768;

/// The state of one project.
pub(super) struct World {
    pub(super) servers: BTreeMap<u64, Server>,
    pub(super) networks: BTreeMap<u64, Network>,
    pub(super) load_balancers: BTreeMap<u64, LoadBalancer>,
    pub(super) certificates: BTreeMap<u64, Certificate>,
    pub(super) actions: Actions,
    pub(super) load_balancer_rules: LoadBalancerRules,
    /// The holder of each address in each network; the members store the same relation.
    addresses: BTreeMap<(u64, Ipv4Addr), Member>,
    pub(super) action_duration: Duration,
    /// Whether an action without duration has already ended in its first response.
    pub(super) prompt_actions: bool,
    /// The age from which lists show servers and load balancers.
    pub(super) listing_delay: Duration,
    clock: Clock,
    pub(super) first_id: u64,
    pub(super) first_number: u32,
    servers_made: u32,
    networks_made: u64,
    pub(super) load_balancers_made: u32,
    pub(super) certificates_made: u64,
}

impl World {
    /// The state of the project with this number, from 0.
    pub(super) fn new(number: u32, options: &Options) -> Self {
        let first_number = number.saturating_mul(PROJECT_SIZE);
        let first_id = options.first_id.saturating_add(first_number.into());
        Self {
            servers: BTreeMap::new(),
            networks: BTreeMap::new(),
            load_balancers: BTreeMap::new(),
            certificates: BTreeMap::new(),
            load_balancer_rules: LoadBalancerRules::default(),
            addresses: BTreeMap::new(),
            actions: Actions::new(first_id),
            action_duration: options.action_duration,
            prompt_actions: false,
            listing_delay: Duration::ZERO,
            clock: Arc::clone(&options.clock),
            first_id,
            first_number,
            servers_made: 0,
            networks_made: 0,
            load_balancers_made: 0,
            certificates_made: 0,
        }
    }

    /// The clock's time in whole seconds, as the vendor shows it.
    pub(super) fn timestamp(&self) -> Timestamp {
        in_whole_seconds(self.now())
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::try_from((self.clock)()).unwrap_or_default()
    }

    /// Whether lists already show an object with this creation time.
    pub(super) fn lists(&self, created: Timestamp) -> bool {
        let age = self.now().duration_since(created);
        // The age of an object from the future is negative; it is listed like one just created.
        Duration::try_from(age).unwrap_or_default() >= self.listing_delay
    }

    /// Ends every due action and applies its effect.
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
            exposes_routes: false,
        };
        self.networks.insert(id, network);
        id
    }

    pub(super) fn remove_network(&mut self, id: u64) -> bool {
        for member in self.members_of(id) {
            self.detach(member, id);
        }
        self.networks.remove(&id).is_some()
    }

    pub(super) fn remove_server(&mut self, id: u64) -> bool {
        let Some(server) = self.servers.remove(&id) else {
            return false;
        };
        for net in server.private_nets {
            self.release(net);
        }
        self.forget_target(id);
        true
    }

    pub(super) fn attach(&mut self, member: Member, net: PrivateNet) {
        // Both may have been deleted while the action ran.
        if !self.networks.contains_key(&net.network) {
            return;
        }
        let is_there = match member {
            Member::Server(id) => self.servers.get_mut(&id).map(|server| {
                server.private_nets.push(net);
            }),
            Member::LoadBalancer(id) => self.load_balancers.get_mut(&id).map(|balancer| {
                balancer.private_net = Some(net);
            }),
        };
        if is_there.is_some() {
            self.addresses.insert((net.network, net.ip), member);
        }
    }

    /// Releases the address of an attachment.
    pub(super) fn release(&mut self, net: PrivateNet) {
        self.addresses.remove(&(net.network, net.ip));
    }

    /// Detaches a member; returns whether it was in the network.
    pub(super) fn detach(&mut self, member: Member, network: u64) -> bool {
        let net = match member {
            Member::Server(id) => self.servers.get_mut(&id).and_then(|server| {
                let nets = &mut server.private_nets;
                let place = nets.iter().position(|net| net.network == network)?;
                Some(nets.remove(place))
            }),
            Member::LoadBalancer(id) => self.leave_network(id, network),
        };
        net.inspect(|net| self.release(*net)).is_some()
    }

    /// The members of a network, ordered by address.
    pub(super) fn members_of(&self, network: u64) -> Vec<Member> {
        let ends = (network, Ipv4Addr::UNSPECIFIED)..=(network, Ipv4Addr::BROADCAST);
        self.addresses
            .range(ends)
            .map(|(_, member)| *member)
            .collect()
    }

    /// A free address in a subnet of the zone (in the given range, if any): the one after the highest in use, or the
    /// lowest free one if there is none above.
    pub(super) fn free_address(
        &self,
        zone: &str,
        network: u64,
        range: Option<Ipv4Net>,
    ) -> Option<Ipv4Addr> {
        let subnets = &self.networks.get(&network)?.subnets;
        let mut local = subnets.iter().filter(|subnet| {
            let wanted = range.is_none_or(|range| subnet.ip_range == range);
            subnet.network_zone == zone && subnet.vswitch.is_none() && wanted
        });
        local.find_map(|subnet| {
            let (low, high) = (subnet.ip_range.network(), subnet.ip_range.broadcast());
            let mut used = self.addresses.range((network, low)..=(network, high));
            let highest = used.next_back().map_or(low, |((_, ip), _)| *ip);
            let (low, middle, high) = (u32::from(low), u32::from(highest), u32::from(high));
            let mut candidates = (middle..=high).chain(low..middle).map(Ipv4Addr::from);
            candidates.find(|ip| subnet.holds_for_members(*ip) && !self.is_taken(network, *ip))
        })
    }

    /// Whether a member holds the address, or will when a running action ends.
    pub(super) fn is_taken(&self, network: u64, ip: Ipv4Addr) -> bool {
        self.addresses.contains_key(&(network, ip))
            || self
                .actions
                .reserved_addresses(network)
                .any(|reserved| reserved == ip)
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Nothing => {}
            Effect::SetStatus(server, status) => {
                if let Some(server) = self.servers.get_mut(&server) {
                    server.spec.status = status;
                }
            }
            Effect::Attach { member, net } => self.attach(member, net),
            Effect::Detach { member, network } => {
                // The attachment may be removed already through the handle.
                self.detach(member, network);
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
            Effect::LoadBalancer(id, change) => self.change_load_balancer(id, change),
            Effect::Issue(id, result) => self.issue(id, result),
        }
    }
}

/// Truncates a time to whole seconds, as the vendor shows it.
pub(super) fn in_whole_seconds(exact: Timestamp) -> Timestamp {
    Timestamp::from_second(exact.as_second()).unwrap_or_default()
}
