//! A world for one provider: a source, people, a record store, and modules that behave as configured. It performs the
//! decided effects, and checks the guarantees before each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::moment::Moment;
use crate::rollout::*;

/// How a module behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Good,
    /// Requests more than any [`Kind::Good`] one.
    Wider,
    /// Requests more than the grants, until a later load policy.
    Ungranted,
    /// Is signed by no trusted signer, until a later load policy.
    Distrusted,
    /// Cannot be compiled.
    Broken,
    /// Cannot prove its credential.
    FailsSelfTest,
    /// Plans to change all load balancers.
    Rewrites,
    /// Plans to change some load balancers, but not too many.
    Adjusts,
    /// Gives other answers than the active version.
    Differs,
    /// Fails when it is called.
    FailsCalls,
    /// Makes calls that cannot be compared with those of the active version.
    Reshaped,
    /// Loads at the third attempt.
    Flaky,
}

pub(super) const KINDS: [Kind; 12] = [
    Kind::Good,
    Kind::Wider,
    Kind::Ungranted,
    Kind::Distrusted,
    Kind::Broken,
    Kind::FailsSelfTest,
    Kind::Rewrites,
    Kind::Adjusts,
    Kind::Differs,
    Kind::FailsCalls,
    Kind::Reshaped,
    Kind::Flaky,
];

impl Kind {
    /// Whether the module itself is at fault, as a candidate.
    pub(super) fn is_bad(self) -> bool {
        matches!(
            self,
            Kind::Broken | Kind::FailsSelfTest | Kind::Rewrites | Kind::Differs | Kind::FailsCalls
        )
    }

    /// Whether it starts when there is nothing to compare it with.
    pub(super) fn starts(self) -> bool {
        self != Kind::Broken
    }
}

/// Longer than any rollout that waits for no person takes.
pub(super) const LONG: u64 = 400;

pub(super) struct World {
    pub(super) facts: RolloutFacts,
    pub(super) seconds: u64,
    /// The record in the record store.
    pub(super) stored: Record,
    pub(super) orders: Orders,
    pub(super) kinds: BTreeMap<String, Kind>,
    /// Versions whose bytes are not available any more, unless they are offered.
    pub(super) gone: BTreeSet<String>,
    /// Versions whose registry does not answer now.
    pub(super) unreachable: BTreeSet<String>,
    /// Whether the record store can be written.
    pub(super) is_online: bool,
    /// Generation of the load policy from which on it covers every module.
    pub(super) enough: u64,
    /// Every effect so far, in order.
    pub(super) done: Vec<RolloutEffect>,
    attempts: u32,
    /// Generations whose code the controller still has.
    generations: BTreeSet<u64>,
    loads: u64,
}

pub(super) fn digest(number: u8) -> String {
    format!("sha256:{}", format!("{number:02x}").repeat(32))
}

pub(super) fn release(number: u8) -> Release {
    Release {
        digest: digest(number),
        version: format!("1.0.{number}"),
        origin: "file:///provider.wasm".to_owned(),
    }
}

impl World {
    pub(super) fn new() -> World {
        let mut world = World {
            facts: RolloutFacts::default(),
            seconds: 1_000_000,
            stored: Record::default(),
            orders: Orders::default(),
            kinds: BTreeMap::new(),
            gone: BTreeSet::new(),
            unreachable: BTreeSet::new(),
            is_online: true,
            enough: u64::MAX,
            done: Vec::new(),
            attempts: 0,
            generations: BTreeSet::new(),
            loads: 0,
        };
        world.restart();
        world
    }

    /// A world in which version 1 serves.
    pub(super) fn serving() -> World {
        let mut world = World::new();
        world.offer(1, Kind::Good);
        world.run(10);
        assert_eq!(world.serves(), Some(digest(1)));
        world
    }

    /// Another process takes over and leads.
    pub(super) fn restart(&mut self) {
        let rules = self.facts.rules;
        let policy_generation = self.facts.policy_generation;
        self.facts = RolloutFacts {
            rules,
            policy_generation,
            ..RolloutFacts::default()
        };
        self.facts.read(Some(self.stored.clone()));
        self.facts.leads(Some(self.stored.clone()));
        self.facts.ordered(self.orders.clone());
    }

    pub(super) fn now(&self) -> RolloutTime {
        RolloutTime {
            moment: Moment(Duration::from_secs(self.seconds)),
            wall: self.seconds,
        }
    }

    pub(super) fn offer(&mut self, number: u8, kind: Kind) {
        self.kinds.insert(digest(number), kind);
        let unread = Release {
            version: String::new(),
            ..release(number)
        };
        self.facts.offered(unread, self.now());
    }

    pub(super) fn order(&mut self, orders: Orders) {
        self.orders = orders.clone();
        self.facts.ordered(orders);
    }

