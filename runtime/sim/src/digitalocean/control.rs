//! Direct control of the account through the handle: read it, and change it without requests.
//!
//! None of this counts as a request, waits, or uses budget.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::account::Account;
use super::{DigitalOcean, DropletSpec, certificates, load_balancers, places};

impl DigitalOcean {
    /// Adds a droplet and returns its id.
    pub fn add_droplet(&self, spec: DropletSpec) -> u64 {
        self.account(|account| account.add_droplet(spec))
    }

    /// Removes a droplet at once. Returns whether it existed.
    pub fn remove_droplet(&self, id: u64) -> bool {
        self.account(|account| account.remove_droplet(id))
    }

    /// Adds a certificate with this name, of the vendor's type `custom` or `lets_encrypt`, and returns its id.
    pub fn add_certificate(&self, name: impl Into<String>, kind: &'static str) -> String {
        let name = name.into();
        self.account(|account| certificates::add(account, name, kind))
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
        self.account(|account| load_balancers::add(account, body))
    }

    /// All load balancers as clients see them, in the order of creation.
    #[must_use]
    pub fn load_balancers(&self) -> Vec<Value> {
        self.account(|account| {
            let all = account.load_balancers.iter();
            all.map(|one| load_balancers::show(account, one)).collect()
        })
    }

    /// The names of all tags, also of those that no object has.
    #[must_use]
    pub fn tags(&self) -> BTreeSet<String> {
        self.account(|account| account.tags.clone())
    }

    /// Sets how long a load balancer is `new`, and how long it refuses changes after a change.
    pub fn set_durations(&self, creation: Duration, change: Duration) {
        self.account(|account| {
            account.creation = creation;
            account.change = change;
        });
    }

    /// Sets whether a load balancer whose creation takes no time is already active in the response to its creation; by
    /// default it is new.
    pub fn set_prompt_creation(&self, is_prompt: bool) {
        self.account(|account| account.is_prompt = is_prompt);
    }

    /// Accesses the state after ending the work whose time is over.
    fn account<T>(&self, look: impl FnOnce(&mut Account) -> T) -> T {
        let mut account = self.account.state.lock();
        account.settle(Instant::now());
        look(&mut account)
    }
}
