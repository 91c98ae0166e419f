//! The built binary as its users start it: its commands, and the demo.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "program/cli.rs"]
mod cli;
#[path = "program/conformance.rs"]
mod conformance;
#[path = "program/demo.rs"]
mod demo;
#[path = "program/last_words.rs"]
mod last_words;
