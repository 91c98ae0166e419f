//! Direct control of the account through the handle: change it without requests, inject faults, and read the records.
//!
//! None of this counts as a request, waits, or is limited.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::Method;
use serde_json::Value;

use super::faults::Fault;
use super::resets::{OperatingStatus, ResetType};
use super::servers::{self, ServerSpec};
use super::{Request, Robot};

impl Robot {
    /// Adds a server and returns its number.
    pub fn add_server(&self, spec: ServerSpec) -> u32 {
        self.shared.lock().account.add(spec)
    }

    /// Removes a server. Returns whether it existed.
    pub fn remove_server(&self, number: u32) -> bool {
        let mut state = self.shared.lock();
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
        let mut state = self.shared.lock();
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
        let mut state = self.shared.lock();
        let server = state.account.servers.get_mut(&number);
        server
            .map(|server| (server.ipv4, server.ipv6_net) = (ipv4, ipv6_net))
            .is_some()
    }

    /// A server as clients see it.
    #[must_use]
    pub fn server(&self, number: u32) -> Option<Value> {
        let state = self.shared.lock();
        state.account.servers.get(&number).map(servers::detail)
    }

    /// The resets of a server executed for clients, oldest first.
    #[must_use]
    pub fn resets(&self, number: u32) -> Vec<ResetType> {
        let state = self.shared.lock();
        let server = state.account.servers.get(&number);
        server
            .map(|server| server.resets.clone())
            .unwrap_or_default()
    }

    /// Changes the login that clients must use, as a rotation does.
    pub fn set_login(&self, user: &str, password: &str) {
        self.shared.lock().login.change(user, password);
    }

    /// Adds a fault. It stays until it is used up or cleared.
    pub fn inject(&self, fault: Fault) {
        self.shared.lock().faults.push(fault);
    }

    /// Removes all faults, used up or not.
    pub fn clear_faults(&self) {
        self.shared.lock().faults.clear();
    }

    /// All requests recorded since they were last cleared, in the order of arrival. Only the newest 200 000 are kept.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().journal.all()
    }

    /// Number of recorded requests with this method and path.
    #[must_use]
    pub fn count(&self, method: &Method, path: &str) -> usize {
        let fits = |request: &&Request| request.method == *method && request.path == path;
        self.requests().iter().filter(fits).count()
    }

    /// Clears the recorded requests; their numbering continues.
    pub fn clear_requests(&self) {
        self.shared.lock().journal.clear();
    }

    /// Number of connections accepted so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.loopback.connections()
    }
}
