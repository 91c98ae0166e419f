//! Lists this cluster's routes on the network and their targets.
//!
//! # Guarantees
//! - One request, as long as every route leads to an InternalIP of the node with that pod CIDR. Only then is the
//!   node's own address trusted without querying its owner: whoever controls a machine can write any address to its
//!   Node, and must not be able to have other nodes' routes deleted.
//! - Missing information about one route is an error of the whole list.

use std::net::Ipv4Addr;

use ccm_guest::routes::{Route, Target};
use ccm_guest::{Error, Node};
use ipnet::Ipv4Net;

use super::gateway::{Layout, internal_ips, wants};
use super::members::{Member, Members};
use crate::address_range;
use crate::api::networks;
use crate::config::RouteSettings;
use crate::provider_id::ProviderId;

#[cfg(test)]
mod tests;

/// See [`ccm_guest::Routes::list`].
///
/// # Errors
/// See [`ccm_guest::Routes::list`].
pub fn list(settings: &RouteSettings, nodes: &[Node]) -> Result<Vec<Route>, Error> {
    let (layout, network) = Layout::ask(settings)?;
    let mut routes = Vec::new();
    for route in &network.routes {
        let read = Read::of(route)?;
        if settings.is_ours(read.destination) {
            routes.push((route, read));
        }
    }
    let at_once = |read: Read| {
        read.node_that_wants_it(nodes).is_none() && layout.place(read.gateway).is_none()
    };
    let members = match routes.iter().any(|(_, read)| at_once(*read)) {
        true => Some(Members::ask(&network)?),
        false => None,
    };
    let routes = routes.into_iter().map(|(route, read)| Route {
        id: Id::of(layout.id, route).to_string(),
        destination_cidr: read.destination.to_string(),
        target: read.target(&layout, members.as_ref(), nodes),
        extra: Vec::new(),
    });
    Ok(routes.collect())
}

/// A parsed route of the API.
#[derive(Debug, Clone, Copy)]
struct Read {
    destination: Ipv4Net,
    gateway: Ipv4Addr,
}

impl Read {
    fn of(route: &networks::Route) -> Result<Read, Error> {
        let networks::Route {
            destination,
            gateway,
        } = route;
        match (address_range::read(destination), gateway.parse()) {
            (Some(destination), Ok(gateway)) => Ok(Read {
                destination,
                gateway,
            }),
            _ => Err(Error::unavailable(format!(
                "the route to {destination:?} through {gateway:?} cannot be read"
            ))),
        }
    }

    /// The node that has the gateway address and the destination as pod CIDR.
    fn node_that_wants_it(self, nodes: &[Node]) -> Option<&Node> {
        nodes.iter().find(|node| {
            wants(node, self.destination) && internal_ips(node).any(|one| one == self.gateway)
        })
    }

    fn target(self, layout: &Layout, members: Option<&Members>, nodes: &[Node]) -> Target {
        if let Some(node) = self.node_that_wants_it(nodes) {
            return Target::Node(node.name.clone());
        }
        if let Some(place) = layout.place(self.gateway) {
            return Target::Other(format!("{} ({place})", self.gateway));
        }
        match members.and_then(|members| members.at(self.gateway)) {
            Some(Member::Server(id, name)) => match node_on(*id, name, nodes) {
                Some(node) => Target::Node(node.name.clone()),
                None => Target::Other(format!("server {name} ({id})")),
            },
            Some(Member::LoadBalancer(id, name)) => {
                Target::Other(format!("load balancer {name} ({id})"))
            }
            None => match self.only_node_to_replace_it(layout, nodes) {
                Some(node) => Target::Outdated(node.name.clone()),
                None => Target::Blackhole,
            },
        }
    }

    /// The only node with this pod CIDR, if it has a valid gateway: the route was made for it and would be created
    /// again.
    fn only_node_to_replace_it<'a>(self, layout: &Layout, nodes: &'a [Node]) -> Option<&'a Node> {
        let mut wanting = nodes.iter().filter(|node| wants(node, self.destination));
        let node = wanting.next().filter(|node| layout.gateway(node).is_ok())?;
        wanting.next().is_none().then_some(node)
    }
}

/// The node on the server with this id; the name counts only for a node without provider ID.
fn node_on<'a>(id: u64, name: &str, nodes: &'a [Node]) -> Option<&'a Node> {
    nodes.iter().find(
        |node| match node.provider_id.as_deref().filter(|text| !text.is_empty()) {
            Some(text) => ProviderId::parse(text) == ProviderId::Server(id),
            None => node.name == name,
        },
    )
}

/// A route's ID: everything needed to delete it, in the API's spelling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Id {
    /// The id of the network.
    pub network: u64,
    /// The next hop in the API's spelling.
    pub gateway: String,
    /// The address range in the API's spelling.
    pub destination: String,
}

impl Id {
    fn of(network: u64, route: &networks::Route) -> Id {
        Id {
            network,
            gateway: route.gateway.clone(),
            destination: route.destination.clone(),
        }
    }

    /// Parses an ID made by [`list`].
    pub fn read(text: &str) -> Option<Id> {
        let (network, rest) = text.split_once('-')?;
        let (gateway, destination) = rest.split_once('-')?;
        let _: Ipv4Addr = gateway.parse().ok()?;
        address_range::read(destination)?;
        Some(Id {
            network: network.parse().ok()?,
            gateway: gateway.to_owned(),
            destination: destination.to_owned(),
        })
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}-{}", self.network, self.gateway, self.destination)
    }
}
