//! One provider's versions from their offer to their end: the real controller, store, record, host and sandbox, and a source
//! that brings what a test tells it to. The rollout's clock goes faster; what it decides on stays the same.
//!
//! - `world`: the source, the people and the callers around the controller.
//! - `shipped`: the shipped guest and its cloud, where it takes a real one.
//! - `checks`: what serves proves its credential.
//! - `journeys`: what becomes of versions.
//! - `plans`: what a version would change that is as it should be.
//! - `restarts`: what the next process makes of what the last one left.

mod checks;
mod journeys;
mod plans;
mod restarts;
mod shipped;
mod world;

use ccm_tests::harness;
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [
        checks::TESTS,
        journeys::TESTS,
        plans::TESTS,
        restarts::TESTS,
    ];
    harness::table("rollout", &tests.concat())
}
