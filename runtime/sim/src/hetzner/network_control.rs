//! Direct control of networks through the handle: add them, and change their subnets and routes without requests.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::Hetzner;
use super::locations::Location;
use super::objects::{Network, Route, Subnet};

impl Hetzner {
    /// Adds a network with one subnet, in the zone of a location, that need not span all of it. Returns its ID.
    pub fn add_network_with_subnet(
        &self,
        name: impl Into<String>,
        range: Ipv4Net,
        subnet: Ipv4Net,
        zone_of: Location,
    ) -> u64 {
        let subnet = Subnet {
            ip_range: subnet.trunc(),
            network_zone: zone_of.network_zone().to_owned(),
            vswitch: None,
        };
        let name = name.into();
        self.world(|world| {
            let labels = Default::default();
            world.add_network(name, range.trunc(), labels, vec![subnet])
        })
    }

    /// Adds a subnet for the dedicated servers of a vSwitch. Returns whether the network exists.
    pub fn add_vswitch_subnet(&self, network: u64, range: Ipv4Net, vswitch: u64) -> bool {
        let subnet = Subnet {
            ip_range: range.trunc(),
            network_zone: Location::Fsn1.network_zone().to_owned(),
            vswitch: Some(vswitch),
        };
        self.change_network(network, |network| network.subnets.push(subnet))
    }

    /// Adds any route at once, even one that the API would refuse. Returns whether the network exists.
    pub fn add_route(&self, network: u64, destination: Ipv4Net, gateway: Ipv4Addr) -> bool {
        let route = Route {
            destination,
            gateway,
        };
        self.change_network(network, |network| network.routes.push(route))
    }

    /// Removes the routes to a destination at once. Returns whether any existed.
    pub fn remove_route(&self, network: u64, destination: Ipv4Net) -> bool {
        let mut was_there = false;
        self.change_network(network, |network| {
            let before = network.routes.len();
            network
                .routes
                .retain(|route| route.destination != destination);
            was_there = network.routes.len() < before;
        });
        was_there
    }

    /// The routes of a network as pairs of destination and gateway, in the order of their addition.
    #[must_use]
    pub fn routes(&self, network: u64) -> Vec<(Ipv4Net, Ipv4Addr)> {
        self.world(|world| {
            let network = world.networks.get(&network);
            let routes = network.into_iter().flat_map(|network| &network.routes);
            routes
                .map(|route| (route.destination, route.gateway))
                .collect()
        })
    }

    fn change_network(&self, id: u64, change: impl FnOnce(&mut Network)) -> bool {
        self.world(|world| world.networks.get_mut(&id).map(change).is_some())
    }
}
