//! The state of one account.
//!
//! Knows no HTTP. Everything happens under one lock, during a request or an access through the handle, so that the same
//! requests in the same order always give the same state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::Options;
use super::certificates::Certificate;
use super::droplets::{Droplet, DropletSpec};
use super::load_balancers::LoadBalancer;
use crate::loopback::Clock;

/// The first droplet's id, with as many digits as the vendor's.
const FIRST_DROPLET: u64 = 3_164_444;

/// The state of an account.
pub(super) struct Account {
    pub(super) droplets: BTreeMap<u64, Droplet>,
    /// Load balancers in the order of creation.
    pub(super) load_balancers: Vec<LoadBalancer>,
    pub(super) certificates: Vec<Certificate>,
    /// Names of all tags. A tag stays when no object has it any more.
    pub(super) tags: BTreeSet<String>,
    pub(super) creation: Duration,
    pub(super) change: Duration,
    /// Whether a load balancer whose creation takes no time is already active in the response to its creation.
    pub(super) is_prompt: bool,
    /// The scheme of URLs in replies.
    pub(super) scheme: &'static str,
    clock: Clock,
    made: u32,
}

impl Account {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            droplets: BTreeMap::new(),
            load_balancers: Vec::new(),
            certificates: Vec::new(),
            tags: BTreeSet::new(),
            creation: options.creation,
            change: options.change,
            is_prompt: false,
            scheme: match options.tls {
                Some(_) => "https",
                None => "http",
            },
            clock: Arc::clone(&options.clock),
            made: 0,
        }
    }

    /// A number that no object of the account has yet.
    pub(super) fn number(&mut self) -> u32 {
        self.made = self.made.wrapping_add(1);
        self.made
    }

    /// A UUID that no object of the account has yet.
    pub(super) fn uuid(&mut self) -> String {
        format!("00000000-0000-4000-8000-{:012x}", self.number())
    }

    /// The clock's time in whole seconds, as the vendor shows it.
    pub(super) fn timestamp(&self) -> String {
        let now = Timestamp::try_from((self.clock)()).unwrap_or_default();
        now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    pub(super) fn add_droplet(&mut self, spec: DropletSpec) -> u64 {
        let number = self.number();
        let id = FIRST_DROPLET + u64::from(number);
        self.tags.extend(spec.tags.iter().cloned());
        let created = self.timestamp();
        self.droplets.insert(
            id,
            Droplet {
                id,
                number,
                created,
                spec,
            },
        );
        id
    }

    /// Removes a droplet, and its id from all load balancers.
    pub(super) fn remove_droplet(&mut self, id: u64) -> bool {
        for balancer in &mut self.load_balancers {
            balancer.droplets.remove(&id);
        }
        self.droplets.remove(&id).is_some()
    }

    /// Ends the creations and changes whose time is over.
    pub(super) fn settle(&mut self, now: Instant) {
        for balancer in &mut self.load_balancers {
            balancer.settle(now);
        }
    }
}
