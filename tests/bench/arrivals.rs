//! W2: nodes arrive, one after the other at an even pace, while the manager runs. A machine is in the cloud's list just
//! before its node registers, as when a cluster grows. The limit is the bare client at the same pace: the API server's
//! own time for the writes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Node;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::bare::{self, Form, Plan};
use crate::cloud::LATENCY;
use crate::course::Course;
use crate::figure::{Figure, Key, Size, Subject, percentile};
use crate::initial::CONNECTIONS;
use crate::measured::Manager;
use crate::start::{World, check_nodes};
use crate::watch::Watch;
use crate::{fat, gate, progress};

/// The goal at this many nodes a second: the 99th percentile divided by the limit.
const GOAL: (u32, f64) = (100, 2.0);

/// Lets `nodes` nodes arrive, `rate` a second, for every program and for the bare client.
pub(crate) async fn measure(course: &mut Course<'_>, nodes: usize, rate: u32) -> Result<()> {
    let mut subjects = vec![Subject::Bare];
    subjects.extend(course.options.subjects(false));
    for subject in course.in_turn(subjects) {
        let run = course.run(format!(
            "W2, {nodes} nodes, {rate} a second, {}",
            subject.name()
        ));
        progress!("{run}");
        let arrived = match subject {
            Subject::Bare => bare(nodes, rate).await?,
            _ => managed(course, nodes, rate, subject, &run).await?,
        };
        add(course, nodes, rate, subject, &arrived);
    }
    Ok(())
}

struct Arrivals {
    /// From the answer to a node's creation until the driver has seen it initialised, shortest first.
    delays: Vec<Duration>,
    /// Number of requests to the cloud; `None` for the bare client.
    cloud_calls: Option<usize>,
}

fn add(course: &mut Course<'_>, nodes: usize, rate: u32, subject: Subject, arrived: &Arrivals) {
    let key = |subject, what: &str| {
        let what = format!("{rate}/s: {what}");
        Key::new("W2", Size::Nodes(nodes), subject, what)
    };
    for percent in [50, 99] {
        let what = format!("creation to taint gone, p{percent}");
        let with_cloud = format!("{what}, and one answer of the cloud");
        let delay = percentile(&arrived.delays, percent);
        let figure = Figure::time(key(subject, &what), delay).shown();
        if subject == Subject::Bare {
            course.add(figure);
            course.add(Figure::time(key(subject, &with_cloud), delay + LATENCY));
            continue;
        }
        let has_goal = subject == Subject::Ccm && percent == 99 && rate == GOAL.0;
        let (alone, with) = (key(Subject::Bare, &what), key(Subject::Bare, &with_cloud));
        course.add(
            figure
                .over(alone, "the API server alone", has_goal.then_some(GOAL.1))
                .over(with, "it and one answer of the cloud", None)
                .over_peers(0.5, None),
        );
    }
    if let Some(calls) = arrived.cloud_calls {
        course.add(Figure::count(key(subject, "cloud calls"), calls));
    }
}

/// The manager initialises the nodes.
async fn managed(
    course: &Course<'_>,
    nodes: usize,
    rate: u32,
    subject: Subject,
    run: &str,
) -> Result<Arrivals> {
    let mut world = World::set(0).await?;
    let mut watch = Watch::nodes(world.cluster.admin.clone());
    let launch = course.launch(subject);
    let mut manager = Manager::start(course.options, &launch, &world.cluster, &world.cloud, run)?;
    // One node that is not counted: when it is initialised, the manager is running.
    let first = ["early".to_owned()];
    let mut ids = BTreeMap::new();
    ids.insert(first[0].clone(), world.cloud.add(&first).await?[0]);
    world.cluster.register(&first[0]).await?;
    watch.until(1, || manager.check()).await?;
    world.cloud.take_requests().await?;
    let (sent, _unused) = mpsc::unbounded_channel();
    let created = arrive(&mut world, &mut ids, nodes, rate, &sent).await?;
    watch.until(nodes + 1, || manager.check()).await?;
    let delays = delays(&created, &watch)?;
    let cloud_calls = Some(world.cloud.take_requests().await?.len());
    check_nodes(&world.cluster, &ids, subject).await?;
    manager.stop().await?;
    if subject == Subject::Ccm {
        gate::writes(&world.cluster.asked()?, &ids)?;
    }
    Ok(Arrivals {
        delays,
        cloud_calls,
    })
}

/// The bare client knows each node from the answer to its creation.
async fn bare(nodes: usize, rate: u32) -> Result<Arrivals> {
    let mut world = World::set(0).await?;
    let mut watch = Watch::nodes(world.cluster.admin.clone());
    let (sent, received) = mpsc::unbounded_channel::<Registered>();
    let received = Arc::new(tokio::sync::Mutex::new(received));
    let mut workers = JoinSet::new();
    for client in bare::connected(&world.cluster, CONNECTIONS).await? {
        let received = Arc::clone(&received);
        workers.spawn(async move {
            loop {
                let next = received.lock().await.recv().await;
                let Some(Registered { node, id, number }) = next else {
                    return anyhow::Ok(());
                };
                let plan = Plan::new(&node, id, number)?;
                plan.carry_out(&client, Form::WithEvents).await?;
            }
        });
    }
    let mut ids = BTreeMap::new();
    let created = arrive(&mut world, &mut ids, nodes, rate, &sent).await?;
    drop(sent);
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    watch.until(nodes, || Ok(())).await?;
    let delays = delays(&created, &watch)?;
    check_nodes(&world.cluster, &ids, Subject::Bare).await?;
    Ok(Arrivals {
        delays,
        cloud_calls: None,
    })
}

/// A node that has just been created.
struct Registered {
    node: Node,
    id: u64,
    /// The number of its server, from 0.
    number: usize,
}

/// Creates servers and nodes at the pace, and sends each node when it is created.
async fn arrive(
    world: &mut World,
    ids: &mut BTreeMap<String, u64>,
    nodes: usize,
    rate: u32,
    sent: &mpsc::UnboundedSender<Registered>,
) -> Result<HashMap<String, Instant>> {
    let mut pace = tokio::time::interval(Duration::from_secs(1) / rate);
    let mut registrations = JoinSet::new();
    for name in fat::names(nodes) {
        pace.tick().await;
        let id = world.cloud.add(std::slice::from_ref(&name)).await?[0];
        let number = ids.len();
        ids.insert(name.clone(), id);
        let (cluster, sent) = (world.cluster.handle(), sent.clone());
        registrations.spawn(async move {
            let node = cluster.register(&name).await?;
            let at = Instant::now();
            // There is no receiver if a manager initialises the nodes.
            let _ = sent.send(Registered { node, id, number });
            anyhow::Ok((name, at))
        });
    }
    let mut created = HashMap::new();
    while let Some(registered) = registrations.join_next().await {
        let (name, at) = registered??;
        created.insert(name, at);
    }
    Ok(created)
}

fn delays(created: &HashMap<String, Instant>, watch: &Watch) -> Result<Vec<Duration>> {
    let seen = watch.seen();
    let delay = |(name, created): (&String, &Instant)| {
        let seen = seen
            .get(name)
            .with_context(|| format!("{name} was not seen"))?;
        Ok(seen.saturating_duration_since(*created))
    };
    let mut delays = created.iter().map(delay).collect::<Result<Vec<_>>>()?;
    delays.sort_unstable();
    Ok(delays)
}
