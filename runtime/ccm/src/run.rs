//! `ccm run`: the controllers against a real cluster.
//!
//! The order is: validate all inputs, load the provider, win the lease, run the controllers. So a standby process is
//! one that could lead (EDGE-095, PROC-054).

mod configz;
mod endpoints;
mod leading;
mod plan;
mod prepare;
mod stop;
mod unserved;

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use ccm_controllers::Provided;
use ccm_core::safety::plan::Plan;
use futures::FutureExt as _;
use http::Uri;
use http::header::{HeaderValue, USER_AGENT};
use kube::Config;

use crate::api_server_proxy::completed;
use crate::api_server_url::{in_cluster, redact_login};
use crate::exit::Exit;
use crate::flags::{LogFormat, RunFlags};
use crate::kubeconfig::configuration_of;
use crate::{block_on, panic_hook, program_pages};
pub(crate) use plan::exit_code;
use prepare::{Prepared, prepare};
use stop::Stop;

/// Runs until a signal ends it.
///
/// # Errors
/// The manager could not start, or ended by a failure.
pub(crate) fn main(flags: RunFlags) -> anyhow::Result<ExitCode> {
    panic_hook::keep_few();
    for warning in &flags.warnings {
        tracing::warn!("{warning}");
    }
    let prints_json = flags.logs.format == Some(LogFormat::Json);
    let plan = block_on(async {
        // On a thread of the pool, like everything that wakes the controllers: on this one, each event would change
        // threads.
        let serving = tokio::spawn(serve(flags, None));
        serving.await.unwrap_or_else(|_| Err(defect()))
    });
    match plan? {
        Some(plan) => plan::print(&plan, prints_json),
        None => Ok(Exit::Done.into()),
    }
}

/// A plan that is made once, by a process that is not the manager.
pub(crate) struct Examination {
    /// Client configuration of the cluster.
    pub kubernetes: Config,
    /// Maximum time until the plan is returned.
    pub timeout: Duration,
}

/// Makes a plan with these flags, which are in plan mode, and returns it as soon as everything has been judged.
///
/// # Errors
/// The providers could not be loaded.
pub(crate) async fn examine(flags: RunFlags, examination: Examination) -> anyhow::Result<Plan> {
    let plan = serve(flags, Some(examination)).await?;
    plan.context("there is no plan; this is a defect")
}

async fn serve(flags: RunFlags, examination: Option<Examination>) -> anyhow::Result<Option<Plan>> {
    // Before anything else: the kernel ignores signals for which a container's first process has no handler.
    let stop = Stop::listen()?;
    let plan_for = flags.safety.plan_for;
    let timeout = examination.as_ref().map(|examination| examination.timeout);
    let plans = plan_for.is_some() || timeout.is_some();
    let prepared = tokio::select! {
        prepared = prepare(flags, examination) => prepared?,
        () = stop.clone().requested() => {
            anyhow::ensure!(!plans, "stopped before the plan was complete");
            tracing::info!("stopped before the controllers ran");
            return Ok(None);
        }
    };
    let Prepared {
        manager,
        following,
        groups,
        names,
    } = prepared;
    tokio::spawn(program_pages::keep_released());
    let shared_plan = manager.settings.plan.clone();
    let awaited = shared_plan.clone();
    match (timeout, plan_for) {
        (Some(timeout), _) => stop.after(async move { plan::judged(&awaited, timeout).await }),
        (None, Some(limit)) => stop.after(tokio::time::sleep(limit)),
        (None, None) => {}
    }
    // On the heap: without optimisation, each future around it would have a copy of it, and exhaust the thread's stack.
    let leading = Box::pin(async {
        manager.able_to_lead(&groups, stop.clone()).await?;
        manager.lead(groups, stop).await
    });
    let led = tokio::select! {
        // A panic there ends the process, too; what is on the wire has its records first.
        led = caught(leading) => led,
        // Another replica takes over. This one would go on with what it knows of the configuration and of the versions.
        _ = following => Err(defect()),
    };
    // Requests may be on the wire: after the drain, or because something failed.
    manager.audit.end();
    led?;
    tracing::info!("stopped");
    if !plans {
        return Ok(None);
    }
    let mut plan = shared_plan.snapshot();
    let unserved = unserved(&manager.provided.borrow(), names);
    plan::explain(&mut plan, &unserved, &manager.kubernetes).await;
    Ok(Some(plan))
}

/// Does this. A panic is a failure as any other, without its message, which may hold any data.
async fn caught<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let ended = AssertUnwindSafe(work).catch_unwind().await;
    ended.unwrap_or_else(|_| Err(defect()))
}

fn defect() -> anyhow::Error {
    anyhow!("a task that has no end panicked, which is a defect")
}

/// Names of the providers that do not serve.
fn unserved(provided: &[Provided], mut names: Vec<String>) -> Vec<String> {
    names.retain(|name| !provided.iter().any(|one| one.cloud.name() == name));
    names
}

/// Client configuration for the cluster of the flags, or the pod's own. With `--master` alone, outside of a pod, requests
/// have no credentials, as in client-go.
async fn kubernetes(kubeconfig: Option<PathBuf>, master: Option<String>) -> anyhow::Result<Config> {
    let master = master.map(|text| {
        let shown = || format!("--master {}", redact_login(&text));
        let url: Uri = text.parse().with_context(shown)?;
        anyhow::Ok(url)
    });
    let master = master.transpose()?;
    let (mut config, proxy) = match (kubeconfig.as_deref(), &master) {
        (Some(path), _) => configuration_of(path, None).await?,
        (None, Some(url)) => (
            in_cluster().unwrap_or_else(|_| Config::new(url.clone())),
            None,
        ),
        (None, None) => {
            let config = in_cluster().context(
                "neither --kubeconfig nor --master was given, and this is not a pod with a service account",
            )?;
            (config, None)
        }
    };
    if let Some(url) = master {
        config.cluster_url = url;
        // As in client-go: the name is that of the kubeconfig's server.
        config.tls_server_name = None;
    }
    let mut config = completed(config, proxy)?;
    // An automatic retry could begin after the right to send is lost.
    config.default_retry = false;
    Ok(config)
}

/// The API server's IP address, if its URL has one.
fn api_server(config: &Config) -> Vec<IpAddr> {
    let host = config.cluster_url.host().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    address.into_iter().map(|ip| ip.to_canonical()).collect()
}

/// The same configuration with its own user agent, for the API server's logs.
fn as_user(config: &Config, suffix: &'static str) -> Config {
    let name = concat!("ccm/", env!("CARGO_PKG_VERSION"));
    let mut config = config.clone();
    if let Ok(value) = HeaderValue::from_str(&format!("{name}{suffix}")) {
        config.headers.push((USER_AGENT, value));
    }
    config
}

#[cfg(test)]
mod tests;
