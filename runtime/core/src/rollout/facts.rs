//! What is known about one provider's versions in this process, what can be done next, and what has come of it. Holds no
//! rules: those are [`super::decide`]'s.

use std::collections::BTreeMap;

use super::plan_comparison::Plans;
use super::record::{Noted, Orders, Record, Release, cut};
use super::rules::RolloutRules;
use super::trial_verdict::Tally;
use crate::cloud::instance::EventType;
use crate::moment::Moment;

/// Now, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// For waits.
    pub moment: Moment,
    /// In seconds since the Unix epoch, for what is written down.
    pub wall: u64,
}

/// What this process is to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Obeys what is written down.
    #[default]
    Follower,
    /// Decides, and writes it down.
    Leader,
}

/// What the source offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Which version.
    pub release: Release,
    /// Since when. The same bytes offered anew stay where they are.
    pub since: Moment,
}

/// A version that is loaded: its bytes, on these terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// Which version.
    pub release: Release,
    /// Which terms; see [`Facts::terms`].
    pub terms: u64,
    /// What is written down of it when it serves.
    pub noted: Noted,
}

impl Loaded {
    /// Whether it is this digest's.
    pub fn is(&self, digest: &str) -> bool {
        self.release.digest == digest
    }
}

/// How far a version has come in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Its bytes are here.
    Offered,
    /// It requests what is not granted, or its configuration is not complete: these lines.
    Ungranted(Vec<String>),
    /// Nobody vouches for it, for this reason.
    Distrusted(String),
    /// It is vouched for and within the grants. It requests more than the version that serves, or that is written down as
    /// serving, by these lines.
    Examined(Vec<String>),
    /// It is compiled and has started under its limits.
    Compiled {
        /// Whether it can be compared call by call with the version that serves.
        fits: bool,
    },
    /// It has proven its credential.
    SelfTested {
        /// The same.
        fits: bool,
    },
    /// It has said what it would change.
    Planned {
        /// The same.
        fits: bool,
        /// What it said, and the version that serves.
        plans: Plans,
    },
    /// Its answers are compared.
    Shadow(Trying),
    /// It answers a part of the calls.
    Canary(Trying),
    /// It has answered by itself what there is to ask; nothing else can be tried.
    Asked,
    /// The module's own fault.
    Failed(String),
}

/// A trial under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trying {
    /// Since when.
    pub since: Moment,
    /// When the host has asked by itself last, for want of traffic.
    pub asked: Option<Moment>,
}

/// A version on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Which.
    pub release: Release,
    /// The terms that it is examined on.
    pub terms: u64,
    /// How far it is.
    pub step: Step,
}

/// Whose fault it is that a version does not come further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The module's own.
    Module,
    /// The operator's grants or configuration do not cover it.
    Terms,
    /// Nobody vouches for it.
    Trust,
    /// Its bytes are not to be had.
    Gone,
    /// The host's, the network's or the cloud's.
    Circumstances,
}

/// A version did not come further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The terms it was tried on; on others it may do better.
    pub terms: u64,
    /// Whose fault it is.
    pub cause: Cause,
    /// How often in a row.
    pub failures: u32,
    /// When it is tried again; `None`: when the terms or the offer change.
    pub again: Option<Moment>,
    /// Why, for people.
    pub why: String,
}

/// Whose word there is for a version, beside those who vouch for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endorsement {
    /// Nobody's: it is only offered.
    Nobodys,
    /// It is written down as serving.
    Recorded,
    /// A person has ordered that this very version serves.
    Ordered,
    /// A person has allowed this very version to be older than any other.
    Allowed,
}

/// Long work. One at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Get the bytes of this version, and all that comes before it can be placed.
    Load(Release),
    /// See who vouches for this version, what it requests, and whether that is granted.
    Examine(Release),
    /// Compile it, and start it once.
    Compile(Release),
    /// Let it prove its credential.
    SelfTest(Release),
    /// Let it say what it would change of what the version that serves leaves alone.
    Plan(Release),
    /// One read for each capability.
    Ask(Release),
}

