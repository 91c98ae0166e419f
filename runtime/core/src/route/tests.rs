#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod brake;
mod condition;
mod hints;
mod hostile;
mod in_flight;
mod passes;
mod properties;
mod removals;
mod upstream;
mod world;
