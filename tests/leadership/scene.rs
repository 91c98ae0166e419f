//! One trial: the event that happens to the two processes, and its required result.

use std::time::Duration;

use ccm_tests::link::Cut;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep};

use crate::clock;
use crate::draw::{Kind, Trial};
use crate::world::{LEASE, World};

/// Maximum time until a process has ended after the loss of the Lease: a second, and an allowance for a loaded machine.
const UNTIL_ENDED: Duration = Duration::from_millis(1500);

/// Maximum time until a process has ended after SIGTERM: it waits for requests on the wire.
const UNTIL_STOPPED: Duration = Duration::from_millis(11_500);

const SLOW: Duration = Duration::from_secs(2);

/// The results of the trials of one kind.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) trials: usize,
    /// Times from the end or the isolation of the leader until another process had the Lease.
    pub(crate) takeovers: Vec<Duration>,
    /// Times from the loss of the Lease until the process had ended.
    pub(crate) exits: Vec<Duration>,
}

/// The state of a trial.
struct Scene<'a> {
    world: &'a mut World,
    trial: &'a Trial,
    leader: u32,
    standby: u32,
    tally: &'a mut Tally,
}

/// Prepares two working processes, lets the event happen, and asserts the required result.
pub(crate) async fn run(world: &mut World, trial: &Trial, tally: &mut Tally) {
    if world.replicas.is_empty() {
        world.start_replica();
    }
    world.all_run();
    let mut leader = world.leader().await;
    let mut standby = match world
        .replicas
        .iter()
        .find(|replica| replica.number != leader)
    {
        Some(replica) => replica.number,
        None => match trial.kind {
            Kind::ClockOfLeader | Kind::ClockOfStandby => clock::start_replica(world),
            _ => world.start_replica(),
        },
    };
    world.stands_by(standby).await;
    if matches!(trial.kind, Kind::ClockOfLeader | Kind::ClockOfStandby) {
        (leader, standby) = with_clock(world, trial.kind, leader, standby).await;
    } else if trial.crowd && world.replicas.len() < 3 {
        let third = world.start_replica();
        world.stands_by(third).await;
    }
    sleep(trial.moment).await;
    let mut scene = Scene {
        world,
        trial,
        leader,
        standby,
        tally,
    };
    match trial.kind {
        Kind::Killed => scene.killed().await,
        Kind::PausedPastLease | Kind::PausedPastDeadline => scene.paused().await,
        Kind::PausedShortly => scene.paused_shortly().await,
        Kind::CutSilently => scene.cut(Cut::Silent).await,
        Kind::CutByReset => scene.cut(Cut::Reset).await,
        Kind::Stolen => scene.stolen().await,
        Kind::ClockOfLeader => scene.clock_of_leader().await,
        Kind::ClockOfStandby => scene.clock_of_standby().await,
        Kind::SlowAnswers => scene.slow_answers().await,
        Kind::Terminated => scene.terminated().await,
    }
}

/// Makes sure that there are two, and that the clock of the right one can step.
async fn with_clock(world: &mut World, kind: Kind, leader: u32, standby: u32) -> (u32, u32) {
    let numbers: Vec<_> = world
        .replicas
        .iter()
        .map(|replica| replica.number)
        .collect();
    for third in numbers {
        if third != leader && third != standby {
            world.replica(third).process.terminate().unwrap();
            world.ended(third).await;
        }
    }
    let wanted = if kind == Kind::ClockOfLeader {
        leader
    } else {
        standby
    };
    if world.replica(wanted).clock.is_some() {
        return (leader, standby);
    }
    if world.replica(standby).clock.is_none() {
        world.replica(standby).process.terminate().unwrap();
        world.ended(standby).await;
        let new = clock::start_replica(world);
        world.stands_by(new).await;
        if kind == Kind::ClockOfStandby {
            return (leader, new);
        }
    }
    let old = world.leader().await;
    world.replica(old).process.terminate().unwrap();
    world.ended(old).await;
    let (new, _) = world.successor(old).await;
    let standby = world.start_replica();
    world.stands_by(standby).await;
    (new, standby)
}

