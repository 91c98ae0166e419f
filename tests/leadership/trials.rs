//! Many trials: two processes with short leases, work that never ends, and each time something else that
//! befalls one of them. The recorded traffic is judged after each.
//!
//! `CCM_LEADERSHIP_TRIALS` says how many (11: one of each kind). The seed is printed; with `CCM_LEADERSHIP_SEED` it is
//! given, and `CCM_LEADERSHIP_TRIAL` runs only the trial with that number.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_tests::link::Cut;
use k8s_openapi::jiff::Timestamp;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::cases::bites;
use crate::clock;
use crate::draw::{KINDS, Kind, Trial};
use crate::oracle::Timings;
use crate::rig::{LEASE, Load, Rig};

/// How long a process may take to end after it has lost the lease: a second, and what a loaded machine adds until the
/// end is seen.
const UNTIL_ENDED: Duration = Duration::from_millis(1500);

/// How long a process that was told to stop may wait for what is on the wire, and then end.
const UNTIL_STOPPED: Duration = Duration::from_millis(11_500);

const SLOW: Duration = Duration::from_secs(2);

/// How many clusters are tried side by side: mostly everybody waits for a lease to end.
const LANES: usize = 3;

/// What came of the trials of one kind.
#[derive(Default)]
struct Tally {
    trials: usize,
    /// From when the leader was gone, or cut off, until another process had the lease.
    takeovers: Vec<Duration>,
    /// From when a process had lost the lease until it had ended.
    exits: Vec<Duration>,
}

/// What came of all trials on one cluster, or on all.
#[derive(Default)]
struct Sum {
    tallies: BTreeMap<Kind, Tally>,
    judged: usize,
    late: usize,
    oldest: Duration,
    nodes: usize,
    unsaid: usize,
    forged: usize,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        for (kind, tally) in other.tallies {
            let mine = self.tallies.entry(kind).or_default();
            mine.trials += tally.trials;
            mine.takeovers.extend(tally.takeovers);
            mine.exits.extend(tally.exits);
        }
        self.judged += other.judged;
        self.late += other.late;
        self.oldest = self.oldest.max(other.oldest);
        self.nodes += other.nodes;
        self.unsaid += other.unsaid;
        self.forged += other.forged;
    }
}

/// Where a trial stands.
struct Scene<'a> {
    rig: &'a mut Rig,
    trial: &'a Trial,
    leader: u32,
    standby: u32,
    tally: &'a mut Tally,
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_request_is_begun_by_a_process_that_does_not_hold_the_lease_whatever_befalls_it() {
    let began = Instant::now();
    let now = u64::try_from(Timestamp::now().as_microsecond()).unwrap();
    let seed = number("CCM_LEADERSHIP_SEED").unwrap_or(now);
    let count = number("CCM_LEADERSHIP_TRIALS").unwrap_or(KINDS.len() as u64);
    let count = usize::try_from(count).unwrap();
    let only = number("CCM_LEADERSHIP_TRIAL").map(|only| usize::try_from(only).unwrap());
    println!("CCM_LEADERSHIP_SEED={seed} CCM_LEADERSHIP_TRIALS={count}");

    let wanted: Vec<usize> = only.map_or(0..count, |only| only..only + 1).collect();
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let numbers = wanted.iter().copied().skip(lane).step_by(LANES);
        lanes.spawn(on_one_cluster(seed, numbers.collect()));
    }
    let mut sum = Sum::default();
    while let Some(lane) = lanes.join_next().await {
        sum.add(lane.unwrap());
    }

    assert!(sum.nodes > 0 && sum.judged > sum.nodes, "nothing happened");
    println!("\nkind, trials; take-over and exit in seconds: min / p50 / p99 / max");
    for (kind, tally) in &mut sum.tallies {
        let takeovers = percentiles(&mut tally.takeovers);
        let exits = percentiles(&mut tally.exits);
        println!(
            "{kind:?}, {}; take-over {takeovers}; exit {exits}",
            tally.trials
        );
    }
    println!(
        "{} trials in {:.1} min: {} requests judged, {} against the rules; the oldest began {:.2} s after a renewal (limit {:.2} s); \
         {} nodes initialised once ({} without an Event); {} forged requests were noticed",
        wanted.len(),
        began.elapsed().as_secs_f64() / 60.0,
        sum.judged,
        sum.late,
        sum.oldest.as_secs_f64(),
        Timings::SHORT.renew.as_secs_f64(),
        sum.nodes,
        sum.unsaid,
        sum.forged,
    );
}

