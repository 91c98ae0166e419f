//! From configuration to a loaded provider: reads files and variables, picks the grants and hands both to
//! the host. Shared by `run` and `provider check`, so that what `check` says is what `run` does.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use ccm_controllers::{Controllers, PlanBook, Settings};
use ccm_core::audit::NoAudit;
use ccm_core::permit::Mode;
use ccm_core::settings::{
    AddressRules, IngressRules, LifecycleRules, LifecycleSettings, NodeRules, NodeSettings,
    ServiceRules, ServiceSettings,
};
use ccm_core::tenure::Tenure;
use ccm_host::manifest::Manifest;
use ccm_host::{Compiler, GuestConfig, Host, HostOptions, LoadError, Module, Provider};
use ipnet::IpNet;

use crate::builtin::{self, Terms};
use crate::config::{self, LoadBalancerConfig, Mistakes, ModuleRef, ProviderConfig, Surroundings};
use crate::flags::{LifecycleFlags, NodeFlags, ServiceFlags};

/// Larger modules are refused before they are read to the end; the pre-scan's own limit is the same.
const MODULE_CAP: u64 = 32 << 20;
/// Configuration, certificates and tokens.
const TEXT_CAP: u64 = 1 << 20;

/// This process's variables and files.
pub(crate) const PROCESS: Surroundings<'static> = Surroundings {
    variable: &|name| std::env::var(name).ok().filter(|value| !value.is_empty()),
    file: &|path| {
        let bytes = read(path, TEXT_CAP).map_err(|error| error.to_string())?;
        String::from_utf8(bytes).map_err(|_| "not UTF-8 text".to_owned())
    },
};

/// A host whose compile child is this very binary.
pub(crate) fn host(cache_dir: Option<PathBuf>) -> anyhow::Result<Host> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let compiler = Compiler {
        program,
        arguments: vec!["__compile".into()],
    };
    Ok(Host::new(HostOptions {
        compiler,
        cache_dir,
    })?)
}

/// Finds the provider that `name` means: one of the configuration file, an embedded one, or, with
/// `module` given, one that only this module describes. `module` replaces what the others say.
pub(crate) fn find(
    name: &str,
    file: Option<&Path>,
    module: Option<&str>,
) -> anyhow::Result<ProviderConfig> {
    let mut configured = match file {
        Some(path) => read_config(path)?,
        None => Vec::new(),
    };
    let module = module
        .map(ModuleRef::parse)
        .transpose()
        .map_err(anyhow::Error::msg)?;
    let position = configured.iter().position(|provider| provider.name == name);
    let mut found = match position {
        Some(position) => configured.swap_remove(position),
        None if module.is_some() || builtin::module(name).is_some() => {
            ProviderConfig::unwritten(name)
        }
        None => {
            let known = configured
                .iter()
                .map(|provider| provider.name.as_str())
                .chain(builtin::names());
            bail!(
                "unknown cloud provider {name:?}: known are {}",
                known.collect::<Vec<_>>().join(", ")
            );
        }
    };
    if let Some(module) = module {
        found.module = module;
    }
    Ok(found)
}

/// Reads a configuration file.
pub(crate) fn read_config(path: &Path) -> anyhow::Result<Vec<ProviderConfig>> {
    let text = (PROCESS.file)(path)
        .map_err(anyhow::Error::msg)
        .with_context(|| format!("cannot read {}", path.display()))?;
    config::parse(&text, &PROCESS)
        .with_context(|| format!("{} is not a valid configuration", path.display()))
}

/// The module's bytes.
pub(crate) fn module(reference: &ModuleRef) -> anyhow::Result<Module> {
    let source = reference.to_string();
    let wasm = match reference {
        ModuleRef::Embedded(name) => match builtin::module(name) {
            Some(wasm) => wasm.to_vec(),
            None => bail!(
                "no module {name:?} is embedded: embedded are {}",
                builtin::names().join(", ")
            ),
        },
        ModuleRef::File(path) => {
            read(path, MODULE_CAP).with_context(|| format!("cannot read {}", path.display()))?
        }
    };
    Ok(Module { source, wasm })
}

/// Loads a configured provider in the sandbox.
pub(crate) async fn load(
    host: &Host,
    config: ProviderConfig,
    cluster_name: String,
    cluster_cidrs: Vec<String>,
) -> anyhow::Result<Provider> {
    let module = module(&config.module)?;
    let inspection = ccm_host::inspect(&module.source, &module.wasm)?;
    if let Some(pinned) = &config.digest
        && *pinned != inspection.digest.to_string()
    {
        bail!(
            "{} has digest {}, but {pinned} is configured",
            module.source,
            inspection.digest
        );
    }
    let (terms, values) = match (config.grants, builtin::recognise(&module.wasm)) {
        (Some(grants), _) => (Terms::written(grants), config.values),
        (None, Some(guest)) => profile(guest, &inspection.manifest, config.values),
        (None, None) => bail!(
            "{} is not a module that this binary ships, so it needs grants: `ccm provider inspect -o grants` prints what it requests, to be put into --config",
            module.source
        ),
    };
    let guest_config = GuestConfig {
        cluster_name,
        cluster_cidrs,
        values,
    };
    for warning in &terms.warnings {
        tracing::warn!("{warning}");
    }
    // With mistakes the module is only asked for its own, so that all of them are told at once.
    let loaded = host.load(module, terms.grants, guest_config).await;
    let mut mistakes = terms.mistakes;
    match loaded {
        Ok(provider) if mistakes.is_empty() => return Ok(provider),
        Err(error) if mistakes.is_empty() => return Err(error.into()),
        Err(error @ (LoadError::Config { .. } | LoadError::Init { .. })) => {
            mistakes.push(format!("{:#}", anyhow::Error::from(error)));
        }
        // Anything else may only be so because of the mistakes.
        Ok(_) | Err(_) => {}
    }
    Err(Mistakes(mistakes).into())
}

