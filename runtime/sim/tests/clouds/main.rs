//! The simulated clouds, seen from the client's side of the wire.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod hetzner;
mod robot;
