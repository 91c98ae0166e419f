//! Figures: the measurement, the program, the size, one value for each run; with the figures to compare it with and its
//! goals. Measures nothing and prints nothing.

use std::time::Duration;

/// The program that a figure is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// The same requests without decisions: the limit.
    Bare,
    /// Ours, at its defaults.
    Ccm,
    /// The vendor's manager at its defaults.
    PeerDefaults,
    /// The vendor's manager with the flags that make it fast.
    PeerTuned,
}

impl Subject {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bare => "limit",
            Self::Ccm => "ccm",
            Self::PeerDefaults => "peer, defaults",
            Self::PeerTuned => "peer, tuned",
        }
    }

    /// Whether it is the vendor's manager.
    pub(crate) fn is_peer(self) -> bool {
        matches!(self, Self::PeerDefaults | Self::PeerTuned)
    }
}

/// The size of the cluster, in the unit in which the workload grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Size {
    Nodes(usize),
    Services(usize),
}

impl Size {
    pub(crate) fn count(self) -> usize {
        match self {
            Self::Nodes(count) | Self::Services(count) => count,
        }
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Nodes(_) => "nodes",
            Self::Services(_) => "Services",
        }
    }

    /// Whether two sizes are of the same unit, so that they can be compared.
    pub(crate) fn is_like(self, other: Self) -> bool {
        self.unit() == other.unit()
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.count(), self.unit())
    }
}

/// The identity of a figure. Runs that measure the same have the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) workload: &'static str,
    pub(crate) size: Size,
    pub(crate) subject: Subject,
    pub(crate) what: String,
}

impl Key {
    pub(crate) fn new(
        workload: &'static str,
        size: Size,
        subject: Subject,
        what: impl Into<String>,
    ) -> Self {
        Self {
            workload,
            size,
            subject,
            what: what.into(),
        }
    }

    /// The same key for another program.
    pub(crate) fn of(&self, subject: Subject) -> Self {
        Self {
            subject,
            ..self.clone()
        }
    }
}

/// A comparison, and its goal, if there is one.
#[derive(Clone, Debug)]
pub(crate) struct Ratio {
    /// The other figure, of the same unit.
    pub(crate) base: Key,
    pub(crate) label: &'static str,
    pub(crate) at_most: Option<f64>,
}

/// The kind of cost that a figure is, if its growth matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    CloudCalls,
    ApiWrites,
    Processor,
    Memory,
}

impl Cost {
    pub(crate) const ALL: [Self; 4] = [
        Self::CloudCalls,
        Self::ApiWrites,
        Self::Processor,
        Self::Memory,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CloudCalls => "cloud calls",
            Self::ApiWrites => "API writes",
            Self::Processor => "processor time",
            Self::Memory => "memory",
        }
    }
}

/// One figure with all its runs.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) key: Key,
    pub(crate) unit: &'static str,
    /// One value for each run, in the order of the runs. Never empty.
    pub(crate) values: Vec<f64>,
    pub(crate) ratios: Vec<Ratio>,
    /// The goal: the value is at most this.
    pub(crate) at_most: Option<f64>,
    pub(crate) cost: Option<Cost>,
    /// Whether the workload's plot shows it.
    pub(crate) is_shown: bool,
}

impl Figure {
    pub(crate) fn new(key: Key, value: f64, unit: &'static str) -> Self {
        Self {
            key,
            unit,
            values: vec![value],
            ratios: Vec::new(),
            at_most: None,
            cost: None,
            is_shown: false,
        }
    }

    /// A time, shown in milliseconds.
    pub(crate) fn time(key: Key, value: Duration) -> Self {
        Self::new(key, millis(value), "ms")
    }

    /// A short time, shown in microseconds.
    pub(crate) fn micros(key: Key, value: Duration) -> Self {
        Self::new(key, value.as_secs_f64() * 1e6, "µs")
    }

    pub(crate) fn count(key: Key, value: usize) -> Self {
        Self::new(key, value as f64, "")
    }

