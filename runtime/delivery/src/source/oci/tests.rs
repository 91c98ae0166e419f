//! The source before a registry that is ours and lies as it is told to, on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod access;
mod downloads;
mod evidence;
mod fake_registry;
mod hostile;
mod logins;
mod proxies;
mod refused;
mod tags;
