//! One provider's versions from their offer to their end: the real controller, store, record, host and sandbox, and a
//! scripted source. The rollout's clock goes faster; its decisions stay the same.
//!
//! - `world`: the source, the operator and the callers around the controller.
//! - `shipped`: the shipped guest and its cloud, for tests that need a real one.
//! - `checks`: the active version proves its credential.
//! - `journeys`: the fates of versions.
//! - `metrics`: the series of the version that serves.
//! - `plans`: the changes that a version would make to correct load balancers.
//! - `restarts`: the next process after the last one has ended.
//! - `sources`: another source in the place of the one that a provider began with.

mod checks;
mod journeys;
mod metrics;
mod plans;
mod restarts;
mod shipped;
mod sources;
mod world;

use ccm_tests::harness;
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [
        checks::TESTS,
        journeys::TESTS,
        metrics::TESTS,
        plans::TESTS,
        restarts::TESTS,
        sources::TESTS,
    ];
    harness::table("rollout", &tests.concat())
}
