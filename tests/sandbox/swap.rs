//! Generations of a provider, swapped under load: the real host, the real sandbox, guests on simulated clouds, and
//! `Active` between them and the callers. The measurements are printed at the end.
//!
//! - `many`: a hundred swaps while thousands of calls are under way; nothing is lost, nothing is done twice.
//! - `sequence`: a swap at every call of a load balancer that takes several (reliability case R15).
//! - `isolation`: what generations do not share.
//! - `trials`: bad versions in shadow and canary, and how fast they are taken back.
//! - `neighbour`: a hostile provider beside another one.
//! - `cost`: the cost of loading in memory and time.
//!
//! `CCM_SWAP_CALLS` sets the number of calls under swaps.

mod cloud;
mod cost;
mod isolation;
mod many;
mod neighbour;
mod sequence;
mod trials;
mod world;

use ccm_tests::harness;
use libtest_mimic::Trial;

pub(crate) use cost::{GROWTH, growth};

/// Tests that measure time run alone: the machine may be small.
pub(crate) fn trials() -> Vec<Trial> {
    let measuring = [many::TESTS, trials::TESTS, neighbour::TESTS, cost::TESTS];
    let mut all = harness::table_alone("swap", &measuring.concat());
    let tests = [sequence::TESTS, isolation::TESTS];
    all.extend(harness::table("swap", &tests.concat()));
    all
}
