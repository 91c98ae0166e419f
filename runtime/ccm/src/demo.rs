//! The demo: the main features on a simulated cluster and cloud, with the real controllers and the real component in
//! the real sandbox. It ends by itself and fails if a step does not happen.
//!
//! It never touches a real cluster or cloud: everything is in this process or on loopback. The controllers use their
//! normal delays on a clock that runs 60 times as fast: no guard is weaker than with a real cluster.

mod interrupts;
mod lifecycle;
mod narrate;
mod network;
mod refusals;
mod service;
mod status_page;
mod swap;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, bail, ensure};
use ccm_controllers::{Pace, Reports};
use ccm_core::safety::brake::target_removal::CONFIRM_AFTER;
use ccm_core::safety::permit::{Access, Mode};
use ccm_core::safety::tenure::Tenure;
use ccm_core::well_known;
use ccm_delivery::metrics::Metrics;
use ccm_delivery::rollout_controller::Lead;
use ccm_host::egress::rules::{Line, Rule};
use ccm_host::grant::{Credential, Grants, Secret};
use ccm_host::manifest::Manifest;
use ccm_host::{GuestConfig, Host, Provider};
use ccm_sim::cluster::Cluster;
use ccm_sim::hetzner::{Hetzner, Options, ServerSpec};
use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};
use kube::Api;
use kube::api::{ObjectMeta, PostParams};

use crate::block_on;
use crate::builtin_grants;
use crate::config::ProviderConfig;
use crate::flags::ProviderIsolation;
use crate::load_policy::Remarks;
use crate::provider_loading;
use crate::provider_loading::ClusterAddresses;
use crate::provider_manager::{ProviderManager, Shared, Wanted, location};
use interrupts::Interrupts;
use lifecycle::World;
use narrate::Narrator;
use network::Network;
use status_page::StatusPage;

/// The machines of the simulated cloud; each has a node of the same name.
const MACHINES: [&str; 3] = ["control-1", "worker-1", "worker-2"];
/// A node without a machine at this cloud.
const FOREIGN_NODE: &str = "laptop";
/// Time limit of a step, longer than any step takes on a busy machine, where compiling a module may take a minute. The
/// demo fails instead of hanging.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);
/// Speed of the controllers' and the cluster's clock: seconds per real second.
const PACE: u32 = 60;
/// A token for the simulated cloud only; the guest never sees it.
const TOKEN: &str = "a-token-that-the-guest-never-sees";

/// Runs the demo with output as text or as one JSON object per line. With `serves`, it goes on until Ctrl-C.
///
/// # Errors
/// A step of the demo did not happen.
pub(crate) fn main(json: bool, serves: bool) -> anyhow::Result<()> {
    let narrator = Narrator::start(json)?;
    let interrupts = Interrupts::default();
    block_on(interrupts.unless_stopped(show(&narrator, &interrupts, serves)))
}

