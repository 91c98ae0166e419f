//! The only binary: parses, assembles and runs. The only place where controllers and the Wasm host meet, and the only
//! one that reads flags, the environment and configuration files.
#![deny(unsafe_code)]

mod api_server_proxy;
mod api_server_url;
mod audit;
mod builtin_grants;
mod cli;
mod config;
#[cfg(feature = "demo")]
mod demo;
mod exit;
mod flags;
mod kubeconfig;
mod leader_migration;
mod leadership;
mod load_policy;
mod metrics;
mod migrate;
mod panic_hook;
mod program_pages;
mod provider;
mod provider_loading;
mod provider_manager;
#[cfg(test)]
mod reference;
mod run;
mod status;
mod status_collector;
mod telemetry;
mod termination_signals;
mod text_table;
mod yaml_error;

use std::process::ExitCode;

use exit::Exit;

/// The allocator of images, whose C library is musl: musl's own has one lock for all threads, and 1 000 nodes then take half as
/// much processor time again as with glibc's, which itself takes a quarter more than this one.
#[cfg(any(target_env = "musl", feature = "jemalloc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let command = match cli::parse(std::env::args_os(), place()) {
        Ok(command) => command,
        Err(answer) => return answer.print(),
    };
    // This process's memory holds credentials. Children hold none, and make theirs private, too, after reading what
    // they need from /proc.
    let is_child = matches!(
        command,
        cli::Command::CompileChild | cli::Command::SandboxChild
    );
    if !is_child && let Err(error) = ccm_host::confine::keep_memory_private() {
        let error = anyhow::Error::new(error);
        return failed(&error.context("cannot keep this process's memory private"));
    }
    let done = |()| ExitCode::from(Exit::Done);
    let ended = match command {
        // Children handle untrusted bytes under their own limits: they must not start a runtime or read anything first.
        cli::Command::CompileChild => return ccm_host::compile_child(),
        cli::Command::SandboxChild => return ccm_host::sandbox_child(),
        #[cfg(feature = "demo")]
        cli::Command::Demo { json, serves } => demo::main(json, serves).map(done),
        cli::Command::Run { flags, called } => {
            run(*flags, &called).or_else(|error| match telemetry::logs_end(&error) {
                true => Ok(Exit::Failed.into()),
                false => Err(error),
            })
        }
        cli::Command::Status(command) => status::main(&command).map(done),
        cli::Command::Migrate(command) => migrate::main(command),
        cli::Command::Provider(command) => provider::main(&command),
        cli::Command::Config(command) => provider::config_main(&command),
        cli::Command::Completion(shell, called) => cli::print_completion(shell, &called).map(done),
        cli::Command::Version(form) => cli::print_version(form).map(done),
    };
    ended.unwrap_or_else(|error| failed(&error))
}

fn run(flags: flags::RunFlags, called: &cli::Invocation) -> anyhow::Result<ExitCode> {
    telemetry::begin(&flags.logs, called)?;
    if flags.logs.verbosity > 0 {
        telemetry::startup::log_flags(&flags::shown_values(&flags.matches));
    }
    run::main(flags)
}

/// The kubelet sets this variable in every container of a pod, but not in those of a static pod that it starts before it
/// knows the Services.
fn place() -> cli::InvokedIn {
    match std::env::var_os("KUBERNETES_SERVICE_HOST") {
        Some(_) => cli::InvokedIn::Pod,
        None => cli::InvokedIn::Elsewhere,
    }
}

/// Prints the chain of causes to standard error (PROC-056).
fn failed(error: &anyhow::Error) -> ExitCode {
    cli::print_error(error);
    Exit::Failed.into()
}

/// Does this on a pool of threads.
///
/// # Errors
/// Its own, or the threads cannot be started.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(work);
    // Name look-ups block runtime threads, which must not keep the process from ending.
    runtime.shutdown_background();
    result
}
