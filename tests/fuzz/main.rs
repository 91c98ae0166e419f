//! Functions that parse untrusted input, tried with a corpus of hostile inputs and with mutants of it. Each must end
//! without a panic, and must not accept forbidden input; see `tests/README.md`. Nothing here opens a connection or
//! compiles a module.
//!
//! Targets of private functions are beside their unit tests: the answers of registries in `ccm-delivery`, the
//! configuration file in `ccm`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod address;
mod answer;
mod configmap;
mod egress;
mod ingress;
mod manifest;
mod module;
mod unpack;

use std::process::ExitCode;

use ccm_tests::fuzz::Target;
use ccm_tests::harness;
use rustix::process::{Resource, Rlimit, setrlimit};

/// The address space of the whole program, in bytes: more than all targets together ever need, and so little that an
/// input which makes one of them ask for gigabytes ends the program.
const ADDRESS_SPACE: u64 = 4 << 30;

fn main() -> ExitCode {
    let limit = Rlimit {
        current: Some(ADDRESS_SPACE),
        maximum: Some(ADDRESS_SPACE),
    };
    setrlimit(Resource::As, limit).expect("a process may lower its own limits");
    let targets = [
        address::TARGET,
        answer::TARGET,
        configmap::TARGET,
        egress::TARGET,
        ingress::TARGET,
        manifest::TARGET,
        module::TARGET,
        unpack::TARGET,
    ];
    harness::run(targets.into_iter().map(Target::trial).collect())
}

/// Fails the target with `why` unless something holds.
fn hold(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

/// Whether a text can be shown to people as it is.
fn is_one_line(text: &str) -> bool {
    !text.chars().any(char::is_control)
}
