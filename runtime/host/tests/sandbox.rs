//! The sandbox with a real guest and a real compile child: this program is the child, too, and so the tests have a
//! main of their own. The guest is the shipped one for Hetzner Cloud; its cloud answers what a test says.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "sandbox/cloud.rs"]
mod cloud;
#[path = "sandbox/compiling.rs"]
mod compiling;
#[path = "sandbox/loading.rs"]
mod loading;
#[path = "sandbox/looking.rs"]
mod looking;
#[path = "sandbox/stage.rs"]
mod stage;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(stage::CHILD) {
        return ccm_host::compile_child();
    }
    let shared = tempfile::TempDir::new().unwrap();
    stage::SHARED.set(shared.path().to_owned()).unwrap();
    let tests = [compiling::TESTS, loading::TESTS, looking::TESTS].concat();
    let trials = tests.into_iter().map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
