//! Load balancers from end to end: a cluster in memory, the real controllers and host, the shipped guest in its
//! sandbox, and a simulated Hetzner Cloud. The cost of each event in requests; ten thousand random operations in which
//! requests fail and managers die; mistakes and attacks of tenants; and the switch from the Go manager.
//!
//! `CCM_LB_OPERATIONS` sets the number of random operations, and `CCM_LB_SEED=n` makes the run of that seed again.

mod account;
mod counts;
mod crash;
mod drop_in;
mod faults;
mod input;
mod inventory;
mod large;
mod migration;
mod mortal_manager;
mod mutant;
mod run;
mod tenants;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ccm_tests::counts::{Count, number};
use ccm_tests::harness::{figure, trial};
use libtest_mimic::{Failed, Trial};

use mutant::Mutant;
use run::Ended;

/// Number of random operations.
const OPERATIONS: Count = Count {
    variable: "CCM_LB_OPERATIONS",
    default: 200,
    ci: 2_000,
    full: 10_000,
};
/// Number of a manager's defects that the law must catch.
const MUTANTS: Count = Count {
    variable: "CCM_LB_MUTANTS",
    default: 1,
    ci: 9,
    full: 9,
};
/// Operations of each run: few enough to read a failing one.
const IN_ONE_RUN: u64 = 200;
/// Number of managers that die in each run.
const CRASHES: u64 = 2;
/// This many runs are enough to catch every mutant.
const MUTANT_RUNS: u64 = 6;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = counts::trials();
    trials.extend(drop_in::trials());
    trials.extend(input::trials());
    trials.extend(large::trials());
    trials.extend(migration::trials());
    trials.push(trial(
        "load_balancers::random_operations_leak_nothing_and_make_nothing_twice",
        random_operations,
    ));
    let defects = (0..).zip(Mutant::ALL);
    trials.extend(defects.map(|(number, mutant)| defect_is_caught(number, mutant)));
    trials
}

fn random_operations() -> Result<(), Failed> {
    if let Some(seed) = number("CCM_LB_SEED")? {
        // With all log lines of the controllers and the host.
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .init();
        let ended = run::run(seed, IN_ONE_RUN, CRASHES, None)?;
        let log = ended.log.join("\n");
        let wrong = ended.wrong.join("\n");
        return Err(format!("as asked for, seed {seed}:\n{log}\n{wrong}").into());
    }
    let operations = OPERATIONS.get()?;
    let runs = operations.div_ceil(IN_ONE_RUN);
    let (next, all) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= runs {
                        return;
                    }
                    let ended = run::run(seed, IN_ONE_RUN, CRASHES, None);
                    all.lock().unwrap().push((seed, ended));
                }
            });
        }
    });
    let all = all.into_inner().unwrap();
    if all.len() != usize::try_from(runs)? {
        return Err("a run panicked, see above".into());
    }
    let mut sum = Ended::default();
    for (seed, ended) in all {
        let ended = ended?;
        sum.operations += ended.operations;
        sum.faults += ended.faults;
        sum.crashes += ended.crashes;
        sum.leaked += ended.leaked;
        sum.duplicated += ended.duplicated;
        sum.requests += ended.requests;
        if !ended.wrong.is_empty() {
            let wrong = ended.wrong.join("; ");
            sum.wrong.push(format!("CCM_LB_SEED={seed}: {wrong}"));
        }
    }
    figure(format!(
        "load balancers: {} operations, {} faults in {} cloud requests, {} crashes, {} leaked, {} duplicated",
        sum.operations, sum.faults, sum.requests, sum.crashes, sum.leaked, sum.duplicated,
    ));
    match sum.wrong.is_empty() {
        true => Ok(()),
        false => Err(sum.wrong.join("\n").into()),
    }
}

/// A test of the law above, and not of the product: by default one defect is tried, in CI all.
fn defect_is_caught(number: u64, mutant: Mutant) -> Trial {
    let name = format!("load_balancers::defects_of_the_manager_are_caught::{mutant:?}");
    let is_tried = MUTANTS.get().map_or(true, |count| number < count);
    trial(name, move || is_caught(mutant)).with_ignored_flag(!is_tried)
}

fn is_caught(mutant: Mutant) -> Result<(), Failed> {
    MUTANTS.get()?;
    for seed in 0..MUTANT_RUNS {
        let ended = run::run(seed, IN_ONE_RUN, 1, Some(mutant))?;
        if let Some(first) = ended.wrong.first() {
            let first: String = first.chars().take(120).collect();
            figure(format!("with {mutant:?}: caught by run {seed}, {first}"));
            return Ok(());
        }
    }
    Err(format!("{MUTANT_RUNS} runs did not catch it").into())
}
