//! The benchmark of node initialisation: see README.md beside this file. It asserts nothing about time.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the table is the result, progress is for whoever waits"
)]
#![forbid(unsafe_code)]

mod arrivals;
mod audit;
mod bare;
mod cloud;
mod cluster;
mod endpoints;
mod fat;
mod gate;
mod measured;
mod options;
mod plan;
mod report;
mod sandbox;
mod start;
mod usage;
mod watch;

use std::process::ExitCode;

use clap::Parser as _;

use options::Options;

/// Tells the person who waits what happens now.
macro_rules! progress {
    ($($text:tt)*) => { eprintln!("… {}", format_args!($($text)*)) };
}
pub(crate) use progress;

#[tokio::main]
async fn main() -> ExitCode {
    let result = if std::env::args().nth(1).as_deref() == Some(cloud::ARGUMENT) {
        cloud::serve().await
    } else {
        let options = Options::parse();
        plan::carry_out(&options)
            .await
            .map(|report| print!("{report}"))
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
