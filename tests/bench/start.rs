//! The world of every workload, and one start of a manager on it: W1 and W8. Adds no figures.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::jiff::Timestamp;

use crate::audit::Entry;
use crate::cloud::{Cloud, CloudBehaviour};
use crate::cluster::Cluster;
use crate::figure::Subject;
use crate::measured::{Launch, Manager};
use crate::options::Options;
use crate::usage::{Children, Usage};
use crate::watch::Watch;
use crate::{fat, gate, progress};

/// Timeout for expected events.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// Time between filling a cluster and measuring in it.
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// Upstream's interval between two checks of nodes that are not ready.
const CHECK: Duration = Duration::from_secs(5);

/// A cluster and a cloud of the same machines.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) cloud: Cloud,
    pub(crate) ids: BTreeMap<String, u64>,
}

impl World {
    pub(crate) async fn set(nodes: usize) -> Result<Self> {
        Self::set_in(nodes, CloudBehaviour::Fair).await
    }

    pub(crate) async fn set_in(nodes: usize, behaviour: CloudBehaviour) -> Result<Self> {
        progress!("a fresh cluster with {nodes} nodes");
        let (cluster, mut cloud) = (Cluster::start().await?, Cloud::start(behaviour).await?);
        let names = fat::names(nodes);
        let ids = cloud.add(&names).await?;
        cluster.fill(&names).await?;
        tokio::time::sleep(SETTLE_TIME).await;
        Ok(Self {
            cluster,
            cloud,
            ids: names.into_iter().zip(ids).collect(),
        })
    }

    /// The servers in the order of their nodes' names.
    pub(crate) fn server_ids(&self) -> Vec<u64> {
        self.ids.values().copied().collect()
    }

    /// Checks every node that exists now, as [`check_nodes`] does.
    ///
    /// # Errors
    /// The first node that is not as it must be.
    pub(crate) async fn check_nodes(&self, subject: Subject) -> Result<()> {
        check_nodes(&self.cluster, &self.ids, subject).await
    }
}

/// Checks every node that exists now. The vendor's manager still writes addresses when the last node has its labels: it
/// has [`TIMEOUT`] for that.
///
/// # Errors
/// The first node that is not as it must be.
pub(crate) async fn check_nodes(
    cluster: &Cluster,
    ids: &BTreeMap<String, u64>,
    subject: Subject,
) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let checked = gate::end_state(&cluster.all_nodes().await?, ids, owner(subject));
        if checked.is_ok() || !subject.is_peer() || Instant::now() > deadline {
            return checked;
        }
        tokio::time::sleep(SETTLE_TIME).await;
    }
}

/// A program's mark on a node, if it sets one.
fn owner(subject: Subject) -> Option<&'static str> {
    match subject {
        Subject::Ccm | Subject::Bare => Some("hcloud"),
        Subject::PeerDefaults | Subject::PeerTuned => None,
    }
}

/// The figures of a start with nodes.
pub(crate) struct Start {
    /// Time until the first write reached the API server.
    pub(crate) first_write: Option<Duration>,
    pub(crate) first: Duration,
    pub(crate) last: Duration,
    pub(crate) cloud_calls: usize,
    pub(crate) events: usize,
    /// Processor time and memory at the end, with all Events written.
    pub(crate) usage: Usage,
    /// Peak memory of the compile child, if there was one.
    pub(crate) compiler_peak: Option<u64>,
    /// All requests until then.
    pub(crate) asked: Vec<Entry>,
    pub(crate) log: String,
    pub(crate) idle: Option<Idle>,
}

/// The acts of a manager without work.
pub(crate) struct Idle {
    pub(crate) lasted: Duration,
    pub(crate) writes: usize,
    /// Requests to the cloud for each check that upstream would make, with one node that is not ready.
    pub(crate) calls_per_check: f64,
    pub(crate) cpu: Duration,
}

