//! Runs a test program's tests as [`Trial`]s of `libtest-mimic`: tables of tests, exclusive tests, figures printed at
//! the end, and the duration of each test.

use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};

/// A test's name and function.
pub type Test = (&'static str, fn());

/// A libtest option that `libtest-mimic` lacks: prints each test's duration.
const REPORT_TIME: &str = "--report-time";

/// The kind of tests that measure time.
const ALONE: &str = "alone";

/// Tests that measure time take the write lock, all others share the read lock.
static PROGRAM: RwLock<()> = RwLock::new(());
/// The duration of each test.
static TIMES: Mutex<Vec<(Duration, String)>> = Mutex::new(Vec::new());
/// Lines printed at the end.
static FIGURES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// A test that runs concurrently with others.
pub fn trial(
    name: impl Into<String>,
    test: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    let name = name.into();
    Trial::test(name.clone(), move || {
        let _shared = PROGRAM.read().unwrap_or_else(PoisonError::into_inner);
        timed(name, test)
    })
}

/// A test that measures time: no other test of the program runs meanwhile.
pub fn alone(
    name: impl Into<String>,
    test: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    let name = name.into();
    Trial::test(name.clone(), move || {
        let _alone = PROGRAM.write().unwrap_or_else(PoisonError::into_inner);
        timed(name, test)
    })
    .with_kind(ALONE)
}

/// A table of tests as trials named `area::test`.
pub fn table(area: &str, tests: &[Test]) -> Vec<Trial> {
    named(area, tests)
        .map(|(name, test)| trial(name, test))
        .collect()
}

/// As [`table`], for tests that measure time.
pub fn table_alone(area: &str, tests: &[Test]) -> Vec<Trial> {
    named(area, tests)
        .map(|(name, test)| alone(name, test))
        .collect()
}

fn named(
    area: &str,
    tests: &[Test],
) -> impl Iterator<Item = (String, impl FnOnce() -> Result<(), Failed> + Send + 'static)> {
    tests.iter().map(move |&(name, test)| {
        let run = move || {
            test();
            Ok(())
        };
        (format!("{area}::{name}"), run)
    })
}

/// Runs a test and records its duration, without the wait for [`PROGRAM`].
fn timed(name: String, test: impl FnOnce() -> Result<(), Failed>) -> Result<(), Failed> {
    let began = Instant::now();
    let outcome = test();
    lock(&TIMES).push((began.elapsed(), name));
    outcome
}

/// Adds a line to the program's final output: a figure that is part of the result.
pub fn figure(line: String) {
    lock(&FIGURES).push(line);
}

/// Runs the tests selected on the command line, and prints the figures. Tests that measure time come last: whoever waits
/// for the others to end holds up all that come after.
///
/// With `--report-time`, prints each test's duration in seconds, as libtest does. As there, several names before any option
/// select what has one of them.
#[allow(clippy::print_stdout, reason = "figures belong to the result")]
pub fn run(mut trials: Vec<Trial>) -> ExitCode {
    trials.sort_by_key(|trial| trial.kind() == ALONE);
    let (report, mut arguments): (Vec<_>, Vec<_>) =
        std::env::args().partition(|argument| argument == REPORT_TIME);
    let names = arguments.iter().skip(1);
    let names = names.take_while(|name| !name.starts_with('-')).count();
    // `libtest-mimic` takes a single one.
    if names > 1 {
        let names: Vec<String> = arguments.drain(1..=names).collect();
        trials.retain(|trial| names.iter().any(|name| trial.name().contains(name)));
    }
    let mut arguments = Arguments::from_iter(arguments);
    if arguments.test_threads.is_none() {
        // These tests mostly wait.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        arguments.test_threads = Some(3 * cores);
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    for line in lock(&FIGURES).iter() {
        println!("{line}");
    }
    if !report.is_empty() {
        for (took, name) in lock(&TIMES).iter() {
            println!("test {name} ... took <{:.3}s>", took.as_secs_f64());
        }
    }
    conclusion.exit_code()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
