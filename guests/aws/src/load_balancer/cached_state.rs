//! What the last calls about a load balancer found or made: it spares requests, and nothing depends on it.
//!
//! A Service that wants what it wanted a moment ago costs one look at its load balancer. Ports that change cost the changes alone,
//! and nodes that come and go no search for target groups. What others change at AWS meanwhile is seen by the hourly look, which
//! compares everything, or when a change is refused: whoever changes something forgets it before.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_guest::state;
use serde::{Deserialize, Serialize};

use super::elb::{LoadBalancer, Targets};
use super::listeners::Listening;
use super::security_groups::Group;

/// How long it is kept: the host's most, and the time between two looks.
const AGE: Duration = Duration::from_secs(3600);
/// How long it counts as what there is at AWS, without a comparison: longer than a burst of changes, shorter than between two
/// looks.
const FRESH: Duration = Duration::from_secs(600);

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// Digest of all that was wanted.
    pub wish: String,
    /// The same without the ports, if a change of the ports changes nothing but them and the nodes' groups.
    pub frame: Option<String>,
    /// The load balancer.
    pub load_balancer: LoadBalancer,
    /// Its listeners and target groups.
    pub listening: Listening,
    /// The instances that were to be behind it.
    pub ids: BTreeSet<String>,
    /// What of them was there.
    pub targets: Targets,
    /// Security groups with the cluster's tag.
    pub tagged: BTreeSet<String>,
    /// Security groups of nodes that let it in. `None`: groups are not changed.
    pub open: Option<BTreeSet<String>>,
    /// These groups with their rules, until the rules change.
    pub node_groups: Option<Vec<Group>>,
}

/// What is remembered about the load balancer of this name.
pub fn get(name: &str) -> Option<Remembered> {
    state::get_json(&key(name))
}

/// Remembers.
pub fn set(name: &str, remembered: &Remembered) {
    state::set_json(&key(name), remembered, AGE);
}

/// Notes that everything is as at AWS.
pub fn set_fresh(name: &str) {
    state::set(&fresh(name), &[], FRESH);
}

/// Whether everything was as at AWS a moment ago.
pub fn is_fresh(name: &str) -> bool {
    state::get(&fresh(name)).is_some()
}

/// Notes what was wanted of a classic load balancer, and is so.
pub fn set_same(name: &str, wish: &(String, BTreeSet<String>)) {
    state::set_json(&key(name), wish, FRESH);
}

/// Whether that was wanted a moment ago.
pub fn is_same(name: &str, wish: &(String, BTreeSet<String>)) -> bool {
    state::get_json(&key(name)).as_ref() == Some(wish)
}

/// Forgets.
pub fn forget(name: &str) {
    state::delete(&key(name));
}

fn fresh(name: &str) -> String {
    format!("fresh/{name}")
}

fn key(name: &str) -> String {
    format!("nlb/{name}")
}
