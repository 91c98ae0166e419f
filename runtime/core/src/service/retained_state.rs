//! What reconciliations about a Service leave behind for the next one. Whoever holds the reconciliations keeps it, and loses
//! it at a restart: nothing in here is needed to reach the same end.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::effective_targets::effective_targets;
use super::facts::{Asked, Facts, Withheld};
use super::stored::{class, has_finalizer, is_load_balancer, load_balancer_status, recorded_owner};
use super::targets::{Targets, are_same};
use super::waiting::{PENDING, patience};
use super::{Step, ensure, step};
use crate::brake::Brake;
use crate::brake::targets::PendingRemoval;
use crate::cloud::error::ProviderError;
use crate::cloud::instance::CloudNode;
use crate::effect::When;
use crate::load_balancer::{CloudService, Ensured, LoadBalancerStatus};
use crate::moment::Moment;
use crate::moment::Now;

/// What earlier reconciliations about a Service have left behind.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RetainedState {
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
    /// Since when the cloud has only begun, and whether that was said.
    pub(super) begun: Option<Begun>,
    /// When an order ended so that nobody knows whether the cloud still carries it out.
    pub(super) unsure_at: Option<Moment>,
    /// A removal of most targets that was wanted.
    pub(super) wish: Option<PendingRemoval>,
    /// When the provider said first that there is no address any more.
    pub(super) empty_since: Option<Moment>,
    /// It was said that there are no nodes.
    pub(super) is_unavailable: bool,
    /// It was said that a load balancer is being made, and not that it is there.
    pub(super) owes_ensured: bool,
    /// Budget was taken for the removal.
    pub(super) is_paid: bool,
    /// Since when the brake holds the removal.
    pub(super) braked: Option<Moment>,
    /// The removal has begun.
    pub(super) is_deleting: bool,
    /// It is over: nothing is left at the cloud.
    pub(super) is_released: bool,
    /// The Service had a class that is somebody else's, and so is the finalizer that it has now.
    pub(super) was_foreign: bool,
    /// Why it is left alone, as it was said.
    pub(super) told_why: Option<String>,
    /// The load balancer could not be made as it is wanted.
    pub(super) setback: Option<Setback>,
}

/// What the cloud has begun, in an unbroken row of answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Begun {
    since: Moment,
    is_told: bool,
}

impl Begun {
    /// Whether it takes so long that its targets are changed beside it.
    pub(super) fn is_slow(self, now: Moment) -> bool {
        self.since.after(SLOW) <= now
    }

    /// Whether it takes so long that people are told.
    pub(super) fn is_worth_telling(self, now: Moment) -> bool {
        self.since.after(LONG) <= now && !self.is_told
    }
}

/// Clouds make a load balancer in less.
const SLOW: Duration = Duration::from_secs(60);
/// And nobody waits longer without asking.
const LONG: Duration = Duration::from_secs(600);

/// Why a load balancer is not as it is wanted, and when that is tried again. Until then its targets follow the nodes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setback {
    /// What was wanted: anything else is tried at once.
    wanted: Arc<CloudService>,
    pub(super) why: String,
    pub(super) until: Moment,
    /// Its targets could not be changed either: that, too, has to wait.
    is_stale: bool,
}

