//! The command line's choice of what a run measures. Measures nothing.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::figure::Subject;

/// Measures a cloud-controller-manager on a real kube-apiserver with nodes as large as a kubelet's, against a bare client
/// in the same run.
///
/// Exit codes: 0, every run ended as it must (goals that are missed are only shown); 1, a run could not be made or its
/// end state is wrong; 2, wrong arguments.
#[derive(Parser)]
#[command(name = "nodes", version)]
pub(crate) struct Options {
    /// Numbers of nodes at the start (W0, W1, W8, endpoints). Default: 100,1000,5000; with --full 15000, too.
    #[arg(long, value_delimiter = ',', value_name = "N,N")]
    sizes: Vec<usize>,
    /// Numbers of Services (W3). Default: 10,100; with --full 500, too.
    #[arg(long, value_delimiter = ',', value_name = "M,M")]
    services: Vec<usize>,
    /// All sizes, long forms of churn and steady state, and five runs: hours with a peer.
    #[arg(long, conflicts_with = "small")]
    full: bool,
    /// A trial of the benchmark itself: every workload at a size that takes seconds, once.
    #[arg(long)]
    small: bool,
    /// How often everything is measured. The order turns round from run to run: A B, B A. Default: 3; with --full 5.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=99))]
    runs: Option<u8>,
    /// No further run of a workload begins that would not end within so many minutes; the first run is always made.
    /// Default: 14, which leaves a minute for the report; with --full no limit.
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// How long a manager with nothing to do is measured (W1), in minutes. Default: ten seconds; with --full a minute.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_440))]
    idle: Option<u64>,
    /// Only these workloads; default: all.
    #[arg(long, value_delimiter = ',', value_name = "W,W")]
    only: Vec<Workload>,
    /// Another build of ccm.
    #[arg(long, value_name = "PATH", default_value = env!("CARGO_BIN_EXE_ccm"))]
    pub(crate) ccm: PathBuf,
    /// Further flags of ccm, such as --concurrent-node-syncs=16; the defaults are what is measured otherwise.
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub(crate) ccm_flag: Vec<String>,
    /// A ready binary of the Go hcloud-cloud-controller-manager: measured with its defaults (up to 1 000 nodes and 100
    /// Services, further with --full) and tuned.
    #[arg(long, value_name = "PATH")]
    pub(crate) peer: Option<PathBuf>,
    /// Further flags of the peer in both forms.
    #[arg(
        long,
        value_name = "FLAG",
        allow_hyphen_values = true,
        requires = "peer"
    )]
    pub(crate) peer_flag: Vec<String>,
    /// One JSON object on standard output in place of the table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Folder for results.json, RESULTS.md and the plots, from the root of the repository. Default: target/bench; the
    /// small form writes only where this says.
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Folder for what each manager logged in each run; kept.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) logs: Option<PathBuf>,
    /// Set by `cargo bench`. Without it the program was started by `cargo test`, and --small is meant.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The workloads by their usual names; the bare client, W0, is measured with those that are compared with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Start with tainted nodes present.
    W1,
    /// Nodes that arrive while the manager runs.
    W2,
    /// Services are created, changed and deleted.
    W3,
    /// Nodes come and go below load balancers.
    W4,
    /// Nothing to do, while kubelets report.
    W5,
    /// W1 and W3 with a cloud in trouble.
    W6,
    /// The leader ends in the middle of W1.
    W7,
    /// Start to ready.
    W8,
    /// The secure port.
    Endpoints,
    /// What a call in the sandbox costs.
    Sandbox,
}

/// The form of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Small,
    Default,
    Full,
}

impl Options {
    fn form(&self) -> Form {
        match (self.full, self.small || !self.bench) {
            (true, _) => Form::Full,
            (false, true) => Form::Small,
            (false, false) => Form::Default,
        }
    }

