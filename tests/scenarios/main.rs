//! Plays the scenarios.

use std::process::ExitCode;

use ccm_tests::harness;

#[allow(
    clippy::print_stdout,
    reason = "how much was tried belongs to the result"
)]
fn main() -> ExitCode {
    let outcome = harness::run(ccm_scenarios::trials());
    println!(
        "replays with a disturbance: {}",
        ccm_scenarios::replay::made()
    );
    outcome
}
