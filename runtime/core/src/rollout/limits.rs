//! Limits and durations of a rollout, each with its reason. Settings; holds no logic.

use std::time::Duration;

use crate::reconciliation::retry::Backoff;

/// Limits and durations of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolloutRules {
    /// How long an offer has to stay unchanged before a trial begins. Ten offers in a second then cause one
    /// compilation, not ten; one second is negligible in a rollout of a minute. The first version does not wait.
    pub settle: Duration,
    /// Number of answers compared in shadow. At one call in ten, a cluster of some nodes yields ten answers in the time
    /// below; each answer has all the fields that a node gets from a cloud.
    pub shadow_comparisons: u32,
    /// Maximum duration of the shadow phase. A longer one compares the same nodes again.
    pub shadow_time: Duration,
    /// Number of answers that may differ. Zero: a version that changes node fields changes every node at once.
    pub tolerated_differences: u32,
    /// Number of calls that the canary has to answer. If one in ten fails, 20 calls show it twice.
    pub canary_calls: u32,
    /// Maximum duration of the canary phase. Every node is reconciled several times a minute.
    pub canary_time: Duration,
    /// Number of errors of a kind unseen with the active version that end the trial before its window does. A single
    /// one may be a transient cloud error that the active version meets, too, before the window ends.
    pub errors_at_once: u32,
    /// How much more frequent an error that both versions show may be with the candidate, in percentage points of the
    /// calls. One in ten is the least that the canary has to notice.
    pub excess_percent: u32,
    /// How long a trial waits for traffic before the host makes calls of its own: one read per capability.
    pub quiet: Duration,
    /// Number of untouched load balancers whose change by the candidate is too many. One or two may be in transition; a
    /// version with other defaults changes all of them, which is always too many.
    pub planned_changes: u32,
    /// Minimum ratio of changes planned by the candidate to those planned by the active version for that.
    pub planned_times: u32,
    /// Whether requests wider than those of the active version, but within the grants, need no approval. The operator
    /// has granted them, but a module that starts to use more deserves a review.
    pub approve_within_grants: bool,
    /// Retry after a fault of the host, the network or the cloud. At worst, one compilation every five minutes.
    pub again: Backoff,
    /// Retry while no trusted signer vouches for a version: signatures are often pushed after the module.
    pub vouched: Backoff,
}

impl Default for RolloutRules {
    fn default() -> RolloutRules {
        RolloutRules {
            settle: Duration::from_secs(1),
            shadow_comparisons: 10,
            shadow_time: Duration::from_secs(30),
            tolerated_differences: 0,
            canary_calls: 20,
            canary_time: Duration::from_secs(60),
            errors_at_once: 2,
            excess_percent: 10,
            quiet: Duration::from_secs(10),
            planned_changes: 3,
            planned_times: 10,
            approve_within_grants: false,
            again: Backoff {
                first: Duration::from_secs(1),
                most: Duration::from_secs(300),
            },
            vouched: Backoff {
                first: Duration::from_secs(10),
                most: Duration::from_secs(300),
            },
        }
    }
}
