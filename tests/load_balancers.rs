//! Load balancers from end to end: a cluster in memory, the real controllers and host, the shipped guest in its sandbox,
//! and a simulated Hetzner Cloud. What each event costs in requests; ten thousand random operations in which requests fail
//! and managers die; what tenants get wrong, or try; and the switch from the Go manager.
//!
//! `CCM_LB_OPERATIONS` says how many random operations are made, and `CCM_LB_SEED=n` makes the run of that seed again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

#[path = "load_balancers/counts.rs"]
mod counts;
#[path = "load_balancers/input.rs"]
mod input;
#[path = "load_balancers/inventory.rs"]
mod inventory;
#[path = "load_balancers/life.rs"]
mod life;
#[path = "load_balancers/migration.rs"]
mod migration;
#[path = "load_balancers/mortal.rs"]
mod mortal;
#[path = "load_balancers/mutant.rs"]
mod mutant;
#[path = "cloud_lies/random.rs"]
mod random;
#[path = "load_balancers/run.rs"]
mod run;
#[path = "load_balancers/stage.rs"]
mod stage;
#[path = "load_balancers/tenants.rs"]
mod tenants;
#[path = "load_balancers/trouble.rs"]
mod trouble;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use libtest_mimic::{Arguments, Failed, Trial};

use mutant::Mutant;
use run::Ended;

/// Without a word from outside.
const OPERATIONS: u64 = 2_000;
/// In each run, so that one that fails can be read.
const IN_ONE_RUN: u64 = 200;
/// Managers that die in each run.
const CRASHES: u64 = 2;
/// So many runs are enough to catch every mutant.
const MUTANT_RUNS: u64 = 6;

/// What is printed at the end.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Something that belongs to the result.
fn say(line: String) {
    SAID.lock().unwrap().push(line);
}

#[allow(
    clippy::print_stdout,
    reason = "what was counted and how much was tried belongs to the result"
)]
fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(stage::COMPILE) {
        return ccm_host::compile_child();
    }
    let mut trials = counts::trials();
    trials.extend(input::trials());
    trials.extend(migration::trials());
    trials.push(Trial::test(
        "random_operations_leak_nothing_and_make_nothing_twice",
        random_operations,
    ));
    for mutant in Mutant::ALL {
        let name = format!("a_manager_with_the_defect_{mutant:?}_is_caught");
        trials.push(Trial::test(name, move || is_caught(mutant)));
    }
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    for line in SAID.lock().unwrap().iter() {
        println!("{line}");
    }
    conclusion.exit_code()
}

fn number(name: &str) -> Result<Option<u64>, Failed> {
    match std::env::var(name) {
        Err(_) => Ok(None),
        Ok(text) => match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(format!("{name}={text} is not a number").into()),
        },
    }
}

fn random_operations() -> Result<(), Failed> {
    if let Some(seed) = number("CCM_LB_SEED")? {
        // With everything that the controllers and the host say.
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .init();
        let ended = run::run(seed, IN_ONE_RUN, CRASHES, None)?;
        let log = ended.log.join("\n");
        let wrong = ended.wrong.join("\n");
        return Err(format!("as asked for, seed {seed}:\n{log}\n{wrong}").into());
    }
    let operations = number("CCM_LB_OPERATIONS")?.unwrap_or(OPERATIONS);
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
    say(format!(
        "load balancers: {} operations, {} faults in {} cloud requests, {} crashes, {} leaked, {} duplicated",
        sum.operations, sum.faults, sum.requests, sum.crashes, sum.leaked, sum.duplicated,
    ));
    match sum.wrong.is_empty() {
        true => Ok(()),
        false => Err(sum.wrong.join("\n").into()),
    }
}

fn is_caught(mutant: Mutant) -> Result<(), Failed> {
    for seed in 0..MUTANT_RUNS {
        let ended = run::run(seed, IN_ONE_RUN, 1, Some(mutant))?;
        if let Some(first) = ended.wrong.first() {
            let first: String = first.chars().take(120).collect();
            say(format!("with {mutant:?}: caught by run {seed}, {first}"));
            return Ok(());
        }
    }
    Err(format!("{MUTANT_RUNS} runs did not catch it").into())
}
