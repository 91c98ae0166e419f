//! `ccm run`: the controllers against a real cluster.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use tokio::signal::unix::{SignalKind, signal};

use crate::flags::RunFlags;
use crate::{assemble, telemetry};

/// Runs until a signal ends it.
///
/// # Errors
/// Anything that keeps the manager from starting, or that ended it.
pub(crate) fn main(flags: RunFlags) -> anyhow::Result<()> {
    telemetry::start(flags.verbosity, flags.log_json)?;
    for warning in &flags.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(serve(flags));
    // Name look-ups block threads of the runtime; they must not keep the process from ending.
    runtime.shutdown_background();
    result
}

async fn serve(flags: RunFlags) -> anyhow::Result<()> {
    let (client, api_server) = client(flags.kubeconfig, flags.master).await?;
    let config = assemble::find(
        &flags.cloud_provider,
        flags.config.as_deref(),
        flags.provider_module.as_deref(),
    )?;
    let module = config.module.to_string();
    let host = assemble::host(flags.compiled_cache_dir)?;
    let provider = assemble::load(&host, config, flags.cluster_name, flags.cluster_cidrs)
        .await
        .context("Cloud provider could not be initialized")?;
    let manifest = provider.manifest();
    tracing::info!(provider = manifest.name, version = manifest.version, digest = %provider.digest(), module, "provider loaded");
    for warning in provider.warnings() {
        tracing::warn!("{warning}");
    }
    let stop = termination()?;
    if !flags.node_controller {
        tracing::warn!(
            "cloud-node-controller is disabled, and it is the only controller of this version"
        );
        stop.await;
        return Ok(());
    }
    let settings = assemble::settings(&flags.node, api_server);
    ccm_controllers::run(
        client,
        Arc::new(provider),
        settings,
        ccm_controllers::Metrics::default(),
        stop,
    )
    .await?;
    tracing::info!("stopped");
    Ok(())
}

/// A client for the cluster that the flags name, the pod's own without any; and the API server's address, if it
/// is reached by one.
async fn client(
    kubeconfig: Option<PathBuf>,
    master: Option<String>,
) -> anyhow::Result<(Client, Vec<IpAddr>)> {
    let mut config = match kubeconfig.as_deref() {
        Some(path) => from_file(path).await?,
        None => Config::incluster()
            .context("no --kubeconfig was given, and this is not a pod with a service account")?,
    };
    if let Some(master) = master {
        config.cluster_url = master
            .parse()
            .with_context(|| format!("--master {master}"))?;
    }
    let host = config.cluster_url.host().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    // A request that the client repeats by itself could begin after the right to send it is lost.
    config.default_retry = false;
    let client = Client::try_from(config).context("cannot make a Kubernetes client")?;
    Ok((
        client,
        address.into_iter().map(|ip| ip.to_canonical()).collect(),
    ))
}

async fn from_file(path: &Path) -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read_from(path)
        .with_context(|| format!("cannot read kubeconfig {}", path.display()))?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("kubeconfig {} is not usable", path.display()))
}

/// Ends with the first SIGTERM or SIGINT.
fn termination() -> anyhow::Result<impl Future<Output = ()> + Send> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen to SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen to SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("told to stop");
    })
}