impl Work {
    /// The version that it is about.
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

/// How work has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// As it should.
    Fine {
        /// The version, by its own account.
        release: Release,
        /// Of [`Work::Examine`]: what it requests beyond the version that serves, or that is written down as serving.
        wider: Vec<String>,
        /// Of [`Work::Compile`]: whether it can be compared call by call with the version that serves.
        fits: bool,
        /// Of [`Work::Load`] and [`Work::Compile`]: what is written down of it when it serves.
        noted: Box<Noted>,
    },
    /// Of [`Work::Plan`]: what would be changed.
    Planned(Plans),
    /// The operator's side does not cover it: these lines.
    Ungranted(Vec<String>),
    /// Nobody vouches for it.
    Distrusted(String),
    /// The module's own fault.
    Fault(String),
    /// Its bytes are not to be had.
    Gone(String),
    /// The fault of the host, the network or the cloud.
    Trouble(String),
}

/// An order that is taken away when it is done.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// [`Orders::roll_back`].
    RollBack,
    /// [`Orders::retry`], for this digest.
    Retry(String),
}

/// The reason of the Event that nothing serves.
pub(super) const UNSERVED: &str = "ProviderNotServing";

/// Something that people and machines should hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutEvent {
    /// How loud.
    pub event_type: EventType,
    /// CamelCase, such as `ProviderActivated`.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// The version that it is about.
    pub release: Option<Release>,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// This is the record from now on. Written down later, by the leader.
    Keep(Box<Record>),
    /// Begin this.
    Begin(Work),
    /// Give up the work under way; nobody waits for it.
    Abandon,
    /// What was loaded of this version answers all calls from now on.
    Place(Release),
    /// This version is on its way.
    Try(Release),
    /// Compare its answers from now on.
    Shadow(Release),
    /// It answers a part of the calls from now on.
    Canary(Release),
    /// The version that serves answers everything again, and what is on its way is forgotten.
    EndTrial,
    /// Take this order away.
    Clear(Order),
    /// Say this.
    Tell(RolloutEvent),
}

/// See [`super::decide`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// These, in this order; then decide again.
    Do(Vec<Effect>),
    /// Nothing until something changes, or until this moment.
    Wait(Option<Moment>),
}

/// What is known about one provider.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// The numbers.
    pub rules: RolloutRules,
    /// What this process is.
    pub role: Role,
    /// What is written down; `None` until it was read. The leader's own word from then on.
    pub record: Option<Record>,
    /// What people order, as it was read last.
    pub orders: Orders,
    /// What was done and is not taken away yet.
    pub done: Vec<Order>,
    /// What the source offers.
    pub offer: Option<Offer>,
    /// What is wrong with the source; empty: nothing.
    pub source_trouble: String,
    /// What else is wrong that people should know; empty: nothing.
    pub notice: String,
    /// Counts changes of the terms and of what is trusted.
    pub terms: u64,
    /// What answers calls.
    pub serving: Option<Loaded>,
    /// What is loaded and could.
    pub ready: Option<Loaded>,
    /// What did not come further, by digest.
    pub failures: BTreeMap<String, Failure>,
    /// What is on its way.
    pub candidate: Option<Candidate>,
    /// What the trial under way has shown.
    pub tally: Tally,
    /// The work under way.
    pub work: Option<Work>,
    /// It was told that nothing serves, and nothing has since.
    pub has_told_unserved: bool,
}

impl Facts {
    /// Whose word there is for this version.
    pub fn word(&self, digest: &str) -> Endorsement {
        let orders = &self.orders;
        let is_it = |named: &Option<String>| named.as_deref() == Some(digest);
        let record = self.record.as_ref();
        let previous = record.and_then(|record| record.previous.as_ref());
        let active = record.and_then(|record| record.active.as_ref());
        if is_it(&orders.allow_downgrade) {
            Endorsement::Allowed
        } else if is_it(&orders.pin)
            || (orders.roll_back && previous.is_some_and(|it| it.digest == digest))
        {
            Endorsement::Ordered
        } else if active.is_some_and(|active| active.release.digest == digest) {
            Endorsement::Recorded
        } else {
            Endorsement::Nobodys
        }
    }

