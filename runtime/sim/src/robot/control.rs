//! Direct control of the account through the handle: read it, and change it without requests.
//!
//! None of this counts as a request, waits, or is limited.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::Method;
use parking_lot::MutexGuard;
use serde_json::Value;

use super::exchange::State;
use super::login::basic;
use super::resets::{OperatingStatus, ResetType};
use super::servers::{self, ServerSpec};
use super::{Request, Robot};

impl Robot {
    /// Adds a server and returns its number.
    pub fn add_server(&self, spec: ServerSpec) -> u32 {
        self.state().account.add(spec)
    }

    /// Removes a server. Returns whether it existed.
    pub fn remove_server(&self, number: u32) -> bool {
        let mut state = self.state();
        state.account.servers.remove(&number).is_some()
    }

    /// Renames a server. Returns whether the server exists.
    pub fn rename(&self, number: u32, name: impl Into<String>) -> bool {
        let name = name.into();
        self.change_server(number, |spec| spec.name = name)
    }

    /// Powers a server on or off. Returns whether the server exists.
    pub fn set_operating_status(&self, number: u32, status: OperatingStatus) -> bool {
        self.change_server(number, |spec| spec.operating_status = status)
    }

    /// Changes any property of a server except its addresses. Returns whether the server exists.
    pub fn change_server(&self, number: u32, change: impl FnOnce(&mut ServerSpec)) -> bool {
        let mut state = self.state();
        let server = state.account.servers.get_mut(&number);
        server.map(|server| change(&mut server.spec)).is_some()
    }

    /// Changes a server's addresses: its main IPv4 address, and the first one of its IPv6 network. Returns whether the
    /// server exists.
    pub fn set_addresses(
        &self,
        number: u32,
        ipv4: Option<Ipv4Addr>,
        ipv6_net: Option<Ipv6Addr>,
    ) -> bool {
        let mut state = self.state();
        let server = state.account.servers.get_mut(&number);
        server
            .map(|server| (server.ipv4, server.ipv6_net) = (ipv4, ipv6_net))
            .is_some()
    }

    /// A server as clients see it.
    #[must_use]
    pub fn server(&self, number: u32) -> Option<Value> {
        let state = self.state();
        state.account.servers.get(&number).map(servers::detail)
    }

    /// The resets of a server executed for clients, oldest first.
    #[must_use]
    pub fn resets(&self, number: u32) -> Vec<ResetType> {
        let state = self.state();
        let server = state.account.servers.get(&number);
        server
            .map(|server| server.resets.clone())
            .unwrap_or_default()
    }

    /// Changes the login that clients must use, as a rotation does.
    pub fn set_login(&self, user: &str, password: &str) {
        self.set_credential(basic(user, password));
    }

    /// Number of recorded requests with this method and path.
    #[must_use]
    pub fn count(&self, method: &Method, path: &str) -> usize {
        let fits = |request: &&Request| request.method == *method && request.path == path;
        self.requests().iter().filter(fits).count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.account.state.lock()
    }
}
