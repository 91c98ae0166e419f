//! W3: Services with two ports over a few nodes: all are created, a port of all is changed, and all are deleted.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::cloud::{Balancers, CloudBehaviour};
use crate::course::Course;
use crate::figure::{Cost, Figure, Key, Size, Subject};
use crate::measured::Manager;
use crate::progress;
use crate::start::World;
use crate::usage::Usage;
use crate::watch::Watch;

/// Number of the driver's parallel requests.
const DRIVERS: usize = 16;
/// How long the cloud may stay unchanged while changes are due. The vendor's request limit is full again in an hour,
/// and allows one request more a second.
const STILL: Duration = Duration::from_secs(180);
/// Interval between two checks of the cloud.
const LOOK: Duration = Duration::from_millis(20);
/// The number of Services above which the peer is measured with its defaults in the full form alone.
const PEERS_DEFAULTS: usize = 100;
/// The port of the Services when created, and after the change.
const PORTS: [u16; 2] = [80, 8080];
/// The second port, which stays the same.
const SECURE: u16 = 443;

/// The time and the requests of one of the three phases.
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    pub(crate) took: Duration,
    pub(crate) cloud_calls: usize,
    /// Requests to the cloud that were not answered with success.
    pub(crate) failed_calls: usize,
    pub(crate) writes: usize,
}

/// The figures of all Services of one run.
pub(crate) struct Life {
    pub(crate) phases: Vec<Phase>,
    /// Processor time and memory at the end.
    pub(crate) usage: Usage,
}

pub(crate) async fn measure(course: &mut Course<'_>, services: usize) -> Result<()> {
    let subjects = course.options.subjects(services > PEERS_DEFAULTS);
    for subject in course.in_turn(subjects) {
        let run = course.run(format!("W3, {services} Services, {}", subject.name()));
        let life = live(course, subject, services, CloudBehaviour::Fair, &run).await?;
        let key = |what: &str| Key::new("W3", Size::Services(services), subject, what);
        for phase in &life.phases {
            add_phase(course, &key, services, phase);
        }
        let cpu = Figure::time(key("CPU"), life.usage.cpu).over_peers(0.5, None);
        course.add(cpu.costs(Cost::Processor));
        let peak = Figure::memory(key("peak memory"), life.usage.peak);
        course.add(peak.over_peers(0.35, None).costs(Cost::Memory));
    }
    Ok(())
}

fn add_phase(course: &mut Course<'_>, key: &impl Fn(&str) -> Key, services: usize, phase: &Phase) {
    let Phase { name, took, .. } = phase;
    let is_creation = *name == "create all";
    let ours = key("").subject == Subject::Ccm;
    let goal = |goal: f64| (ours && is_creation).then_some(goal);
    let time = Figure::time(key(name), *took);
    course.add(time.over_peers(goal(0.15), None).shown());
    let calls = Figure::count(key(&format!("{name}: cloud calls")), phase.cloud_calls);
    course.add(calls.costs(Cost::CloudCalls));
    let each = phase.cloud_calls as f64 / services as f64;
    let each = Figure::new(key(&format!("{name}: cloud calls a Service")), each, "");
    course.add(each.at_most(goal(5.0)).over_peers(goal(0.2), None));
    let writes = Figure::count(key(&format!("{name}: API writes")), phase.writes);
    course.add(writes.costs(Cost::ApiWrites));
    let each = phase.writes as f64 / services as f64;
    let each = Figure::new(key(&format!("{name}: API writes a Service")), each, "");
    course.add(each.over_peers(None, None));
}

/// The whole life of the Services; checks the state after each phase.
pub(crate) async fn live(
    course: &Course<'_>,
    subject: Subject,
    services: usize,
    behaviour: CloudBehaviour,
    run: &str,
) -> Result<Life> {
    let targets = course.options.targets();
    let mut world = World::set_in(targets, behaviour).await?;
    progress!("{run}");
    let launch = course.launch(subject);
    let mut manager = Manager::start(course.options, &launch, &world.cluster, &world.cloud, run)?;
    let mut watch = Watch::nodes(world.cluster.admin.clone());
    watch.until(targets, || manager.check()).await?;
    drop(watch);
    let names = names(services);
    let mut timer = PhaseTimer::new(&mut world);

    let mut watch = Watch::services(timer.world.cluster.admin.clone());
    timer.begin().await?;
    create(timer.world, &names).await?;
    watch.until(services, || manager.check()).await?;
    drop(watch);
    let is_whole = |now: &Balancers| {
        now.count == services
            && now.services == (PORTS.len(), PORTS.len())
            && now.targets == (targets, targets)
    };
    timer.until(PORTS[0], &mut manager, is_whole).await?;
    timer.end("create all").await?;

    timer.begin().await?;
    change(timer.world, &names).await?;
    let is_changed = |now: &Balancers| is_whole(now) && now.listening == services;
    timer.until(PORTS[1], &mut manager, is_changed).await?;
    timer.end("change a port of all").await?;

    let mut watch = Watch::ends_of_services(timer.world.cluster.admin.clone());
    timer.begin().await?;
    delete(timer.world, &names).await?;
    watch.until(services, || manager.check()).await?;
    timer
        .until(PORTS[1], &mut manager, |now| now.count == 0)
        .await?;
    timer.end("delete all").await?;
    let phases = timer.phases;
    let usage = manager.usage()?;
    manager.stop().await?;
    Ok(Life { phases, usage })
}

