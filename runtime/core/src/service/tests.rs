//! The service controller's law, statement by statement: reconciliations are held with an API server of a few lines and
//! a provider that answers what it is told to.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod annotations;
mod answers;
mod cleanup;
mod conflicts;
mod ensure;
mod modes;
mod news;
mod nodes;
mod owning_provider;
mod properties;
mod reversals;
mod status;
mod upstream;
mod upstream_helpers;
mod upstream_nodes;
mod upstream_wakes;
mod world;
