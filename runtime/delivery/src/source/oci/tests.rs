//! The source with a fake registry on loopback, which answers falsely where a test says so.
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
