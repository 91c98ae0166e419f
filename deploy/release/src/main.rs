//! The command line of the packager; `deploy/release/release` calls it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use release_artifacts::{Architecture, Binary, Module, Release};

/// Packages compiled binaries.
#[derive(Debug, Parser)]
struct Arguments {
    /// The checkout that they were compiled from
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    checkout: PathBuf,
    /// The version, without `v`
    #[arg(long)]
    version: String,
    /// The commit
    #[arg(long)]
    revision: String,
    /// The commit's time, in seconds since 1970
    #[arg(long, value_name = "SECONDS", env = "SOURCE_DATE_EPOCH")]
    created: u64,
    /// A folder that does not exist yet
    #[arg(long, value_name = "FOLDER")]
    output: PathBuf,
    /// amd64=FILE or arm64=FILE, and after it the modules inside, as NAME=PACKAGE=FILE, all separated by commas
    #[arg(required = true)]
    binaries: Vec<String>,
}

fn binary(text: &str) -> Result<Binary> {
    let mut parts = text.split(',');
    let first = parts.next().unwrap_or_default();
    let (architecture, path) = first
        .split_once('=')
        .context("expected ARCHITECTURE=FILE")?;
    Ok(Binary {
        architecture: match architecture {
            "amd64" => Architecture::Amd64,
            "arm64" => Architecture::Arm64,
            _ => bail!("neither amd64 nor arm64: {architecture}"),
        },
        path: path.into(),
        modules: parts.map(Module::from_str).collect::<Result<_>>()?,
    })
}

fn run(arguments: Arguments) -> Result<String> {
    let release = Release {
        checkout: arguments.checkout,
        version: arguments.version,
        revision: arguments.revision,
        created: arguments.created,
        compression: 9,
        binaries: arguments
            .binaries
            .iter()
            .map(|text| binary(text).with_context(|| text.clone()))
            .collect::<Result<_>>()?,
    };
    anyhow::ensure!(
        !arguments.output.exists(),
        "{} exists already",
        arguments.output.display()
    );
    release_artifacts::package(&release, &arguments.output)
}

#[allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the command line"
)]
fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(digest) => {
            println!("{digest}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
