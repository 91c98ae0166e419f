//! W0 and W1: a manager starts where all nodes are tainted, beside the bare client that makes the same writes.

use std::time::Duration;

use anyhow::Result;

use crate::audit::Entry;
use crate::bare::{self, Form, PER_PAGE, Writes};
use crate::cloud::{Cloud, CloudBehaviour};
use crate::course::Course;
use crate::figure::{Cost, Figure, Key, Size, Subject, percentile};
use crate::measured::Launch;
use crate::start::{self, Idle, Start, World};
use crate::{fat, gate, progress, trace};

/// The number of connections that the goals compare with.
pub(crate) const CONNECTIONS: usize = 8;
/// The other numbers of connections, at this many nodes.
const OTHER_CONNECTIONS: ([usize; 2], usize) = ([1, 32], 1_000);
/// How long a manager is measured with nothing to do before its processor time is judged.
const SETTLED: Duration = Duration::from_secs(600);
/// The largest cluster in which the peer is measured with its defaults, unless everything is.
pub(crate) const PEERS_DEFAULTS: usize = 1_000;

/// Both at one size: the bare client and every program, each on a cluster of its own.
pub(crate) async fn measure(course: &mut Course<'_>, nodes: usize) -> Result<()> {
    let is_thorough = course.is_first() && course.options.is_thorough(nodes);
    // The bare client's bodies, which the first start is compared with.
    let bodies = match is_thorough {
        true => Some(first_bare(course, nodes).await?),
        false => None,
    };
    let mut subjects = vec![Subject::Bare];
    subjects.extend(course.options.subjects(nodes > PEERS_DEFAULTS));
    for subject in course.in_turn(subjects) {
        match subject {
            Subject::Bare => without_events(course, nodes).await?,
            _ => start(course, nodes, subject, bodies.as_deref()).await?,
        }
    }
    // The small form has a cold start without nodes alone.
    let is_smallest = course.options.sizes().first() == Some(&nodes);
    if course.is_first() && is_smallest && !course.options.is_small() {
        cold(course, nodes).await?;
    }
    if is_thorough {
        traced(course, nodes).await?;
    }
    Ok(())
}

fn w0(nodes: usize, what: impl Into<String>) -> Key {
    Key::new("W0", Size::Nodes(nodes), Subject::Bare, what)
}

/// The limit of a start: the two patches of every node.
fn limit(nodes: usize) -> Key {
    w0(nodes, named(CONNECTIONS, Form::WithoutEvents))
}

/// Whether this is the limit of a start, of any number of nodes.
pub(crate) fn is_limit(key: &Key) -> bool {
    *key == limit(key.size.count())
}

fn named(connections: usize, form: Form) -> String {
    format!("{connections} connections, {}", form.name())
}

/// Measured once: the form with Events, other numbers of connections, and the cloud's pages.
async fn first_bare(course: &mut Course<'_>, nodes: usize) -> Result<Vec<Entry>> {
    let world = World::set(nodes).await?;
    let writes = write(&world, CONNECTIONS, Form::WithEvents).await?;
    add_writes(course, nodes, CONNECTIONS, Form::WithEvents, &writes);
    let size = fat::average_size(&world.cluster.all_nodes().await?)? as f64 / 1024.0;
    course.add(Figure::new(
        w0(nodes, "a node's size at the end"),
        size,
        "KiB",
    ));
    let asked = world.cluster.asked()?;
    drop(world);
    if nodes == OTHER_CONNECTIONS.1 {
        for connections in OTHER_CONNECTIONS.0 {
            let world = World::set(nodes).await?;
            let writes = write(&world, connections, Form::WithoutEvents).await?;
            add_writes(course, nodes, connections, Form::WithoutEvents, &writes);
        }
    }
    let mut cloud = Cloud::start(CloudBehaviour::Fair).await?;
    cloud.add(&fat::names(nodes)).await?;
    let pages = bare::list_cloud(&cloud.endpoint, nodes).await?;
    let whole = pages.iter().sum();
    course.add(Figure::time(w0(nodes, "the cloud's pages in turn"), whole));
    course.add(Figure::time(
        w0(nodes, "one page, p50"),
        percentile(&pages, 50),
    ));
    Ok(asked)
}

