//! What a version would change that does not serve yet, beside what the one that serves would, and when that is too much.
//! Counts nothing itself: whoever asks both does.

use super::rules::RolloutRules;
use crate::well_known::{ALLOW_CHANGES, RETRY};

/// Of load balancers that the cloud had agreed on, so that there should be nothing to do: how many each version would
/// change, asked to make the cloud agree with the same Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Plans {
    /// About how many it is known.
    pub asked: u32,
    /// How many the version that serves would change.
    pub serving: u32,
    /// How many the candidate would change.
    pub candidate: u32,
}

impl Plans {
    /// Why the candidate would change too much, if it would.
    pub(super) fn excess(&self, rules: &RolloutRules) -> Option<String> {
        let Plans {
            asked,
            serving,
            candidate,
        } = self;
        // In a small cluster few are all.
        let is_all = *candidate == *asked && *candidate > 0;
        let is_many = is_all || *candidate >= rules.planned_changes.max(1);
        let is_more = *candidate > serving.saturating_mul(rules.planned_times);
        if !is_many || !is_more {
            return None;
        }
        let other = match serving {
            0 => "that the version that serves leaves alone".to_owned(),
            some => format!("of which the version that serves would change {some}"),
        };
        Some(format!(
            "it would change {candidate} of {asked} load balancers {other}; if that is meant, set {ALLOW_CHANGES} and {RETRY} to its digest"
        ))
    }
}
