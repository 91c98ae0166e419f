//! Laws that hold in randomly made worlds, whatever happens in them.
//!
//! - `cloud_lies`: thousands of small clusters whose cloud lies.
//! - `modes`: enforce mode does what plan mode announces.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "properties/cloud_lies.rs"]
mod cloud_lies;
#[path = "properties/modes.rs"]
mod modes;

use std::process::ExitCode;

use ccm_tests::harness;

fn main() -> ExitCode {
    let mut trials = cloud_lies::trials();
    trials.extend(modes::trials());
    harness::run(trials)
}
