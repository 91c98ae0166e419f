//! Arguments of the commands that let a module answer: `try` and `test`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Args, ValueEnum};
use ipnet::IpNet;

use super::{EntryOptions, ModuleOptions};
use crate::flags::go_duration;
use crate::provider::try_command::objects::NodeArgument;

pub(super) const TRY_HELP: &str = "\
Examples:
  ccm provider try --config ccm.yaml --node worker-1=acme://m-1 --node worker-2 ./provider.wasm
  HCLOUD_TOKEN=… ccm provider try --node worker-1 --service web.yaml -o yaml embedded:hcloud

All nodes are looked up in one call; the Services get those that were found as targets. Nothing is changed at the cloud: \
the first change is refused and shown, and with --allow-changes it is made, and stays.

Exit codes: 0 everything would be served, 1 something could not be read or compiled here, 2 the module is \
refused or not trusted, an object would not be served, or a request is not granted.";

pub(super) const TEST_HELP: &str = "\
Examples:
  ccm provider test --config simulator.yaml --node worker-1=acme://m-1 --gone acme://m-404 \\
    ./provider.wasm
  ccm provider test --config account.yaml --node a=acme://1 --node b=acme://2 --allow-changes \\
    -o markdown ./provider.wasm

The endpoint of the configuration is a simulator or a test account: load balancers and routes are made there, and \
removed. Answers are lost, refused and throttled between the module and that endpoint. Laws that need more than is given are \
listed as not applicable, with what they need.

Exit codes: 0 no law is broken, 1 something could not be read or compiled here, or the test was interrupted, 2 a law is \
broken, or the module is refused or not trusted.";

/// How a document is printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DocumentForm {
    /// For people
    Text,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
}

/// How a report is printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportForm {
    /// For people
    Text,
    /// For programs
    Json,
    /// To be published
    Markdown,
}

/// A group of laws.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Suite {
    /// What holds for every module; always tested
    Contract,
    /// Look-ups of machines
    Instances,
    /// Load balancers
    LoadBalancer,
    /// Routes to pod networks
    Routes,
}

/// What the module is asked about, and what it may do.
#[derive(Args)]
pub(crate) struct AskedAbout {
    /// A node, with its provider ID if it has one already, and its kubelet's --node-ip if that is given; may be given several
    /// times
    #[arg(long, value_name = "NAME[=PROVIDER_ID][,IP]", value_parser = NodeArgument::parse)]
    #[allow(rustdoc::broken_intra_doc_links, reason = "brackets of a usage")]
    pub node: Vec<NodeArgument>,
    /// The manager's --cluster-name
    #[arg(long, value_name = "NAME", default_value = "kubernetes")]
    pub cluster_name: String,
    /// The manager's --cluster-cidr
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = range)]
    pub cluster_cidr: Vec<String>,
    /// Allow changes at the cloud, which may cost money; without it, none is made
    #[arg(long)]
    pub allow_changes: bool,
    /// How long to wait for what the cloud has begun and not finished, such as a new load balancer
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = go_duration)]
    pub timeout: Duration,
}

/// Checks a range, which the module gets as it is written.
fn range(text: &str) -> Result<String, String> {
    match text.parse::<IpNet>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("expected a range such as 10.0.0.0/8 or fd00::/8".to_owned()),
    }
}

/// Without [`EntryOptions::config`], a module that answers is loaded otherwise than one that is only loaded.
fn explained(argument: Arg) -> Arg {
    match argument.get_id().as_str() {
        "config" => argument.help(WITHOUT_CONFIG),
        _ => argument,
    }
}

const WITHOUT_CONFIG: &str = "Configuration with the module's grants and trust; without it: the built-in grants of a shipped module, with the variables and files of this machine, as for `run`; any other module may send no requests";

/// Options of `ccm provider try`.
#[derive(Args)]
#[command(mut_args(explained))]
pub(crate) struct Try {
    #[command(flatten)]
    pub module: ModuleOptions,
    #[command(flatten)]
    pub entry: EntryOptions,
    #[command(flatten)]
    pub subject: AskedAbout,
    /// A Service of type LoadBalancer (YAML); may be given several times
    #[arg(long, value_name = "FILE")]
    pub service: Vec<PathBuf>,
    /// How the result is printed
    #[arg(short, long = "output", value_name = "FORM", default_value = "text")]
    pub output: DocumentForm,
}

/// Options of `ccm provider test`.
#[derive(Args)]
#[command(mut_args(explained))]
pub(crate) struct Test {
    #[command(flatten)]
    pub module: ModuleOptions,
    #[command(flatten)]
    pub entry: EntryOptions,
    #[command(flatten)]
    pub subject: AskedAbout,
    /// Only these laws; without it: those of all interfaces that the module enables
    #[arg(long, value_name = "SUITE", value_delimiter = ',')]
    pub suite: Vec<Suite>,
    /// A provider ID of this cloud that no machine has, such as acme://m-404
    #[arg(long, value_name = "PROVIDER_ID")]
    pub gone: Option<String>,
    /// The Service (YAML) whose load balancers are made, each under another name and UID; without it: one with two TCP ports
    #[arg(long, value_name = "FILE")]
    pub service: Option<PathBuf>,
    /// How the report is printed
    #[arg(short, long = "output", value_name = "FORM", default_value = "text")]
    pub output: ReportForm,
}
