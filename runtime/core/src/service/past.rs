//! What conversations about a Service leave behind for the next one. Whoever holds the conversations keeps it, and loses
//! it at a restart: nothing in here is needed to reach the same end.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::facts::{Asked, Facts};
use super::handed::handed;
use super::stored::{class, has_finalizer, is_load_balancer, load_balancer_status, recorded_owner};
use super::targets::{Targets, are_same};
use super::waiting::patience;
use super::{Step, ensure, step};
use crate::brake::Brake;
use crate::brake::targets::Wish;
use crate::cloud::{CloudNode, ProviderError};
use crate::effect::When;
use crate::load_balancer::LoadBalancerStatus;
use crate::node_lifecycle::Now;
use crate::permit::{Mode, Moment};

/// What earlier conversations about a Service have left behind.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Past {
    /// How many have failed in a row.
    pub failures: u32,
    /// Whether the drift check wants the load balancer looked at.
    pub drift_due: bool,
    /// What the last pending call carried. Lost whenever the provider's module is another one.
    pub hint: Option<Arc<[u8]>>,
    /// What the provider was asked last.
    pub(super) asked: Option<Asked>,
    /// Whether that came to its end: there is nothing to be made but what differs from it.
    pub(super) is_made: bool,
    /// The status that was stored then.
    pub(super) status: LoadBalancerStatus,
    /// The targets that the provider has confirmed; not those that were tried.
    pub(super) targets: Option<Arc<[CloudNode]>>,
    /// When what was begun is to be asked about.
    pub(super) pending_until: Option<Moment>,
    /// A removal of most targets that was wanted.
    pub(super) wish: Option<Wish>,
    /// When the provider said first that there is no address any more.
    pub(super) empty_since: Option<Moment>,
    /// It was said that there are no nodes.
    pub(super) is_unavailable: bool,
    /// It was said that a load balancer is being made, and not that it is there.
    pub(super) owes_ensured: bool,
    /// Budget was taken for the removal.
    pub(super) is_paid: bool,
    /// The removal has begun.
    pub(super) is_deleting: bool,
    /// It is over: nothing is left at the cloud.
    pub(super) is_released: bool,
    /// The Service had a class that is somebody else's, and so is the finalizer that it has now.
    pub(super) was_foreign: bool,
    /// Why it is left alone, as it was said.
    pub(super) told_why: Option<String>,
}

impl Past {
    /// What is left behind by the conversation that ended with `facts` and `when`.
    pub fn after(facts: Facts, when: &When, now: Moment) -> Past {
        let now = Now {
            moment: now,
            // Only what is written has a date.
            wall: Timestamp::UNIX_EPOCH,
        };
        let last = step(&facts, now);
        let failures = match &last {
            Step::Wait(obstacle) if obstacle.is_failure() => facts.past.failures.saturating_add(1),
            // It ended before its end.
            Step::Do(_) if !matches!(when, When::AwaitChange) => {
                facts.past.failures.saturating_add(1)
            }
            _ => 0,
        };
        let is_over = matches!(last, Step::Rest | Step::Stay(_));
        let told_why = match last {
            Step::Stay(why) => Some(why),
            _ => None,
        };
        let was_foreign = was_foreign(&facts);
        if facts.learnt.is_released || facts.is_gone && is_over {
            return Past {
                is_released: true,
                was_foreign,
                ..Past::default()
            };
        }
        let past = Past {
            failures,
            drift_due: facts.past.drift_due && facts.learnt.ensured.is_none() && !is_over,
            told_why,
            was_foreign,
            wish: handed(&facts, now.moment).wish,
            empty_since: match ensure::is_emptied(&facts) {
                Some(true) => facts.past.empty_since.or(Some(now.moment)),
                Some(false) => None,
                None => facts.past.empty_since,
            },
            ..facts.past.clone()
        };
        past.with_calls(&facts, now).with_words(facts)
    }

    /// Whether these targets are others than the provider was told last. Level, not edge: also true before it was
    /// told anything by this process.
    pub fn wants_targets(&self, targets: &Targets) -> bool {
        let confirmed = self.targets.as_ref();
        confirmed.is_none_or(|confirmed| !are_same(confirmed, &targets.nodes))
    }

    /// What the calls of the conversation have changed.
    fn with_calls(mut self, facts: &Facts, now: Now) -> Past {
        let learnt = &facts.learnt;
        // Outside of enforce mode what was refused is as good as made: it is in the plan, once.
        let is_planned = facts.world.mode != Mode::Enforce;
        if let Some(asked) = &learnt.asked {
            if is_planned && learnt.deleted.is_none() {
                self.targets = Some(asked.targets.clone());
            }
            let pending = facts.pending();
            self.hint = pending.and_then(|pending| pending.hint.clone());
            self.pending_until = pending.map(|pending| now.moment.after(patience(pending)));
        }
        if let Some(result) = &learnt.ensured {
            self.is_made = is_planned && result.is_err() || ensure::is_concluded(facts, now);
            if self.is_made {
                self.status = load_balancer_status(&facts.service);
            }
            self.is_paid = false;
            self.is_deleting = false;
            self.is_released = false;
        }
        if learnt.deleted.is_some() {
            self.is_made = false;
            self.is_deleting = true;
        }
        self.is_paid |= facts.budget(Brake::LoadBalancerDeletion) == Some(Ok(()));
        self
    }

    /// What was said, and what it was said about.
    fn with_words(mut self, facts: Facts) -> Past {
        let has_ended = facts.has_said("EnsuredLoadBalancer")
            || matches!(facts.learnt.ensured, Some(Err(ProviderError::Elsewhere)));
        let is_announced = self.owes_ensured || facts.has_said("EnsuringLoadBalancer");
        self.owes_ensured = is_announced && !has_ended;
        let has_targets = facts
            .learnt
            .targets
            .as_ref()
            .is_some_and(|one| !one.is_empty());
        let is_unavailable = self.is_unavailable || facts.has_said("UnAvailableLoadBalancer");
        self.is_unavailable = is_unavailable && !has_targets;
        self.targets = facts.learnt.targets.or(self.targets);
        self.asked = facts.learnt.asked.or(self.asked);
        self
    }
}

fn was_foreign(facts: &Facts) -> bool {
    let service = &*facts.service;
    let is_owned = facts.world.owns(service);
    if is_owned && recorded_owner(service).is_some() {
        return false;
    }
    if is_load_balancer(service) && class(service).is_some() && !is_owned {
        return true;
    }
    facts.past.was_foreign && has_finalizer(service) && !is_load_balancer(service)
}
