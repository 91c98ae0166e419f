//! The examples do what the documents say of them.
#![allow(clippy::unwrap_used, reason = "tests")]

mod arguments;
mod balancer;
mod readme;
mod routes;