    pub(crate) fn form_name(&self) -> &'static str {
        self.by_form("small", "default", "full")
    }

    fn by_form<T>(&self, small: T, default: T, full: T) -> T {
        match self.form() {
            Form::Small => small,
            Form::Default => default,
            Form::Full => full,
        }
    }

    pub(crate) fn is_small(&self) -> bool {
        self.form() == Form::Small
    }

    pub(crate) fn has(&self, workload: Workload) -> bool {
        self.only.is_empty() || self.only.contains(&workload)
    }

    /// Smallest first, so that a broken set-up shows early.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        let default: &[usize] =
            self.by_form(&[50], &[100, 1_000, 5_000], &[100, 1_000, 5_000, 15_000]);
        in_order(&self.sizes, default)
    }

    /// Numbers of Services, smallest first.
    pub(crate) fn services(&self) -> Vec<usize> {
        in_order(
            &self.services,
            self.by_form(&[4], &[10, 100], &[10, 100, 500]),
        )
    }

    /// How many workloads are measured at once: one, unless times do not matter.
    pub(crate) fn at_once(&self) -> usize {
        self.by_form(4, 1, 1)
    }

    pub(crate) fn runs(&self) -> u8 {
        self.runs.unwrap_or(self.by_form(1, 3, 5))
    }

    /// The time after which no further run begins.
    pub(crate) fn budget(&self) -> Option<Duration> {
        let default = self.by_form(None, Some(14), None);
        self.minutes
            .or(default)
            .map(|minutes| Duration::from_secs(60 * minutes))
    }

    /// How long one run of one workload at one size may take before it is given up.
    pub(crate) fn patience(&self) -> Duration {
        let minutes = if self.peer.is_some() || self.full {
            90
        } else {
            15
        };
        Duration::from_secs(60 * (minutes + self.idle.unwrap_or(0)))
    }

    /// The programs under test at a size. The peer's defaults take minutes for a thousand nodes.
    pub(crate) fn subjects(&self, is_large: bool) -> Vec<Subject> {
        let mut subjects = vec![Subject::Ccm];
        if self.peer.is_some() {
            subjects.push(Subject::PeerTuned);
            if self.full || !is_large {
                subjects.push(Subject::PeerDefaults);
            }
        }
        subjects
    }

    /// Whether everything that is measured once is measured at this size: the larger ones only in the full form.
    pub(crate) fn is_thorough(&self, nodes: usize) -> bool {
        self.full || nodes <= 1_000
    }

    /// Whether the secure port is measured beside this many nodes: all sizes if it is requested by name.
    pub(crate) fn has_endpoints(&self, nodes: usize) -> bool {
        self.is_thorough(nodes) || self.only.contains(&Workload::Endpoints)
    }

    /// The folder for results, if there is one.
    pub(crate) fn output(&self) -> Option<PathBuf> {
        let default = (!self.is_small()).then(|| PathBuf::from("target/bench"));
        let folder = self.output.clone().or(default)?;
        Some(crate::cluster::repository().join(folder))
    }

    /// W2: number of nodes, and how many arrive in a second.
    pub(crate) fn arrivals(&self) -> &'static [(usize, u32)] {
        self.by_form(
            &[(20, 20)],
            &[(100, 10), (1_000, 100)],
            &[(1_000, 10), (1_000, 100)],
        )
    }

    /// W4: nodes, load balancers over them, and the duration.
    pub(crate) fn churn(&self) -> (usize, usize, Duration) {
        let seconds = Duration::from_secs;
        self.by_form(
            (10, 2, seconds(4)),
            (500, 50, seconds(30)),
            (500, 50, seconds(300)),
        )
    }

    /// W5: numbers of nodes, and the duration.
    pub(crate) fn steady(&self) -> (&'static [usize], Duration) {
        let seconds = Duration::from_secs;
        self.by_form(
            (&[20][..], seconds(3)),
            (&[1_000][..], seconds(30)),
            (&[1_000, 5_000][..], seconds(600)),
        )
    }

    /// W6: nodes at the start, and Services.
    pub(crate) fn trouble(&self) -> (usize, usize) {
        self.by_form((50, 4), (1_000, 100), (1_000, 100))
    }

    /// W7: nodes at the start.
    pub(crate) fn failover(&self) -> usize {
        self.by_form(200, 1_000, 1_000)
    }

    /// Number of nodes that are targets in W3.
    pub(crate) fn targets(&self) -> usize {
        self.by_form(5, 20, 20)
    }

    /// Number of clients that never finish their requests.
    pub(crate) fn slow_clients(&self) -> usize {
        self.by_form(100, 1_000, 1_000)
    }

    /// How long a manager without work is measured.
    pub(crate) fn idle(&self) -> Duration {
        let chosen = self.idle.map(|minutes| minutes * 60);
        Duration::from_secs(chosen.unwrap_or(self.by_form(2, 10, 60)))
    }

    /// How long a manager is measured with a node that is not ready. It asks about such a node less and less often, at last
    /// once a minute.
    pub(crate) fn not_ready(&self) -> Duration {
        Duration::from_secs(self.by_form(2, 60, 60))
    }

    /// How often a call in the sandbox is made at 1, 100 and 2 500 nodes.
    pub(crate) fn calls(&self) -> [(usize, usize); 3] {
        self.by_form(
            [(1, 5), (100, 3), (2_500, 1)],
            [(1, 300), (100, 100), (2_500, 12)],
            [(1, 1_000), (100, 1_000), (2_500, 100)],
        )
    }
}

fn in_order(chosen: &[usize], default: &[usize]) -> Vec<usize> {
    let mut sizes = if chosen.is_empty() { default } else { chosen }.to_vec();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}