impl Scene<'_> {
    /// The leader must end by itself, with code 1, within a second after `lost`.
    async fn ends_after(&mut self, lost: impl Fn(&World) -> Timestamp) {
        let (ended, status) = self.world.ended(self.leader).await;
        self.world
            .recorder
            .refresh(&self.world.api, &self.world.cloud);
        let lost = lost(self.world);
        let took = ended.duration_since(lost);
        let is_prompt = took <= SignedDuration::try_from(UNTIL_ENDED).unwrap();
        assert!(
            is_prompt && status.code() == Some(1),
            "{:?}: lost the lease at {lost}, ended at {ended} with {status}:\n{}",
            self.trial,
            self.world.report()
        );
        self.tally.exits.push(took.try_into().unwrap_or_default());
    }

    /// Another process must take over; `gone` is when the leader ended or was isolated.
    async fn is_succeeded(&mut self, gone: Timestamp) {
        let (successor, taken) = self.world.successor(self.leader).await;
        let mut others = self.world.replicas.iter();
        assert!(others.any(|replica| replica.number == successor));
        let took = taken.duration_since(gone).unsigned_abs();
        self.tally.takeovers.push(took);
    }

    /// Waits until the leader has renewed the Lease twice more, and no process has ended.
    async fn leads_on(&mut self) {
        for _ in 0..2 {
            let (leader, now) = (self.leader, Timestamp::now());
            let what = format!("{leader} to lead on after {:?}", self.trial);
            self.world
                .until(&what, |world| {
                    world.all_run();
                    world.recorder.renewed(leader).filter(|at| *at > now)
                })
                .await;
        }
        let holder = self.world.recorder.holder().map(|(holder, _)| holder);
        assert_eq!(holder, Some(self.leader));
    }

    async fn killed(&mut self) {
        let now = Timestamp::now();
        self.world.replica(self.leader).process.kill();
        self.world.forget(self.leader);
        self.is_succeeded(now).await;
    }

    async fn paused(&mut self) {
        let now = Timestamp::now();
        self.world.replica(self.leader).process.pause().unwrap();
        sleep(self.trial.time).await;
        let resumed = Timestamp::now();
        self.world.replica(self.leader).process.resume().unwrap();
        self.ends_after(|_| resumed).await;
        self.is_succeeded(now).await;
    }

    async fn paused_shortly(&mut self) {
        self.world.replica(self.leader).process.pause().unwrap();
        sleep(self.trial.time).await;
        self.world.replica(self.leader).process.resume().unwrap();
        self.leads_on().await;
    }

    async fn cut(&mut self, cut: Cut) {
        let now = Timestamp::now();
        self.world.replica(self.leader).api.cut(cut);
        let (leader, renew) = (self.leader, self.world.timings.renew);
        self.ends_after(|world| world.recorder.renewed(leader).unwrap() + renew)
            .await;
        self.is_succeeded(now).await;
    }

    async fn stolen(&mut self) {
        if self.trial.meets {
            self.world.next_renewal(self.leader, self.trial.time).await;
        }
        let stolen = self.world.steal(LEASE).await;
        let leader = self.leader;
        self.ends_after(|world| world.recorder.holder_read_at(leader, stolen).unwrap())
            .await;
        self.is_succeeded(stolen).await;
    }

    async fn clock_of_leader(&mut self) {
        let seconds = clock::step(self.world.replica(self.leader), self.trial.back);
        sleep(self.world.timings.lease + self.world.timings.retry * 2).await;
        self.leads_on().await;
        clock::assert_offset(self.world, self.leader, seconds);
    }

    async fn clock_of_standby(&mut self) {
        let seconds = clock::step(self.world.replica(self.standby), self.trial.back);
        sleep(self.world.timings.lease + self.world.timings.retry * 2).await;
        self.leads_on().await;
        self.killed().await;
        clock::assert_offset(self.world, self.standby, seconds);
    }

    /// A leader whose renewals are never answered in time must end; otherwise it goes on leading.
    async fn slow_answers(&mut self) {
        let now = Timestamp::now();
        let link = |scene: &mut Self, delay| {
            scene.world.replica(scene.leader).api.delay_answers(delay);
        };
        link(self, SLOW);
        let until = Instant::now() + self.world.timings.lease + SLOW;
        let (leader, renew) = (self.leader, self.world.timings.renew);
        while Instant::now() < until {
            if self
                .world
                .replica(leader)
                .process
                .status()
                .unwrap()
                .is_some()
            {
                self.ends_after(|world| world.recorder.renewed(leader).unwrap() + renew)
                    .await;
                return self.is_succeeded(now).await;
            }
            sleep(Duration::from_millis(10)).await;
        }
        link(self, Duration::ZERO);
        self.leads_on().await;
    }

    async fn terminated(&mut self) {
        let now = Timestamp::now();
        self.world.replica(self.leader).process.terminate().unwrap();
        let (ended, status) = self.world.ended(self.leader).await;
        let took = ended.duration_since(now).unsigned_abs();
        assert!(
            status.success() && took <= UNTIL_STOPPED,
            "ended after {took:?} with {status}:\n{}",
            self.world.report()
        );
        self.tally.exits.push(took);
        self.is_succeeded(now).await;
    }
}
