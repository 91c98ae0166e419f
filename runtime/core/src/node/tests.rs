//! The node controller's law, statement by statement: a reconciliation is held with an API server of a few
//! lines and a provider that always answers the same.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod candidate_vote;
mod confirm;
mod initialise;
mod maintain;
mod properties;
mod upstream;
mod waiting;
mod world;
