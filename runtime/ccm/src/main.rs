//! The only binary: parses, assembles and runs. The only place where controllers and the Wasm host meet, and the only
//! one that reads flags, the environment and configuration files.
#![forbid(unsafe_code)]

mod audit;
mod builtin_grants;
mod cli;
mod config;
#[cfg(feature = "demo")]
mod demo;
mod flags;
mod leadership;
mod load_policy;
mod migration;
mod panic_hook;
mod provider;
mod provider_loading;
mod provider_manager;
mod run;
mod telemetry;

use std::process::ExitCode;

fn main() -> ExitCode {
    let command = match cli::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(answer) => return answer.print(),
    };
    // This process's memory holds credentials. Children hold none, and do the same after reading what they need from
    // /proc.
    let is_child = matches!(
        command,
        cli::Command::CompileChild | cli::Command::SandboxChild
    );
    if !is_child && let Err(error) = ccm_host::confine::keep_memory_private() {
        return report(Err(
            anyhow::Error::new(error).context("cannot keep this process's memory private")
        ));
    }
    match command {
        // Children handle untrusted bytes under their own limits: they must not start a runtime or read anything first.
        cli::Command::CompileChild => ccm_host::compile_child(),
        cli::Command::SandboxChild => ccm_host::sandbox_child(),
        #[cfg(feature = "demo")]
        cli::Command::Demo { json } => report(demo::main(json)),
        cli::Command::Run(flags) => run::main(*flags).unwrap_or_else(|error| report(Err(error))),
        cli::Command::Provider(command) => provider::main(&command),
        cli::Command::Config(command) => provider::config_main(&command),
        cli::Command::Completion(shell) => cli::print_completion(shell),
        cli::Command::Version => cli::print_version(),
    }
}

/// Exit code 0, or the chain of causes on standard error and exit code 1 (PROC-056).
fn report(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            cli::print_error(&error);
            ExitCode::FAILURE
        }
    }
}