/// Counts the requests between two points in time.
struct PhaseTimer<'a> {
    world: &'a mut World,
    began: Instant,
    /// Number of requests to the API server until then.
    asked: usize,
    phases: Vec<Phase>,
}

impl<'a> PhaseTimer<'a> {
    fn new(world: &'a mut World) -> Self {
        Self {
            world,
            began: Instant::now(),
            asked: 0,
            phases: Vec::new(),
        }
    }

    async fn begin(&mut self) -> Result<()> {
        // Requests that are still under way belong to the phase before.
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.world.cloud.take_requests().await?;
        self.asked = self.world.cluster.asked()?.len();
        self.began = Instant::now();
        Ok(())
    }

    /// The end is when the last condition was seen; later writes, such as Events, are waited for and counted.
    async fn end(&mut self, name: &'static str) -> Result<()> {
        let took = self.began.elapsed();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let calls = self.world.cloud.take_requests().await?;
        let well = |status: Option<u16>| status.is_some_and(|status| status < 400);
        let asked = self.world.cluster.asked()?;
        let writes = asked
            .iter()
            .skip(self.asked)
            .filter(|entry| entry.is_write());
        self.phases.push(Phase {
            name,
            took,
            cloud_calls: calls.len(),
            failed_calls: calls.iter().filter(|call| !well(call.status)).count(),
            writes: writes.count(),
        });
        Ok(())
    }

    /// Waits until the cloud satisfies a condition; fails when it stays unchanged for too long.
    async fn until(
        &mut self,
        port: u16,
        manager: &mut Manager,
        is_so: impl Fn(&Balancers) -> bool,
    ) -> Result<()> {
        let mut last = (None, Instant::now());
        loop {
            let now = self.world.cloud.balancers(port).await?;
            if is_so(&now) {
                return Ok(());
            }
            manager.check()?;
            let state = Some((now.count, now.listening, now.services, now.targets));
            if state != last.0 {
                last = (state, Instant::now());
            }
            if last.1.elapsed() > STILL {
                bail!("the cloud stays at {state:?}:\n{}", manager.tail());
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

pub(crate) fn names(services: usize) -> Vec<String> {
    (0..services)
        .map(|number| format!("service-{number:04}"))
        .collect()
}

/// Creates the Services in parallel, and returns when all are created.
pub(crate) async fn create(world: &World, names: &[String]) -> Result<()> {
    let (api, params) = (&world.cluster.services(), &PostParams::default());
    stream::iter(names)
        .map(|name| async move {
            let service = json!({
                "metadata": {"name": name},
                "spec": {"type": "LoadBalancer", "ports": ports(PORTS[0])},
            });
            let service: Service = serde_json::from_value(service)?;
            api.create(params, &service).await?;
            anyhow::Ok(())
        })
        .buffer_unordered(DRIVERS)
        .try_collect()
        .await
}

async fn change(world: &World, names: &[String]) -> Result<()> {
    let api = &world.cluster.services();
    let patch = &json!({"spec": {"ports": ports(PORTS[1])}});
    stream::iter(names)
        .map(|name| async move {
            let params = PatchParams::default();
            api.patch(name, &params, &Patch::Merge(patch)).await?;
            anyhow::Ok(())
        })
        .buffer_unordered(DRIVERS)
        .try_collect()
        .await
}

async fn delete(world: &World, names: &[String]) -> Result<()> {
    let api = &world.cluster.services();
    stream::iter(names)
        .map(|name| async move {
            api.delete(name, &DeleteParams::default()).await?;
            anyhow::Ok(())
        })
        .buffer_unordered(DRIVERS)
        .try_collect()
        .await
}

fn ports(first: u16) -> Value {
    json!([
        {"name": "plain", "port": first, "protocol": "TCP"},
        {"name": "secure", "port": SECURE, "protocol": "TCP"},
    ])
}
