//! Generations answer calls as the facts of a rollout say, whatever happens to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::moment::Moment;
use ccm_core::rollout::*;
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::sync::watch;

use super::scripted::{Scripted, generation};
use crate::active::Generation;
use crate::rollout_controller::{Served, roles};

/// The version that serves, and the one on trial with the kind of the trial.
type Seen = (Option<&'static str>, Option<(TrialKind, &'static str)>);

/// The versions, named by their index. Those with odd numbers have a shape of their own.
const VERSIONS: [&str; 7] = ["0", "1", "2", "3", "4", "5", "6"];

struct Rollout {
    facts: RolloutFacts,
    generations: BTreeMap<u64, Arc<Generation<Scripted>>>,
    served: watch::Sender<Served<Scripted>>,
    seconds: u64,
    /// The roles so far, without repetition.
    seen: Vec<Seen>,
}

#[derive(Debug, Clone)]
enum Event {
    Offer(usize),
    Withdraw,
    Policy,
    Lead,
    /// It follows a leader with whom this version is active.
    Follow(usize),
    /// It follows a leader who has rejected what serves here, and with whom nothing is active.
    Reject,
    Order(Orders),
    /// The work under way fails.
    Fail(WorkResult),
    Trap,
    /// Work ends well, calls are answered alike, and time passes.
    Run(u64),
}

fn release(number: usize) -> Release {
    Release {
        digest: VERSIONS[number].to_owned(),
        version: String::new(),
        origin: String::new(),
    }
}

fn event() -> impl Strategy<Value = Event> {
    let number = || 1..VERSIONS.len();
    let orders = |roll_back, pin: Option<usize>, retry: Option<usize>| Orders {
        roll_back,
        pin: pin.map(|number| number.to_string()),
        retry: retry.map(|number| number.to_string()),
        ..Orders::default()
    };
    let maybe = || proptest::option::of(number());
    prop_oneof![
        6 => number().prop_map(Event::Offer),
        1 => Just(Event::Withdraw),
        1 => Just(Event::Policy),
        2 => Just(Event::Lead),
        1 => number().prop_map(Event::Follow),
        1 => Just(Event::Reject),
        2 => (any::<bool>(), maybe(), maybe())
            .prop_map(move |(roll_back, pin, retry)| Event::Order(orders(roll_back, pin, retry))),
        1 => Just(Event::Fail(Cause::Circumstances.because("the network is away"))),
        1 => Just(Event::Fail(Cause::Module.because("it is broken"))),
        1 => Just(Event::Fail(Cause::Gone.because("it is nowhere"))),
        1 => Just(Event::Trap),
        8 => (1..20_u64).prop_map(Event::Run),
    ]
}

impl Rollout {
    fn new() -> Rollout {
        let mut facts = RolloutFacts {
            rules: RolloutRules {
                shadow_comparisons: 3,
                canary_calls: 3,
                ..RolloutRules::default()
            },
            ..RolloutFacts::default()
        };
        facts.leads(None);
        Rollout {
            facts,
            generations: BTreeMap::new(),
            served: watch::Sender::new(Served::Starting),
            seconds: 1_000,
            seen: Vec::new(),
        }
    }

    fn now(&self) -> RolloutTime {
        RolloutTime {
            moment: Moment(Duration::from_secs(self.seconds)),
            wall: self.seconds,
        }
    }

    fn assign(&self) -> Result<(), roles::NotLoaded> {
        let generation = |loaded: &Loaded| self.generations.get(&loaded.generation).cloned();
        roles::assign("entry", &self.facts, generation, &self.served)
    }

