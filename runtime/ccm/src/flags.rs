//! The flags of `ccm run`: a drop-in for the Go cloud-controller-manager's.
//!
//! The table in `flags/table.rs` is the only list; `flags/arguments.rs` converts it to clap arguments, and this file
//! reads their values into [`RunFlags`]. Reads no files and no environment.

mod arguments;
mod election;
mod feature_gates;
mod logs;
mod pod_network;
mod safety;
mod serving;
mod shown;
mod table;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use ccm_controllers::RateLimit;
use ccm_core::go_text::Quoted;
use ccm_core::selector::Selector;
use ccm_core::settings::{
    AddressRules, LifecycleRules, LifecycleSettings, NodeRules, NodeSettings, ServiceSettings,
};
use clap::ArgMatches;
use clap::parser::ValueSource;
use ipnet::IpNet;

use crate::leader_migration::{CONTROLLERS, canonical};
use arguments::same_value;
pub(crate) use arguments::{
    VersionForm, dashed, go_bool, go_command, go_duration, positional_mistake, run_command,
    version_form,
};
use election::duration;
pub(crate) use election::{ElectionFlags, LeadershipFlags};
use feature_gates::FeatureGates;
pub(crate) use logs::{LogFlags, LogFormat};
pub(crate) use pod_network::PodNetworkArguments;
pub(crate) use safety::{AuditLog, CloudProxy, ProviderIsolation, SafetyFlags};
pub(crate) use serving::ServingFlags;
pub(crate) use shown::values as shown_values;
pub(crate) use table::FLAGS;
#[cfg(test)]
pub(crate) use table::FlagKind;
pub(crate) use table::{FulfilledValues, State};

