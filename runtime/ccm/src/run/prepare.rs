//! Prepares a candidacy for the lease: validates all inputs, opens the endpoints and loads the providers. Leads nothing.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use ccm_controllers::{
    Provided, Reports, RunError, Settings, lacks_instances, tenure_client, with_response_timeout,
};
use ccm_core::safety::permit::Mode;
use ccm_core::safety::tenure::Tenure;
use ccm_core::well_known::{
    IPAM_CONTROLLER, NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, ROUTE_CONTROLLER,
};
use ccm_delivery::load_policy::LoadPolicyOf as _;
use ccm_delivery::source::Location;
use ccm_delivery::source::file::FileSource;
use ccm_host::Module;
use ipnet::IpNet;
use kube::Client;
use tokio::task::JoinHandle;

use super::endpoints::Served;
use super::leading::{Groups, Manager};
use super::{Examination, api_server, as_user, configz, kubernetes, unserved};
use crate::api_server_proxy::counted_client;
use crate::audit::AuditWriter;
use crate::builtin_grants;
use crate::config::{Mistakes, ProviderConfig};
use crate::flags::{ElectionFlags, LeadershipFlags, PodNetworkArguments, RunFlags};
use crate::leader_migration::Migration;
use crate::load_policy::Remarks;
use crate::metrics::{self, Handles};
use crate::provider_loading::{self, ClusterAddresses};
use crate::provider_manager::{
    Configuration, ObjectConfiguration, ProviderManager, ProviderObjects, Secrets, Shared, Wanted,
};
use crate::status_collector::StatusCollector;
use crate::telemetry;

/// Everything that a candidacy for the lease, or leading without one, needs.
pub(super) struct Prepared {
    pub(super) manager: Manager,
    /// Follows the configuration and the providers' versions; ends only by a panic.
    pub(super) following: JoinHandle<()>,
    pub(super) groups: Groups,
    /// Names of the configured providers.
    pub(super) names: Vec<String>,
}

