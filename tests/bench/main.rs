//! The benchmark of the manager: see README.md beside this file. It asserts nothing about time.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the table is the result, progress is for whoever waits"
)]
#![forbid(unsafe_code)]

mod arrivals;
mod audit;
mod bare;
mod churn;
mod cloud;
mod cluster;
mod course;
mod endpoints;
mod failover;
mod fat;
mod figure;
mod gate;
mod growth;
mod initial;
mod measured;
mod options;
mod output;
mod plan;
mod plot;
mod ready;
mod sandbox;
mod services;
mod start;
mod steady;
mod summary;
mod trace;
mod trouble;
mod usage;
mod watch;

use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::Instant;

use clap::Parser as _;

use options::Options;

/// When the benchmark began.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Prints the current step, and the time since the beginning, for the person who waits.
macro_rules! progress {
    ($($text:tt)*) => {{
        let seconds = $crate::BEGAN.elapsed().as_secs();
        eprintln!("{:>3}:{:02} … {}", seconds / 60, seconds % 60, format_args!($($text)*))
    }};
}
pub(crate) use progress;

fn main() -> ExitCode {
    LazyLock::force(&BEGAN);
    match std::env::args().nth(1).as_deref() {
        // A child of the host that calls the sandbox.
        Some(sandbox::COMPILE) => ccm_host::compile_child(),
        Some(cloud::ARGUMENT) => ended(run(cloud::serve()).map(|()| true)),
        _ => {
            let options = Options::parse();
            let report = run(plan::carry_out(&options)).map(|(report, is_well)| {
                print!("{report}");
                is_well
            });
            ended(report)
        }
    }
}

fn run<T>(task: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Runtime::new()?.block_on(task)
}

fn ended(result: anyhow::Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
