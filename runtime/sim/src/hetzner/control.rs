//! Direct control of the project through the handle: change it without requests, inject faults, and read the records.
//!
//! None of this counts as a request, waits, or uses budget.

use std::net::Ipv4Addr;
use std::time::Duration;

use ipnet::Ipv4Net;
use serde_json::Value;
use tokio::time::Instant;

use super::exchange::Project;
use super::faults::Fault;
use super::locations::Location;
use super::objects::{Member, PrivateNet, ServerSpec, ServerStatus};
use super::{Hetzner, Request, attachments, networks, servers};

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
        self.state(|state| state.world.add_server(spec))
    }

    /// Adds many servers and returns their ids in the same order.
    pub fn add_servers(&self, specs: impl IntoIterator<Item = ServerSpec>) -> Vec<u64> {
        let specs = specs.into_iter();
        self.state(|state| specs.map(|spec| state.world.add_server(spec)).collect())
    }

    /// Removes a server at once, without an action. Returns whether it existed.
    pub fn remove_server(&self, id: u64) -> bool {
        self.state(|state| state.world.remove_server(id))
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
        self.state(|state| {
            let server = state.world.servers.get_mut(&id);
            server.map(|server| change(&mut server.spec)).is_some()
        })
    }

    /// Adds a network with one subnet that spans all of it, in the zone of a location. Returns its ID.
    pub fn add_network(&self, name: impl Into<String>, range: Ipv4Net, zone_of: Location) -> u64 {
        self.add_network_with_subnet(name, range, range, zone_of)
    }

    /// Removes a network and detaches its servers and load balancers. Returns whether it existed.
    pub fn remove_network(&self, id: u64) -> bool {
        self.state(|state| state.world.remove_network(id))
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
        self.state(|state| {
            let ip =
                attachments::place_in(&state.world, server, network, ip).map_err(|refusal| {
                    let why = refusal.to_string();
                    ControlError::Attach {
                        server,
                        network,
                        why,
                    }
                })?;
            let member = Member::Server(server);
            state.world.attach(member, PrivateNet { network, ip });
            Ok(ip)
        })
    }

    /// Detaches a server from a network at once. Returns whether it was attached.
    pub fn detach(&self, server: u64, network: u64) -> bool {
        self.state(|state| state.world.detach(Member::Server(server), network))
    }

    /// A server as clients see it.
    #[must_use]
    pub fn server(&self, id: u64) -> Option<Value> {
        self.state(|state| {
            let server = state.world.servers.get(&id)?;
            Some(servers::show(&state.world, server))
        })
    }

    /// The IDs of all servers, in ascending order.
    #[must_use]
    pub fn server_ids(&self) -> Vec<u64> {
        self.state(|state| state.world.servers.keys().copied().collect())
    }

    /// A network as clients see it.
    #[must_use]
    pub fn network(&self, id: u64) -> Option<Value> {
        self.state(|state| {
            let network = state.world.networks.get(&id)?;
            Some(networks::show(&state.world, network))
        })
    }

    /// Hides servers and load balancers from lists until they have this age, by the simulator's clock; reads by ID find
    /// them at once. Real clouds, too, show new objects to some readers later than to others.
    pub fn set_listing_delay(&self, delay: Duration) {
        self.state(|state| state.world.listing_delay = delay);
    }

    /// Changes the token that clients must send, as a rotation does.
    pub fn set_token(&self, token: impl Into<String>) {
        let token = token.into();
        self.state(|state| state.token = token);
    }

    /// Sets a second token that allows only reading.
    pub fn set_read_token(&self, token: impl Into<String>) {
        let token = token.into();
        self.state(|state| state.read_token = Some(token));
    }

    /// Adds a fault. It stays until it is used up or cleared.
    pub fn inject(&self, fault: Fault) {
        self.state(|state| state.faults.push(fault));
    }

    /// Removes all faults, used up or not.
    pub fn clear_faults(&self) {
        self.state(|state| state.faults.clear());
    }

    /// All requests recorded since they were last cleared, in the order of arrival. Only the newest 200 000 are kept.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.state(|state| state.journal.all())
    }

    /// The requests recorded after the one with this number, in the order of arrival; all of them after 0.
    #[must_use]
    pub fn requests_since(&self, sequence: u64) -> Vec<Request> {
        self.state(|state| state.journal.since(sequence))
    }

    /// Clears the recorded requests; their numbering continues.
    pub fn clear_requests(&self) {
        self.state(|state| state.journal.clear());
    }

    /// Number of connections accepted so far, for all projects.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.running.loopback.connections()
    }

    /// Accesses the state after ending the due actions.
    pub(super) fn state<T>(&self, look: impl FnOnce(&mut Project) -> T) -> T {
        let mut state = self.project.lock();
        state.world.settle(Instant::now());
        look(&mut state)
    }
}
