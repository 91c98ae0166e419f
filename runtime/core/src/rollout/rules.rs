//! The numbers of a rollout, each with its reason. Settings; holds no logic.

use std::time::Duration;

use crate::retry::Backoff;

/// How a version is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolloutRules {
    /// How long an offer has to stay the same before a trial begins. Ten offers in a second then start one compilation, not
    /// ten; and nobody notices a second more in a rollout of a minute. A first version does not wait.
    pub settle: Duration,
    /// How many answers are compared in shadow. At one call in ten, ten answers are what a cluster of some nodes shows in
    /// the time below; each answer has all the fields that a node gets from a cloud.
    pub shadow_comparisons: u32,
    /// How long the shadow lasts at most. Longer shows the same nodes again.
    pub shadow_time: Duration,
    /// How many answers may differ. None: whoever changes what a node is told to be, changes every node at once.
    pub tolerated_differences: u32,
    /// How many calls the canary has to answer. Of 20 calls one in ten that fails shows up twice.
    pub canary_calls: u32,
    /// How long the canary lasts at most. Every node is looked at several times in a minute.
    pub canary_time: Duration,
    /// How many errors of one kind that the version that serves does not show end the trial before its window does. One
    /// may be a hiccup of the cloud that meets the other version, too, before the window ends.
    pub errors_at_once: u32,
    /// How much more frequent an error may be that both versions show, in per cent of the calls. One in ten is the least
    /// that the canary has to notice.
    pub excess_percent: u32,
    /// How long a trial waits for traffic before it asks by itself: one read for each capability.
    pub quiet: Duration,
    /// From how many load balancers on it is too much what a version would change of those that were left alone. One or two
    /// may be in the middle of something; a version with other defaults changes all of them, which is too much however few
    /// there are.
    pub planned_changes: u32,
    /// How many times as many as the version that serves it has to want to change for that.
    pub planned_times: u32,
    /// Whether requests that are wider than those of the version that serves, but within the grants, need nobody's
    /// approval. The grants are the operator's word; that a module uses more of it is still worth a look.
    pub approve_within_grants: bool,
    /// After a fault of the host, the network or the cloud. A compilation may be repeated every five minutes at worst.
    pub again: Backoff,
    /// While nobody vouches for a version: signatures are often pushed after the module.
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
