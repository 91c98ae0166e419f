//! The built binary as its users start it: its commands, and the demo.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use ccm_tests::compiled_modules;
use tempfile::TempDir;

#[path = "program/cli.rs"]
mod cli;
#[path = "program/conformance.rs"]
mod conformance;
#[path = "program/demo.rs"]
mod demo;
#[path = "program/last_words.rs"]
mod last_words;

/// The argument of commands that keep what they compile, from run to run. Commands that start at the same time would each compile
/// the same module: what most of them load is compiled before.
static COMPILED: LazyLock<String> = LazyLock::new(|| {
    let compiled = compiled_modules::argument(env!("CARGO_TARGET_TMPDIR"));
    let folder = TempDir::new().unwrap();
    let misbehaving = folder.path().join("guest.wasm");
    std::fs::write(&misbehaving, test_guests::MISBEHAVING).unwrap();
    for module in [Path::new("embedded:hcloud"), &misbehaving] {
        // Without a configuration the second is compiled, and then refused by itself.
        Command::new(env!("CARGO_BIN_EXE_ccm"))
            .args(["provider", "check", &compiled])
            .arg(module)
            .output()
            .unwrap();
    }
    compiled
});
