//! Rollouts as a whole: a world in which modules behave as configured, and the results.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod journeys;
mod lost;
mod orders;
mod property;
mod trials;
mod verdicts;
mod world;
