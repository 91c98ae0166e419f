//! Compares the changes planned by the candidate with those planned by the active version, and says when they are too
//! many. Counts nothing itself: the caller that asks both versions does.

use super::limits::RolloutRules;
use crate::well_known::{ALLOW_CHANGES, RETRY};

/// Number of load balancers each version would change, when asked to ensure Services that the cloud had already
/// confirmed, so that no change should be needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Plans {
    /// Number of load balancers planned for.
    pub asked: u32,
    /// Changes planned by the active version.
    pub serving: u32,
    /// Changes planned by the candidate.
    pub candidate: u32,
}

impl Plans {
    /// Why the candidate would change too much; `None`: it would not.
    pub(super) fn excess(&self, rules: &RolloutRules) -> Option<String> {
        let Plans {
            asked,
            serving,
            candidate,
        } = self;
        // In a small cluster, all load balancers may be fewer than the limit.
        let is_all = *candidate == *asked && *candidate > 0;
        let is_many = is_all || *candidate >= rules.planned_changes.max(1);
        let is_more = *candidate > serving.saturating_mul(rules.planned_times);
        if !is_many || !is_more {
            return None;
        }
        let change = self.shown()?;
        Some(format!(
            "{change}; if that is meant, set {ALLOW_CHANGES} and {RETRY} to its digest"
        ))
    }

    /// The changes that the candidate would make, for people; `None`: none.
    pub(super) fn shown(&self) -> Option<String> {
        let Plans {
            asked,
            serving,
            candidate,
        } = self;
        if *candidate == 0 {
            return None;
        }
        let other = match serving {
            0 => "that the version that serves leaves alone".to_owned(),
            some => format!("of which the version that serves would change {some}"),
        };
        Some(format!(
            "it would change {candidate} of {asked} load balancers {other}"
        ))
    }
}
