//! Which runs are made in which order, and what is read from them.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::bare::{self, PER_PAGE, Writes};
use crate::measured::Program;
use crate::options::{Options, Workload};
use crate::report::{self, Figure};
use crate::start::{self, Stage, Start};
use crate::{arrivals, endpoints, fat, gate, progress, sandbox};

/// How many connections the goals compare with.
const CONNECTIONS: usize = 8;
/// The other numbers of connections, up to this many nodes.
const OTHER_CONNECTIONS: ([usize; 2], usize) = ([1, 32], 1_000);
/// How many nodes arrive each second in W2.
const RATES: [u32; 2] = [10, 100];

/// Makes all runs and returns what is to be printed.
pub(crate) async fn carry_out(options: &Options) -> Result<String> {
    let surroundings = report::surroundings(&options.ccm, options.is_small());
    let folder = TempDir::new()?;
    let mut course = Course {
        options,
        caches: folder.path(),
        figures: Vec::new(),
        notes: Vec::new(),
        alone: None,
    };
    if options.has(Workload::W8) {
        course.empty_start().await?;
    }
    for nodes in options.sizes() {
        course.size(nodes).await?;
    }
    if options.has(Workload::W2) {
        for rate in RATES {
            course.arrivals(rate).await?;
        }
    }
    if options.peer.is_none() {
        let note = "The vendor's Go manager was not measured: --peer PATH takes a ready binary.";
        course.notes.push(note.to_owned());
    }
    let Course {
        mut figures, notes, ..
    } = course;
    report::sort(&mut figures);
    if options.json {
        return Ok(report::json(&surroundings, &figures, &notes) + "\n");
    }
    Ok(report::table(&surroundings, &figures, &notes))
}

struct Course<'a> {
    options: &'a Options,
    caches: &'a Path,
    figures: Vec<Figure>,
    notes: Vec<String>,
    /// The bare client with one connection, and the cloud's answers: what W2 is compared with.
    alone: Option<Alone>,
}

struct Alone {
    cloud: Vec<Duration>,
    patches: Vec<Duration>,
}

