//! W4: one node comes and one goes each second, below load balancers that have every node as a target.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use kube::api::DeleteParams;

use crate::course::Course;
use crate::figure::{Cost, Figure, Key, Size, Subject, percentile};
use crate::measured::Manager;
use crate::start::World;
use crate::watch::Watch;
use crate::{progress, services};

/// How long the load balancers may stay unchanged while they should change.
const STILL: Duration = Duration::from_secs(180);
/// The port of the Services, which stays the same here.
const PORT: u16 = 80;

pub(crate) async fn measure(course: &mut Course<'_>) -> Result<()> {
    for subject in course.in_turn(course.options.subjects(false)) {
        one(course, subject).await?;
    }
    Ok(())
}

async fn one(course: &mut Course<'_>, subject: Subject) -> Result<()> {
    let (nodes, balancers, length) = course.options.churn();
    let run = course.run(format!("W4, {nodes} nodes, {}", subject.name()));
    let mut world = World::set(nodes).await?;
    let launch = course.launch(subject);
    let mut manager = Manager::start(course.options, &launch, &world.cluster, &world.cloud, &run)?;
    let mut watch = Watch::nodes(world.cluster.admin.clone());
    watch.until(nodes, || manager.check()).await?;
    progress!("{run}: {balancers} load balancers");
    let mut balanced = Watch::services(world.cluster.admin.clone());
    services::create(&world, &services::names(balancers)).await?;
    balanced.until(balancers, || manager.check()).await?;
    drop(balanced);
    settled(&mut world, &mut manager, balancers, nodes).await?;

    progress!("{run}: a node comes and a node goes each second for {length:?}");
    world.cloud.take_requests().await?;
    let asked = world.cluster.asked()?.len();
    let cpu = manager.usage()?.cpu;
    let began = Instant::now();
    let created = churn(&mut world, length).await?;
    watch
        .until(nodes + created.len(), || manager.check())
        .await?;
    let came = Instant::now();
    settled(&mut world, &mut manager, balancers, nodes).await?;
    let settled = came.elapsed();
    let whole = began.elapsed();
    let usage = manager.usage()?;
    let calls = world.cloud.take_requests().await?.len();
    let asked = world.cluster.asked()?.into_iter().skip(asked);
    let writes = asked.filter(|entry| entry.is_write()).count();
    let seen = watch.seen();
    let delay = |(name, created): (&String, &Instant)| {
        let seen = seen.get(name).context("a node was not seen")?;
        Ok(seen.saturating_duration_since(*created))
    };
    let mut delays = created.iter().map(delay).collect::<Result<Vec<_>>>()?;
    delays.sort_unstable();
    world.check_nodes(subject).await?;
    manager.stop().await?;

    let ours = subject == Subject::Ccm;
    let key = |what: &str| Key::new("W4", Size::Nodes(nodes), subject, what);
    // Each new node and each removed one is a change.
    let changes = (2 * created.len()).max(1) as f64;
    for percent in [50, 99] {
        let what = format!("a new node's taint gone, p{percent}");
        let figure = Figure::time(key(&what), percentile(&delays, percent));
        course.add(figure.over_peers(None, None).shown());
    }
    let what = "from the last new node to the right targets everywhere";
    course.add(Figure::time(key(what), settled).shown());
    course.add(Figure::time(
        key("until then, from the first change"),
        whole,
    ));
    let a_change = |what: &str, count: usize| Figure::new(key(what), count as f64 / changes, "");
    course.add(a_change("cloud calls a change", calls).over_peers(None, None));
    let a_balancer = calls as f64 / changes / balancers as f64;
    course.add(Figure::new(
        key("cloud calls a change and load balancer"),
        a_balancer,
        "",
    ));
    course.add(a_change("API writes a change", writes));
    let cpu = Figure::time(key("CPU"), usage.cpu.saturating_sub(cpu));
    let goal = ours.then_some(0.1);
    course.add(cpu.over_peers(goal, None).costs(Cost::Processor));
    let peak = Figure::memory(key("peak memory"), usage.peak);
    course.add(peak.over_peers(None, None).costs(Cost::Memory));
    Ok(())
}

/// Creates one node and removes the oldest each second; returns when each new one was created.
async fn churn(world: &mut World, length: Duration) -> Result<HashMap<String, Instant>> {
    let mut pace = tokio::time::interval(Duration::from_secs(1));
    let mut created = HashMap::new();
    for number in 0..length.as_secs() {
        pace.tick().await;
        let name = format!("zz-new-{number:05}");
        let id = world.cloud.add(std::slice::from_ref(&name)).await?[0];
        world.cluster.register(&name).await?;
        created.insert(name.clone(), Instant::now());
        world.ids.insert(name, id);
        // As an autoscaler does: the machine is removed first, and then its node.
        let (oldest, id) = world.ids.pop_first().context("no node is left")?;
        world.cloud.remove(id).await?;
        let params = DeleteParams::default();
        world.cluster.nodes().delete(&oldest, &params).await?;
    }
    Ok(created)
}

/// Waits until every load balancer has every node.
async fn settled(
    world: &mut World,
    manager: &mut Manager,
    balancers: usize,
    nodes: usize,
) -> Result<()> {
    let mut last = (None, Instant::now());
    loop {
        let now = world.cloud.balancers(PORT).await?;
        if now.count == balancers && now.targets == (nodes, nodes) {
            return Ok(());
        }
        manager.check()?;
        let state = Some((now.count, now.targets));
        if state != last.0 {
            last = (state, Instant::now());
        }
        if last.1.elapsed() > STILL {
            bail!("the load balancers stay at {state:?}:\n{}", manager.tail());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
