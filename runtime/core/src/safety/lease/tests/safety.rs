//! Several electors, one Lease, and everything that can happen in between: clocks that differ by half, late or lost
//! requests and answers, processes that are suspended, and another writer of annotations. No two electors may ever
//! begin anything at the same moment.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::safety::tenure::Tenure;

/// Fine enough that no limit is stepped over.
const TICK: u64 = 50;

/// The clock, the network and the suspension of one participant.
#[derive(Debug, Clone)]
struct ReplicaSetup {
    /// How much faster its clock runs than time, in hundredths.
    rate: u64,
    /// The time at which its clock began.
    offset: u64,
    /// For each of its requests in turn: milliseconds to the server, milliseconds back, and which part is lost.
    ways: Vec<(u64, u64, Fate)>,
    /// When the process is suspended, and for how long.
    pause: (u64, u64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Arrives,
    RequestLost,
    AnswerLost,
}

fn replica_setup() -> impl Strategy<Value = ReplicaSetup> {
    let fate = prop_oneof![
        8 => Just(Fate::Arrives),
        1 => Just(Fate::RequestLost),
        1 => Just(Fate::AnswerLost),
    ];
    let delay = || prop_oneof![6 => 0u64..200, 1 => 0u64..7_000];
    (
        100u64..=150,
        0u64..1_000_000,
        vec((delay(), delay(), fate), 1..40),
        (0u64..120_000, prop_oneof![Just(0u64), 0u64..40_000]),
    )
        .prop_map(|(rate, offset, ways, pause)| ReplicaSetup {
            rate,
            offset,
            ways,
            pause,
        })
}

/// The one Lease, as an API server keeps it.
#[derive(Default)]
struct Server {
    lease: Option<Box<Lease>>,
    version: u64,
}

impl Server {
    fn answer(&mut self, ask: &LeaseRequest) -> LeaseReply {
        let version = |lease: &Lease| lease.metadata.resource_version.clone();
        match (ask, &self.lease) {
            (LeaseRequest::Read, Some(lease)) => LeaseReply::Lease(lease.clone()),
            (LeaseRequest::Read | LeaseRequest::Replace(_), None) => LeaseReply::Absent,
            (LeaseRequest::Create(_), Some(_)) => LeaseReply::Conflict,
            (LeaseRequest::Replace(new), Some(old)) if version(new) != version(old) => {
                LeaseReply::Conflict
            }
            (LeaseRequest::Create(new) | LeaseRequest::Replace(new), _) => self.keep(new.clone()),
        }
    }

    fn keep(&mut self, mut lease: Box<Lease>) -> LeaseReply {
        self.version += 1;
        lease.metadata.resource_version = Some(self.version.to_string());
        self.lease = Some(lease.clone());
        LeaseReply::Lease(lease)
    }

    /// Another client writes an annotation of the Lease.
    fn note(&mut self) {
        if let Some(mut lease) = self.lease.take() {
            let notes = lease.metadata.annotations.get_or_insert_default();
            notes.insert("note".to_owned(), self.version.to_string());
            self.keep(lease);
        }
    }
}

/// A request under way.
struct Pending {
    ask: LeaseRequest,
    sent: Moment,
    arrives: u64,
    answer: Option<LeaseReply>,
    /// When the answer is back; `None`: never.
    back: Option<u64>,
    given_up: Moment,
}

struct Participant {
    replica_setup: ReplicaSetup,
    lives: u64,
    elector: Elector,
    tenure: Arc<Tenure>,
    pending: Option<Pending>,
    asked: usize,
}

impl Participant {
    fn new(name: usize, replica_setup: ReplicaSetup) -> Participant {
        Participant {
            replica_setup,
            lives: 0,
            elector: elector(&format!("{name}-0")),
            tenure: Arc::new(Tenure::pending()),
            pending: None,
            asked: 0,
        }
    }

    fn clock(&self, time: u64) -> Moment {
        Moment(Duration::from_millis(
            self.replica_setup.offset + time * self.replica_setup.rate / 100,
        ))
    }

    fn stands_still(&self, time: u64) -> bool {
        let (from, how_long) = self.replica_setup.pause;
        (from..from + how_long).contains(&time)
    }

    /// Moves its request to the server and the answer back, whether the process runs or not.
    fn travel(&mut self, time: u64, server: &mut Server) {
        let Some(pending) = &mut self.pending else {
            return;
        };
        if pending.answer.is_none() && time >= pending.arrives {
            pending.answer = Some(server.answer(&pending.ask));
        }
    }

    fn run(&mut self, name: usize, time: u64) {
        let now = self.clock(time);
        if let Some(pending) = &mut self.pending {
            let is_back = pending.back.is_some_and(|back| time >= back);
            let answer = if is_back {
                pending.answer.take().unwrap()
            } else if now >= pending.given_up {
                LeaseReply::Failed
            } else {
                return;
            };
            let pending = self.pending.take().unwrap();
            self.elector
                .absorb(&pending.ask, pending.sent, now, answer, 0.3);
            if let Some(sent) = self.elector.renewed() {
                self.tenure
                    .renewed(sent, TIMING.renew_deadline, TIMING.lease_duration);
            }
        }
        match self.elector.turn(now, wall(time)) {
            LeaseAction::Wait(_) => {}
            LeaseAction::Lost(_) => {
                // The process ends, and another one begins in its place.
                self.lives += 1;
                self.elector = elector(&format!("{name}-{}", self.lives));
                self.tenure.close();
                self.tenure = Arc::new(Tenure::pending());
            }
            LeaseAction::Ask(ask) => {
                let ways = &self.replica_setup.ways;
                let (there, back, fate) = ways[self.asked % ways.len()];
                self.asked += 1;
                self.pending = Some(Pending {
                    ask,
                    sent: now,
                    arrives: if fate == Fate::RequestLost {
                        u64::MAX
                    } else {
                        time + there
                    },
                    answer: None,
                    back: (fate == Fate::Arrives).then_some(time + there + back),
                    given_up: now.after(TIMING.request_time()),
                });
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn never_may_two_begin_at_one_moment(
        natures in vec(replica_setup(), 2..5),
        notes in 200u64..5_000,
    ) {
        let mut server = Server::default();
        let mut participants: Vec<_> = natures
            .into_iter()
            .enumerate()
            .map(|(name, replica_setup)| Participant::new(name, replica_setup))
            .collect();
        let mut has_led = false;
        for time in (0..120_000).step_by(usize::try_from(TICK).unwrap()) {
            if time % notes < TICK {
                server.note();
            }
            for (name, participant) in participants.iter_mut().enumerate() {
                participant.travel(time, &mut server);
                if !participant.stands_still(time) {
                    participant.run(name, time);
                }
            }
            // A suspended process counts, too: it could begin something if it woke up now.
            let may_begin: Vec<_> = participants
                .iter()
                .enumerate()
                .filter(|(_, one)| one.tenure.may_begin(one.clock(time)))
                .map(|(name, _)| name)
                .collect();
            prop_assert!(may_begin.len() <= 1, "at {time} ms: {may_begin:?}");
            has_led |= !may_begin.is_empty();
        }
        // Where nothing is lost or late and no process is suspended, the one that creates the Lease leads.
        let well = |one: &Participant| one.replica_setup.pause.1 == 0
            && one.replica_setup.ways.iter().all(|(there, back, fate)| {
                there + back < 1_000 && *fate == Fate::Arrives
            });
        prop_assert!(has_led || !participants.iter().all(well));
    }
}
