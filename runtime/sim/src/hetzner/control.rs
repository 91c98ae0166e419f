//! Direct control of the project through the handle: read it, and change it without requests.
//!
//! None of this counts as a request, waits, or uses budget.

use std::net::Ipv4Addr;
use std::time::Duration;

use ipnet::Ipv4Net;
use serde_json::Value;
use tokio::time::Instant;

use super::locations::Location;
use super::objects::{Member, PrivateNet, ServerSpec, ServerStatus};
use super::world::World;
use super::{Hetzner, attachments, networks, servers};
use crate::loopback::bearer;

/// Why a control operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The server or the network does not exist, the server is already in the network, or no address is free.
    #[error("cannot attach server {server} to network {network}: {why}")]
    Attach {
        /// The id of the server.
        server: u64,
        /// The id of the network.
        network: u64,
        /// The error message that a client would get.
        why: String,
    },
}

impl Hetzner {
    /// Adds a server and returns its id.
    pub fn add_server(&self, spec: ServerSpec) -> u64 {
        self.world(|world| world.add_server(spec))
    }

    /// Adds many servers and returns their ids in the same order.
    pub fn add_servers(&self, specs: impl IntoIterator<Item = ServerSpec>) -> Vec<u64> {
        let specs = specs.into_iter();
        self.world(|world| specs.map(|spec| world.add_server(spec)).collect())
    }

    /// Removes a server at once, without an action. Returns whether it existed.
    pub fn remove_server(&self, id: u64) -> bool {
        self.world(|world| world.remove_server(id))
    }

    /// Sets a server's status. Returns whether the server exists.
    pub fn set_status(&self, id: u64, status: ServerStatus) -> bool {
        self.change_server(id, |spec| spec.status = status)
    }

    /// Renames a server. Returns whether the server exists.
    pub fn rename(&self, id: u64, name: impl Into<String>) -> bool {
        let name = name.into();
        self.change_server(id, |spec| spec.name = name)
    }

    /// Changes any property of a server. Returns whether the server exists.
    pub fn change_server(&self, id: u64, change: impl FnOnce(&mut ServerSpec)) -> bool {
        self.world(|world| {
            let server = world.servers.get_mut(&id);
            server.map(|server| change(&mut server.spec)).is_some()
        })
    }

    /// Adds a network with one subnet that spans all of it, in the zone of a location. Returns its ID.
    pub fn add_network(&self, name: impl Into<String>, range: Ipv4Net, zone_of: Location) -> u64 {
        self.add_network_with_subnet(name, range, range, zone_of)
    }

    /// Removes a network and detaches its servers and load balancers. Returns whether it existed.
    pub fn remove_network(&self, id: u64) -> bool {
        self.world(|world| world.remove_network(id))
    }

    /// Attaches a server to a network at once, with the given address or the lowest free one, and returns the address.
    ///
    /// # Errors
    ///
    /// The reason for which the API would refuse it, too.
    pub fn attach(
        &self,
        server: u64,
        network: u64,
        ip: Option<Ipv4Addr>,
    ) -> Result<Ipv4Addr, ControlError> {
        self.world(|world| {
            let ip = attachments::place_in(world, server, network, ip).map_err(|refusal| {
                let why = refusal.to_string();
                ControlError::Attach {
                    server,
                    network,
                    why,
                }
            })?;
            let member = Member::Server(server);
            world.attach(member, PrivateNet { network, ip });
            Ok(ip)
        })
    }

    /// Detaches a server from a network at once. Returns whether it was attached.
    pub fn detach(&self, server: u64, network: u64) -> bool {
        self.world(|world| world.detach(Member::Server(server), network))
    }

    /// A server as clients see it.
    #[must_use]
    pub fn server(&self, id: u64) -> Option<Value> {
        self.world(|world| {
            let server = world.servers.get(&id)?;
            Some(servers::show(world, server))
        })
    }

    /// The IDs of all servers, in ascending order.
    #[must_use]
    pub fn server_ids(&self) -> Vec<u64> {
        self.world(|world| world.servers.keys().copied().collect())
    }

    /// A network as clients see it.
    #[must_use]
    pub fn network(&self, id: u64) -> Option<Value> {
        self.world(|world| {
            let network = world.networks.get(&id)?;
            Some(networks::show(world, network))
        })
    }

    /// Hides servers and load balancers from lists until they have this age, by the simulator's clock; reads by ID find
    /// them at once. Real clouds, too, show new objects to some readers later than to others.
    pub fn set_listing_delay(&self, delay: Duration) {
        self.world(|world| world.listing_delay = delay);
    }

    /// Changes the token that clients must send, as a rotation does.
    pub fn set_token(&self, token: &str) {
        self.set_credential(bearer(token));
    }

    /// Sets a second token that allows only reading.
    pub fn set_read_token(&self, token: &str) {
        self.set_read_credential(bearer(token));
    }

    /// Accesses the state after ending the due actions.
    pub(super) fn world<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.project.state.lock();
        world.settle(Instant::now());
        look(&mut world)
    }
}
