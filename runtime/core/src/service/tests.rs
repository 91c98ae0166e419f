//! The rules of the service controller, statement by statement: each test runs reconciliations with a small API server
//! and a provider with prepared answers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod annotations;
mod answers;
mod changes;
mod cleanup;
mod conflicts;
mod ensure;
mod large_removals;
mod modes;
mod nodes;
mod owning_provider;
mod properties;
mod removal_budget;
mod reversals;
mod status;
mod upstream;
mod upstream_helpers;
mod upstream_nodes;
mod upstream_wakes;
mod world;
