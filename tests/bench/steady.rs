//! W5: no work, while kubelets report. Each report is a watch event that changes nothing for the manager.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use crate::course::Course;
use crate::figure::{Figure, Key, Size, Subject};
use crate::measured::Manager;
use crate::start::World;
use crate::watch::Watch;
use crate::{fat, progress};

/// A kubelet's interval between two reports, and the minimum time for the reports of all.
const PERIOD: Duration = Duration::from_secs(10);
const RATE: u32 = 100;
/// Time from the last node until there are no more effects.
const SETTLE_TIME: Duration = Duration::from_secs(2);

pub(crate) async fn measure(course: &mut Course<'_>, nodes: usize) -> Result<()> {
    let is_large = nodes > crate::initial::PEERS_DEFAULTS;
    for subject in course.in_turn(course.options.subjects(is_large)) {
        one(course, nodes, subject).await?;
    }
    Ok(())
}

async fn one(course: &mut Course<'_>, nodes: usize, subject: Subject) -> Result<()> {
    let (_, length) = course.options.steady();
    let run = course.run(format!("W5, {nodes} nodes, {}", subject.name()));
    let mut world = World::set(nodes).await?;
    let launch = course.launch(subject);
    let mut manager = Manager::start(course.options, &launch, &world.cluster, &world.cloud, &run)?;
    let mut watch = Watch::nodes(world.cluster.admin.clone());
    watch.until(nodes, || manager.check()).await?;
    drop(watch);
    tokio::time::sleep(SETTLE_TIME).await;

    progress!("{run}: nothing happens for {:?}", length / 2);
    let before = manager.usage()?.exact_cpu;
    let began = Instant::now();
    tokio::time::sleep(length / 2).await;
    let quiet = manager.usage()?.exact_cpu.saturating_sub(before);
    let quiet = quiet.as_secs_f64() / began.elapsed().as_secs_f64();

    progress!("{run}: kubelets report for {length:?}");
    let asked = world.cluster.asked()?.len();
    world.cloud.take_requests().await?;
    let before = manager.usage()?.exact_cpu;
    let began = Instant::now();
    let reports = report(&world, nodes, length).await?;
    let took = began.elapsed().as_secs_f64();
    let usage = manager.usage()?;
    manager.check()?;
    let spent = usage.exact_cpu.saturating_sub(before).as_secs_f64();
    let calls = world.cloud.take_requests().await?.len();
    let asked = world.cluster.asked()?.into_iter().skip(asked);
    let writes = asked.filter(|entry| entry.is_write()).count();
    world.check_nodes(subject).await?;
    manager.stop().await?;
    ensure!(
        subject != Subject::Ccm || writes == 0,
        "{writes} writes while nothing was to be done"
    );

    let ours = subject == Subject::Ccm;
    let key = |what: &str| Key::new("W5", Size::Nodes(nodes), subject, what);
    course.add(Figure::count(key("reports of kubelets"), reports));
    let figure = Figure::count(key("API writes"), writes);
    course.add(figure.at_most(ours.then_some(0.0)));
    let minute = calls as f64 / took * 60.0;
    course.add(Figure::new(key("cloud calls a minute"), minute, ""));
    let each = (spent - quiet * took).max(0.0) / reports.max(1) as f64;
    let each = Figure::micros(key("CPU a report"), Duration::from_secs_f64(each));
    let each = each.at_most(ours.then_some(20.0)).over_peers(0.5, None);
    course.add(each.shown());
    let minute = quiet * 60e3;
    course.add(Figure::new(
        key("CPU a minute without reports"),
        minute,
        "ms",
    ));
    let minute = spent / took * 60e3;
    let minute = Figure::new(key("CPU a minute with reports"), minute, "ms");
    course.add(minute.over_peers(0.5, None));
    course.add(Figure::memory(key("memory at the end"), usage.resident).over_peers(None, None));
    Ok(())
}

/// Lets every kubelet report each ten seconds, at an even pace; returns the number of reports.
async fn report(world: &World, nodes: usize, length: Duration) -> Result<usize> {
    let each = PERIOD / u32::try_from(nodes.max(1))?;
    let mut pace = tokio::time::interval(each.max(Duration::from_secs(1) / RATE));
    let (names, kubelets) = (fat::names(nodes), world.cluster.handle());
    let mut running = JoinSet::new();
    let began = Instant::now();
    let mut reports = 0;
    while began.elapsed() < length {
        pace.tick().await;
        let (name, kubelets) = (names[reports % nodes].clone(), kubelets.clone());
        let round = reports / nodes;
        running.spawn(async move { kubelets.report(&name, round).await });
        reports += 1;
        while let Some(reported) = running.try_join_next() {
            reported??;
        }
    }
    while let Some(reported) = running.join_next().await {
        reported??;
    }
    Ok(reports)
}
