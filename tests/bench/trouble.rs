//! W6: W1 and W3 with a cloud in trouble: one answer of twenty is an error, and the vendor's request limit is in force.
//! The result must pass the same gate.

use anyhow::{Context as _, Result, ensure};

use crate::cloud::CloudBehaviour;
use crate::course::Course;
use crate::figure::{Figure, Key, Size};
use crate::measured::Manager;
use crate::start::World;
use crate::watch::Watch;
use crate::{progress, services as life};

/// W1: nodes at the start.
pub(crate) async fn nodes(course: &mut Course<'_>, nodes: usize) -> Result<()> {
    for subject in course.in_turn(course.options.subjects(true)) {
        let run = course.run(format!("W6, {nodes} nodes, {}", subject.name()));
        let mut world = World::set_in(nodes, CloudBehaviour::Trouble).await?;
        let mut watch = Watch::nodes(world.cluster.admin.clone());
        progress!("{run}");
        let launch = course.launch(subject);
        let mut manager =
            Manager::start(course.options, &launch, &world.cluster, &world.cloud, &run)?;
        watch.until(nodes, || manager.check()).await?;
        let (_, last) = watch.ends().context("no node was seen")?;
        let took = last - manager.began;
        let calls = world.cloud.take_requests().await?;
        world.check_nodes(subject).await?;
        manager.stop().await?;
        let key = |what: &str| Key::new("W6", Size::Nodes(nodes), subject, what);
        let fair = Key {
            workload: "W1",
            ..key("last node")
        };
        let figure = Figure::time(key("last node"), took);
        let figure = figure.over(fair, "W1", None);
        course.add(figure.over_peers(None, None).shown());
        course.add(Figure::count(key("cloud calls"), calls.len()));
        let is_refused = |status: Option<u16>| status.is_some_and(|status| status >= 400);
        let failed = calls.iter().filter(|call| is_refused(call.status)).count();
        course.add(Figure::count(key("of them failed"), failed));
    }
    Ok(())
}

/// W3: creation, change and deletion of Services.
pub(crate) async fn services(course: &mut Course<'_>, services: usize) -> Result<()> {
    for subject in course.in_turn(course.options.subjects(true)) {
        let run = course.run(format!("W6, {services} Services, {}", subject.name()));
        let life = life::live(course, subject, services, CloudBehaviour::Trouble, &run).await?;
        let failed: usize = life.phases.iter().map(|phase| phase.failed_calls).sum();
        // A few Services need fewer requests than one in twenty can show.
        let is_enough = life
            .phases
            .iter()
            .map(|phase| phase.cloud_calls)
            .sum::<usize>()
            >= 40;
        ensure!(failed > 0 || !is_enough, "the cloud was in no trouble");
        let key = |what: &str| Key::new("W6", Size::Services(services), subject, what);
        for phase in &life.phases {
            let fair = Key {
                workload: "W3",
                ..key(phase.name)
            };
            let figure = Figure::time(key(phase.name), phase.took);
            let figure = figure.over(fair, "W3", None);
            course.add(figure.over_peers(None, None).shown());
            let what = format!("{}: cloud calls", phase.name);
            course.add(Figure::count(key(&what), phase.cloud_calls));
        }
        course.add(Figure::count(key("calls that failed"), failed));
    }
    Ok(())
}
