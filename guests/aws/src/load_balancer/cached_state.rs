//! What the last calls about a load balancer found or made. It saves requests; without it each call reaches the same
//! result.
//!
//! A Service that wants the same as a moment ago costs one read of its load balancer. A change of ports costs the
//! changes alone, and a change of nodes needs no search for target groups. Changes that others make at AWS meanwhile
//! are noticed by the hourly read, which compares everything, or when AWS refuses a change: every call forgets the
//! entry before it changes something.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_guest::state;
use serde::{Deserialize, Serialize};

use super::elb::{LoadBalancer, Targets};
use super::listeners::Listening;
use super::security_groups::Group;

/// How long an entry is kept: the host's maximum, and the time between two full comparisons.
const AGE: Duration = Duration::from_secs(3600);
/// How long an entry counts as the state at AWS, without a comparison: longer than a burst of changes, shorter than the
/// time between two full comparisons.
const FRESH: Duration = Duration::from_secs(600);

/// The last known state of a network load balancer, and the digest of what was wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// Digest of everything that was wanted.
    pub digest: String,
    /// Digest without the ports; `None` if a change of ports changes more than the ports and the nodes' security
    /// groups.
    pub frame: Option<String>,
    /// The load balancer, as AWS described it last.
    pub load_balancer: LoadBalancer,
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
    /// These groups with their rules; `None` after a change of the rules.
    pub node_groups: Option<Vec<Group>>,
}

/// The entry of the load balancer with this name.
pub fn get(name: &str) -> Option<Remembered> {
    state::get_json(&key(name))
}

/// Stores the entry of a load balancer.
pub fn set(name: &str, remembered: &Remembered) {
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

/// Stores the state that was wanted of a classic load balancer, and that it has now.
pub fn set_same(name: &str, digest: &(String, BTreeSet<String>)) {
    state::set_json(&key(name), digest, FRESH);
}

/// Whether the same state was wanted within the last ten minutes (`FRESH`).
pub fn is_same(name: &str, digest: &(String, BTreeSet<String>)) -> bool {
    state::get_json(&key(name)).as_ref() == Some(digest)
}

/// Removes the entry, before a change or after an unexpected answer.
pub fn forget(name: &str) {
    state::delete(&key(name));
}

fn fresh(name: &str) -> String {
    format!("fresh/{name}")
}

fn key(name: &str) -> String {
    format!("nlb/{name}")
}