async fn show(narrator: &Narrator, interrupts: &Interrupts, serves: bool) -> anyhow::Result<()> {
    announce(narrator, serves);
    let cloud = Hetzner::start(Options::new(TOKEN)).await?;
    let servers = cloud.add_servers(MACHINES.map(ServerSpec::named));
    narrator.print(
        "cloud",
        "",
        &format!(
            "a simulated Hetzner Cloud on {} with {} servers",
            cloud.endpoint(),
            MACHINES.len()
        ),
    );

    let network = Network::of(&cloud, &servers)?;
    let folder = tempfile::tempdir().context("cannot make a folder for the module")?;
    let file = folder.path().join("hcloud.wasm");
    let wasm = embedded()?;
    swap::put(&file, wasm)?;
    let host = Arc::new(provider_loading::host(None, ProviderIsolation::default())?);
    let mut provider_manager = ProviderManager::begin(
        shared(host.clone()),
        Wanted {
            file: vec![configured(&file, &cloud, &network)?],
            ..Wanted::default()
        },
    )?;
    provider_manager.leadership_signal().take(
        Lead {
            tenure: Arc::new(Tenure::unlimited()),
        },
        None,
    );
    provider_manager.ready().await?;
    let provided = provider_manager.provided();
    let active = provider_manager
        .active("hcloud")
        .context("the provider does not serve")?;
    let page = StatusPage::open(&provider_manager, narrator).await?;
    let keeping = tokio::spawn(provider_manager.keep());
    let manifest = active.serving().provider.manifest().clone();
    introduce(&active.serving().provider, narrator);

    let cluster = Cluster::with_clock(simulated());
    let (route, ipam) = network::settings()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let controllers = tokio::spawn(ccm_controllers::run_all(
        cluster.client_as("ccm"),
        provided,
        ccm_controllers::Settings {
            pace: Pace::times(PACE),
            reports: Reports {
                activity: page.status.activity(),
                ..Reports::default()
            },
            route,
            ipam,
            ..provider_loading::settings()
        },
        ccm_controllers::Metrics::default(),
        async {
            // A dropped sender counts as a message: the demo is over.
            let _ = stopped.await;
        },
    ));

    let started = Instant::now();
    let nodes: Api<Node> = Api::all(cluster.client_as("kubelet"));
    for name in MACHINES.into_iter().chain([FOREIGN_NODE]) {
        nodes
            .create(&PostParams::default(), &fresh_node(name))
            .await?;
        narrator.print("cluster", name, "registers, tainted uninitialized");
    }
    for name in MACHINES {
        initialised(&nodes, name).await?;
    }
    let took = started.elapsed();
    still_waiting(&nodes, &cloud, narrator).await?;
    network.reaches(&nodes, &MACHINES, narrator).await?;
    let before = changes(&cloud);
    ensure!(
        before == MACHINES.len(),
        "the cloud was changed {before} times, which is not once for each route"
    );
    let services = Api::namespaced(cluster.client_as("kubectl"), service::NAMESPACE);
    service::show(&services, &cloud, narrator).await?;
    lifecycle::show(&World {
        nodes: &nodes,
        cloud: &cloud,
        narrator,
        machines: &MACHINES.into_iter().zip(servers).collect::<Vec<_>>(),
    })
    .await?;

    network
        .forgets_all_but(MACHINES.len() - 1, narrator)
        .await?;
    swap::show(&file, wasm, &active, narrator).await?;
    refusals::refuse_request(&manifest, &cloud, narrator).await?;
    refusals::refuse_module(&host, &manifest, &cloud, narrator).await?;

    narrator.end();
    if serves {
        page.stays_open(interrupts).await?;
    }
    // Dropping the sender also stops the controllers; the receiver may be gone if they failed.
    let _ = stop.send(());
    controllers.await.context("the controllers crashed")??;
    keeping.abort();
    let changes = changes(&cloud);
    // One load balancer is created and deleted; one route is created per machine, and one is deleted.
    let expected = 2 + MACHINES.len() + 1;
    ensure!(
        changes == expected,
        "the cloud was changed {changes} times and not {expected}"
    );
    narrator.print_result(&format!(
        "every step happened: {} nodes initialised in {} ms; cloud requests: {}; changes at the cloud: {changes}; nodes left alone: 1",
        MACHINES.len(),
        took.as_millis(),
        cloud.requests().len()
    ))?;
    if !serves {
        narrator.print(
            "next",
            "",
            "`ccm demo --serve` keeps the status page open, `ccm --help` lists the commands, and deploy/README.md installs it on a cluster",
        );
    }
    Ok(())
}

/// Says what the demo is, how to read its lines, and when it ends.
fn announce(narrator: &Narrator, serves: bool) {
    let end = match serves {
        true => "goes on until Ctrl-C",
        false => "ends by itself in some fifteen seconds",
    };
    for text in [
        format!("simulates a cluster and a cloud on this machine, and {end}"),
        format!("the cluster's clock is {PACE} times as fast as yours"),
        "each line: who, about what, and what is done → what came of it".to_owned(),
    ] {
        narrator.print("demo", "", &text);
    }
}

/// Number of changes at the cloud.
fn changes(cloud: &Hetzner) -> usize {
    let requests = cloud.requests();
    requests
        .iter()
        .filter(|request| request.method != "GET")
        .filter(|request| request.status.is_some_and(|status| status < 300))
        .count()
}

/// The same as in `ccm run`, but without a cluster to read from and without persistent storage.
fn shared(host: Arc<Host>) -> Shared {
    Shared {
        host,
        store: None,
        client: None,
        cluster_name: "kubernetes".to_owned(),
        cluster_cidrs: vec![network::CLUSTER_CIDR.to_owned()],
        mode: Mode::Enforce,
        service_rules: Box::new(|load_balancers, is_alone| {
            let unknown = ClusterAddresses::default();
            provider_loading::service_rules(load_balancers, is_alone, &unknown, CONFIRM_AFTER)
        }),
        pace: PACE,
        metrics: Metrics::default(),
        remarks: Remarks::default(),
    }
}

/// A provider as configured, whose module is in this file.
fn configured(
    file: &Path,
    cloud: &Hetzner,
    network: &Network<'_>,
) -> anyhow::Result<ProviderConfig> {
    let manifest = ccm_host::inspect("hcloud", embedded()?)?.manifest;
    let mut config = ProviderConfig::unwritten("hcloud");
    config.source = location(&file.display().to_string())?;
    config.grants = Some(grants(&manifest, cloud)?);
    config.values = guest_config().values;
    let network = network.id.to_string();
    config.values.insert("HCLOUD_NETWORK".to_owned(), network);
    Ok(config)
}

