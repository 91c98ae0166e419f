//! The simulated clouds, from the client's side of the connection.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod hetzner;
mod robot;