/// Starts the manager on a world whose nodes are all tainted, and checks the end state. `with_idle`: also measures it without
/// work.
pub(crate) async fn measure(
    options: &Options,
    world: &mut World,
    launch: &Launch<'_>,
    run: &str,
    with_idle: bool,
) -> Result<Start> {
    let nodes = world.ids.len();
    let mut watch = Watch::nodes(world.cluster.admin.clone());
    progress!("{run}");
    let mut manager = Manager::start(options, launch, &world.cluster, &world.cloud, run)?;
    let children = Children::watch(manager.id());
    watch.until(1, || manager.check()).await?;
    let compiler_peak = children.peak();
    watch.until(nodes, || manager.check()).await?;
    let (first, last) = watch.ends().context("no node was seen")?;
    drop(watch);
    let ours = launch.subject == Subject::Ccm;
    let events = until_events(&world.cluster, if ours { nodes } else { 0 }, &mut manager).await?;
    world.check_nodes(launch.subject).await?;
    let usage = manager.usage()?;
    let asked = world.cluster.asked()?;
    let cloud_calls = world.cloud.take_requests().await?.len();
    if ours {
        gate::writes(&asked, &world.ids)?;
    }
    let began = manager.began;
    let first_write = asked.iter().find(|entry| entry.is_node_write());
    let first_write = first_write.map(|entry| since(manager.began_at, entry.received));
    let idle = match with_idle {
        true => Some(watch_idle(options, world, &mut manager, run).await?),
        false => None,
    };
    let log = manager.log();
    manager.stop().await?;
    Ok(Start {
        first_write,
        first: first - began,
        last: last - began,
        cloud_calls,
        events,
        usage,
        compiler_peak,
        asked,
        log,
        idle,
    })
}

/// Starts a manager where there are no nodes: how long until it watches for them.
pub(crate) async fn until_watching(
    options: &Options,
    world: &World,
    launch: &Launch<'_>,
    run: &str,
) -> Result<Duration> {
    progress!("{run}");
    let before = world.cluster.asked()?.len();
    let mut manager = Manager::start(options, launch, &world.cluster, &world.cloud, run)?;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        manager.check()?;
        let asked = world.cluster.asked()?;
        let mut new = asked.iter().skip(before);
        if let Some(watch) = new.find(|entry| entry.verb == "watch" && entry.resource == "nodes") {
            let took = since(manager.began_at, watch.received);
            manager.stop().await?;
            return Ok(took);
        }
        if Instant::now() > deadline {
            bail!("no watch of nodes:\n{}", manager.log());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits for the Events, which are written after the nodes.
async fn until_events(cluster: &Cluster, wanted: usize, manager: &mut Manager) -> Result<usize> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        manager.check()?;
        let events = cluster.node_events().await?;
        if events >= wanted {
            return Ok(events);
        }
        if Instant::now() > deadline {
            bail!(
                "only {events} of {wanted} Events were written:\n{}",
                manager.log()
            );
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn watch_idle(
    options: &Options,
    world: &mut World,
    manager: &mut Manager,
    run: &str,
) -> Result<Idle> {
    let (length, not_ready) = (options.idle(), options.not_ready());
    progress!(
        "{run}: nothing to do for {length:?}, then {not_ready:?} with one node that is not ready"
    );
    let (before, cpu) = (world.cluster.asked()?.len(), manager.usage()?.exact_cpu);
    tokio::time::sleep(length).await;
    let cpu = manager.usage()?.exact_cpu.saturating_sub(cpu);
    let name = world.ids.keys().next().context("no nodes")?;
    world.cluster.silence(name).await?;
    world.cloud.take_requests().await?;
    tokio::time::sleep(not_ready).await;
    manager.check()?;
    let calls = world.cloud.take_requests().await?.len();
    let asked = world.cluster.asked()?;
    let writes = asked.iter().skip(before).filter(|entry| entry.is_write());
    Ok(Idle {
        lasted: length,
        writes: writes.count(),
        calls_per_check: calls as f64 / not_ready.div_duration_f64(CHECK).max(1.0),
        cpu,
    })
}

/// The time between the two; zero if their clocks disagree.
fn since(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or_default()
}