/// The cluster's clock, as fast as the controllers'.
fn simulated() -> impl Fn() -> SystemTime + Send + Sync + 'static {
    let (begin, started) = (SystemTime::now(), Instant::now());
    move || begin + started.elapsed() * PACE
}

/// Grants of the embedded module, for the simulated cloud only.
fn grants(manifest: &Manifest, cloud: &Hetzner) -> anyhow::Result<Grants> {
    let mut grants = manifest.as_grants();
    for target in &mut grants.targets {
        // An address as endpoint grants exactly that address, the only way to allow loopback.
        target.endpoint = cloud.endpoint().parse()?;
        target.credential = Credential::Bearer(Secret::new(TOKEN.to_owned()));
    }
    Ok(grants)
}

fn embedded() -> anyhow::Result<&'static [u8]> {
    builtin_grants::module("hcloud").context("the module is not embedded")
}

fn guest_config() -> GuestConfig {
    GuestConfig {
        cluster_name: "kubernetes".to_owned(),
        cluster_cidrs: Vec::new(),
        values: [(
            "HCLOUD_LOAD_BALANCERS_LOCATION".to_owned(),
            "fsn1".to_owned(),
        )]
        .into(),
        schemes: Vec::new(),
    }
}

fn introduce(provider: &Provider, narrator: &Narrator) {
    let manifest = provider.manifest();
    narrator.print(
        "provider",
        &manifest.name,
        &format!(
            "{} loaded into the sandbox, {}",
            manifest.version,
            provider.digest()
        ),
    );
    // Optional targets are not granted here.
    for target in manifest.targets.iter().filter(|target| target.required) {
        let lines = target.rules.iter().flat_map(Rule::lines);
        let (writes, reads): (Vec<_>, Vec<_>) =
            lines.partition(|line| line.access == Access::Write);
        narrator.print(
            "provider",
            &manifest.name,
            &format!(
                "may reach {}: {} reads; changes only below {}",
                target.name,
                reads.len(),
                areas(&writes)
            ),
        );
    }
}

/// The distinct first path segments of the lines.
fn areas(lines: &[Line]) -> String {
    let first = |line: &Line| {
        let path = line.path.to_string();
        let first = path
            .trim_start_matches('/')
            .split('/')
            .next()
            .map(str::to_owned);
        format!("/{}", first.unwrap_or_default())
    };
    let areas: BTreeSet<String> = lines.iter().map(first).collect();
    areas.into_iter().collect::<Vec<_>>().join(", ")
}

fn fresh_node(name: &str) -> Node {
    let taint = Taint {
        key: well_known::UNINITIALIZED_TAINT.to_owned(),
        value: Some("true".to_owned()),
        effect: "NoSchedule".to_owned(),
        time_added: None,
    };
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            taints: Some(vec![taint]),
            ..NodeSpec::default()
        }),
        status: Some(lifecycle::readiness("True")),
    }
}

/// Whether the node has a taint with this key.
fn is_tainted(node: &Node, key: &str) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let mut taints = taints.into_iter().flatten();
    taints.any(|taint| taint.key == key)
}

/// Waits a moment for a step that is not done, of which `what` says what is missing.
///
/// # Errors
/// The deadline is over.
async fn wait(deadline: Instant, what: impl FnOnce() -> String) -> anyhow::Result<()> {
    if Instant::now() > deadline {
        bail!("{} after {} s", what(), STEP_TIMEOUT.as_secs());
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    Ok(())
}

/// Waits until a node has lost its taint, and checks that it has addresses.
async fn initialised(nodes: &Api<Node>, name: &str) -> anyhow::Result<()> {
    let deadline = Instant::now() + STEP_TIMEOUT;
    loop {
        let node = nodes.get(name).await?;
        if !is_tainted(&node, well_known::UNINITIALIZED_TAINT) {
            let addresses = node
                .status
                .and_then(|status| status.addresses)
                .unwrap_or_default();
            ensure!(
                !addresses.is_empty(),
                "{name} lost its taint and has no addresses"
            );
            return Ok(());
        }
        wait(deadline, || format!("{name} is still tainted")).await?;
    }
}

/// Checks that the node without a machine was looked up and left unchanged.
async fn still_waiting(
    nodes: &Api<Node>,
    cloud: &Hetzner,
    narrator: &Narrator,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + STEP_TIMEOUT;
    while !narrator.has_waiting(FOREIGN_NODE) {
        let what = || {
            let requests = cloud.requests().len();
            format!("nothing was said about {FOREIGN_NODE}; the cloud saw {requests} requests")
        };
        wait(deadline, what).await?;
    }
    let node = nodes.get(FOREIGN_NODE).await?;
    ensure!(
        is_tainted(&node, well_known::UNINITIALIZED_TAINT),
        "{FOREIGN_NODE} lost its taint without a machine"
    );
    Ok(())
}