    /// A memory size in KiB, shown in MiB.
    pub(crate) fn memory(key: Key, kib: u64) -> Self {
        Self::new(key, kib as f64 / 1024.0, "MiB")
    }

    pub(crate) fn at_most(mut self, at_most: impl Into<Option<f64>>) -> Self {
        self.at_most = at_most.into();
        self
    }

    pub(crate) fn over(
        mut self,
        base: Key,
        label: &'static str,
        at_most: impl Into<Option<f64>>,
    ) -> Self {
        let at_most = at_most.into();
        self.ratios.push(Ratio {
            base,
            label,
            at_most,
        });
        self
    }

    /// Compares with both forms of the vendor's manager. Without a peer there is nothing to compare with.
    pub(crate) fn over_peers(
        self,
        tuned: impl Into<Option<f64>>,
        defaults: impl Into<Option<f64>>,
    ) -> Self {
        if self.key.subject != Subject::Ccm {
            return self;
        }
        let (one, other) = (
            self.key.of(Subject::PeerTuned),
            self.key.of(Subject::PeerDefaults),
        );
        self.over(one, "the tuned peer", tuned)
            .over(other, "the peer's defaults", defaults)
    }

    pub(crate) fn costs(mut self, cost: Cost) -> Self {
        self.cost = Some(cost);
        self
    }

    pub(crate) fn shown(mut self) -> Self {
        self.is_shown = true;
        self
    }

    pub(crate) fn median(&self) -> f64 {
        let mut values = self.values.clone();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        match values.len() % 2 {
            1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        }
    }

    pub(crate) fn smallest(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn largest(&self) -> f64 {
        self.values
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max)
    }
}

/// All figures of one benchmark.
#[derive(Default)]
pub(crate) struct Figures {
    all: Vec<Figure>,
}

impl Figures {
    /// Adds a figure, or another run of one that is there.
    pub(crate) fn add(&mut self, figure: Figure) {
        match self.all.iter_mut().find(|known| known.key == figure.key) {
            Some(known) => known.values.extend(figure.values),
            None => self.all.push(figure),
        }
    }

    /// Adds all figures of another run.
    pub(crate) fn merge(&mut self, other: Self) {
        for figure in other.all {
            self.add(figure);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Figure> {
        self.all.iter()
    }

    pub(crate) fn find(&self, key: &Key) -> Option<&Figure> {
        self.all.iter().find(|figure| figure.key == *key)
    }

    /// Groups the figures; the order within a group is that of the measurement.
    pub(crate) fn sort(&mut self) {
        self.all
            .sort_by_key(|figure| (figure.key.workload, figure.key.size));
    }

    /// The ratio of the medians; `None` if the other figure was not measured.
    pub(crate) fn ratio(&self, figure: &Figure, ratio: &Ratio) -> Option<f64> {
        let base = self.find(&ratio.base)?.median();
        (base > 0.0).then(|| figure.median() / base)
    }

    /// Each goal of a figure that can be judged: its text, and whether it is met.
    pub(crate) fn goals(&self, figure: &Figure) -> Vec<(String, bool)> {
        let mut goals = Vec::new();
        if let Some(at_most) = figure.at_most {
            let words = format!("≤ {} {}", number(at_most), figure.unit);
            goals.push((words.trim_end().to_owned(), figure.median() <= at_most));
        }
        for ratio in &figure.ratios {
            if let (Some(at_most), Some(value)) = (ratio.at_most, self.ratio(figure, ratio)) {
                let words = format!("≤ {}× {}", number(at_most), ratio.label);
                goals.push((words, value <= at_most));
            }
        }
        goals
    }
}

/// A time in the unit of figures of time.
pub(crate) fn millis(value: Duration) -> f64 {
    value.as_secs_f64() * 1e3
}

/// A percentile of sorted values; zero without values.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or_default()
}

/// Three digits: a noisy machine gives no more.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size < 0.01 => format!("{value:.4}"),
        _ => format!("{value:.2}"),
    }
}
