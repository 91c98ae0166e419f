//! Generations of a provider, swapped under load: the real host, the real sandbox, guests on simulated clouds, and
//! `Active` between them and whoever calls. What was measured is printed at the end.
//!
//! - `many`: a hundred swaps while thousands of calls are under way; nothing is lost, nothing done twice.
//! - `sequence`: a swap at every call of a load balancer that takes several (reliability case R15).
//! - `apart`: what generations do not share.
//! - `trials`: bad versions in shadow and canary, and how fast they are taken back.
//! - `neighbour`: a hostile provider beside another one.
//! - `cost`: what loading costs, in memory and time.
//!
//! `CCM_SWAP_CALLS` says how many calls are made under swaps.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

#[path = "swap/apart.rs"]
mod apart;
#[path = "swap/cloud.rs"]
mod cloud;
#[path = "swap/cost.rs"]
mod cost;
#[path = "swap/many.rs"]
mod many;
#[path = "swap/neighbour.rs"]
mod neighbour;
#[path = "swap/sequence.rs"]
mod sequence;
#[path = "swap/stage.rs"]
mod stage;
#[path = "swap/trials.rs"]
mod trials;

use std::process::ExitCode;
use std::sync::Mutex;

use libtest_mimic::{Arguments, Trial};

/// What is printed at the end.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// One test at a time: they measure time, and the machine is small.
static TURN: Mutex<()> = Mutex::new(());

/// Something that belongs to the result.
fn say(line: String) {
    SAID.lock().unwrap().push(line);
}

#[allow(
    clippy::print_stdout,
    reason = "what was measured belongs to the result"
)]
fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(stage::COMPILE) => return ccm_host::compile_child(),
        Some(cost::GROWTH) => return cost::growth(),
        _ => {}
    }
    let tests = [
        many::TESTS,
        sequence::TESTS,
        apart::TESTS,
        trials::TESTS,
        neighbour::TESTS,
        cost::TESTS,
    ];
    let trials = tests.concat().into_iter().map(|(name, test)| {
        Trial::test(name, move || {
            let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            test();
            Ok(())
        })
    });
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials.collect());
    for line in SAID.lock().unwrap().iter() {
        println!("{line}");
    }
    conclusion.exit_code()
}