/// The trials with these numbers, one after the other. A process that survives one goes into the next.
async fn on_one_cluster(seed: u64, numbers: Vec<usize>) -> Sum {
    let mut sum = Sum::default();
    if numbers.is_empty() {
        return sum;
    }
    let mut rig = Rig::start(Timings::SHORT, Load::Steady).await;
    rig.work.start();
    rig.start_replica();
    rig.leader().await;
    for number in numbers {
        let trial = Trial::draw(seed, number, rig.timings);
        println!("trial {number}: {trial:?}");
        let tally = sum.tallies.entry(trial.kind).or_default();
        tally.trials += 1;
        run(&mut rig, &trial, tally).await;
        let done = rig.converge().await;
        sum.nodes += done.nodes;
        sum.unsaid += done.unsaid;
        let judgement = rig.judge();
        if let Some(first) = judgement.findings.first() {
            let findings: Vec<_> = judgement.findings.iter().map(ToString::to_string).collect();
            panic!(
                "trial {number} of seed {seed}, {trial:?}:\n{}\n{}",
                findings.join("\n"),
                rig.story_until(first.record.at + rig.timings.retry)
            );
        }
    }
    let judgement = rig.judge();
    sum.judged = judgement.judged;
    sum.late = judgement.findings.len();
    sum.oldest = judgement.oldest;
    sum.forged = bites(rig.recorder.traffic(), rig.timings);
    sum
}

fn percentiles(times: &mut [Duration]) -> String {
    times.sort();
    let Some(last) = times.len().checked_sub(1) else {
        return "-".to_owned();
    };
    // Rounded up, so that few trials have their worst one as the 99th percentile.
    let at = |percent: usize| times[(last * percent).div_ceil(100)].as_secs_f64();
    format!(
        "{:.2} / {:.2} / {:.2} / {:.2}",
        at(0),
        at(50),
        at(99),
        at(100)
    )
}

