//! Hostile files in the place of a provider's module: nothing of them may run, each is refused for its own reason, and the
//! version that serves goes on serving. Through the real host, whose compile child this program is, too.
//!
//! `rows` lists the cases A1 to A18 and where each is shown; a test holds the list against the tests.
//!
//! - `files`: what is wrong with a file before anything of it is compiled.
//! - `bombs`: what is made to cost the compiler, and what the host feels of it.
//! - `mutants`: real modules with random damage; `CCM_ARTIFACT_MUTANTS` says how many.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "artifacts/bombs.rs"]
mod bombs;
#[path = "artifacts/files.rs"]
mod files;
#[path = "artifacts/made.rs"]
mod made;
#[path = "artifacts/mutants.rs"]
mod mutants;
#[path = "artifacts/rows.rs"]
mod rows;
#[path = "artifacts/serving.rs"]
mod serving;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// A test and its name.
pub(crate) type Test = (&'static str, fn());

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(serving::CHILD) => return ccm_host::compile_child(),
        Some(bombs::MEASURE) => return bombs::measure(),
        _ => {}
    }
    let folder = tempfile::TempDir::new().unwrap();
    serving::CACHE.set(folder.path().to_owned()).unwrap();
    let tests = [files::TESTS, bombs::TESTS, mutants::TESTS, rows::TESTS].concat();
    let trials = tests.into_iter().map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
