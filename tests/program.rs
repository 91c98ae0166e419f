//! The built binary as its users start it: its commands, and the demo.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::sync::LazyLock;

use ccm_tests::compiled_modules;

#[path = "program/cli.rs"]
mod cli;
#[path = "program/conformance.rs"]
mod conformance;
#[path = "program/demo.rs"]
mod demo;
#[path = "program/last_words.rs"]
mod last_words;

/// The argument of commands that keep what they compile, from run to run.
static COMPILED: LazyLock<String> =
    LazyLock::new(|| compiled_modules::argument(env!("CARGO_TARGET_TMPDIR")));
