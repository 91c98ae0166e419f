//! Routing of calls to generations, and the counts of a trial, with scripted providers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod canary;
mod plans;
mod roles;
mod routes;
mod scripted;
mod shadow;
mod swaps;
