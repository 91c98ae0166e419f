//! The rules of the node controller, statement by statement: each test runs reconciliations with a small API server and
//! a provider that always gives the same answer.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod candidate_vote;
mod confirm;
mod initialise;
mod maintain;
mod properties;
mod upstream;
mod waiting;
mod world;
