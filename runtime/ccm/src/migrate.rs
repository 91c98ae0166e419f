//! `ccm migrate check`: what would change if this program took the place of a Go manager that still runs.
//!
//! Makes a plan with the Go manager's own arguments and variables, and adds what no plan shows: settings that mean
//! something else here. Reads only: it is no candidate of an election, writes no Event, and its permits refuse every
//! request that changes something at a cloud.

mod arguments;
mod differences;
mod pod_template;
mod report;
mod workload;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use ccm_core::safety::permit::Mode;
use tokio::time::timeout;

use crate::api_server_proxy::unbound_client;
use crate::cli::{self, Invocation};
use crate::flags::{self, AuditLog, RunFlags};
use crate::provider::{Form, cluster_config, cluster_unreadable, visible};
use crate::provider_loading::set_workload;
use crate::run::{Examination, examine, exit_code};
use crate::{block_on, telemetry};
use arguments::MigrateArguments;
pub(crate) use arguments::MigrateCommand;
use report::Report;

/// Checks, and prints the result.
///
/// # Errors
/// The check could not be made.
pub(crate) fn main(command: MigrateCommand) -> anyhow::Result<ExitCode> {
    let MigrateCommand::Check(check) = command;
    block_on(run(*check))
}

async fn run(check: MigrateArguments) -> anyhow::Result<ExitCode> {
    let meanwhile = telemetry::meanwhile();
    let mut kubernetes = cluster_config(&check.cluster).await?;
    kubernetes.default_retry = false;
    let mut arguments = Vec::new();
    if let Some(name) = &check.from {
        let client = unbound_client(&kubernetes)?;
        let read = workload::read(&client, name, check.container.as_deref());
        let late = |_| Err(anyhow!("--timeout: no answer within {:?}", check.timeout));
        let found = timeout(check.timeout, read).await.unwrap_or_else(late);
        let found = found.with_context(|| cluster_unreadable(&kubernetes))?;
        arguments.extend(found.arguments.into_iter().map(OsString::from));
        set_workload(found.context);
    }
    arguments.extend(check.arguments);
    let mut flags = flags_of(arguments)?;
    drop(meanwhile);
    // The plan is the result; warnings and errors go to standard error.
    telemetry::begin_for_result(&flags.logs, &Invocation::Ccm)?;
    let differences = differences::of(&flags, &kubernetes, check.timeout).await;
    // Only now: that the Go manager takes its proxy without a flag is a difference.
    cli::use_proxy_of_go(&mut flags);
    let examination = Examination {
        kubernetes,
        timeout: check.timeout,
    };
    let plan = examine(flags, examination).await;
    let plan = plan.map_err(|error| explained(error, check.from.is_some()))?;
    let code = exit_code(&plan);
    let report = Report { plan, differences };
    let text = match check.output {
        Form::Json => format!("{:#}\n", report.to_json()),
        Form::Text => visible(&report.to_string()),
    };
    cli::write(text.as_bytes())?;
    Ok(code)
}

/// The error, which for a workload begins with what its pod may have and this process lacks.
fn explained(error: anyhow::Error, is_of_workload: bool) -> anyhow::Error {
    match is_of_workload {
        true => error.context(WITHOUT_INSTANCE),
        false => error,
    }
}

const WITHOUT_INSTANCE: &str = "with --from, the workload's variables count, and none of this shell; if its pod gets more from its machine, such as a region or keys, run the check on a machine of the cluster, without --from, with the manager's flags after -- and its variables";

/// The flags of a Go manager's command line, for a process that reads and is not the manager.
fn flags_of(arguments: Vec<OsString>) -> anyhow::Result<RunFlags> {
    let is_flag = |word: &OsString| word.to_string_lossy().starts_with('-');
    let mut arguments = arguments.into_iter().peekable();
    // The command of a container begins with its program.
    let program = arguments.next_if(|word| !is_flag(word));
    let called = Invocation::of(program.as_deref());
    let words = [OsString::from(cli::GO_NAME)].into_iter();
    let words = words.chain(arguments.map(flags::dashed)).collect();
    let words = cli::with_flags_of_vendor(words, &called);
    let matches = flags::go_command()
        .try_get_matches_from(words)
        .map_err(|error| in_short(&cli::hint(error, OsStr::new("run"))))?;
    if flags::version_form(&matches).is_some() {
        bail!(NO_MANAGER);
    }
    if let Some(mistake) = flags::positional_mistake(&matches, cli::GO_NAME) {
        bail!("{}", mistake.trim_end());
    }
    let mut flags = RunFlags::from_matches(&matches).map_err(|error| in_short(&error))?;
    // These settings belong to the manager's own place: its ports, files, identities and Lease.
    flags.safety.mode = Mode::Plan;
    flags.safety.plan_for = None;
    flags.safety.audit_log = AuditLog::Log;
    flags.serving = None;
    flags.compiled_cache_dir = None;
    flags.identity_per_controller = false;
    Ok(flags)
}

const NO_MANAGER: &str =
    "the arguments of the Go manager ask for help or a version, and start no manager";

/// A mistake in the arguments without the frame that clap gives its own messages.
fn in_short(error: &clap::Error) -> anyhow::Error {
    if !error.use_stderr() {
        return anyhow!(NO_MANAGER);
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    anyhow!("{}", text.trim_end())
}

#[cfg(test)]
mod tests;