impl Course<'_> {
    fn add(&mut self, figure: Figure) {
        self.figures.push(figure);
    }

    /// W8 without nodes.
    async fn empty_start(&mut self) -> Result<()> {
        let stage = Stage::set(0).await?;
        let (list, _) = bare::list(&stage.cluster).await?;
        let cache = self.caches.join("empty");
        for (temperature, limit) in [("cold", 2_000.0), ("warm", 500.0)] {
            let run = format!("W8, 0 nodes, {temperature}");
            let took = start::until_watching(self.options, &stage, &cache, &run).await?;
            let what = format!("start to first watch, {temperature} cache");
            let figure = Figure::time("W8", 0, what, took).over_time(list, "bare list");
            self.add(figure.at_most(limit));
        }
        Ok(())
    }

    /// W0 before and after, W1 and W8 between them.
    async fn size(&mut self, nodes: usize) -> Result<()> {
        let (before, list, bare_asked) = self.bare(nodes, "before").await?;
        let mut others = Vec::new();
        if nodes <= OTHER_CONNECTIONS.1 {
            for connections in OTHER_CONNECTIONS.0 {
                others.push((connections, self.bare_again(nodes, connections).await?));
            }
        }
        let mut starts = Vec::new();
        if self.options.has(Workload::W1) || self.options.has(Workload::W8) {
            let cache = self.caches.join(format!("start-{nodes}"));
            for (temperature, idle) in [("cold", None), ("warm", Some(self.options.idle()))] {
                let run = format!("W1, {nodes} nodes, {temperature}");
                let program = Program::Ccm {
                    cache: &cache,
                    flags: &[],
                };
                let start = self.start(nodes, program, &run, idle).await?;
                gate::same_bodies(&bare_asked, &start.asked)?;
                starts.push((temperature, start));
            }
            self.traced(nodes, &cache).await?;
        }
        let after = self.bare_again(nodes, CONNECTIONS).await?;
        let bare = (before.took + after.took) / 2;
        let cpu = (before.cpu + after.cpu) / 2;
        for (what, writes) in [("before", &before), ("after", &after)] {
            let what = format!("{CONNECTIONS} connections, {what}");
            self.add(Figure::time("W0", nodes, what, writes.took));
        }
        for (connections, writes) in &others {
            let what = format!("{connections} connections");
            self.add(Figure::time("W0", nodes, what, writes.took).over_time(bare, "W0"));
        }
        self.add(Figure::time("W0", nodes, "CPU of the bare client", cpu));
        let mut others = others.into_iter();
        if self.alone.is_none()
            && let Some((_, writes)) = others.next()
        {
            self.alone = Some(Alone {
                cloud: Vec::new(),
                patches: writes.patches,
            });
        }
        self.cloud(nodes).await?;
        for (temperature, start) in &starts {
            self.start_figures(nodes, temperature, start, bare, cpu, list);
        }
        if self.options.has(Workload::Endpoints) {
            self.endpoints(nodes).await?;
        }
        self.peer(nodes, bare).await
    }

    /// W0 with the connections that count: the writes, one bare list, and what was asked.
    async fn bare(
        &mut self,
        nodes: usize,
        when: &str,
    ) -> Result<(Writes, Duration, Vec<crate::audit::Entry>)> {
        let stage = Stage::set(nodes).await?;
        let (list, bytes) = bare::list(&stage.cluster).await?;
        progress!("W0, {nodes} nodes, {CONNECTIONS} connections, {when}");
        let writes = bare::write(&stage.cluster, &stage.server_ids(), CONNECTIONS).await?;
        gate::end_state(
            &stage.cluster.all_nodes().await?,
            &stage.ids,
            Some("hcloud"),
        )?;
        let size = fat::average_size(&stage.cluster.all_nodes().await?)?;
        self.add(Figure::new(
            "W0",
            nodes,
            "a node's size at the end",
            size as f64 / 1024.0,
            "KiB",
        ));
        self.add(Figure::time("W0", nodes, "bare list", list));
        self.add(Figure::new(
            "W0",
            nodes,
            "bare list's size",
            bytes as f64 / 1_048_576.0,
            "MiB",
        ));
        let asked = stage.cluster.asked()?;
        Ok((writes, list, asked))
    }

    async fn bare_again(&self, nodes: usize, connections: usize) -> Result<Writes> {
        let stage = Stage::set(nodes).await?;
        progress!("W0, {nodes} nodes, {connections} connections");
        let writes = bare::write(&stage.cluster, &stage.server_ids(), connections).await?;
        gate::end_state(
            &stage.cluster.all_nodes().await?,
            &stage.ids,
            Some("hcloud"),
        )?;
        Ok(writes)
    }

    async fn cloud(&mut self, nodes: usize) -> Result<()> {
        let mut cloud = crate::cloud::Cloud::start().await?;
        cloud.add(&fat::names(nodes)).await?;
        let pages = bare::list_cloud(&cloud.endpoint, nodes).await?;
        let median = percentile(&pages, 50);
        self.add(Figure::time(
            "W0",
            nodes,
            "bare list of the cloud, page after page",
            pages.iter().sum(),
        ));
        self.add(Figure::time("W0", nodes, "one page of it, p50", median));
        if let Some(alone) = &mut self.alone
            && alone.cloud.is_empty()
        {
            alone.cloud = pages;
        }
        Ok(())
    }

    async fn start(
        &self,
        nodes: usize,
        program: Program<'_>,
        run: &str,
        idle: Option<Duration>,
    ) -> Result<Start> {
        let mut stage = Stage::set(nodes).await?;
        start::measure(self.options, &mut stage, program, run, idle).await
    }

    fn start_figures(
        &mut self,
        nodes: usize,
        temperature: &str,
        start: &Start,
        bare: Duration,
        bare_cpu: Duration,
        list: Duration,
    ) {
        let is_warm = temperature == "warm";
        let named = |what: &str| format!("{what}, {temperature} cache");
        if self.options.has(Workload::W8)
            && let Some(first) = start.first_write
        {
            let what = named("start to first write");
            self.add(Figure::time("W8", nodes, what, first).over_time(list, "bare list"));
        }
        if !self.options.has(Workload::W1) {
            return;
        }
        let first = Figure::time("W1", nodes, named("first node"), start.first)
            .over_time(list, "bare list");
        self.add(if is_warm { first.at_most(500.0) } else { first });
        let goal = match nodes {
            1_000 => Some(1.25),
            5_000 => Some(1.15),
            _ => None,
        };
        let last = Figure::time("W1", nodes, named("last node"), start.last).over_time(bare, "W0");
        self.add(last.ratio_at_most(goal));
        let pages = nodes.div_ceil(PER_PAGE);
        let calls = Figure::count("W1", nodes, named("cloud calls"), start.cloud_calls);
        self.add(
            calls
                .over(pages as f64, "pages")
                .at_most((pages + 5) as f64),
        );
        let cpu = Figure::time("W1", nodes, named("CPU"), start.usage.cpu);
        self.add(cpu.over_time(bare_cpu, "W0"));
        let limit = if nodes <= 1_000 { 48.0 } else { 96.0 };
        let peak = Figure::memory("W1", nodes, named("peak memory"), start.usage.peak);
        self.add(peak.at_most(limit));
        self.add(Figure::memory(
            "W1",
            nodes,
            named("memory at the end"),
            start.usage.resident,
        ));
        if let Some(peak) = start.compiler_peak {
            self.add(Figure::memory(
                "W1",
                nodes,
                "the compile child's peak memory",
                peak,
            ));
            self.add(Figure::time(
                "W1",
                nodes,
                "the compile child's CPU",
                start.usage.children_cpu,
            ));
        }
        let writes = start
            .asked
            .iter()
            .filter(|entry| entry.is_node_write())
            .count();
        self.add(
            Figure::new("W1", nodes, named("writes a node"), per(writes, nodes), "").at_most(2.0),
        );
        self.add(
            Figure::new(
                "W1",
                nodes,
                named("Events a node"),
                per(start.events, nodes),
                "",
            )
            .at_most(1.0),
        );
        if let Some(idle) = &start.idle {
            let what = format!("writes in {} s with nothing to do", idle.lasted.as_secs());
            self.add(Figure::count("W1", nodes, what, idle.writes).at_most(0.0));
            let what = "cloud calls a check with one node not ready";
            self.add(Figure::new("W1", nodes, what, idle.calls_per_check, "").at_most(1.0));
            self.add(Figure::time(
                "W1",
                nodes,
                "CPU with nothing to do",
                idle.cpu,
            ));
        }
    }

    /// The secure port. What a probe takes in quiet is what the other times are compared with.
    async fn endpoints(&mut self, nodes: usize) -> Result<()> {
        let stage = Stage::set(nodes).await?;
        let cache = self.caches.join(format!("start-{nodes}"));
        let slow_clients = self.options.slow_clients();
        let port = endpoints::measure(self.options, &stage, &cache, slow_clients).await?;
        let quiet = percentile(&port.probes, 50);
        let time = |what: &str, took| {
            Figure::time("endpoints", nodes, what, took).over_time(quiet, "a probe in quiet")
        };
        let memory = |what: &str, kib| Figure::memory("endpoints", nodes, what, kib);
        let slow = format!("with {} slow clients", port.slow_clients);
        self.figures.extend([
            Figure::time("endpoints", nodes, "start to ready, warm cache", port.ready)
                .at_most(500.0),
            Figure::time("endpoints", nodes, "a probe in quiet, p50", quiet),
            time("a scrape, p50", percentile(&port.scrapes, 50)),
            time("a scrape, longest", percentile(&port.scrapes, 100)).at_most(20.0),
            memory("memory by scrapes", port.grown_by_scrapes).at_most(1.0),
            Figure::count("endpoints", nodes, "bytes of a scrape", port.size),
            Figure::count("endpoints", nodes, "series of a scrape", port.series),
            time(
                &format!("a probe {slow}, p50"),
                percentile(&port.besieged, 50),
            ),
            time(
                &format!("a probe {slow}, p99"),
                percentile(&port.besieged, 99),
            )
            .at_most(50.0),
            memory(&format!("memory {slow}"), port.grown_by_slow_clients).at_most(16.0),
        ]);
        Ok(())
    }

    /// A start that logs each call and each request.
    async fn traced(&mut self, nodes: usize, cache: &Path) -> Result<()> {
        let flags = ["-v=4", "--logging-format=json"];
        let program = Program::Ccm {
            cache,
            flags: &flags,
        };
        let run = format!("W1, {nodes} nodes, traced");
        let start = self.start(nodes, program, &run, None).await?;
        let sandbox = sandbox::read(&start.log)?;
        let share = sandbox.inside.as_secs_f64() / start.last.as_secs_f64() * 100.0;
        self.add(Figure::count(
            "W1",
            nodes,
            "calls of the provider, traced",
            sandbox.calls,
        ));
        self.add(Figure::time("W1", nodes, "their time", sandbox.took));
        let inside = Figure::time(
            "W1",
            nodes,
            "of it inside the sandbox, at most",
            sandbox.inside,
        );
        self.add(inside.over_time(sandbox.took, "their time"));
        self.add(Figure::new("W1", nodes, "of the time to the last node", share, "%").at_most(1.0));
        Ok(())
    }

    async fn peer(&mut self, nodes: usize, bare: Duration) -> Result<()> {
        let Some(path) = self.options.peer.as_deref() else {
            return Ok(());
        };
        let tuned = [
            "--kube-api-qps=2000",
            "--kube-api-burst=4000",
            "--concurrent-node-syncs=16",
            "--concurrent-service-syncs=16",
        ];
        for (what, flags) in [("defaults", &[][..]), ("tuned", &tuned[..])] {
            let run = format!("peer, {nodes} nodes, {what}");
            let start = self
                .start(nodes, Program::Peer { path, flags }, &run, None)
                .await?;
            let named = |figure: &str| format!("peer, {what}: {figure}");
            self.add(Figure::time("W1", nodes, named("first node"), start.first));
            self.add(
                Figure::time("W1", nodes, named("last node"), start.last).over_time(bare, "W0"),
            );
            self.add(Figure::count(
                "W1",
                nodes,
                named("cloud calls"),
                start.cloud_calls,
            ));
            self.add(Figure::time("W1", nodes, named("CPU"), start.usage.cpu));
            self.add(Figure::memory(
                "W1",
                nodes,
                named("peak memory"),
                start.usage.peak,
            ));
        }
        Ok(())
    }

    async fn arrivals(&mut self, rate: u32) -> Result<()> {
        let nodes = self.options.arrivals();
        let cache = self.caches.join("arrivals");
        let arrivals = arrivals::measure(self.options, &cache, nodes, rate).await?;
        let alone = self
            .alone
            .as_ref()
            .context("W0 was not measured with one connection")?;
        let limits: Vec<_> = [(50, 2.0), (99, 3.0)]
            .into_iter()
            .map(|(percent, goal)| {
                let limit = percentile(&alone.cloud, 50) + percentile(&alone.patches, percent);
                (percent, goal, limit)
            })
            .collect();
        for (percent, goal, limit) in limits {
            let what = format!("{rate}/s: creation to taint gone, p{percent}");
            let delay = percentile(&arrivals.delays, percent);
            let figure =
                Figure::time("W2", nodes, what, delay).over_time(limit, "round trip + 2 patches");
            self.add(figure.ratio_at_most(Some(goal)));
        }
        let calls = format!("{rate}/s: cloud calls");
        self.add(Figure::count("W2", nodes, calls, arrivals.cloud_calls));
        Ok(())
    }
}

/// Of values in their order; zero of none.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or_default()
}

fn per(count: usize, nodes: usize) -> f64 {
    count as f64 / nodes.max(1) as f64
}
