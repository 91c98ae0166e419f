//! What the last calls about a load balancer found or made. It saves requests; without it each call reaches the same
//! result.
//!
//! A Service that wants the same as a moment ago costs one read of its load balancer. A Service that wants something else
//! costs the changes alone, unless it wants other security groups; of a classic load balancer also one read, which shows
//! all but attributes and rules. A change of nodes needs no search for target groups. Changes that others make at AWS
//! meanwhile are noticed by the hourly read, which compares everything, or when AWS refuses a change: every call forgets
//! the entry before it changes something. The names of target groups that are still to be deleted are kept apart
//! ([`former`](super::listeners::former)). Rules that serve several load balancers are read before one of them goes.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_guest::state;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::elb::{LoadBalancer, Targets};
use super::listeners::Listening;
use super::security_groups::Group;
use super::wanted::{Attributes, Groups};

/// How long an entry is kept: the host's maximum, and the time between two full comparisons.
const AGE: Duration = Duration::from_secs(3600);
/// How long an entry counts as the state at AWS, without a comparison: longer than a burst of changes, shorter than the
/// time between two full comparisons.
const FRESH: Duration = Duration::from_secs(600);

/// The last known state of a network load balancer, and the digest of what was wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// Digest of everything that was wanted.
    pub digest: String,
    /// The security groups that were wanted; `None`: they were not compared.
    pub groups: Option<Groups>,
    /// The load balancer, as AWS described it last.
    pub load_balancer: LoadBalancer,
    /// Its attributes, as far as they are known.
    pub attributes: Attributes,
    /// Its listeners and target groups.
    pub listening: Listening,
    /// IDs of the instances of the nodes that were to receive traffic.
    pub ids: BTreeSet<String>,
    /// The instances among them that ran, and those that existed.
    pub targets: Targets,
    /// Security groups that carry the cluster's tag.
    pub tagged: BTreeSet<String>,
    /// Security groups of nodes whose rules let the load balancer in. `None`: rules are not managed.
    pub open: Option<BTreeSet<String>>,
    /// These groups and the load balancer's own, with their rules; `None` after a change of the rules.
    pub rules: Option<Vec<Group>>,
}

/// The entry of the load balancer with this name.
pub fn get<T: DeserializeOwned>(name: &str) -> Option<T> {
    state::get_json(&key(name))
}

/// Stores the entry of a load balancer.
pub fn set<T: Serialize>(name: &str, remembered: &T) {
    state::set_json(&key(name), remembered, AGE);
}

/// Marks the entry as equal to the state at AWS for ten minutes (`FRESH`).
pub fn set_fresh(name: &str) {
    state::set(&fresh(name), &[], FRESH);
}

/// Whether the entry was equal to the state at AWS within the last ten minutes (`FRESH`).
pub fn is_fresh(name: &str) -> bool {
    state::get(&fresh(name)).is_some()
}

/// Removes the entry, before a change or after an unexpected answer.
pub fn forget(name: &str) {
    state::delete(&key(name));
}

fn fresh(name: &str) -> String {
    format!("fresh/{name}")
}

fn key(name: &str) -> String {
    format!("lb/{name}")
}