    fn happens(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Offer(number) => self.facts.offered(release(number), now),
            Event::Withdraw => self.facts.unoffered("there is nothing", true),
            Event::Policy => self.facts.policy_changed(),
            Event::Lead if self.facts.role == Role::Follower => {
                self.facts.leads(self.facts.record.clone());
            }
            Event::Lead => {}
            Event::Follow(number) => {
                self.facts.follows();
                let mut record = self.facts.record.clone().unwrap();
                if let Some(active) = &mut record.active {
                    active.release = release(number);
                }
                self.facts.read(Some(record));
            }
            Event::Reject => {
                let serving = self.facts.serving.as_ref();
                let digest = serving.map(|serving| serving.release.digest.clone());
                self.facts.follows();
                let rejected = digest.map(|digest| Rejected {
                    digest,
                    version: String::new(),
                    reason: "it traps".to_owned(),
                    has_answered: false,
                    at: 7,
                });
                self.facts.read(Some(Record {
                    rejected: rejected.into_iter().collect(),
                    ..Record::default()
                }));
            }
            Event::Order(orders) => self.facts.ordered(orders),
            Event::Fail(result) => self.ends(result),
            Event::Trap => self.facts.tally.fatal = Some("trapped".to_owned()),
            Event::Run(seconds) => {
                for _ in 0..seconds {
                    self.settle();
                    self.works();
                    // Enough for either kind of trial.
                    self.facts.tally.compared = 3;
                    self.facts.tally.candidate.calls = 3;
                    self.seconds += 1;
                }
            }
        }
        self.settle();
    }

    /// As the rollout controller does.
    fn settle(&mut self) {
        while let RolloutDecision::Do(effects) = decide(&self.facts, self.now()) {
            for effect in effects {
                self.facts.performed(&effect, self.now());
                self.assign().unwrap();
                self.compare();
                match effect {
                    RolloutEffect::Clear(_) => self.facts.ordered(Orders::default()),
                    RolloutEffect::Shadow(_) | RolloutEffect::Canary(_) => {
                        self.facts.tally = TrialTally::default();
                    }
                    _ => {}
                }
            }
        }
        let used: Vec<u64> = self.facts.generations().collect();
        self.generations.retain(|number, _| used.contains(number));
        self.compare();
    }

    /// Compares the roles with the facts.
    fn compare(&mut self) {
        let facts = &self.facts;
        let generation = |loaded: &Loaded| self.generations[&loaded.generation].clone();
        let kind = facts.candidate.as_ref().and_then(|it| match it.step {
            Step::Shadow(_) => Some(TrialKind::Shadow),
            Step::Canary(_) => Some(TrialKind::Canary),
            _ => None,
        });
        let expected_serving = facts.serving.as_ref().map(generation);
        let expected_trial = kind.map(|kind| (kind, generation(facts.ready.as_ref().unwrap())));

        let active = self.served.borrow().active();
        let serving = active.as_ref().map(|active| active.serving());
        let trial = active.and_then(|active| active.trial());
        let number = |it: &Arc<Generation<Scripted>>| it.number;
        assert_eq!(
            serving.as_ref().map(number),
            expected_serving.as_ref().map(number)
        );
        let of_trial = |(kind, it): &(TrialKind, _)| (*kind, number(it));
        assert_eq!(
            trial.as_ref().map(of_trial),
            expected_trial.as_ref().map(of_trial)
        );

        let name = |it: Arc<Generation<Scripted>>| it.provider.name;
        let seen = (serving.map(name), trial.map(|(kind, it)| (kind, name(it))));
        if self.seen.last() != Some(&seen) {
            self.seen.push(seen);
        }
    }

    /// The work under way ends well.
    fn works(&mut self) {
        let Some(work) = self.facts.work.clone() else {
            return;
        };
        let release = work.release().clone();
        let end = match work {
            Work::Load(_) | Work::Compile(_) => {
                let number: usize = release.digest.parse().unwrap();
                let scheme = ["sim", "other"][number % 2];
                let loaded = Scripted::of_scheme(VERSIONS[number], scheme);
                let loaded = generation(&Arc::new(loaded));
                let active = self.served.borrow().active();
                let fits = active.is_some_and(|active| active.fits(&loaded));
                let generation = loaded.number;
                self.generations.insert(generation, loaded);
                WorkResult::Loaded {
                    loaded: Box::new(Loaded {
                        generation,
                        release,
                        policy_generation: self.facts.policy_generation,
                        noted: Noted::default(),
                    }),
                    fits,
                }
            }
            Work::Examine(_) => WorkResult::Examined {
                release,
                wider: Vec::new(),
            },
            Work::Plan(_) => WorkResult::Planned(Plans::default()),
            Work::SelfTest(_) | Work::Ask(_) => WorkResult::Passed,
        };
        self.ends(end);
    }

    fn ends(&mut self, result: WorkResult) {
        if let Some(work) = self.facts.work.clone() {
            let policy_generation = self.facts.policy_generation;
            let now = self.now();
            self.facts.ended(&work, policy_generation, result, now);
        }
    }
}

#[test]
fn each_phase_of_a_rollout_has_its_roles() {
    let mut rollout = Rollout::new();
    for number in [2, 4, 5] {
        rollout.happens(Event::Offer(number));
        rollout.happens(Event::Run(20));
    }
    let expected = [
        (None, None),
        (Some("2"), None),
        (Some("2"), Some((TrialKind::Shadow, "4"))),
        (Some("2"), Some((TrialKind::Canary, "4"))),
        (Some("4"), None),
        // Of another shape: it cannot be compared.
        (Some("5"), None),
    ];
    assert_eq!(rollout.seen, expected);
}

#[test]
fn nothing_answers_calls_once_another_process_has_rejected_what_serves() {
    let mut rollout = Rollout::new();
    rollout.happens(Event::Offer(2));
    rollout.happens(Event::Run(5));
    rollout.happens(Event::Reject);
    rollout.happens(Event::Lead);
    rollout.happens(Event::Run(5));
    rollout.happens(Event::Offer(4));
    rollout.happens(Event::Run(5));
    let expected = [
        (None, None),
        (Some("2"), None),
        (None, None),
        (Some("4"), None),
    ];
    assert_eq!(rollout.seen, expected);
}

#[test]
fn a_role_without_a_loaded_version_is_an_error_and_changes_nothing() {
    let mut rollout = Rollout::new();
    rollout.happens(Event::Offer(2));
    rollout.happens(Event::Run(5));
    rollout.happens(Event::Offer(4));
    while rollout.seen.last().unwrap().1.is_none() {
        rollout.happens(Event::Run(1));
    }
    let facts = rollout.facts.clone();
    let error = |rollout: &Rollout| rollout.assign().unwrap_err().to_string();

    rollout.facts.ready = facts.serving.clone();
    let expected = "the version that should be tried is not loaded";
    assert_eq!(error(&rollout), expected);
    rollout.facts.ready = None;
    assert_eq!(error(&rollout), expected);

    rollout.facts = facts;
    rollout.compare();
    rollout.facts.candidate = None;
    rollout.generations.clear();
    let expected = "the version that should serve is not loaded";
    assert_eq!(error(&rollout), expected);
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_the_roles_are_those_of_the_facts(events in vec(event(), 1..40)) {
        let mut rollout = Rollout::new();
        for event in events {
            rollout.happens(event);
        }
    }
}
