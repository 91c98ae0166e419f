//! The runs and their order: everything once, and then again as long as runs and time are left. A workload that fails,
//! or that takes too long, loses only its own figures.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, stream};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::course::Course;
use crate::figure::Size;
use crate::options::{Options, Workload};
use crate::{
    arrivals, churn, endpoints, failover, initial, output, progress, ready, sandbox, services,
    steady, trouble,
};

/// One workload at one size.
struct Unit {
    workload: Workload,
    size: Size,
    /// Nodes that arrive in a second; for W2 alone.
    rate: u32,
    /// Duration of its last run.
    took: Duration,
}

/// Makes all runs, writes the files, and returns the text to print, and whether every run ended as it must.
///
/// # Errors
/// Nothing could be measured, or the results cannot be written.
pub(crate) async fn carry_out(options: &Options) -> Result<(String, bool)> {
    let surroundings = output::surroundings(options);
    let folder = TempDir::new()?;
    let cache = folder.path().join("modules");
    let began = Instant::now();
    let mut whole = Course::new(options, &cache, 0);
    ready::compile(&mut whole)
        .await
        .context("ccm does not start")?;
    let mut units = units(options);
    for round in 0..options.runs() {
        let due = units.iter_mut().filter(|unit| {
            let budget = options.budget().unwrap_or(Duration::MAX);
            round == 0 || (unit.repeats() && began.elapsed() + unit.next() <= budget)
        });
        // Decided one by one, each when its turn has come.
        let mut runs = stream::iter(due)
            .map(|unit| unit.carry_out(Course::new(options, &cache, round)))
            .buffer_unordered(options.at_once());
        while let Some(course) = runs.next().await {
            whole.figures.merge(course.figures);
            whole.failures.extend(course.failures);
        }
    }
    let mut course = whole;
    ensure!(
        course.figures.iter().next().is_some(),
        "nothing could be measured: {}",
        course.failures.join("; ")
    );
    course.figures.sort();
    let results = output::Results {
        surroundings,
        took: began.elapsed(),
        figures: course.figures,
        failures: course.failures,
    };
    if let Some(folder) = options.output() {
        results.write(&folder)?;
        progress!("results are in {}", folder.display());
    }
    let printed = match options.json {
        true => results.json().to_string() + "\n",
        false => results.table(),
    };
    Ok((printed, results.failures.is_empty()))
}

/// All requested units, the cheap ones first.
fn units(options: &Options) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut add = |workload, size, rate| {
        if options.has(workload) {
            units.push(Unit {
                workload,
                size,
                rate,
                took: Duration::ZERO,
            });
        }
    };
    let nodes = |count: usize| Size::Nodes(count);
    add(Workload::W8, nodes(0), 0);
    add(Workload::Sandbox, nodes(0), 0);
    for count in options.sizes() {
        add(Workload::W1, nodes(count), 0);
        if options.has_endpoints(count) {
            add(Workload::Endpoints, nodes(count), 0);
        }
    }
    for (count, rate) in options.arrivals() {
        add(Workload::W2, nodes(*count), *rate);
    }
    for count in options.services() {
        add(Workload::W3, Size::Services(count), 0);
    }
    add(Workload::W4, nodes(options.churn().0), 0);
    for count in options.steady().0 {
        add(Workload::W5, nodes(*count), 0);
    }
    let (start, services) = options.trouble();
    add(Workload::W6, nodes(start), 0);
    add(Workload::W6, Size::Services(services), 0);
    add(Workload::W7, nodes(options.failover()), 0);
    units
}

impl Unit {
    async fn carry_out<'a>(&mut self, mut course: Course<'a>) -> Course<'a> {
        let began = Instant::now();
        progress!(
            "{:?}, {}, run {}",
            self.workload,
            self.size,
            course.round + 1
        );
        let patience = course.options.patience();
        let measured = timeout(patience, self.measure(&mut course)).await;
        let measured = measured.unwrap_or_else(|_| {
            Err(anyhow::anyhow!(
                "given up after {} min",
                patience.as_secs() / 60
            ))
        });
        if let Err(error) = measured {
            let failure = format!(
                "{:?}, {}, run {}: {error:#}",
                self.workload,
                self.size,
                course.round + 1
            );
            progress!("FAILED: {failure}");
            course.failures.push(failure);
        }
        self.took = began.elapsed();
        course
    }

    async fn measure(&self, course: &mut Course<'_>) -> Result<()> {
        let count = self.size.count();
        match (self.workload, self.size) {
            (Workload::W1, _) => initial::measure(course, count).await,
            (Workload::W2, _) => arrivals::measure(course, count, self.rate).await,
            (Workload::W3, _) => services::measure(course, count).await,
            (Workload::W4, _) => churn::measure(course).await,
            (Workload::W5, _) => steady::measure(course, count).await,
            (Workload::W6, Size::Nodes(_)) => trouble::nodes(course, count).await,
            (Workload::W6, Size::Services(_)) => trouble::services(course, count).await,
            (Workload::W7, _) => failover::measure(course, count).await,
            (Workload::W8, _) => ready::measure(course).await,
            (Workload::Endpoints, _) => endpoints::measure(course, count).await,
            (Workload::Sandbox, _) => sandbox::measure(course).await,
        }
    }

    /// The expected duration of a further run: the first one of W1 measures more.
    fn next(&self) -> Duration {
        match self.workload {
            Workload::W1 => self.took / 2,
            _ => self.took,
        }
    }

    /// Whether further runs are useful: those of the port and of one call have many samples each.
    fn repeats(&self) -> bool {
        !matches!(self.workload, Workload::Endpoints | Workload::Sandbox)
    }
}
