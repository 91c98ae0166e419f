//! Direct control of the account through the handle: change it without requests, inject faults, and read the records.
//!
//! None of this counts as a request, waits, or uses budget.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::exchange::Access;
use super::{DigitalOcean, DropletSpec, Fault, Request, certificates, load_balancers, places};

impl DigitalOcean {
    /// Adds a droplet and returns its id.
    pub fn add_droplet(&self, spec: DropletSpec) -> u64 {
        self.state(|state| state.account.add_droplet(spec))
    }

    /// Removes a droplet at once. Returns whether it existed.
    pub fn remove_droplet(&self, id: u64) -> bool {
        self.state(|state| state.account.remove_droplet(id))
    }

    /// Adds a certificate with this name, of the vendor's type `custom` or `lets_encrypt`, and returns its id.
    pub fn add_certificate(&self, name: impl Into<String>, kind: &'static str) -> String {
        let name = name.into();
        self.state(|state| certificates::add(&mut state.account, name, kind))
    }

    /// The id of a region's default VPC.
    #[must_use]
    pub fn vpc(&self, region: &str) -> Option<String> {
        places::default_vpc(region)
    }

    /// Adds a load balancer as a request with this body would, and returns its id. It is active.
    ///
    /// # Errors
    ///
    /// The message with which the API would refuse it.
    pub fn add_load_balancer(&self, body: Value) -> Result<String, String> {
        self.state(|state| load_balancers::add(&mut state.account, body))
    }

    /// All load balancers as clients see them, in the order of creation.
    #[must_use]
    pub fn load_balancers(&self) -> Vec<Value> {
        self.state(|state| {
            let account = &state.account;
            let all = account.load_balancers.iter();
            all.map(|one| load_balancers::show(account, one)).collect()
        })
    }

    /// The names of all tags, also of those that no object has.
    #[must_use]
    pub fn tags(&self) -> BTreeSet<String> {
        self.state(|state| state.account.tags.clone())
    }

    /// Sets how long a load balancer is `new`, and how long it refuses changes after a change.
    pub fn set_durations(&self, creation: Duration, change: Duration) {
        self.state(|state| {
            state.account.creation = creation;
            state.account.change = change;
        });
    }

    /// Sets whether a load balancer whose creation takes no time is already active in the response to its creation; by
    /// default it is new.
    pub fn set_prompt_creation(&self, is_prompt: bool) {
        self.state(|state| state.account.is_prompt = is_prompt);
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

    /// Clears the recorded requests; their numbering continues.
    pub fn clear_requests(&self) {
        self.state(|state| state.journal.clear());
    }

    /// Accesses the state after ending the work whose time is over.
    fn state<T>(&self, look: impl FnOnce(&mut Access) -> T) -> T {
        let mut state = self.access.lock();
        state.account.settle(Instant::now());
        look(&mut state)
    }
}
