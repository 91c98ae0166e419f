//! `ccm provider check`: loads a module as `ccm run` would, under the same limits, and says yes, or why not.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use ccm_core::permit::{Moment, Permit};
use ccm_host::grant::{Credential, Grants, Secret};
use ccm_host::manifest::{AuthKind, Manifest};
use ccm_host::{GuestConfig, Provider};
use serde_json::json;

use super::Verdict;
use crate::assemble;
use crate::cli::Output;
use crate::config::ModuleRef;

/// Loads a module; `online` also lets it send its self-check.
pub(crate) fn check(
    file: &Path,
    config: Option<&Path>,
    online: bool,
    output: Output,
) -> anyhow::Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let verdict = runtime.block_on(load_and_try(file, config, online, output));
    runtime.shutdown_background();
    verdict
}

async fn load_and_try(
    file: &Path,
    config: Option<&Path>,
    online: bool,
    output: Output,
) -> anyhow::Result<Verdict> {
    if online && config.is_none() {
        bail!("--online needs --config: a self-check without a credential says nothing");
    }
    let reference = ModuleRef::File(file.to_owned());
    let module = assemble::module(&reference)?;
    let found = match ccm_host::inspect(&module.source, &module.wasm) {
        Ok(found) => found,
        Err(error) => return Ok(super::refused(file, &error.into(), output)),
    };
    let name = &found.manifest.name;
    let host = assemble::host(None)?;
    let loaded = match config {
        Some(path) => {
            let reference = file.canonicalize()?;
            let provider = assemble::find(
                name,
                Some(path),
                Some(&format!("file://{}", reference.display())),
            )?;
            assemble::load(&host, provider, "kubernetes".to_owned(), Vec::new()).await
        }
        None => {
            let values = placeholders(&found.manifest);
            let guest_config = GuestConfig {
                cluster_name: "kubernetes".to_owned(),
                cluster_cidrs: Vec::new(),
                values,
            };
            host.load(module, everything(&found.manifest), guest_config)
                .await
                .map_err(anyhow::Error::from)
        }
    };
    let provider = match loaded {
        Ok(provider) => provider,
        Err(error) => return Ok(super::refused(file, &error, output)),
    };
    if online
        && let Err(error) = provider
            .self_check(Arc::new(Permit::read_only(Moment(Duration::MAX))))
            .await
    {
        return Ok(super::refused(
            file,
            &anyhow::Error::from(error).context("the self-check failed"),
            output,
        ));
    }
    Ok(accepted(file, &provider, output))
}

/// Grants what is required, with credentials that open nothing: nothing is sent while a module is loaded.
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

/// Required keys get an empty value: whether a module copes with that is for it to say.
fn placeholders(manifest: &Manifest) -> BTreeMap<String, String> {
    let required = manifest.config.iter().filter(|key| key.required);
    required
        .map(|key| (key.key.clone(), String::new()))
        .collect()
}

fn accepted(file: &Path, provider: &Provider, output: Output) -> Verdict {
    let manifest = provider.manifest();
    let text = match output {
        Output::Json => {
            let answer = json!({
                "file": file.display().to_string(),
                "ok": true,
                "name": manifest.name,
                "version": manifest.version,
                "digest": provider.digest().to_string(),
                "warnings": provider.warnings(),
            });
            format!("{answer:#}\n")
        }
        Output::Text | Output::Grants => {
            let warnings: String = provider
                .warnings()
                .iter()
                .map(|warning| format!("  warning: {warning}\n"))
                .collect();
            format!(
                "{}: yes: {} {} loads, {}\n{warnings}",
                file.display(),
                manifest.name,
                manifest.version,
                provider.digest()
            )
        }
    };
    Verdict {
        text,
        accepted: true,
    }
}
