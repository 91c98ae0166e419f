//! Many trials: two or three processes with short leases, work that never ends, and each time another event that
//! happens to one of them. The recorded traffic is judged after each.
//!
//! `CCM_LEADERSHIP_TRIALS` sets their number (11: one of each kind). The seed is printed; `CCM_LEADERSHIP_SEED` sets
//! it, and `CCM_LEADERSHIP_TRIAL` runs only the trial with that number.
//!
//! A machine that stalls for a moment can cost a leader its Lease, or make the end of a process look late. A failed
//! trial during which it did is void and repeated. The oracle's findings always count.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::Duration;

use ccm_tests::counts::Count;
use futures::FutureExt as _;
use k8s_openapi::jiff::Timestamp;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cases::bites;
use crate::draw::{KINDS, Kind, Trial};
use crate::oracle::Timings;
use crate::scene::{Tally, run};
use crate::world::{Load, World};

/// Number of clusters that are tested in parallel: most of the time is spent waiting for a lease to end.
const PARALLEL_CLUSTERS: usize = 4;

/// The results of all trials on one cluster, or on all.
#[derive(Default)]
struct Sum {
    tallies: BTreeMap<Kind, Tally>,
    judged: usize,
    late: usize,
    oldest: Duration,
    nodes: usize,
    unsaid: usize,
    void: usize,
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
        self.void += other.void;
        self.forged += other.forged;
    }
}

/// Number of trials; by default one of each kind.
const TRIALS: Count = Count {
    variable: "CCM_LEADERSHIP_TRIALS",
    default: KINDS.len() as u64,
    ci: 40,
    full: 500,
};

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_request_is_begun_by_a_process_that_does_not_hold_the_lease_whatever_befalls_it() {
    let began = Instant::now();
    let now = u64::try_from(Timestamp::now().as_microsecond()).unwrap();
    let seed = number("CCM_LEADERSHIP_SEED").unwrap_or(now);
    let count = usize::try_from(TRIALS.get().unwrap()).unwrap();
    let only = number("CCM_LEADERSHIP_TRIAL").map(|only| usize::try_from(only).unwrap());
    println!("CCM_LEADERSHIP_SEED={seed} CCM_LEADERSHIP_TRIALS={count}");

    let wanted: Vec<usize> = only.map_or(0..count, |only| only..only + 1).collect();
    let mut lanes = JoinSet::new();
    for permit in 0..PARALLEL_CLUSTERS {
        let numbers = wanted
            .iter()
            .copied()
            .skip(permit)
            .step_by(PARALLEL_CLUSTERS);
        lanes.spawn(on_one_cluster(seed, numbers.collect()));
    }
    let mut sum = Sum::default();
    while let Some(permit) = lanes.join_next().await {
        sum.add(permit.unwrap());
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
         {} nodes initialised once ({} without an Event); {} forged requests were noticed; {} trials were void",
        wanted.len(),
        began.elapsed().as_secs_f64() / 60.0,
        sum.judged,
        sum.late,
        sum.oldest.as_secs_f64(),
        Timings::SHORT.renew.as_secs_f64(),
        sum.nodes,
        sum.unsaid,
        sum.forged,
        sum.void,
    );
    assert!(
        sum.void <= (wanted.len() / 5).max(1),
        "the machine is too busy"
    );
}

/// The trials with these numbers, one after the other. A process that survives one goes into the next.
async fn on_one_cluster(seed: u64, numbers: Vec<usize>) -> Sum {
    let mut sum = Sum::default();
    if numbers.is_empty() {
        return sum;
    }
    let mut world = World::start(Timings::SHORT, Load::Steady).await;
    world.work.start();
    let mut numbers = VecDeque::from(numbers);
    while let Some(number) = numbers.pop_front() {
        let trial = Trial::draw(seed, number, world.timings);
        println!("trial {number}: {trial:?}");
        let mut tally = Tally::default();
        let whole = async {
            run(&mut world, &trial, &mut tally).await;
            world.converge().await
        };
        let outcome = AssertUnwindSafe(whole).catch_unwind().await;
        // Before anything else, whatever went wrong.
        let judgement = world.judge();
        if let Some(first) = judgement.findings.first() {
            let findings: Vec<_> = judgement.findings.iter().map(ToString::to_string).collect();
            panic!(
                "trial {number} of seed {seed}, {trial:?}:\n{}\n{}",
                findings.join("\n"),
                world.report_until(first.record.at + world.timings.retry)
            );
        }
        let stall = world.stalls.take();
        match outcome {
            Ok(done) => {
                tally.trials = 1;
                sum.nodes += done.nodes;
                sum.unsaid += done.unsaid;
                let kind = BTreeMap::from([(trial.kind, tally)]);
                sum.add(Sum {
                    tallies: kind,
                    ..Sum::default()
                });
            }
            Err(panic) => {
                let Some(stall) = stall else {
                    resume_unwind(panic);
                };
                println!(
                    "trial {number} is void and comes again: the machine stood still for {stall:?}"
                );
                sum.void += 1;
                assert!(sum.void < 100, "the machine is too busy");
                world.replicas.clear();
                numbers.push_back(number);
            }
        }
    }
    let judgement = world.judge();
    sum.judged = judgement.judged;
    sum.late = judgement.findings.len();
    sum.oldest = judgement.oldest;
    sum.forged = bites(world.recorder.traffic(), world.timings);
    sum
}

fn percentiles(times: &mut [Duration]) -> String {
    times.sort();
    let Some(last) = times.len().checked_sub(1) else {
        return "-".to_owned();
    };
    // Rounded up, so that the 99th percentile of few trials is their worst one.
    let at = |percent: usize| times[(last * percent).div_ceil(100)].as_secs_f64();
    format!(
        "{:.2} / {:.2} / {:.2} / {:.2}",
        at(0),
        at(50),
        at(99),
        at(100)
    )
}
