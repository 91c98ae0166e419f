//! State of one provider's versions in this process, possible next effects, and their results. The only owner of that
//! state: `delivery` holds the code of the generations and routes calls to them as these facts say. Holds no rules:
//! [`super::decide`] does.

use crate::reconciliation::event::reasons;
use std::collections::BTreeMap;

use super::candidate::{Candidate, Step, Trying};
use super::limits::RolloutRules;
use super::plan_comparison::Plans;
use super::record::{Noted, Order, Orders, Record, Release, cut};
use super::trial_verdict::TrialTally;
use crate::cloud::instance::EventType;
use crate::moment::Moment;

/// The current time on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolloutTime {
    /// Monotonic clock, for waits.
    pub moment: Moment,
    /// Seconds since the Unix epoch, for the record.
    pub wall: u64,
}

/// Role of this process among the replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Loads what is recorded.
    #[default]
    Follower,
    /// Decides, and writes the record.
    Leader,
}

/// Version offered by the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The version that the source offers.
    pub release: Release,
    /// When it was first offered. Offering the same bytes again does not change it.
    pub since: Moment,
}

/// A loaded version and the load policy it was loaded under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// Number of its generation, unique in the process.
    pub generation: u64,
    /// The version that is loaded.
    pub release: Release,
    /// Generation of the load policy; see [`RolloutFacts::policy_generation`].
    pub policy_generation: u64,
    /// What is recorded about it once it serves.
    pub noted: Noted,
}

impl Loaded {
    /// Whether its digest is `digest`.
    pub fn is(&self, digest: &str) -> bool {
        self.release.digest == digest
    }
}

/// Cause of a version's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The module itself is at fault.
    Module,
    /// The operator's grants or configuration do not cover it, or it needs what this version of the program does not
    /// offer.
    Policy,
    /// No trusted signer vouches for it.
    Trust,
    /// Its bytes are not available.
    Gone,
    /// The host, the network or the cloud is at fault.
    Circumstances,
}

impl Cause {
    /// What is the matter with the version, for the log.
    pub fn what(self) -> &'static str {
        match self {
            Cause::Module => "it is at fault",
            Cause::Policy => "the grants, the configuration or this program do not cover it",
            Cause::Trust => "it is not trusted",
            Cause::Gone => "its bytes are not to be had",
            Cause::Circumstances => "it cannot be loaded now",
        }
    }
}

/// A failed attempt to load or try a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionFailure {
    /// The side at fault, on which the retry depends.
    pub cause: Cause,
    /// Number of consecutive failures.
    pub failures: u32,
    /// When to retry; `None`: when the load policy or the offer changes.
    pub again: Option<Moment>,
    /// The reason, for people.
    pub why: String,
}

/// Endorsement of a version, in addition to its signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endorsement {
    /// None: it is only offered.
    Unendorsed,
    /// It is recorded as active.
    Recorded,
    /// A person has ordered this version to serve, or allowed it to be older than the highest that has served. The minimum
    /// version holds for it, too.
    Ordered,
}

/// Long-running work. One at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Fetch this version and do all that precedes placing it.
    Load(Release),
    /// Verify its signatures and check its requests against the grants.
    Examine(Release),
    /// Compile it, and start it once.
    Compile(Release),
    /// Test whether its credential works.
    SelfTest(Release),
    /// Plan its changes to load balancers that the active version leaves alone.
    Plan(Release),
    /// Make one read call per capability.
    Ask(Release),
}

impl Work {
    /// The version that the work is about.
    pub fn release(&self) -> &Release {
        match self {
            Work::Load(release)
            | Work::Examine(release)
            | Work::Compile(release)
            | Work::SelfTest(release)
            | Work::Plan(release)
            | Work::Ask(release) => release,
        }
    }
}

/// The result of [`Work`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkResult {
    /// Of [`Work::Load`] and [`Work::Compile`]: it is loaded.
    Loaded {
        /// With the name that its manifest states.
        loaded: Box<Loaded>,
        /// Whether its calls can be compared with those of the active version.
        fits: bool,
    },
    /// Of [`Work::Examine`]: it is trusted, and the grants cover it.
    Examined {
        /// The version, with the name that its manifest states.
        release: Release,
        /// What it requests beyond the active or recorded active version.
        wider: Vec<String>,
    },
    /// Of [`Work::SelfTest`] and [`Work::Ask`]: it succeeded.
    Passed,
    /// Of [`Work::Plan`]: the planned changes.
    Planned(Plans),
    /// Of any work: it failed; the details, for people.
    Failed(Cause, Vec<String>),
}

/// An event to report, as an Event and in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutEvent {
    /// Type of the Event: normal or warning.
    pub event_type: EventType,
    /// CamelCase, such as `ProviderActivated`.
    pub reason: &'static str,
    /// Message for people.
    pub message: String,
    /// The version that it is about.
    pub release: Option<Release>,
}

