//! What the last calls about a load balancer found or made, for a few minutes: it spares requests, and nothing depends on it.
//!
//! A Service that wants what it wanted a moment ago costs one look at its load balancer. Nodes that come and go cost no search
//! for target groups. What others change at AWS meanwhile is seen once this is forgotten, at the latest by the hourly look.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_guest::state;
use serde::{Deserialize, Serialize};

use super::listeners::Registered;

/// How long it is kept: longer than a burst of changes to nodes, shorter than the hour between two looks.
const AGE: Duration = Duration::from_secs(600);

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// Digest of all that was wanted.
    pub wish: String,
    /// The load balancer's name for requests.
    pub arn: String,
    /// Its target groups.
    pub groups: Vec<Registered>,
    /// The instances behind it.
    pub targets: BTreeSet<String>,
    /// Security groups with the cluster's tag.
    pub tagged: BTreeSet<String>,
    /// Security groups of nodes that let it in. `None`: groups are not changed.
    pub open: Option<BTreeSet<String>>,
}

/// What is remembered about the load balancer of this name.
pub fn get(name: &str) -> Option<Remembered> {
    let bytes = state::get(&key(name))?;
    serde_json::from_slice(&bytes).ok()
}

/// Remembers.
pub fn set(name: &str, remembered: &Remembered) {
    if let Ok(bytes) = serde_json::to_vec(remembered) {
        state::set(&key(name), &bytes, AGE);
    }
}

/// Forgets.
pub fn forget(name: &str) {
    state::delete(&key(name));
}

fn key(name: &str) -> String {
    format!("nlb/{name}")
}
