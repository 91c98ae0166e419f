//! Thousands of small clusters whose cloud lies: no node may be deleted whose machine exists, and every node whose
//! machine is gone must be. No API server and no clock, only the decisions of `ccm_core::node_lifecycle`, second by
//! second; every run is made from one seed, and `CCM_LIES_SEED=n` makes that one again and prints it.
//!
//! One kind of lie is left out, which no rule can tell from the truth: two complete and consistent answers, ten seconds
//! apart, that call a live machine of a NotReady node gone, and find every known-good node. So such a lie lasts less
//! than ten seconds, or also misses a known-good node, or is about a mass outage, for less than a quarter of an hour;
//! and between two lies the cloud is honest for longer than the interval between two look-ups of any node. Answers take
//! three seconds at most: a slow one about one node that overlaps with that about the others may be believed before
//! there is a mass outage.
//!
//! `CCM_LIES_RUNS` sets the number of runs. The same runs are made with a guard that lacks one condition, for each
//! condition: every such guard must be caught.

#[path = "cloud_lies/cloud.rs"]
mod cloud;
#[path = "cloud_lies/mutant.rs"]
mod mutant;
#[path = "cloud_lies/run.rs"]
mod run;
#[path = "cloud_lies/world.rs"]
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ccm_tests::counts::{Count, number};
use ccm_tests::harness::{figure, trial};
use libtest_mimic::{Failed, Trial};

use mutant::Mutant;
use run::Ended;

/// Number of runs: by default enough to catch each mutant many times over.
const RUNS: Count = Count {
    variable: "CCM_LIES_RUNS",
    default: 200,
    ci: 2_000,
    full: 50_000,
};
/// One run in this many is honest, and measures the duration of true deletions.
const HONEST: u64 = 4;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![trial(
        "cloud_lies::lies_delete_nobody_and_what_is_gone_goes",
        lies_delete_nobody,
    )];
    for mutant in Mutant::ALL {
        let name = format!("cloud_lies::a_guard_with_the_defect_{mutant:?}_is_caught");
        trials.push(trial(name, move || is_caught(mutant)));
    }
    trials
}

fn made(seed: u64, mutant: Option<Mutant>, is_told: bool) -> Ended {
    run::run(seed, !seed.is_multiple_of(HONEST), mutant, is_told)
}

fn lies_delete_nobody() -> Result<(), Failed> {
    if let Some(seed) = number("CCM_LIES_SEED")? {
        let ended = made(seed, None, true);
        let log = ended.log.join("\n");
        return Err(format!(
            "as asked for, seed {seed}:\n{log}\n{}",
            ended.wrong.join("\n")
        )
        .into());
    }
    let runs = RUNS.get()?;
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
                    all.lock().unwrap().push((seed, made(seed, None, false)));
                }
            });
        }
    });
    let mut all = all.into_inner().unwrap();
    if all.len() != usize::try_from(runs).unwrap() {
        return Err("a run panicked, see above".into());
    }
    all.sort_by_key(|(seed, _)| *seed);
    let wrong: Vec<String> = all
        .iter()
        .filter(|(_, ended)| !ended.wrong.is_empty())
        .map(|(seed, ended)| format!("CCM_LIES_SEED={seed}: {}", ended.wrong.join("; ")))
        .collect();
    let mut took: Vec<u64> = all
        .iter()
        .flat_map(|(_, ended)| ended.unheld.clone())
        .collect();
    took.sort_unstable();
    let (deleted, lies) = all.iter().fold((0, 0), |(deleted, lies), (_, ended)| {
        (deleted + ended.deleted, lies + ended.lies)
    });
    let at = |per_cent: usize| took.get((took.len() * per_cent / 100).min(took.len() - 1));
    if took.is_empty() || lies == 0 {
        return Err("too few runs: nothing was measured".into());
    }
    figure(format!(
        "cloud lies: {runs} runs, {lies} lies, {deleted} deletions, {} runs wrong; {} true deletions that nothing held took p50 {:?} s, p99 {:?} s, max {:?} s",
        wrong.len(),
        took.len(),
        at(50).unwrap(),
        at(99).unwrap(),
        took.last().unwrap(),
    ));
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n").into()),
    }
}

fn is_caught(mutant: Mutant) -> Result<(), Failed> {
    let runs = RUNS.get()?;
    let caught = (0..runs).find_map(|seed| {
        let ended = made(seed, Some(mutant), false);
        let first = ended.wrong.into_iter().next()?;
        Some(format!("without {mutant:?}: caught by run {seed}, {first}"))
    });
    match caught {
        Some(how) => {
            figure(how);
            Ok(())
        }
        None => Err(format!("{runs} runs did not catch it").into()),
    }
}