    /// The summary state of the provider.
    pub(super) fn state(&self) -> RolloutState {
        state(&self.stored, &self.orders, self.serves().is_some())
    }

    pub(super) fn serves(&self) -> Option<String> {
        self.facts
            .serving
            .as_ref()
            .map(|it| it.release.digest.clone())
    }

    pub(super) fn record(&self) -> &Record {
        self.facts.record.as_ref().unwrap()
    }

    /// The reasons of all events so far.
    pub(super) fn told(&self) -> Vec<&'static str> {
        let told = self.done.iter().filter_map(|effect| match effect {
            RolloutEffect::RecordEvent(event) => Some(event.reason),
            _ => None,
        });
        told.collect()
    }

    /// How often such work was begun.
    pub(super) fn begun(&self, which: impl Fn(&Work) -> bool) -> usize {
        let begun = self.done.iter();
        begun
            .filter(|effect| matches!(effect, RolloutEffect::Begin(work) if which(work)))
            .count()
    }

    /// Lets this many seconds pass; in each, work ends and calls are made.
    pub(super) fn run(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.settle();
            self.work();
            self.settle();
            self.call();
            self.settle();
            self.seconds += 1;
        }
    }

    /// Decides and performs until there is nothing to do.
    pub(super) fn settle(&mut self) {
        for _ in 0..100 {
            match decide(&self.facts, self.now()) {
                RolloutDecision::Wait(_) => {
                    self.generations = self.facts.generations().collect();
                    return;
                }
                RolloutDecision::Do(effects) => {
                    assert!(!effects.is_empty(), "nothing to do is a wait");
                    for effect in effects {
                        self.perform(effect);
                    }
                }
            }
        }
        panic!("it never rests: {:?}", &self.done[self.done.len() - 12..]);
    }

    fn perform(&mut self, effect: RolloutEffect) {
        self.check(&effect);
        let now = self.now();
        self.facts.performed(&effect, now);
        if matches!(effect, RolloutEffect::Shadow(_) | RolloutEffect::Canary(_)) {
            self.facts.tally = TrialTally::default();
        }
        if self.is_online {
            self.stored = self.record().clone();
        }
        if let RolloutEffect::Clear(order) = &effect {
            match order {
                Order::RollBack => self.orders.roll_back = false,
                Order::Retry(_) => self.orders.retry = None,
            }
            if self.is_online {
                self.facts.ordered(self.orders.clone());
            }
        }
        self.done.push(effect);
    }

    /// Asserts the guarantees before `effect` is performed.
    fn check(&self, effect: &RolloutEffect) {
        let record = self.record();
        let serves = self.serves();
        let approved = |digest: &str| {
            record.is_approved(digest)
                || self.facts.rules.approve_within_grants
                // No approval is needed without an active version, nor for it, the serving or the previous one.
                || record.active.as_ref().is_none_or(|it| it.release.digest == digest)
                || serves.as_deref() == Some(digest)
                || record
                    .previous
                    .as_ref()
                    .is_some_and(|it| it.digest == digest)
        };
        match effect {
            RolloutEffect::Place(release) => {
                let digest = &release.digest;
                assert!(!record.is_rejected(digest), "a rejected version serves");
                let ready = self.ready();
                assert_eq!(ready.release.digest, *digest, "something else is ready");
                if self.kinds[digest] == Kind::Wider {
                    assert!(approved(digest), "a wider version serves unapproved");
                }
            }
            RolloutEffect::Begin(work) => {
                let digest = &work.release().digest;
                assert!(self.facts.work.is_none(), "two works at a time");
                assert!(!record.is_rejected(digest), "a rejected version is tried");
                let starts = matches!(work, Work::Compile(_) | Work::Load(_));
                if starts && self.kinds[digest] == Kind::Wider {
                    assert!(approved(digest), "a wider version is started unapproved");
                }
            }
            RolloutEffect::Shadow(release) | RolloutEffect::Canary(release) => {
                assert!(serves.is_some());
                assert_eq!(
                    self.ready().release.digest,
                    release.digest,
                    "something else is ready"
                );
                assert!(!record.is_rejected(&release.digest));
                let may_change = self.orders.allow_changes.as_ref() == Some(&release.digest);
                assert!(
                    may_change || self.kinds[&release.digest] != Kind::Rewrites,
                    "what would change everything is tried"
                );
            }
            RolloutEffect::Keep(new) => self.check_record(new),
            _ => {}
        }
    }

    /// The version that is ready, whose code must be there.
    fn ready(&self) -> &Loaded {
        let ready = self.facts.ready.as_ref().unwrap();
        assert!(
            self.generations.contains(&ready.generation),
            "the code of what is ready is gone"
        );
        ready
    }

    fn check_record(&self, new: &Record) {
        let old = self.record();
        assert!(new.rejected.len() <= MOST_REJECTED && new.approved.len() <= MOST_APPROVED);
        assert!(new.trouble.len() <= MOST_REASON);
        let digest_of =
            |record: &Record| record.active.as_ref().map(|it| it.release.digest.clone());
        let (was, is) = (digest_of(old), digest_of(new));
        assert!(
            is.is_some() || was.is_none(),
            "what was active is forgotten"
        );
        if let Some(is) = &is {
            assert!(!new.is_rejected(is), "what is rejected is active");
        }
        if was != is
            && let Some(was) = was
        {
            let is_kept = new.previous.as_ref().is_some_and(|it| it.digest == was);
            assert!(is_kept || new.is_rejected(&was), "what served is not kept");
        } else if new.previous != old.previous {
            let lost = &old.previous.as_ref().unwrap().digest;
            assert!(new.is_rejected(lost), "what served before is lost");
        }
        for one in &old.rejected {
            let may_go = self.orders.retry.as_ref() == Some(&one.digest)
                || old.rejected.len() == MOST_REJECTED;
            assert!(
                new.is_rejected(&one.digest) || may_go,
                "a rejection is forgotten"
            );
        }
    }

    /// The work under way ends as its module behaves.
    pub(super) fn work(&mut self) {
        let Some(work) = self.facts.work.clone() else {
            return;
        };
        let digest = work.release().digest.clone();
        let number = u8::from_str_radix(&digest[7..9], 16).unwrap();
        let kind = self.kinds[&digest];
        let requests = match kind {
            Kind::Wider => "POST /servers",
            _ => "GET /servers",
        };
        let offer = self.facts.offer.as_ref();
        let is_offered = offer.is_some_and(|offer| offer.release.digest == digest);
        let is_gone = self.gone.contains(&digest) && !is_offered;
        let policy_generation = self.facts.policy_generation;
        self.attempts += 1;
        let covered = policy_generation >= self.enough;
        let loaded = Loaded {
            generation: self.loads + 1,
            release: release(number),
            policy_generation,
            noted: Noted {
                requests: Some(requests.to_owned()),
                highest: None,
            },
        };
        let end = match (&work, kind) {
            (Work::Load(_) | Work::Examine(_), _) if is_gone => Cause::Gone.because("it is gone"),
            (Work::Load(_) | Work::Examine(_), Kind::Ungranted) if !covered => {
                Cause::Policy.because("+ DELETE /servers/*")
            }
            (Work::Load(_) | Work::Examine(_), Kind::Distrusted) if !covered => {
                Cause::Trust.because("nobody vouches for it")
            }
            (Work::Load(_) | Work::Compile(_), Kind::Broken) => {
                Cause::Module.because("it does not compile")
            }
            (Work::Load(_) | Work::Compile(_), Kind::Flaky) if !self.attempts.is_multiple_of(3) => {
                Cause::Circumstances.because("the disk is full")
            }
            (Work::Load(_), _) if self.unreachable.contains(&digest) => {
                Cause::Circumstances.because("no route to host")
            }
            (Work::SelfTest(_), Kind::FailsSelfTest) => Cause::Module.because("denied"),
            (Work::Plan(_), kind) => WorkResult::Planned(Plans {
                asked: 6,
                serving: 0,
                candidate: match kind {
                    Kind::Rewrites => 6,
                    Kind::Adjusts => 2,
                    _ => 0,
                },
            }),
            (Work::Examine(_), kind) => WorkResult::Examined {
                release: release(number),
                wider: match kind {
                    Kind::Wider => vec!["+ POST /servers".to_owned()],
                    _ => Vec::new(),
                },
            },
            (Work::Ask(_), Kind::FailsCalls) if self.facts.serving.is_none() => {
                Cause::Module.because("it traps")
            }
            (Work::Load(_) | Work::Compile(_), kind) => {
                self.loads += 1;
                self.generations.insert(self.loads);
                WorkResult::Loaded {
                    loaded: Box::new(loaded),
                    fits: kind != Kind::Reshaped,
                }
            }
            (Work::SelfTest(_) | Work::Ask(_), _) => WorkResult::Passed,
        };
        let now = self.now();
        self.facts.ended(&work, policy_generation, end, now);
    }

    /// One call of each version on trial.
    pub(super) fn call(&mut self) {
        let Some(candidate) = &self.facts.candidate else {
            return;
        };
        let kind = self.kinds[&candidate.release.digest];
        let tally = &mut self.facts.tally;
        match candidate.step {
            Step::Shadow(_) => {
                tally.compared += 1;
                if kind == Kind::Differs {
                    tally.differences.push("node-1: zone a, zone b".to_owned());
                }
            }
            Step::Canary(_) => {
                tally.candidate.calls += 1;
                tally.serving.calls += 1;
                if kind == Kind::FailsCalls && tally.candidate.calls.is_multiple_of(10) {
                    *tally.candidate.errors.entry("unavailable").or_default() += 1;
                }
            }
            _ => {}
        }
    }
}
