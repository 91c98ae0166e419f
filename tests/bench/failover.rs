//! W7: the leader of two replicas ends in the middle of W1: killed, and in order.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::course::Course;
use crate::figure::{Figure, Key, Size, Subject};
use crate::measured::{Launch, Manager};
use crate::progress;
use crate::start::{TIMEOUT, World};
use crate::watch::Watch;

/// Delay until the last writes of the first leader are seen.
const ECHO: Duration = Duration::from_millis(100);

/// How the leader ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Killed,
    InOrder,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::InOrder => "stopped in order",
        }
    }

    /// The goal for the time in which no node is initialised, in milliseconds.
    fn goal(self) -> f64 {
        match self {
            // The Lease's 15 s, a retry after 2 s, and the start of the other replica's controllers.
            Self::Killed => 20_000.0,
            Self::InOrder => 3_000.0,
        }
    }
}

pub(crate) async fn measure(course: &mut Course<'_>, nodes: usize) -> Result<()> {
    for subject in course.in_turn(course.options.subjects(true)) {
        for end in [End::Killed, End::InOrder] {
            one(course, nodes, subject, end).await?;
        }
    }
    Ok(())
}

async fn one(course: &mut Course<'_>, nodes: usize, subject: Subject, end: End) -> Result<()> {
    let name = end.name();
    let run = course.run(format!("W7, {nodes} nodes, {}, {name}", subject.name()));
    let world = World::set(nodes).await?;
    let mut watch = Watch::nodes(world.cluster.admin.clone());
    let launch = Launch {
        is_elected: true,
        ..course.launch(subject)
    };
    let start = |which: &str| {
        let run = format!("{run}, {which}");
        progress!("{run}");
        Manager::start(course.options, &launch, &world.cluster, &world.cloud, &run)
    };
    let mut first = start("first")?;
    let deadline = Instant::now() + TIMEOUT;
    while world.cluster.leader().await?.is_none() {
        first.check()?;
        if Instant::now() > deadline {
            bail!("nobody leads:\n{}", first.tail());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut second = start("second")?;
    watch.until(nodes / 4, || first.check()).await?;
    let ended = Instant::now();
    match end {
        End::Killed => first.kill(),
        End::InOrder => first.stop().await?,
    }
    tokio::time::sleep(ECHO).await;
    let before = watch.count();
    ensure!(
        before < nodes,
        "all nodes were initialised before the first one ended: more nodes are needed"
    );
    watch.until(before + 1, || second.check()).await?;
    watch.until(nodes, || second.check()).await?;
    let mut seen: Vec<Instant> = watch.seen().into_values().collect();
    seen.sort_unstable();
    let next = seen.get(before).context("no node of the second one")?;
    let (before_it, last) = (seen[before.saturating_sub(1)], seen[seen.len() - 1]);
    world.check_nodes(subject).await?;
    second.stop().await?;

    let goal = (subject == Subject::Ccm).then_some(end.goal());
    let key = |what: &str| {
        let what = format!("{name}: {what}");
        Key::new("W7", Size::Nodes(nodes), subject, what)
    };
    let figure = Figure::time(key("no node is initialised for"), *next - before_it);
    course.add(figure.at_most(goal).over_peers(None, None).shown());
    course.add(Figure::time(key("to the last node"), last - ended));
    course.add(Figure::count(
        key("nodes left to the second one"),
        nodes - before,
    ));
    Ok(())
}
