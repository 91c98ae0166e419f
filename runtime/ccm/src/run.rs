//! `ccm run`: the controllers against a real cluster.
//!
//! The order is: validate all inputs, load the provider, win the lease, run the controllers. So a standby process is
//! one that could lead (EDGE-095, PROC-054).

mod configz;
mod endpoints;
mod leading;
mod plan;
mod stop;
mod unserved;

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use ccm_controllers::{
    Provided, Reports, RunError, Settings, lacks_instances, tenure_client, with_response_timeout,
};
use ccm_core::safety::permit::Mode;
use ccm_core::safety::plan::Plan;
use ccm_core::safety::tenure::Tenure;
use ccm_core::well_known::{
    IPAM_CONTROLLER, NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, ROUTE_CONTROLLER,
    SERVICE_CONTROLLER,
};
use ccm_delivery::load_policy::LoadPolicyOf as _;
use ccm_delivery::source::Location;
use ccm_delivery::source::file::FileSource;
use ccm_host::Module;
use http::Uri;
use http::header::{HeaderValue, USER_AGENT};
use ipnet::IpNet;
use kube::Config;
use tokio::task::JoinHandle;

use crate::api_server_proxy::completed;
use crate::api_server_url::in_cluster;
use crate::audit::AuditWriter;
use crate::builtin_grants;
use crate::config::{Mistakes, ProviderConfig};
use crate::exit::Exit;
use crate::flags::{LeadershipFlags, LogFormat, PodNetworkArguments, RunFlags};
use crate::kubeconfig::configuration_of;
use crate::leader_migration::Migration;
use crate::load_policy::Remarks;
use crate::provider_loading::{self, ClusterAddresses};
use crate::provider_manager::{
    Configuration, ObjectConfiguration, ProviderManager, ProviderObjects, Secrets, Shared,
};
use crate::status_collector::StatusCollector;
use crate::{block_on, metrics, panic_hook, program_pages, telemetry};
use endpoints::Served;
use leading::{Groups, Manager};
pub(crate) use plan::exit_code;
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
        serving
            .await
            .unwrap_or_else(|ended| match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(cancelled) => Err(cancelled.into()),
            })
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
    let leading = async {
        manager.able_to_lead(&groups, stop.clone()).await?;
        manager.lead(groups, stop).await
    };
    let led = tokio::select! {
        led = leading => led,
        // Another replica takes over. This one would go on with what it knows of the configuration and of the versions.
        _ = following => Err(anyhow!("a task that has no end panicked, which is a defect")),
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

/// Everything that a candidacy for the lease, or leading without one, needs.
struct Prepared {
    manager: Manager,
    /// Follows the configuration and the providers' versions; ends only by a panic.
    following: JoinHandle<()>,
    groups: Groups,
    /// Names of the configured providers.
    names: Vec<String>,
}

/// Validates all inputs, opens the endpoints and loads the providers.
async fn prepare(flags: RunFlags, examination: Option<Examination>) -> anyhow::Result<Prepared> {
    let configz = configz::of(&flags);
    let kubernetes = match &examination {
        Some(examination) => examination.kubernetes.clone(),
        None => kubernetes(flags.kubeconfig.clone(), flags.master.clone()).await?,
    };
    let api_server = api_server(&kubernetes);
    let mut settings = settings(&flags, api_server.clone());
    let (registry, metrics) = metrics::register(flags.client_limit);
    let clients = &metrics.clients;
    // Checks that clients can be created; each leadership creates its own.
    tenure_client::client(&kubernetes, Arc::new(Tenure::pending()), None, clients)?;
    let mode = flags.safety.mode;
    let election = flags.leadership.election.as_ref();
    let election = election.filter(|_| mode == Mode::Enforce);
    let cluster_url = telemetry::startup::shown(&kubernetes.cluster_url);
    let status = StatusCollector::new(mode, election.is_some(), cluster_url);
    let mut served = Served::start(
        flags.serving,
        &flags.matches,
        configz,
        &kubernetes,
        clients,
        registry,
        status,
    )
    .await?;
    let audit = AuditWriter::open(&flags.safety.audit_log)?;
    if mode != Mode::Enforce {
        tracing::info!(
            mode = mode.as_str(),
            "nothing is changed, and this process is not a candidate for the Lease"
        );
    }
    let configures_routes =
        flags.pod_network.configures_routes && !flags.pod_network.route.cluster_cidrs.is_empty();
    let groups = Groups::new(
        election,
        migration(&flags.leadership)?.as_ref(),
        enabled(&[
            (NODE_CONTROLLER, flags.node_controller),
            (NODE_LIFECYCLE_CONTROLLER, flags.node_lifecycle_controller),
            (SERVICE_CONTROLLER, flags.service_controller),
            (ROUTE_CONTROLLER, configures_routes),
            (IPAM_CONTROLLER, flags.pod_network.ipam.is_some()),
        ]),
    );
    let ranges = ranges(&flags.service_cidrs, &flags.cluster_cidrs);
    let cluster = ClusterAddresses { api_server, ranges };
    let reads = Arc::new(Tenure::unlimited());
    let reader = tenure_client::client(&as_user(&kubernetes, "/delivery"), reads, None, clients)?;
    let reader = with_response_timeout(reader);
    let configuration = Configuration {
        file: flags.config,
        is_cloud_config: flags.is_cloud_config,
        parsed: Default::default(),
        last_valid: Default::default(),
        name: flags.cloud_provider,
        module: flags.provider_module,
        cloud_proxy: flags.safety.cloud_proxy.unwrap_or_default(),
        secrets: Secrets::of(Some(reader.clone())),
        objects: flags.provider_objects.map(|flags| ObjectConfiguration {
            objects: ProviderObjects::watch(reader.clone()),
            secret_namespace: flags.secret_namespace.unwrap_or_else(own_namespace),
            accepted: Default::default(),
        }),
        region: Default::default(),
        instance: Default::default(),
    };
    let waits = examination.is_none() && flags.safety.plan_for.is_none();
    let wanted = configuration.first(waits).await?;
    let providers = wanted.all();
    let names: Vec<String> = providers.iter().map(|one| one.name.clone()).collect();
    // During an examination the vendor's own manager runs, and may have the port.
    for provider in providers.iter().filter(|_| examination.is_none()) {
        served.in_place_of_the_vendors(provider).await;
    }
    let endpoints = served.addresses();
    telemetry::startup::announce(mode, &kubernetes.cluster_url, &endpoints, &names);
    let confirm_removal = flags.confirm_removal;
    let shared = Shared {
        host: Arc::new(
            provider_loading::host(flags.compiled_cache_dir.clone(), flags.safety.isolation)?
                .counting(metrics.requests),
        ),
        store: flags
            .compiled_cache_dir
            .map(|folder| folder.join("modules")),
        client: Some(reader),
        cluster_name: flags.cluster_name,
        cluster_cidrs: flags.cluster_cidrs,
        mode,
        service_rules: Box::new(move |load_balancers, is_alone| {
            provider_loading::service_rules(load_balancers, is_alone, &cluster, confirm_removal)
        }),
        pace: 1,
        metrics: metrics.versions,
        remarks: Remarks::default(),
    };
    for provider in &wanted.file {
        would_load(&shared, provider)
            .await
            .context("Cloud provider could not be initialized")?;
    }
    let mut provider_manager = ProviderManager::begin(shared, wanted)?;
    served.status.shows_providers(provider_manager.overview());
    provider_manager
        .ready()
        .await
        .context("Cloud provider could not be initialized")?;
    let provided = provider_manager.provided();
    let knows_nodes = flags.node_controller || flags.node_lifecycle_controller;
    if !groups.is_idle() && knows_nodes {
        has_instances(&provided.borrow(), &names)?;
    }
    settings.reports = Reports {
        heartbeats: served.heartbeats.clone(),
        activity: served.status.activity(),
    };
    let serving = provided.clone();
    served.ready_while(move || !serving.borrow().is_empty());
    log_missing_routes(&flags.pod_network, &provided.borrow());
    settings.route = flags.pod_network.route;
    settings.ipam = flags.pod_network.ipam;
    if let (Some(ipam), true) = (&mut settings.ipam, election.is_none()) {
        // Without an election there is no previous leader whose last writes may not be visible yet.
        ipam.settle = Duration::ZERO;
    }
    let manager = Manager {
        kubernetes,
        provided,
        leadership_signal: provider_manager.leadership_signal(),
        settings,
        audit,
        metrics: metrics.controllers,
        election_metrics: metrics.elections,
        clients: metrics.clients,
        // A token is a request that creates something, and so is its missing ServiceAccount: only what acts needs them.
        identity_per_controller: flags.identity_per_controller && mode == Mode::Enforce,
        served,
    };
    Ok(Prepared {
        manager,
        following: tokio::spawn(provider_manager.follow(configuration)),
        groups,
        names,
    })
}

/// The controllers' settings by the flags, for a cluster whose API server has these addresses. Those of the pod network
/// follow once the providers are known.
fn settings(flags: &RunFlags, api_server: Vec<IpAddr>) -> Settings {
    let mut node = flags.node.clone();
    node.rules.addresses.api_server = api_server;
    Settings {
        node,
        lifecycle: flags.lifecycle.clone(),
        service: flags.service.clone(),
        mode: flags.safety.mode,
        allowances: flags.safety.allowances.clone(),
        drain: flags.leadership.drain,
        ..provider_loading::settings()
    }
}

/// The namespace of this pod; outside of one, that of the shipped manifests.
fn own_namespace() -> String {
    const FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
    let namespace = std::fs::read_to_string(FILE).unwrap_or_default();
    match namespace.trim() {
        "" => "kube-system".to_owned(),
        namespace => namespace.to_owned(),
    }
}

/// Names of the providers that do not serve.
fn unserved(provided: &[Provided], mut names: Vec<String>) -> Vec<String> {
    names.retain(|name| !provided.iter().any(|one| one.cloud.name() == name));
    names
}

/// Checks in advance. For a shipped module: all mistakes in its variables and values, found by this program and by the
/// module. For a file: whether there is a load policy for it. Other problems of a file are not fatal: an older version
/// may serve.
async fn would_load(shared: &Shared, provider: &ProviderConfig) -> anyhow::Result<()> {
    match &provider.source {
        Location::Embedded(name) => {
            if let Some(wasm) = builtin_grants::module(name) {
                let module = Module {
                    source: provider.source.to_string(),
                    wasm: bytes::Bytes::from_static(wasm),
                };
                provider_loading::load(&shared.host, &shared.load_policy(provider), module, None)
                    .await?;
            }
        }
        Location::File(file) => {
            let place = provider.source.to_string();
            let source = FileSource::new(place.clone(), file.clone(), provider.name.clone());
            if let Ok(found) = source.now().await
                && let Ok(inspection) = ccm_host::inspect(&place, &found.wasm)
            {
                let policy = shared.load_policy(provider).load_policy(&inspection);
                policy.map_err(Mistakes)?;
            }
        }
        Location::ConfigMap(_) | Location::Oci(_) => {}
    }
    Ok(())
}

/// IFACE-003: refuses providers without `instances`, since nodes that wait for them would look like a slow cloud.
/// Those of `names` that are not loaded yet may support it.
fn has_instances(provided: &[Provided], names: &[String]) -> Result<(), RunError> {
    match lacks_instances(provided) && unserved(provided, names.to_vec()).is_empty() {
        true => Err(RunError::NoInstances(names.join(", "))),
        false => Ok(()),
    }
}

/// ROUTE-001 and 002: logs why no routes are made although they are not switched off.
fn log_missing_routes(flags: &PodNetworkArguments, provided: &[Provided]) {
    if !flags.configures_routes {
        return;
    }
    let makes_routes = provided
        .iter()
        .any(|provider| provider.cloud.capabilities().routes);
    if !makes_routes {
        tracing::info!(
            controller = ROUTE_CONTROLLER,
            "not started: no cloud provider makes routes as it is configured"
        );
    } else if flags.route.cluster_cidrs.is_empty() {
        tracing::warn!(
            controller = ROUTE_CONTROLLER,
            "not started: --configure-cloud-routes is on, and --cluster-cidr does not say which networks the pods have"
        );
    }
}

/// The ranges of Services and pods. Of the pods' texts, all of which the provider gets, only valid ranges count here.
fn ranges(service_cidrs: &[IpNet], cluster_cidrs: &[String]) -> Vec<IpNet> {
    let pods = cluster_cidrs.iter().filter_map(|text| text.parse().ok());
    service_cidrs.iter().copied().chain(pods).collect()
}

/// The controllers enabled by `--controllers`, by their canonical names.
fn enabled(switches: &[(&'static str, bool)]) -> Vec<&'static str> {
    let on = switches.iter().filter(|(_, is_on)| *is_on);
    on.map(|(name, _)| *name).collect()
}

/// The migration configured by the flags.
fn migration(flags: &LeadershipFlags) -> anyhow::Result<Option<Migration>> {
    let election = flags.election.as_ref();
    let Some(migration) = election.and_then(|election| election.migration.as_ref()) else {
        return Ok(None);
    };
    let Some(path) = &migration.config else {
        return Ok(Some(Migration::built_in()));
    };
    let read = Migration::read(&provider_loading::read_text(path)?)
        .with_context(|| format!("{} is not a valid configuration", path.display()))?;
    Ok(Some(read))
}

/// Client configuration for the cluster of the flags, or the pod's own. With `--master` alone, outside of a pod, requests
/// have no credentials, as in client-go.
async fn kubernetes(kubeconfig: Option<PathBuf>, master: Option<String>) -> anyhow::Result<Config> {
    let master = master.map(|text| {
        let url: Uri = text.parse().with_context(|| format!("--master {text}"))?;
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
