//! Converts nodes to load balancer targets. Pure.
//!
//! Cloud servers are targets by id. Dedicated servers are targets by address, only with `ROBOT_ENABLED`: by the node's
//! InternalIP if private addresses are wanted, otherwise by the public address from Robot, because a node's own data
//! does not prove who has an address. Where Robot is not granted, only private addresses are targets. Nodes of other
//! clouds are left out and reported.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ccm_guest::event::listed;
use ccm_guest::load_balancer::Service;
use ccm_guest::values::Values;
use ccm_guest::{Address, AddressType, Error, Event, Node};

use super::annotations::{NODE_SELECTOR, USE_PRIVATE_IP};
use super::node_selector::NodeSelector;
use super::wanted::{Target, WantedTargets};
use crate::config::Settings;
use crate::provider_id::ProviderId;

#[cfg(test)]
mod tests;

impl WantedTargets {
    /// Reads only the targets: a mistake in another annotation must not keep a drained node behind a load balancer.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every mistake at once.
    pub fn read(
        settings: &Settings,
        service: &Service,
        nodes: &[Node],
    ) -> Result<WantedTargets, Error> {
        service.read(|annotations| WantedTargets::of(settings, service, nodes, annotations))
    }

    /// As [`WantedTargets::read`], with a shared annotation reader.
    pub fn of(
        settings: &Settings,
        service: &Service,
        nodes: &[Node],
        annotations: &mut Values<'_>,
    ) -> WantedTargets {
        let use_private_ip = use_private_ip(settings, annotations);
        let selector = selector(annotations);
        let mut wanted = WantedTargets::default();
        let (mut unknown, mut without_internal_ip) = (Vec::new(), Vec::new());
        let is_granted = settings.robot.granted().is_some();
        for node in nodes.iter().filter(|node| selector.matches(&node.labels)) {
            match ProviderId::parse(node.provider_id.as_deref().unwrap_or_default()) {
                ProviderId::Server(id) => {
                    let target = Target::Server { id, use_private_ip };
                    wanted.targets.insert(target, node.name.clone());
                }
                ProviderId::Robot(_) if !settings.robot.is_enabled() => {}
                ProviderId::Robot(number) => match internal_ip(node).filter(|_| use_private_ip) {
                    Some(ip) => {
                        wanted.targets.insert(Target::Ip(ip), node.name.clone());
                    }
                    None => {
                        if use_private_ip || !is_granted {
                            without_internal_ip.push(node.name.as_str());
                        }
                        if is_granted {
                            wanted.dedicated.insert(number, node.name.clone());
                        }
                    }
                },
                // One such node must not keep all others from becoming targets.
                ProviderId::Unreadable | ProviderId::Foreign => unknown.push(node.name.as_str()),
            }
        }
        let name = &service.name;
        if !unknown.is_empty() {
            let message = format!(
                "not behind the load balancer of service {name}, because their provider IDs are of no form known here: {}",
                listed(&unknown)
            );
            wanted
                .events
                .push(Event::warning("UnknownProviderIDPrefix", &message));
        }
        if !without_internal_ip.is_empty() {
            let (reason, consequence) = match (is_granted, use_private_ip) {
                (true, _) => (
                    "InternalIPNotConfigured",
                    "is to use private addresses, and these nodes have no InternalIP, so that their public ones are used",
                ),
                (false, true) => (
                    "InternalIPNotConfigured",
                    "does not reach these nodes: they have no InternalIP, and without ROBOT_USER and ROBOT_PASSWORD no other address of a dedicated server is known",
                ),
                (false, false) => (
                    "ServerNotFound",
                    "does not reach these nodes: without ROBOT_USER and ROBOT_PASSWORD only private addresses of dedicated servers are known, and load-balancer.hetzner.cloud/use-private-ip is not true",
                ),
            };
            let nodes = listed(&without_internal_ip);
            let message = format!("the load balancer of service {name} {consequence}: {nodes}");
            wanted.events.push(Event::warning(reason, &message));
        }
        wanted
    }

    /// Adds the dedicated servers as targets, by their addresses from Robot.
    pub fn resolve(&mut self, addresses: &BTreeMap<u64, IpAddr>) {
        let mut missing = Vec::new();
        for (number, node) in std::mem::take(&mut self.dedicated) {
            match addresses.get(&number) {
                Some(ip) => {
                    self.targets.insert(Target::Ip(*ip), node);
                }
                None => missing.push(format!("{node} (server {number})")),
            }
        }
        if !missing.is_empty() {
            let message = format!(
                "not behind the load balancer, because Robot knows no such server with an IPv4 address: {}",
                listed(&missing)
            );
            self.events.push(Event::warning("ServerNotFound", &message));
        }
    }
}

/// The event for nodes beyond a load balancer's maximum number of targets.
pub fn max_targets_reached(service: &Service, nodes: &[&str]) -> Event {
    let message = format!(
        "not behind the load balancer of service {}, because it has as many targets as its type allows: {}",
        service.name,
        listed(nodes)
    );
    Event::warning("MaxTargetsReached", &message)
}

fn use_private_ip(settings: &Settings, annotations: &mut Values<'_>) -> bool {
    let annotated = annotations.boolean(USE_PRIVATE_IP);
    let wanted = annotated.unwrap_or(settings.load_balancers.use_private_ip);
    if wanted && settings.network.is_none() {
        let key = match annotated {
            Some(_) => USE_PRIVATE_IP,
            None => "HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP",
        };
        annotations.mistake(format_args!(
            "{key}: private addresses need a network, and HCLOUD_NETWORK is not set"
        ));
    }
    wanted
}

fn selector(annotations: &mut Values<'_>) -> NodeSelector {
    let Some(text) = annotations.text(NODE_SELECTOR) else {
        return NodeSelector::default();
    };
    match NodeSelector::parse(text) {
        Ok(selector) => selector,
        Err(why) => {
            let what = format_args!("is not a label selector: {why}");
            annotations.wrong::<()>(NODE_SELECTOR, what);
            NodeSelector::default()
        }
    }
}

/// The first IPv4 InternalIP of the node's status, or else the first one: Hetzner's networks have IPv4 alone, and a load
/// balancer with an address that is in none of them is refused as a whole.
fn internal_ip(node: &Node) -> Option<IpAddr> {
    let is_internal = |one: &&Address| one.address_type == AddressType::InternalIp;
    let internal = node.addresses.iter().filter(is_internal);
    let ips: Vec<IpAddr> = internal
        .filter_map(|one| one.address.parse().ok())
        .collect();
    ips.iter().find(|ip| ip.is_ipv4()).or(ips.first()).copied()
}