async fn write(world: &World, connections: usize, form: Form) -> Result<Writes> {
    let nodes = world.ids.len();
    progress!("W0, {nodes} nodes, {}", named(connections, form));
    let writes = bare::write(&world.cluster, &world.server_ids(), connections, form).await?;
    world.check_nodes(Subject::Bare).await?;
    Ok(writes)
}

async fn without_events(course: &mut Course<'_>, nodes: usize) -> Result<()> {
    let world = World::set(nodes).await?;
    let (list, bytes) = bare::list(&world.cluster).await?;
    course.add(Figure::time(w0(nodes, "bare list"), list));
    let size = bytes as f64 / 1_048_576.0;
    course.add(Figure::new(w0(nodes, "bare list's size"), size, "MiB"));
    let writes = write(&world, CONNECTIONS, Form::WithoutEvents).await?;
    add_writes(course, nodes, CONNECTIONS, Form::WithoutEvents, &writes);
    Ok(())
}

fn add_writes(
    course: &mut Course<'_>,
    nodes: usize,
    connections: usize,
    form: Form,
    writes: &Writes,
) {
    let name = named(connections, form);
    let whole = Figure::time(w0(nodes, name.clone()), writes.took).shown();
    let is_limit = name == limit(nodes).what;
    course.add(match is_limit {
        true => whole,
        false => whole.over(limit(nodes), "the limit", None),
    });
    for percent in [50, 99] {
        let what = format!("{name}: both patches, p{percent}");
        let took = percentile(&writes.patches, percent);
        course.add(Figure::time(w0(nodes, what), took));
    }
    if is_limit {
        course.add(Figure::time(
            w0(nodes, "CPU of the bare client"),
            writes.cpu,
        ));
    }
}

/// One start with a warm cache; the first one is compared with the bare client's requests.
async fn start(
    course: &mut Course<'_>,
    nodes: usize,
    subject: Subject,
    bodies: Option<&[Entry]>,
) -> Result<()> {
    let mut world = World::set(nodes).await?;
    let launch = course.launch(subject);
    let run = course.run(format!("W1, {nodes} nodes, {}", subject.name()));
    let with_idle = course.is_first();
    let start = start::measure(course.options, &mut world, &launch, &run, with_idle).await?;
    if let (Subject::Ccm, Some(bodies)) = (subject, bodies) {
        gate::same_bodies(bodies, &start.asked)?;
    }
    add_start(course, nodes, subject, &start);
    Ok(())
}

fn add_start(course: &mut Course<'_>, nodes: usize, subject: Subject, start: &Start) {
    let ours = subject == Subject::Ccm;
    let key = |what: &str| Key::new("W1", Size::Nodes(nodes), subject, what);
    let goal = |goal: f64| ours.then_some(goal);
    let is_large = matches!(nodes, 1_000 | 5_000);
    course.add(
        Figure::time(key("first node"), start.first)
            .at_most(goal(500.0))
            .over_peers(None, None),
    );
    course.add(
        Figure::time(key("last node"), start.last)
            .over(limit(nodes), "the limit", goal(1.10).filter(|_| is_large))
            .over_peers(0.75, 0.06)
            .shown(),
    );
    let pages = nodes.div_ceil(PER_PAGE) as f64;
    course.add(
        Figure::count(key("cloud calls"), start.cloud_calls)
            .at_most(goal(pages + 5.0))
            .over_peers(None, 0.2)
            .costs(Cost::CloudCalls),
    );
    let writes = start.asked.iter().filter(|entry| entry.is_node_write());
    let writes = writes.count();
    course.add(Figure::count(key("API writes"), writes + start.events).costs(Cost::ApiWrites));
    course.add(Figure::new(key("writes a node"), per(writes, nodes), "").at_most(goal(2.0)));
    course.add(Figure::new(key("Events a node"), per(start.events, nodes), "").at_most(goal(1.0)));
    course.add(
        Figure::time(key("CPU"), start.usage.cpu)
            .over(
                w0(nodes, "CPU of the bare client"),
                "the bare client",
                goal(2.0),
            )
            .over_peers(0.5, None)
            .costs(Cost::Processor),
    );
    let limit = match nodes {
        0..=1_000 => 48.0,
        1_001..=5_000 => 64.0,
        _ => 128.0,
    };
    course.add(
        Figure::memory(key("peak memory"), start.usage.peak)
            .at_most(goal(limit))
            .over_peers(0.35, None)
            .costs(Cost::Memory),
    );
    course.add(Figure::memory(
        key("memory at the end"),
        start.usage.resident,
    ));
    if let Some(first) = start.first_write {
        let key = Key::new("W8", Size::Nodes(nodes), subject, "first write, warm cache");
        let figure = Figure::time(key, first).over(w0(nodes, "bare list"), "bare list", None);
        course.add(figure.shown());
    }
    if let Some(idle) = &start.idle {
        add_idle(course, nodes, subject, idle);
    }
}