/// The flags of `ccm run`, parsed and validated.
pub(crate) struct RunFlags {
    /// `--cloud-provider`. `None`: all providers of the configuration, which is required then (PROC-003).
    pub cloud_provider: Option<String>,
    /// `--config`, or `--cloud-config`.
    pub config: Option<PathBuf>,
    /// Whether it is that of `--cloud-config`.
    pub is_cloud_config: bool,
    /// `--provider-module`.
    pub provider_module: Option<String>,
    /// `--enable-provider-objects`.
    pub provider_objects: Option<ProviderObjectFlags>,
    /// `--compiled-cache-dir`.
    pub compiled_cache_dir: Option<PathBuf>,
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--master`.
    pub master: Option<String>,
    /// `--cluster-name`.
    pub cluster_name: String,
    /// `--cluster-cidr`, split.
    pub cluster_cidrs: Vec<String>,
    /// The controllers that `--controllers` leaves on, by their canonical names.
    pub controllers: Vec<&'static str>,
    /// Flags of the route controller and the node IPAM controller.
    pub pod_network: PodNetworkArguments,
    /// Flags of the node controller, without the API server's addresses.
    pub node: NodeSettings,
    /// `--service-cluster-ip-range`.
    pub service_cidrs: Vec<IpNet>,
    /// Flags of the service controller.
    pub service: ServiceSettings,
    /// `--load-balancer-removal-confirm-after`.
    pub confirm_removal: Duration,
    /// Flags of the node lifecycle controller.
    pub lifecycle: LifecycleSettings,
    /// Flags of leader election.
    pub leadership: LeadershipFlags,
    /// Flags of the secure port. `None`: `--secure-port=0`.
    pub serving: Option<ServingFlags>,
    /// `--kube-api-qps` and `--kube-api-burst`; `None` if neither is given.
    pub client_limit: Option<RateLimit>,
    /// `--use-service-account-credentials`.
    pub identity_per_controller: bool,
    /// Flags of modes, brakes, audit log and isolation.
    pub safety: SafetyFlags,
    /// Flags of the log.
    pub logs: LogFlags,
    /// Every flag of the table with its value, given or not; [`shown_values`] prints them.
    pub matches: ArgMatches,
    /// Warnings about flags whose effect this program does not have, one line each.
    pub warnings: Vec<String>,
}

/// The flags of providers that objects configure.
pub(crate) struct ProviderObjectFlags {
    /// `--provider-secret-namespace`; `None`: the manager's own.
    pub secret_namespace: Option<String>,
}

/// The node controller's flags.
fn node(matches: &ArgMatches, service_cidrs: &[IpNet], mistakes: &mut Vec<String>) -> NodeSettings {
    let unset = NodeSettings::default();
    let concurrent_syncs = positive(matches, "concurrent-node-syncs", mistakes);
    NodeSettings {
        concurrent_syncs: concurrent_syncs.unwrap_or(unset.concurrent_syncs),
        concurrent_status_updates: count(matches, "concurrent-node-status-updates"),
        status_update_frequency: period(matches, "node-status-update-frequency", mistakes),
        rules: NodeRules {
            reconcile_labels: matches.get_one("reconcile-node-labels") == Some(&true),
            addresses: AddressRules {
                refused: service_cidrs.to_vec(),
                internal: cidrs(matches, "node-internal-ip-cidrs", mistakes),
                ..AddressRules::default()
            },
            confirm_after: duration(matches, "node-change-confirm-after"),
        },
    }
}

/// The node lifecycle controller's flags.
fn lifecycle(matches: &ArgMatches, mistakes: &mut Vec<String>) -> LifecycleSettings {
    let duration = |name| duration(matches, name);
    let monitor_period = period(matches, "node-monitor-period", mistakes);
    let selector = text(matches, "node-deletion-wanted-selector");
    let wanted = selector.filter(|text| !text.trim().is_empty());
    let wanted = wanted.and_then(|text| match Selector::parse(&text) {
        Ok(selector) => Some(selector),
        Err(error) => {
            mistakes.push(format!("--node-deletion-wanted-selector: {error}"));
            None
        }
    });
    LifecycleSettings {
        monitor_period,
        rules: LifecycleRules {
            not_ready: duration("node-deletion-not-ready"),
            min_age: duration("node-deletion-min-age"),
            confirm_after: duration("node-deletion-confirm-after"),
            mass_hold: duration("node-deletion-mass-hold"),
            wanted,
            delete_last_node: matches.get_one("delete-last-node") == Some(&true),
        },
    }
}

/// The service controller's flags.
fn service(matches: &ArgMatches, mistakes: &mut Vec<String>) -> ServiceSettings {
    let unset = ServiceSettings::default();
    let concurrent_syncs = positive(matches, "concurrent-service-syncs", mistakes);
    let drift_check = duration(matches, "load-balancer-drift-check");
    ServiceSettings {
        concurrent_syncs: concurrent_syncs.unwrap_or(unset.concurrent_syncs),
        drift_check: Some(drift_check).filter(|every| !every.is_zero()),
        ..unset
    }
}

impl RunFlags {
    /// Converts clap's matches.
    ///
    /// # Errors
    /// All mistakes in the flags, in one message (PROC-003).
    pub(crate) fn from_matches(matches: &ArgMatches) -> Result<RunFlags, clap::Error> {
        let mut mistakes = Vec::new();
        let config = path(matches, "config");
        let cloud_config = path(matches, "cloud-config");
        let cloud_provider = text(matches, "cloud-provider");
        let secret_namespace = text(matches, "provider-secret-namespace");
        let provider_objects = match matches.get_one("enable-provider-objects") == Some(&true) {
            true => Some(ProviderObjectFlags { secret_namespace }),
            false => {
                if secret_namespace.is_some() {
                    mistakes.push(
                        "--provider-secret-namespace needs --enable-provider-objects".to_owned(),
                    );
                }
                None
            }
        };
        let has_file = config.is_some() || cloud_config.is_some();
        if cloud_provider.is_none() && !has_file && provider_objects.is_none() {
            mistakes.push(
                "--cloud-provider cannot be empty: name a provider that is embedded, or give --config"
                    .to_owned(),
            );
        }
        if config.is_some() && cloud_config.is_some() && config != cloud_config {
            mistakes.push("--config and --cloud-config mean the same: give one of them".to_owned());
        }
        let gates = FeatureGates::read(matches, &mut mistakes);
        let logs = LogFlags::read(matches, gates.has_logging_beta_options(), &mut mistakes);
        let listed = list(matches, "controllers");
        let known = CONTROLLERS.iter().flat_map(|(name, alias)| [*name, *alias]);
        let known: Vec<&str> = known.collect();
        for entry in &listed {
            let name = entry.strip_prefix('-').unwrap_or(entry);
            if entry != "*" && name != TAGGING && !known.contains(&name) {
                mistakes.push(format!(
                    "--controllers: {} is not in the list of known controllers: {}",
                    Quoted(name),
                    known.join(", ")
                ));
            }
        }
        let controllers = CONTROLLERS.iter().map(|(name, _)| *name);
        let controllers = controllers.filter(|name| is_enabled(&listed, name));
        let controllers: Vec<&'static str> = controllers.collect();
        let service_cidrs = cidrs(matches, "service-cluster-ip-range", &mut mistakes);
        let node = node(matches, &service_cidrs, &mut mistakes);
        let pod_network =
            PodNetworkArguments::read(matches, &controllers, &service_cidrs, &mut mistakes);
        let service = service(matches, &mut mistakes);
        let leadership = LeadershipFlags::read(matches, &mut mistakes);
        let lifecycle = lifecycle(matches, &mut mistakes);
        let safety = SafetyFlags::read(matches, &mut mistakes);
        let mut warnings = warnings(matches, &gates);
        if listed.iter().any(|entry| entry == TAGGING) {
            warnings.push(format!(
                "--controllers: {TAGGING} has no effect: {NO_TAGGING}"
            ));
        }
        let serving = ServingFlags::read(matches, &mut mistakes, &mut warnings);
        if !mistakes.is_empty() {
            let text = format!("{}\n", mistakes.join("\n"));
            return Err(clap::Error::raw(
                clap::error::ErrorKind::ValueValidation,
                text,
            ));
        }
        Ok(RunFlags {
            cloud_provider,
            is_cloud_config: config.is_none() && cloud_config.is_some(),
            config: config.or(cloud_config),
            provider_module: text(matches, "provider-module"),
            provider_objects,
            compiled_cache_dir: path(matches, "compiled-cache-dir"),
            kubeconfig: path(matches, "kubeconfig"),
            master: text(matches, "master"),
            cluster_name: text(matches, "cluster-name").unwrap_or_default(),
            cluster_cidrs: text(matches, "cluster-cidr")
                .iter()
                .flat_map(|cidrs| cidrs.split(','))
                .map(|cidr| cidr.trim().to_owned())
                .collect(),
            controllers,
            pod_network,
            node,
            service_cidrs,
            service,
            confirm_removal: duration(matches, "load-balancer-removal-confirm-after"),
            lifecycle,
            leadership,
            serving,
            client_limit: client_limit(matches),
            identity_per_controller: matches.get_one("use-service-account-credentials")
                == Some(&true),
            safety,
            logs,
            matches: matches.clone(),
            warnings,
        })
    }
}

/// Whether the list of `--controllers` enables this one (PROC-020: the first match wins, `*` matches the rest).
fn is_enabled(list: &[String], name: &str) -> bool {
    let hit = list.iter().find_map(|entry| match entry.strip_prefix('-') {
        Some(off) if canonical(off) == name => Some(false),
        None if canonical(entry) == name => Some(true),
        _ => None,
    });
    hit.unwrap_or_else(|| list.iter().any(|entry| entry == "*"))
}

/// A controller of AWS's manager alone. There it is switched off by `-tagging`, which asks for what happens here.
const TAGGING: &str = "tagging";
/// The reason why neither that controller nor its flags have an effect.
const NO_TAGGING: &str = "instances are not tagged, and those without the cluster's tag are no targets of load balancers";

fn warnings(matches: &ArgMatches, gates: &FeatureGates) -> Vec<String> {
    let mut warnings = election::warnings(matches);
    for flag in FLAGS {
        let (fulfilled, reason) = match flag.state {
            State::Works => continue,
            State::Accepted(reason) => (FulfilledValues::These(&[]), reason),
            State::Fulfilled(wishes, reason) => (wishes, reason),
        };
        let value = raw(matches, flag.name);
        let is = |other: &str| same_value(flag.kind, &value, other);
        let is_fulfilled = match fulfilled {
            FulfilledValues::All => true,
            FulfilledValues::These(values) => values.iter().any(|value| is(value)),
        };
        if given(matches, flag.name) && !is_fulfilled && !is(flag.default) {
            warnings.push(format!("--{} has no effect: {reason}", flag.name));
        }
    }
    warnings.extend(gates.warnings());
    warnings
}

/// The time between two looks; adds one that is zero to `mistakes`.
fn period(matches: &ArgMatches, name: &str, mistakes: &mut Vec<String>) -> Duration {
    let period = duration(matches, name);
    if period.is_zero() {
        mistakes.push(format!("--{name} must be longer than nothing"));
    }
    period
}

fn count(matches: &ArgMatches, name: &str) -> Option<NonZeroUsize> {
    let count = matches.get_one::<u32>(name).copied()?;
    NonZeroUsize::new(usize::try_from(count).ok()?)
}

/// Upstream's default of `--kube-api-qps`.
const UPSTREAM_QPS: f32 = 20.0;

/// The number, if it was given; adds one that is not positive to `mistakes`.
fn positive(matches: &ArgMatches, name: &str, mistakes: &mut Vec<String>) -> Option<NonZeroUsize> {
    let count = count(matches, name);
    if count.is_none() {
        mistakes.push(format!("--{name} must be a positive number"));
    }
    count.filter(|_| given(matches, name))
}

/// The limit of each Kubernetes client; none if neither flag is given. A burst alone is meant with upstream's rate.
fn client_limit(matches: &ArgMatches) -> Option<RateLimit> {
    let per_second = match given(matches, "kube-api-burst") && !given(matches, "kube-api-qps") {
        true => UPSTREAM_QPS,
        false => matches.get_one::<f32>("kube-api-qps").copied()?,
    };
    let burst = matches.get_one::<u32>("kube-api-burst").copied()?;
    RateLimit::new(per_second, burst)
}

fn given(matches: &ArgMatches, name: &str) -> bool {
    matches.value_source(name) == Some(ValueSource::CommandLine)
}

fn raw(matches: &ArgMatches, name: &str) -> String {
    let values = matches.get_raw(name).into_iter().flatten();
    values
        .map(|value| value.to_string_lossy())
        .collect::<Vec<_>>()
        .join(",")
}

fn text(matches: &ArgMatches, name: &str) -> Option<String> {
    matches
        .get_one::<String>(name)
        .filter(|text| !text.is_empty())
        .cloned()
}

/// Parses the ranges of a comma-separated list; adds invalid ones to `mistakes`.
fn cidrs(matches: &ArgMatches, name: &str, mistakes: &mut Vec<String>) -> Vec<IpNet> {
    let text = text(matches, name).unwrap_or_default();
    let parts = text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let mut networks = Vec::new();
    for part in parts {
        match part.parse() {
            Ok(network) => networks.push(network),
            Err(_) => mistakes.push(format!(
                "--{name} {part:?}: expected a range such as 10.0.0.0/8 or fd00::/8"
            )),
        }
    }
    networks
}

fn path(matches: &ArgMatches, name: &str) -> Option<PathBuf> {
    text(matches, name).map(PathBuf::from)
}

/// The entries of a flag that may be given more than once, without empty ones.
pub(crate) fn list(matches: &ArgMatches, name: &str) -> Vec<String> {
    let values = matches.get_many::<Vec<String>>(name).into_iter().flatten();
    let values = values.flatten();
    values.filter(|value| !value.is_empty()).cloned().collect()
}

#[cfg(test)]
mod tests;