/// Validates all inputs, opens the endpoints and loads the providers.
pub(super) async fn prepare(
    mut flags: RunFlags,
    examination: Option<Examination>,
) -> anyhow::Result<Prepared> {
    let configz = configz::of(&flags);
    let is_examination = examination.is_some();
    let kubernetes = match examination {
        Some(examination) => examination.kubernetes,
        None => kubernetes(flags.kubeconfig.take(), flags.master.take()).await?,
    };
    let (registry, metrics) = metrics::register(flags.client_limit);
    let clients = &metrics.clients;
    // Checks that clients can be created; each leadership creates its own.
    tenure_client::client(&kubernetes, Arc::new(Tenure::pending()), None, clients)?;

    let mode = flags.safety.mode;
    let cluster_url = telemetry::startup::shown(&kubernetes.cluster_url);
    let status = StatusCollector::new(mode, election(&flags).is_some(), cluster_url);
    let mut served = Served::start(
        flags.serving.take(),
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
    let groups = groups(&flags)?;

    let reader = counted_client(&as_user(&kubernetes, "/delivery"), clients)?;
    let reader = with_response_timeout(reader);
    let configuration = configuration(&flags, &reader);
    let waits = !is_examination && flags.safety.plan_for.is_none();
    let wanted = configuration.first(waits).await?;
    let providers = wanted.all();
    let names: Vec<String> = providers.iter().map(|one| one.name.clone()).collect();
    // During an examination the vendor's own manager runs, and may have the port.
    for provider in providers.iter().filter(|_| !is_examination) {
        served.in_place_of_the_vendors(provider).await;
    }
    let endpoints = served.addresses();
    telemetry::startup::announce(mode, &kubernetes.cluster_url, &endpoints, &names);

    let api_server = api_server(&kubernetes);
    let shared = shared(&flags, api_server.clone(), reader, &metrics)?;
    let provider_manager = started(shared, wanted, &served.status).await?;
    let provided = provider_manager.provided();
    let runs = |controller| flags.controllers.contains(&controller);
    let knows_nodes = runs(NODE_CONTROLLER) || runs(NODE_LIFECYCLE_CONTROLLER);
    if !groups.is_idle() && knows_nodes {
        has_instances(&provided.borrow(), &names)?;
    }
    let serving = provided.clone();
    served.ready_while(move || !serving.borrow().is_empty());
    log_missing_routes(&flags.pod_network, &provided.borrow());

    let reports = Reports {
        heartbeats: served.heartbeats.clone(),
        activity: served.status.activity(),
    };
    let manager = Manager {
        kubernetes,
        provided,
        leadership_signal: provider_manager.leadership_signal(),
        settings: Settings {
            reports,
            ..settings(&flags, api_server)
        },
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

/// The flags of the election; `None` where this process is no candidate for the Lease.
fn election(flags: &RunFlags) -> Option<&ElectionFlags> {
    let election = flags.leadership.election.as_ref();
    election.filter(|_| flags.safety.mode == Mode::Enforce)
}

/// The controllers that the flags enable, by the leases that they run under.
fn groups(flags: &RunFlags) -> anyhow::Result<Groups> {
    let network = &flags.pod_network;
    let makes_routes = network.configures_routes && !network.route.cluster_cidrs.is_empty();
    let mut enabled = flags.controllers.clone();
    enabled.retain(|name| match *name {
        ROUTE_CONTROLLER => makes_routes,
        IPAM_CONTROLLER => network.ipam.is_some(),
        _ => true,
    });
    let migration = migration(&flags.leadership)?;
    Ok(Groups::new(election(flags), migration.as_ref(), enabled))
}

/// Where the providers are configured. `reader` reads the cluster's Secrets and objects.
fn configuration(flags: &RunFlags, reader: &Client) -> Configuration {
    let objects = flags.provider_objects.as_ref();
    Configuration {
        file: flags.config.clone(),
        is_cloud_config: flags.is_cloud_config,
        parsed: Default::default(),
        last_valid: Default::default(),
        name: flags.cloud_provider.clone(),
        module: flags.provider_module.clone(),
        cloud_proxy: flags.safety.cloud_proxy.unwrap_or_default(),
        secrets: Secrets::of(Some(reader.clone())),
        objects: objects.map(|flags| ObjectConfiguration {
            objects: ProviderObjects::watch(reader.clone()),
            secret_namespace: flags.secret_namespace.clone().unwrap_or_else(own_namespace),
            accepted: Default::default(),
        }),
        region: Default::default(),
        instance: Default::default(),
    }
}

/// What all providers share. `reader` reads their ConfigMaps and objects.
fn shared(
    flags: &RunFlags,
    api_server: Vec<IpAddr>,
    reader: Client,
    metrics: &Handles,
) -> anyhow::Result<Shared> {
    let cluster = ClusterAddresses {
        api_server,
        ranges: ranges(&flags.service_cidrs, &flags.cluster_cidrs),
    };
    let confirm_removal = flags.confirm_removal;
    let folder = flags.compiled_cache_dir.as_ref();
    let host = provider_loading::host(folder.cloned(), flags.safety.isolation)?;
    Ok(Shared {
        host: Arc::new(host.counting(metrics.requests.clone())),
        store: folder.map(|folder| folder.join("modules")),
        client: Some(reader),
        cluster_name: flags.cluster_name.clone(),
        cluster_cidrs: flags.cluster_cidrs.clone(),
        mode: flags.safety.mode,
        service_rules: Box::new(move |load_balancers, is_alone| {
            provider_loading::service_rules(load_balancers, is_alone, &cluster, confirm_removal)
        }),
        pace: 1,
        metrics: metrics.versions.clone(),
        remarks: Remarks::default(),
    })
}

/// Checks the providers of the file, starts all of them, and waits for their first outcomes.
async fn started(
    shared: Shared,
    wanted: Wanted,
    status: &StatusCollector,
) -> anyhow::Result<ProviderManager> {
    let failed = "Cloud provider could not be initialized";
    for provider in &wanted.file {
        would_load(&shared, provider).await.context(failed)?;
    }
    let mut provider_manager = ProviderManager::begin(shared, wanted)?;
    status.shows_providers(provider_manager.overview());
    provider_manager.ready().await.context(failed)?;
    Ok(provider_manager)
}

/// The controllers' settings by the flags, for a cluster whose API server has these addresses.
pub(super) fn settings(flags: &RunFlags, api_server: Vec<IpAddr>) -> Settings {
    let mut node = flags.node.clone();
    node.rules.addresses.api_server = api_server;
    let mut ipam = flags.pod_network.ipam.clone();
    if let (Some(ipam), None) = (&mut ipam, election(flags)) {
        // Without an election there is no previous leader whose last writes may not be visible yet.
        ipam.settle = Duration::ZERO;
    }
    Settings {
        node,
        lifecycle: flags.lifecycle.clone(),
        service: flags.service.clone(),
        route: flags.pod_network.route.clone(),
        ipam,
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
pub(super) fn ranges(service_cidrs: &[IpNet], cluster_cidrs: &[String]) -> Vec<IpNet> {
    let pods = cluster_cidrs.iter().filter_map(|text| text.parse().ok());
    service_cidrs.iter().copied().chain(pods).collect()
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