impl RetainedState {
    /// What is left behind by the reconciliation that ended with `facts` and `when`.
    pub fn after(facts: Facts, when: &When, now: Moment) -> RetainedState {
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
        let setback = setback(&facts, &last, when, now.moment);
        let told_why = match last {
            Step::Stay(why) => Some(why),
            _ => None,
        };
        let was_foreign = was_foreign(&facts);
        if facts.state.is_released || facts.is_gone && is_over {
            return RetainedState {
                is_released: true,
                was_foreign,
                ..RetainedState::default()
            };
        }
        let failures = match &setback {
            Some(setback) if facts.past.setback.as_ref() == Some(setback) => facts.past.failures,
            _ => failures,
        };
        let past = RetainedState {
            failures,
            drift_due: facts.past.drift_due && facts.state.ensured.is_none() && !is_over,
            told_why,
            was_foreign,
            setback,
            wish: effective_targets(&facts, now.moment).wish,
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

    /// Whether its targets follow the nodes although it waits for another try.
    pub fn follows_nodes(&self) -> bool {
        let setback = self.setback.as_ref();
        self.targets.is_some() && setback.is_some_and(|setback| !setback.is_stale)
    }

    /// What has to be over before a load balancer that is wanted like this is asked for again.
    pub(super) fn setback_of(&self, wanted: &Arc<CloudService>, now: Moment) -> Option<&Setback> {
        let setback = self.setback.as_ref();
        setback.filter(|setback| setback.until > now && setback.wanted == *wanted)
    }

    /// What the calls of the reconciliation have changed.
    fn with_calls(mut self, facts: &Facts, now: Now) -> RetainedState {
        let state = &facts.state;
        // Outside of enforce mode what was withheld is as good as made: it is in the plan, once.
        let is_planned = state.withheld == Some(Withheld::Change);
        if let Some(asked) = &state.asked {
            if is_planned {
                self.targets = Some(asked.targets.clone());
            }
            let pending = facts.pending();
            self.hint = pending.and_then(|pending| pending.hint.clone());
            self.pending_until = pending.map(|pending| now.moment.after(patience(pending)));
            self.begun = pending.map(|_| Begun {
                since: self.begun.map_or(now.moment, |begun| begun.since),
                is_told: self.begun.is_some_and(|begun| begun.is_told) || facts.has_said(PENDING),
            });
        }
        if let Some(result) = &state.ensured {
            self.unsure_at = match result {
                Ok(answered) => match answered.reply.ensured {
                    Ensured::Ready(_) => None,
                    Ensured::Pending(_) => self.unsure_at,
                },
                Err(error) if is_unsure(error) => Some(now.moment),
                Err(_) => self.unsure_at,
            };
        }
        if is_planned || state.ensured.is_some() {
            self.is_made = is_planned || ensure::is_concluded(facts, now);
            if self.is_made {
                self.status = load_balancer_status(&facts.service);
            }
            self.is_paid = false;
            self.braked = None;
            self.is_deleting = false;
            self.is_released = false;
        }
        if state.deleted.is_some() || state.withheld == Some(Withheld::Removal) {
            self.is_made = false;
            self.is_deleting = true;
        }
        match facts.budget(Brake::LoadBalancerDeletion) {
            Some(Ok(())) => self.is_paid = true,
            Some(Err(_)) => self.braked = self.braked.or(Some(now.moment)),
            None => {}
        }
        self
    }

    /// What was said, and what it was said about.
    fn with_words(mut self, facts: Facts) -> RetainedState {
        let has_ended = facts.has_said("EnsuredLoadBalancer")
            || matches!(facts.state.ensured, Some(Err(ProviderError::Elsewhere)));
        let is_announced = self.owes_ensured || facts.has_said("EnsuringLoadBalancer");
        self.owes_ensured = is_announced && !has_ended;
        let has_targets = facts
            .state
            .targets
            .as_ref()
            .is_some_and(|one| !one.is_empty());
        let is_unavailable = self.is_unavailable || facts.has_said("UnAvailableLoadBalancer");
        self.is_unavailable = is_unavailable && !has_targets;
        self.targets = facts.state.targets.or(self.targets);
        self.asked = facts.state.asked.or(self.asked);
        self
    }
}

/// Whether the cloud may still carry out what was asked for.
fn is_unsure(error: &ProviderError) -> bool {
    matches!(
        error,
        ProviderError::Unavailable(_)
            | ProviderError::TimedOut(_)
            | ProviderError::Trapped(_)
            | ProviderError::Internal(_)
    )
}

fn setback(facts: &Facts, last: &Step<'_>, when: &When, now: Moment) -> Option<Setback> {
    let wanted = facts.wanted();
    match (last, when) {
        (Step::Wait(obstacle), When::Retry { after, why }) if obstacle.is_setback() => {
            Some(Setback {
                wanted,
                why: why.clone(),
                until: now.after(*after),
                is_stale: matches!(facts.state.updated, Some(Err(_))),
            })
        }
        _ if facts.state.ensured.is_some() => None,
        _ => facts.past.setback_of(&wanted, now).cloned(),
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
