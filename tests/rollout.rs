//! One provider's versions from their offer to their end: the real stage, store, book, host and sandbox, and a source
//! that brings what a test tells it to. The rollout's clock goes faster; what it decides on stays the same.
//!
//! - `world`: the source, the people and the callers around a stage.
//! - `shipped`: the shipped guest and its cloud, where it takes a real one.
//! - `checks`: what serves proves its credential.
//! - `journeys`: what becomes of versions.
//! - `plans`: what a version would change that is as it should be.
//! - `restarts`: what the next process makes of what the last one left.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

#[path = "rollout/checks.rs"]
mod checks;
#[path = "rollout/journeys.rs"]
mod journeys;
#[path = "rollout/plans.rs"]
mod plans;
#[path = "rollout/restarts.rs"]
mod restarts;
#[path = "rollout/shipped.rs"]
mod shipped;
#[path = "rollout/world.rs"]
mod world;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(world::COMPILE) {
        return ccm_host::compile_child();
    }
    let tests = [
        checks::TESTS,
        journeys::TESTS,
        plans::TESTS,
        restarts::TESTS,
    ]
    .concat();
    let trials = tests.into_iter().map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