/// Gets two processes that are well, lets it happen to them, and holds what must come of it.
async fn run(rig: &mut Rig, trial: &Trial, tally: &mut Tally) {
    rig.all_run();
    let mut leader = rig.leader().await;
    let mut standby = match rig.replicas.iter().find(|replica| replica.number != leader) {
        Some(replica) => replica.number,
        None => match trial.kind {
            Kind::ClockOfLeader | Kind::ClockOfStandby => clock::start_replica(rig),
            _ => rig.start_replica(),
        },
    };
    rig.stands_by(standby).await;
    if matches!(trial.kind, Kind::ClockOfLeader | Kind::ClockOfStandby) {
        (leader, standby) = with_clock(rig, trial.kind, leader, standby).await;
    }
    sleep(trial.moment).await;
    let mut scene = Scene {
        rig,
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

/// Sees to it that the one whose clock is to step was started with one that can.
async fn with_clock(rig: &mut Rig, kind: Kind, leader: u32, standby: u32) -> (u32, u32) {
    let wanted = if kind == Kind::ClockOfLeader {
        leader
    } else {
        standby
    };
    if rig.replica(wanted).clock.is_some() {
        return (leader, standby);
    }
    if rig.replica(standby).clock.is_none() {
        rig.replica(standby).process.terminate().unwrap();
        rig.ended(standby).await;
        let new = clock::start_replica(rig);
        rig.stands_by(new).await;
        if kind == Kind::ClockOfStandby {
            return (leader, new);
        }
    }
    let old = rig.leader().await;
    rig.replica(old).process.terminate().unwrap();
    rig.ended(old).await;
    let (new, _) = rig.successor(old).await;
    let standby = rig.start_replica();
    rig.stands_by(standby).await;
    (new, standby)
}

impl Scene<'_> {
    /// The leader must end by itself, with code 1, within a second after `lost`.
    async fn ends_after(&mut self, lost: impl Fn(&Rig) -> Timestamp) {
        let (ended, status) = self.rig.ended(self.leader).await;
        self.rig.recorder.refresh(&self.rig.api, &self.rig.cloud);
        let lost = lost(self.rig);
        let took = ended.duration_since(lost);
        let is_prompt = took <= k8s_openapi::jiff::SignedDuration::try_from(UNTIL_ENDED).unwrap();
        assert!(
            is_prompt && status.code() == Some(1),
            "{:?}: lost the lease at {lost}, ended at {ended} with {status}:\n{}",
            self.trial,
            self.rig.story()
        );
        self.tally.exits.push(took.try_into().unwrap_or_default());
    }

    /// The other process must take over; `gone` is when the leader was out of the way.
    async fn is_succeeded(&mut self, gone: Timestamp) {
        let (successor, taken) = self.rig.successor(self.leader).await;
        assert_eq!(successor, self.standby);
        let took = taken.duration_since(gone).unsigned_abs();
        self.tally.takeovers.push(took);
    }

    /// Waits until the leader has renewed the lease twice more, and nobody has ended.
    async fn leads_on(&mut self) {
        for _ in 0..2 {
            let (leader, now) = (self.leader, Timestamp::now());
            let what = format!("{leader} to lead on after {:?}", self.trial);
            self.rig
                .until(&what, |rig| {
                    rig.all_run();
                    rig.recorder.renewed(leader).filter(|at| *at > now)
                })
                .await;
        }
        let holder = self.rig.recorder.holder().map(|(holder, _)| holder);
        assert_eq!(holder, Some(self.leader));
    }

    async fn killed(&mut self) {
        let now = Timestamp::now();
        self.rig.replica(self.leader).process.kill();
        self.rig.forget(self.leader);
        self.is_succeeded(now).await;
    }

    async fn paused(&mut self) {
        let now = Timestamp::now();
        self.rig.replica(self.leader).process.pause().unwrap();
        sleep(self.trial.time).await;
        let resumed = Timestamp::now();
        self.rig.replica(self.leader).process.resume().unwrap();
        self.ends_after(|_| resumed).await;
        self.is_succeeded(now).await;
    }

    async fn paused_shortly(&mut self) {
        self.rig.replica(self.leader).process.pause().unwrap();
        sleep(self.trial.time).await;
        self.rig.replica(self.leader).process.resume().unwrap();
        self.leads_on().await;
    }

    async fn cut(&mut self, cut: Cut) {
        let now = Timestamp::now();
        self.rig.replica(self.leader).api.cut(cut);
        let (leader, renew) = (self.leader, self.rig.timings.renew);
        self.ends_after(|rig| rig.recorder.renewed(leader).unwrap() + renew)
            .await;
        self.is_succeeded(now).await;
    }

    async fn stolen(&mut self) {
        let stolen = self.rig.steal(LEASE).await;
        let leader = self.leader;
        self.ends_after(|rig| rig.recorder.told(leader, stolen).unwrap())
            .await;
        self.is_succeeded(stolen).await;
    }

    async fn clock_of_leader(&mut self) {
        let seconds = clock::step(self.rig.replica(self.leader), self.trial.back);
        sleep(self.rig.timings.lease + self.rig.timings.retry * 2).await;
        self.leads_on().await;
        clock::assert_offset(self.rig, self.leader, seconds);
    }

    async fn clock_of_standby(&mut self) {
        let seconds = clock::step(self.rig.replica(self.standby), self.trial.back);
        sleep(self.rig.timings.lease + self.rig.timings.retry * 2).await;
        self.leads_on().await;
        self.killed().await;
        clock::assert_offset(self.rig, self.standby, seconds);
    }

    /// A leader whose renewals are never answered in time must end; one that copes leads on.
    async fn slow_answers(&mut self) {
        let now = Timestamp::now();
        let link = |scene: &mut Self, delay| {
            scene.rig.replica(scene.leader).api.delay_answers(delay);
        };
        link(self, SLOW);
        let until = Instant::now() + self.rig.timings.lease + SLOW;
        let (leader, renew) = (self.leader, self.rig.timings.renew);
        while Instant::now() < until {
            if self.rig.replica(leader).process.status().unwrap().is_some() {
                self.ends_after(|rig| rig.recorder.renewed(leader).unwrap() + renew)
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
        self.rig.replica(self.leader).process.terminate().unwrap();
        let (ended, status) = self.rig.ended(self.leader).await;
        let took = ended.duration_since(now).unsigned_abs();
        assert!(
            status.success() && took <= UNTIL_STOPPED,
            "ended after {took:?} with {status}:\n{}",
            self.rig.story()
        );
        self.tally.exits.push(took);
        self.is_succeeded(now).await;
    }
}