fn add_idle(course: &mut Course<'_>, nodes: usize, subject: Subject, idle: &Idle) {
    let ours = subject == Subject::Ccm;
    let key = |what: &str| Key::new("W1", Size::Nodes(nodes), subject, what);
    let goal = |goal: f64| ours.then_some(goal);
    let writes = Figure::count(key("writes with nothing to do"), idle.writes);
    course.add(writes.at_most(goal(0.0)));
    let what = "cloud calls a check with one node not ready";
    let calls = Figure::new(key(what), idle.calls_per_check, "");
    course.add(calls.at_most(goal(1.0)));
    let minute = idle.cpu.as_secs_f64() / idle.lasted.as_secs_f64() * 60e3;
    let minute = Figure::new(key("CPU a minute with nothing to do"), minute, "ms");
    // A second an hour. In a shorter time the work that follows a start is a part of it.
    let is_long = idle.lasted >= SETTLED;
    course.add(minute.at_most(goal(1e3 / 60.0).filter(|_| is_long)));
}

/// A start that has to compile the module first.
async fn cold(course: &mut Course<'_>, nodes: usize) -> Result<()> {
    let mut world = World::set(nodes).await?;
    let folder = tempfile::TempDir::new()?;
    let launch = Launch {
        cache: folder.path(),
        ..course.launch(Subject::Ccm)
    };
    let run = format!("W1, {nodes} nodes, cold");
    let start = start::measure(course.options, &mut world, &launch, &run, false).await?;
    let key = |what: &str| Key::new("W1", Size::Nodes(nodes), Subject::Ccm, what);
    course.add(Figure::time(key("first node, cold cache"), start.first));
    course.add(Figure::time(key("last node, cold cache"), start.last));
    if let Some(peak) = start.compiler_peak {
        course.add(Figure::memory(key("compile child: peak memory"), peak));
        let cpu = start.usage.children_cpu;
        course.add(Figure::time(key("compile child: CPU"), cpu));
    }
    Ok(())
}

/// A start that logs each call and each request.
async fn traced(course: &mut Course<'_>, nodes: usize) -> Result<()> {
    let mut world = World::set(nodes).await?;
    let launch = Launch {
        flags: &["-v=4", "--logging-format=json"],
        ..course.launch(Subject::Ccm)
    };
    let run = format!("W1, {nodes} nodes, traced");
    let start = start::measure(course.options, &mut world, &launch, &run, false).await?;
    let key = |what: &str| Key::new("W1", Size::Nodes(nodes), Subject::Ccm, what);
    let calls = trace::read(&start.log)?;
    course.add(Figure::count(key("calls of the provider"), calls.calls));
    course.add(Figure::time(key("calls of the provider: time"), calls.took));
    let inside = key("calls of the provider: inside the sandbox, at most");
    course.add(Figure::time(inside, calls.inside));
    let share = share(calls.inside, start.last);
    let key = key("inside the sandbox, share of the time to the last node");
    course.add(Figure::new(key, share, "%").at_most(1.0));
    Ok(())
}

fn share(part: Duration, whole: Duration) -> f64 {
    part.as_secs_f64() / whole.as_secs_f64().max(f64::MIN_POSITIVE) * 100.0
}

fn per(count: usize, nodes: usize) -> f64 {
    count as f64 / nodes.max(1) as f64
}