/// Effect of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutEffect {
    /// Replaces the record; the leader writes it later.
    Keep(Box<Record>),
    /// Begin this work.
    Begin(Work),
    /// Abandon the work under way.
    Abandon,
    /// The loaded version answers all calls from now on.
    Place(Release),
    /// The version that serves is rejected or held back: it answers no calls from now on, and none other does.
    Withdraw,
    /// Begin a trial of this version.
    Try(Release),
    /// Compare its answers from now on.
    Shadow(Release),
    /// It answers a part of the calls from now on.
    Canary(Release),
    /// End the trial: the active version answers every call again, and the candidate is dropped.
    EndTrial,
    /// Remove this order, which is carried out.
    Clear(Order),
    /// Report this event, as an Event and in the log.
    RecordEvent(RolloutEvent),
}

/// The result of [`super::decide`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutDecision {
    /// Perform these effects in this order; then decide again.
    Do(Vec<RolloutEffect>),
    /// Nothing to do until something changes, or until this moment.
    Wait(Option<Moment>),
}

/// State of one provider's versions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RolloutFacts {
    /// Limits and durations of a rollout.
    pub rules: RolloutRules,
    /// Role of this process.
    pub role: Role,
    /// The record; `None` until it was read. Then, for the leader, its own version holds.
    pub record: Option<Record>,
    /// Orders, as read last.
    pub orders: Orders,
    /// Orders that are carried out and not removed yet.
    pub done: Vec<Order>,
    /// Version offered by the source.
    pub offer: Option<Offer>,
    /// Error of the source; empty: none.
    pub source_trouble: String,
    /// Another problem to report; empty: none.
    pub notice: String,
    /// Generation of the load policy; counts changes of it and of the trusted signers.
    pub policy_generation: u64,
    /// The version that answers calls.
    pub serving: Option<Loaded>,
    /// A version that is loaded and ready to be placed.
    pub ready: Option<Loaded>,
    /// The last failure of each version, by digest.
    pub failures: BTreeMap<String, VersionFailure>,
    /// The version being tried.
    pub candidate: Option<Candidate>,
    /// The results so far of this phase of its trial, as counted before the decision.
    pub tally: TrialTally,
    /// The work under way.
    pub work: Option<Work>,
    /// Whether it was reported that nothing serves, and nothing has served since.
    pub has_reported_unserved: bool,
    /// Digest of the offered version, if its rejection was reported since it has been offered.
    pub reported_rejected: Option<String>,
}

impl RolloutFacts {
    /// The endorsement of this version.
    pub fn endorsement(&self, digest: &str) -> Endorsement {
        let orders = &self.orders;
        let is_it = |named: &Option<String>| named.as_deref() == Some(digest);
        let record = self.record.as_ref();
        let previous = record.and_then(|record| record.previous.as_ref());
        let active = record.and_then(Record::active_release);
        if is_it(&orders.allow_downgrade)
            || is_it(&orders.pin)
            || (orders.roll_back && previous.is_some_and(|it| it.digest == digest))
        {
            Endorsement::Ordered
        } else if active.is_some_and(|active| active.digest == digest) {
            Endorsement::Recorded
        } else {
            Endorsement::Unendorsed
        }
    }

    /// The version that the source offers.
    pub fn offered_release(&self) -> Option<&Release> {
        self.offer.as_ref().map(|offer| &offer.release)
    }

    /// The version that answers calls, if it is another one than the recorded active version.
    pub fn stands_in(&self) -> Option<&Release> {
        let active = self.record.as_ref()?.active_release()?;
        let serving = self.serving.as_ref()?;
        (!serving.is(&active.digest)).then_some(&serving.release)
    }

    /// Takes the record as read. The leader's own record takes precedence over a later read.
    pub fn read(&mut self, record: Option<Record>) {
        if self.role == Role::Follower || self.record.is_none() {
            self.record = Some(record.unwrap_or_default());
        }
    }

    /// Merges the rejections and approvals that the record store held before.
    pub fn inherits(&mut self, before: &Record) {
        if let Some(record) = &mut self.record {
            record.inherit(before);
        }
    }

    /// Replaces this process's own record, which was begun without knowing of any, by the one that the record store held
    /// before. Of its own the rejections and approvals stay: the version that it brought into service is tried again.
    pub fn gives_way_to(&mut self, before: Record) {
        if let Some(own) = self.record.replace(before)
            && let Some(record) = &mut self.record
        {
            record.inherit(&own);
        }
    }

    /// This process becomes leader, with the record as stored now. Work begun as a follower stays useful.
    pub fn leads(&mut self, record: Option<Record>) {
        self.role = Role::Leader;
        self.record = Some(record.unwrap_or_default());
    }

