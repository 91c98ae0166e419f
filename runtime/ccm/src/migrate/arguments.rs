//! Arguments of `ccm migrate …`: options, their help and examples. Reads no files.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::workload::WorkloadName;
use crate::flags;
use crate::provider::{ClusterOptions, Form};

/// `ccm migrate …`.
#[derive(Subcommand)]
pub(crate) enum MigrateCommand {
    /// List the changes that would follow if this program replaced a running Go manager
    #[command(after_help = HELP)]
    Check(Box<MigrateArguments>),
}

const HELP: &str = "\
Nothing is written: no Lease, no Event, no object, and nothing at the cloud. The kubeconfig's user needs the rights to \
get, list and watch what the controllers do (nodes, services, pods, leases and namespaces), and with --from to get the \
workload and the Secrets and ConfigMaps that it names.

A Go manager that has its region or its keys from the machine that it runs on is checked on a machine of the cluster, without \
--from: with its flags after --, and its variables.

Examples:
  ccm migrate check --from deployment/kube-system/hcloud-cloud-controller-manager
  HCLOUD_TOKEN=… ccm migrate check -- --cloud-provider=hcloud --allow-untagged-cloud
  ccm migrate check -o json --from daemonset/kube-system/hcloud-cloud-controller-manager \\
    -- --config=ccm.yaml

Exit codes:
  0  no request that changes a cloud and no visible change would follow; bookkeeping of this
     program is listed
  1  an option is wrong, the workload cannot be read, or a provider cannot be loaded
  2  changes would follow, and are listed
  3  no change is known, but not everything could be judged";

/// Options of `ccm migrate check`.
#[derive(Args)]
pub(crate) struct MigrateArguments {
    /// The Go manager: its arguments, variables and mounted files are taken from daemonset/NAMESPACE/NAME or
    /// deployment/NAMESPACE/NAME, and no variable of this process counts. Without it: the arguments after --, and the
    /// variables of this process
    #[arg(long, value_name = "WORKLOAD", value_parser = WorkloadName::parse)]
    pub from: Option<WorkloadName>,
    /// Container of the workload; without it, the only one, or the one that has --cloud-provider
    #[arg(long, value_name = "NAME", requires = "from")]
    pub container: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// The longest time to wait for each read of the check itself, and then for all decisions; a change that needs a second
    /// answer takes about a minute
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = flags::go_duration)]
    pub timeout: Duration,
    /// How the result is printed
    #[arg(short, long = "output", value_name = "FORM", default_value = "text")]
    pub output: Form,
    /// Arguments of the Go manager; with --from, further ones, which take precedence
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<OsString>,
}
