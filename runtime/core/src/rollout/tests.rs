//! Rollouts from outside: a world in which modules behave as they are told, and what comes of it.
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
mod verdicts;
mod world;