/// Grants and values of a shipped module: variables first, what the file says over them.
fn profile(
    guest: &str,
    manifest: &Manifest,
    configured: BTreeMap<String, String>,
) -> (Terms, BTreeMap<String, String>) {
    let mut values = builtin::values(manifest, &PROCESS);
    values.extend(configured);
    (builtin::grants(guest, manifest, &values, &PROCESS), values)
}

/// Reads a regular file of at most `cap` bytes through one handle, so that it cannot change underneath.
fn read(path: &Path, cap: u64) -> std::io::Result<Vec<u8>> {
    let invalid = |text: String| std::io::Error::new(std::io::ErrorKind::InvalidInput, text);
    // A FIFO would block in open(2) until somebody writes, so its kind is asked first; the handle decides.
    if !std::fs::metadata(path)?.is_file() {
        return Err(invalid("not a regular file".to_owned()));
    }
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(invalid("not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(cap + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > cap {
        return Err(invalid(format!("larger than {cap} bytes")));
    }
    Ok(bytes)
}

/// Upstream's default of one worker is what its client-side throttle leaves use for. Without that throttle, eight
/// nodes side by side keep a small API server busy (`tests/bench`: with 32 it is slower); twice as many make use of
/// one whose store waits for its disk.
const NODE_SYNCS: NonZeroUsize = NonZeroUsize::new(16).unwrap();
/// One call is many requests, of which each has its own 30 s; a listing of 5000 machines takes a few seconds.
const CALL_TIME: Duration = Duration::from_secs(60);
/// How long the process finishes what is on the wire when told to stop; below the 30 s that a pod has.
const DRAIN: Duration = Duration::from_secs(10);

/// Addresses of the cluster's own, as far as they are known.
#[derive(Default)]
pub(crate) struct ClusterAddresses {
    /// The API server's.
    pub api_server: Vec<IpAddr>,
    /// The ranges of Services and pods.
    pub ranges: Vec<IpNet>,
}

/// The service controller's settings.
pub(crate) fn service_settings(
    flags: &ServiceFlags,
    load_balancers: LoadBalancerConfig,
    cluster: &ClusterAddresses,
) -> ServiceSettings {
    let unset = ServiceSettings::default();
    ServiceSettings {
        concurrent_syncs: flags.concurrent_syncs.unwrap_or(unset.concurrent_syncs),
        drift_check: flags.drift_check,
        rules: ServiceRules {
            classes: load_balancers.classes,
            is_default: load_balancers.is_default,
            adoption: load_balancers.adoption,
            ingress: IngressRules {
                refused: cluster.ranges.clone(),
                api_server: cluster.api_server.clone(),
                allowed: load_balancers.ingress_cidrs,
            },
            ..ServiceRules::default()
        },
        ..unset
    }
}

/// The controllers' settings, for a cluster whose API server has these addresses.
pub(crate) fn settings(
    node: &NodeFlags,
    lifecycle: &LifecycleFlags,
    service: ServiceSettings,
    api_server: Vec<IpAddr>,
) -> Settings {
    Settings {
        controllers: Controllers::ALL,
        service,
        lifecycle: LifecycleSettings {
            monitor_period: lifecycle.monitor_period,
            rules: LifecycleRules {
                not_ready: lifecycle.not_ready,
                min_age: lifecycle.min_age,
                delete_last_node: lifecycle.delete_last_node,
                ..LifecycleRules::default()
            },
        },
        ledger: None,
        pace: ccm_controllers::Pace::REAL,
        audit: Arc::new(NoAudit),
        plan: PlanBook::default(),
        node: NodeSettings {
            status_update_frequency: node.status_update_frequency,
            concurrent_syncs: node.concurrent_syncs.unwrap_or(NODE_SYNCS),
            concurrent_status_updates: node.concurrent_status_updates,
            rules: NodeRules {
                reconcile_labels: node.reconcile_labels,
                addresses: AddressRules {
                    refused: node.service_cidrs.clone(),
                    api_server,
                    internal: node.internal_cidrs.clone(),
                },
                ..NodeRules::default()
            },
        },
        mode: Mode::Enforce,
        call_time: CALL_TIME,
        drain: DRAIN,
        tenure: Arc::new(Tenure::unlimited()),
    }
}
