//! `ccm provider check`: loads a module as `ccm run` would, under the same limits, and reports success or the reason.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Once};
use std::time::Duration;

use anyhow::{Context as _, bail};
use ccm_core::moment::Moment;
use ccm_core::permit::Permit;
use ccm_host::grant::{Credential, Grants, Secret};
use ccm_host::manifest::{AuthKind, Manifest};
use ccm_host::{GuestConfig, Module, Provider};
use serde_json::json;

use super::arguments::{Check, Form};
use super::configured_providers::{self, Inputs};
use super::terminal::Screen;
use super::{Refusal, Verdict, output};
use crate::config::ProviderConfig;
use crate::flags::ProviderIsolation;
use crate::load_policy::ConfiguredLoadPolicy;
use crate::provider_loading;

/// Cluster name passed to the module, as in `run` without `--cluster-name`.
const CLUSTER: &str = "kubernetes";

/// Loads a module; with `online`, also runs its self-check.
pub(super) async fn check(options: &Check, screen: Screen) -> anyhow::Result<Verdict> {
    let place = options.module.place.to_string();
    let artifact = options
        .module
        .place
        .bring(&options.module.access, screen)
        .await?;
    let found = ccm_host::inspect(&place, &artifact.wasm)?;
    let host = provider_loading::host(None, ProviderIsolation::default())?;
    let module = Module {
        source: place.clone(),
        wasm: artifact.wasm.to_vec(),
    };
    let bar = screen.busy("compiling and starting");
    let provider = match &options.config {
        None => {
            let grants = everything(&found.manifest);
            host.load(module, grants, told(&found.manifest)).await?
        }
        Some(path) => {
            let terms = ConfiguredLoadPolicy {
                config: entry(path, options, &found.manifest.name)?,
                cluster_name: CLUSTER.to_owned(),
                cluster_cidrs: Vec::new(),
                warned: Once::new(),
            };
            let loaded = provider_loading::load(&host, &terms, module).await;
            loaded.map_err(|error| {
                Refusal::new(format!("{} does not load it", path.display()), error)
            })?
        }
    };
    drop(bar);
    if options.online {
        let bar = screen.busy("asking the cloud");
        let permit = Arc::new(Permit::read_only(Moment(Duration::MAX)));
        provider
            .self_check(permit)
            .await
            .map_err(|error| Refusal::new("the self-check failed".to_owned(), error))?;
        drop(bar);
    }
    Ok(accepted(&place, &provider, options.printed.output))
}

/// The module's configuration when none is given.
fn told(manifest: &Manifest) -> GuestConfig {
    GuestConfig {
        cluster_name: CLUSTER.to_owned(),
        cluster_cidrs: Vec::new(),
        values: placeholders(manifest),
    }
}

/// Selects the entry: by name, the only one, or the one named like the module.
fn entry(path: &Path, options: &Check, module: &str) -> anyhow::Result<ProviderConfig> {
    // Without asking the cloud no credential is used.
    let inputs = match options.online {
        true => Inputs::Used,
        false => Inputs::Elsewhere,
    };
    let mut configured = configured_providers::read_valid(path, inputs)?;
    let wanted = match (options.provider.as_deref(), configured.as_slice()) {
        (None, [_]) => return configured.pop().context("the configuration is empty"),
        (Some(name), _) => name,
        (None, _) => module,
    };
    let position = configured.iter().position(|entry| entry.name == wanted);
    match position {
        Some(position) => Ok(configured.swap_remove(position)),
        None => {
            let known: Vec<_> = configured.iter().map(|entry| entry.name.as_str()).collect();
            bail!(
                "{} has no provider {wanted:?}: it has {}",
                path.display(),
                known.join(", ")
            )
        }
    }
}

/// Grants all required targets, with placeholder credentials: nothing is sent while a module is loaded.
fn everything(manifest: &Manifest) -> Grants {
    let mut grants = manifest.as_grants();
    let required = manifest.targets.iter().filter(|target| target.required);
    for (grant, target) in grants.targets.iter_mut().zip(required) {
        let secret = || Secret::new("check".to_owned());
        grant.credential = match target.auth {
            AuthKind::None => Credential::None,
            AuthKind::Bearer => Credential::Bearer(secret()),
            AuthKind::Basic => Credential::Basic {
                user: "check".to_owned(),
                password: secret(),
            },
            AuthKind::Header => Credential::Header {
                name: "x-check".to_owned(),
                value: secret(),
            },
        };
    }
    grants
}

/// Sets required keys to an empty value: the module decides whether that is valid.
fn placeholders(manifest: &Manifest) -> BTreeMap<String, String> {
    let required = manifest.config.iter().filter(|key| key.required);
    required
        .map(|key| (key.key.clone(), String::new()))
        .collect()
}

fn accepted(place: &str, provider: &Provider, form: Form) -> Verdict {
    let manifest = provider.manifest();
    Verdict::yes(match form {
        Form::Json => output::json(&json!({
            "file": place,
            "ok": true,
            "name": manifest.name,
            "version": manifest.version,
            "digest": provider.digest().to_string(),
            "warnings": provider.warnings(),
        })),
        Form::Text => {
            let warnings: String = provider
                .warnings()
                .iter()
                .map(|warning| format!("  warning: {warning}\n"))
                .collect();
            format!(
                "{place}: yes: {} {} loads, {}\n{warnings}",
                manifest.name,
                manifest.version,
                provider.digest()
            )
        }
    })
}