    /// This process stops leading.
    pub fn follows(&mut self) {
        self.role = Role::Follower;
    }

    /// Numbers of the generations whose code is in use: the serving one, and the one that is ready.
    pub fn generations(&self) -> impl Iterator<Item = u64> {
        let loaded = self.serving.iter().chain(&self.ready);
        loaded.map(|loaded| loaded.generation)
    }

    /// Takes the orders as read.
    pub fn ordered(&mut self, orders: Orders) {
        self.done.retain(|done| orders.has(done));
        // A person's order overrides the version limits, so trust failures are retried.
        let named = |orders: &Orders| {
            let Orders {
                pin,
                allow_downgrade,
                roll_back,
                ..
            } = orders;
            (pin.clone(), allow_downgrade.clone(), *roll_back)
        };
        if named(&self.orders) != named(&orders) {
            self.failures
                .retain(|_, failure| failure.cause != Cause::Trust);
        }
        self.orders = orders;
    }

    /// Takes a version offered by the source.
    pub fn offered(&mut self, release: Release, now: RolloutTime) {
        let before = self.offer.as_ref();
        let same = before.filter(|offer| offer.release.digest == release.digest);
        if same.is_none() {
            self.reported_rejected = None;
        }
        // Its bytes are available now, and perhaps new signatures.
        self.failures.retain(|digest, failure| {
            *digest != release.digest || failure.cause == Cause::Circumstances
        });
        self.offer = Some(Offer {
            since: same.map_or(now.moment, |offer| offer.since),
            release: match same {
                // Keep the known version name.
                Some(offer) if release.version.is_empty() => offer.release.clone(),
                _ => release,
            },
        });
        self.source_trouble.clear();
    }

    /// The source cannot be read. Its last offer stays valid unless `withdrawn`.
    pub fn unoffered(&mut self, why: &str, withdrawn: bool) {
        if withdrawn {
            self.offer = None;
        }
        self.source_trouble = cut(why);
    }

    /// The load policy or the trusted signers have changed.
    pub fn policy_changed(&mut self) {
        self.policy_generation += 1;
        self.failures.clear();
    }

    /// Applies an effect that was performed or begun.
    pub fn performed(&mut self, effect: &RolloutEffect, now: RolloutTime) {
        match effect {
            RolloutEffect::Keep(record) => self.record = Some((**record).clone()),
            RolloutEffect::Begin(work) => self.begun(work, now),
            RolloutEffect::Abandon => self.work = None,
            RolloutEffect::Place(release) => {
                self.serving = self.ready.take_if(|it| it.is(&release.digest));
                self.failures.remove(&release.digest);
                self.has_reported_unserved = false;
                self.candidate = None;
            }
            RolloutEffect::Withdraw => self.serving = None,
            RolloutEffect::Try(release) => {
                self.candidate = Some(Candidate {
                    release: release.clone(),
                    policy_generation: self.policy_generation,
                    step: Step::Offered,
                    fits: false,
                });
            }
            RolloutEffect::Shadow(_) => self.begins_trial(Step::Shadow, now),
            RolloutEffect::Canary(_) => self.begins_trial(Step::Canary, now),
            RolloutEffect::EndTrial => {
                let gone = self.candidate.take();
                self.ready
                    .take_if(|ready| gone.is_some_and(|it| ready.is(&it.release.digest)));
            }
            RolloutEffect::Clear(order) => {
                if let Order::Retry(digest) = order {
                    self.failures.remove(digest);
                }
                self.done.push(order.clone());
            }
            RolloutEffect::RecordEvent(event) => {
                self.has_reported_unserved |= event.reason == reasons::PROVIDER_NOT_SERVING.reason;
                let rejections = [
                    reasons::PROVIDER_REJECTED,
                    reasons::PROVIDER_ROLLED_BACK,
                    reasons::REJECTED_VERSION_OFFERED,
                ];
                if rejections.iter().any(|one| one.reason == event.reason) {
                    let release = event.release.as_ref();
                    self.reported_rejected = release.map(|release| release.digest.clone());
                }
            }
        }
    }

    fn begun(&mut self, work: &Work, now: RolloutTime) {
        self.work = Some(work.clone());
        let step = self.candidate.as_mut().map(|it| &mut it.step);
        if let Some(Step::Shadow(trying) | Step::Canary(trying)) = step
            && matches!(work, Work::Ask(_))
        {
            trying.asked = Some(now.moment);
        }
    }

    fn begins_trial(&mut self, kind: fn(Trying) -> Step, now: RolloutTime) {
        if let Some(candidate) = &mut self.candidate {
            candidate.step = kind(Trying {
                since: now.moment,
                asked: None,
                plans: candidate.step.plans(),
            });
        }
    }
}