    /// What is written down was read. The leader's own word holds against what is read later.
    pub fn read(&mut self, record: Option<Record>) {
        if self.role == Role::Follower || self.record.is_none() {
            self.record = Some(record.unwrap_or_default());
        }
    }

    /// This stood where the record is kept from now on: what was rejected or approved there stays so.
    pub fn inherits(&mut self, before: &Record) {
        if let Some(record) = &mut self.record {
            record.inherit(before);
        }
    }

    /// This process leads from now on, and this is what is written down at this moment. Whatever it had begun as a
    /// follower is worth the same.
    pub fn leads(&mut self, record: Option<Record>) {
        self.role = Role::Leader;
        self.record = Some(record.unwrap_or_default());
    }

    /// This process does not lead any more.
    pub fn follows(&mut self) {
        self.role = Role::Follower;
    }

    /// People's orders were read.
    pub fn ordered(&mut self, orders: Orders) {
        self.done.retain(|done| match done {
            Order::RollBack => orders.roll_back,
            Order::Retry(digest) => orders.retry.as_ref() == Some(digest),
        });
        // A person has the last word about how old a version may be.
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

    /// The source offers this.
    pub fn offered(&mut self, release: Release, now: Now) {
        let before = self.offer.as_ref();
        let same = before.filter(|offer| offer.release.digest == release.digest);
        // Its bytes are here now, and perhaps other evidence.
        self.failures.retain(|digest, failure| {
            *digest != release.digest || failure.cause == Cause::Circumstances
        });
        self.offer = Some(Offer {
            since: same.map_or(now.moment, |offer| offer.since),
            release: match same {
                // What is known of it stays known.
                Some(offer) if release.version.is_empty() => offer.release.clone(),
                _ => release,
            },
        });
        self.source_trouble.clear();
    }

    /// The source cannot be asked. What it offered stays offered, unless it is `withdrawn`.
    pub fn unoffered(&mut self, why: &str, withdrawn: bool) {
        if withdrawn {
            self.offer = None;
        }
        self.source_trouble = cut(why);
    }

    /// The terms, or what is trusted, have changed.
    pub fn changed_terms(&mut self) {
        self.terms += 1;
        self.failures.clear();
    }

    /// An effect was carried out, or begun.
    pub fn performed(&mut self, effect: &Effect, now: Now) {
        match effect {
            Effect::Keep(record) => self.record = Some((**record).clone()),
            Effect::Begin(work) => self.begun(work, now),
            Effect::Abandon => self.work = None,
            Effect::Place(release) => {
                self.serving = self.ready.take_if(|it| it.is(&release.digest));
                self.failures.remove(&release.digest);
                self.has_told_unserved = false;
                self.candidate = None;
                self.tally = Tally::default();
            }
            Effect::Try(release) => {
                self.tally = Tally::default();
                self.candidate = Some(Candidate {
                    release: release.clone(),
                    terms: self.terms,
                    step: Step::Offered,
                });
            }
            Effect::Shadow(_) | Effect::Canary(_) => {
                self.tally = Tally::default();
                let trying = Trying {
                    since: now.moment,
                    asked: None,
                };
                self.at_step(match effect {
                    Effect::Shadow(_) => Step::Shadow(trying),
                    _ => Step::Canary(trying),
                });
            }
            Effect::EndTrial => {
                self.tally = Tally::default();
                let gone = self.candidate.take();
                self.ready
                    .take_if(|ready| gone.is_some_and(|it| ready.is(&it.release.digest)));
            }
            Effect::Clear(order) => {
                if let Order::Retry(digest) = order {
                    self.failures.remove(digest);
                }
                self.done.push(order.clone());
            }
            Effect::Tell(event) => {
                self.has_told_unserved |= event.reason == UNSERVED;
            }
        }
    }

    fn begun(&mut self, work: &Work, now: Now) {
        self.work = Some(work.clone());
        if let (Work::Ask(_), Some(candidate)) = (work, &mut self.candidate)
            && let Step::Shadow(trying) | Step::Canary(trying) = &mut candidate.step
        {
            trying.asked = Some(now.moment);
        }
    }

    fn at_step(&mut self, step: Step) {
        if let Some(candidate) = &mut self.candidate {
            candidate.step = step;
        }
    }
}
