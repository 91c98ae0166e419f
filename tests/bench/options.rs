//! What a run measures, from the command line. Measures nothing.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Measures node initialisation on a real kube-apiserver with nodes as large as a kubelet's, against a bare client in
/// the same run.
///
/// Exit codes: 0, every run ended as it must (goals that are missed are only shown); 1, a run could not be made or its
/// end state is wrong; 2, wrong arguments.
#[derive(Parser)]
#[command(name = "nodes", version)]
pub(crate) struct Options {
    /// Numbers of nodes at the start (W0, W1, W8).
    #[arg(long, value_delimiter = ',', value_name = "N,N", default_values_t = [100, 1_000, 5_000])]
    sizes: Vec<usize>,
    /// A trial of the benchmark itself in seconds: 100 nodes at the start, 50 that arrive.
    #[arg(long)]
    small: bool,
    /// Only these workloads; W0 is always measured.
    #[arg(long, value_delimiter = ',', value_name = "W,W", default_values_t = [Workload::W1, Workload::W2, Workload::W8, Workload::Endpoints])]
    only: Vec<Workload>,
    /// Another build of ccm.
    #[arg(long, value_name = "PATH", default_value = env!("CARGO_BIN_EXE_ccm"))]
    pub(crate) ccm: PathBuf,
    /// Further flags of ccm, such as --concurrent-node-syncs=16; the defaults are what is measured otherwise.
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub(crate) ccm_flag: Vec<String>,
    /// A ready binary of the Go hcloud-cloud-controller-manager: measured in W1 with its defaults and tuned.
    #[arg(long, value_name = "PATH")]
    pub(crate) peer: Option<PathBuf>,
    /// One JSON object on standard output in place of the table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Folder for what ccm logged in each run; kept.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) logs: Option<PathBuf>,
    /// Set by `cargo bench`. Without it the program was started by `cargo test`, and --small is meant.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The workloads by their usual names.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Start with tainted nodes present.
    W1,
    /// Nodes that arrive while ccm runs.
    W2,
    /// Start to ready.
    W8,
    /// The secure port.
    Endpoints,
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::W1 => "w1",
            Self::W2 => "w2",
            Self::W8 => "w8",
            Self::Endpoints => "endpoints",
        })
    }
}

impl Options {
    pub(crate) fn is_small(&self) -> bool {
        self.small || !self.bench
    }

    pub(crate) fn has(&self, workload: Workload) -> bool {
        self.only.contains(&workload)
    }

    /// Smallest first, so that a broken set-up shows early.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        if self.is_small() {
            return vec![100];
        }
        let mut sizes = self.sizes.clone();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// How many nodes arrive in W2.
    pub(crate) fn arrivals(&self) -> usize {
        if self.is_small() { 50 } else { 1_000 }
    }

    /// How many clients never finish their requests.
    pub(crate) fn slow_clients(&self) -> usize {
        if self.is_small() { 100 } else { 1_000 }
    }

    /// How long ccm is watched doing nothing.
    pub(crate) fn idle(&self) -> Duration {
        Duration::from_secs(if self.is_small() { 5 } else { 60 })
    }
}
