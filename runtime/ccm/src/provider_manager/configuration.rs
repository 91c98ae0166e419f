//! The configuration of this process, read again after each change: the file, the files and Secrets it refers to, and
//! the flags that select from it. Reads only; applies nothing.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use ccm_delivery::source::Location;

use super::secrets::Secrets;
use crate::builtin_grants;
use crate::config::{self, Mistakes, ProviderConfig, ProxyChoice, Surroundings, Written};
use crate::flags::CloudProxy;
use crate::provider_loading::PROCESS;

/// See the module's documentation.
pub(crate) struct Configuration {
    /// `--config`.
    pub file: Option<PathBuf>,
    /// `--cloud-provider`; `None`: all providers of the file.
    pub name: Option<String>,
    /// `--provider-module`, which overrides the file.
    pub module: Option<String>,
    /// `--cloud-proxy`.
    pub cloud_proxy: CloudProxy,
    /// Secrets of the cluster.
    pub secrets: Secrets,
}

impl Configuration {
    /// Reads the current configuration.
    ///
    /// # Errors
    /// All mistakes together.
    pub(crate) async fn read(&self) -> anyhow::Result<Vec<ProviderConfig>> {
        let configured = match &self.file {
            None => Vec::new(),
            Some(path) => {
                let text = (PROCESS.file)(path)
                    .map_err(anyhow::Error::msg)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                let invalid = || format!("{} is not a valid configuration", path.display());
                let written = Written::read(&text).with_context(invalid)?;
                self.secrets.learn(&written.secrets()).await;
                let surroundings = Surroundings {
                    secret: &|key| self.secrets.get(key),
                    ..PROCESS
                };
                written.meaning(&surroundings).with_context(invalid)?
            }
        };
        let mut picked = self.pick(configured)?;
        for provider in &mut picked {
            // Included in comparisons: a rotated file counts as a change.
            provider.ambient = builtin_grants::ambient(provider, &PROCESS);
            if provider.grants.is_none() && provider.proxy == ProxyChoice::Unset {
                provider.proxy = self.proxy(&PROCESS).map_err(anyhow::Error::msg)?;
            }
        }
        config::together(&picked)?;
        Ok(picked)
    }

    /// The proxy of a provider with built-in grants for which no file names one.
    fn proxy(&self, surroundings: &Surroundings<'_>) -> Result<ProxyChoice, String> {
        match self.cloud_proxy {
            CloudProxy::Direct => Ok(ProxyChoice::Unset),
            CloudProxy::Environment => ProxyChoice::environment(surroundings),
        }
    }

    /// The provider selected by the flags: from the file, embedded, or described by the flags alone. Without a name,
    /// all providers of the file.
    fn pick(&self, mut configured: Vec<ProviderConfig>) -> anyhow::Result<Vec<ProviderConfig>> {
        let module = self.module.as_deref().map(location).transpose()?;
        let Some(name) = &self.name else {
            if module.is_some() {
                bail!("--provider-module needs --cloud-provider, which says whose module it is");
            }
            if configured.is_empty() {
                bail!("the configuration lists no provider");
            }
            return Ok(configured);
        };
        let position = configured
            .iter()
            .position(|provider| provider.name == *name);
        let mut found = match position {
            Some(position) => configured.swap_remove(position),
            None if module.is_some() || builtin_grants::module(name).is_some() => {
                ProviderConfig::unwritten(name)
            }
            None => {
                let known = configured
                    .iter()
                    .map(|provider| provider.name.as_str())
                    .chain(builtin_grants::names());
                bail!(
                    "unknown cloud provider {name:?}: known are {}",
                    known.collect::<Vec<_>>().join(", ")
                );
            }
        };
        if let Some(module) = module {
            if module.needs_trust() && found.source != module {
                return Err(Mistakes(vec![format!(
                    "--provider-module {module}: modules from there need a `trust` section, so they stand in the file of --config"
                )])
                .into());
            }
            found.source = module;
        }
        if position.is_none()
            && let Location::Embedded(guest) = &found.source
        {
            found.load_balancers.adoption = builtin_grants::adoption(guest);
        }
        Ok(vec![found])
    }
}

/// Parses a location or a plain path.
pub(crate) fn location(text: &str) -> anyhow::Result<Location> {
    let absolute;
    let text = if text.contains(':') {
        text
    } else {
        let path = std::path::absolute(text).with_context(|| format!("the path {text:?}"))?;
        absolute = format!("file://{}", path.display());
        &absolute
    };
    Location::parse(text).with_context(|| format!("module {text:?}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use ccm_core::settings::Adoption;

    use super::*;

    #[test]
    fn only_the_shipped_module_without_a_file_adopts_what_nobody_owns() {
        let written = || vec![ProviderConfig::unwritten("hcloud")];
        let table = [
            (Vec::new(), None, Adoption::Unowned),
            (Vec::new(), Some("embedded:hcloud"), Adoption::Unowned),
            (Vec::new(), Some("file:///hcloud.wasm"), Adoption::Never),
            (written(), None, Adoption::Never),
            (written(), Some("embedded:hcloud"), Adoption::Never),
        ];
        for (configured, module, expected) in table {
            let configuration = Configuration {
                file: None,
                name: Some("hcloud".to_owned()),
                module: module.map(str::to_owned),
                cloud_proxy: CloudProxy::Direct,
                secrets: Secrets::of(None),
            };
            let picked = configuration.pick(configured).unwrap();
            let adoption = picked[0].load_balancers.adoption;
            assert_eq!(adoption, expected, "{module:?}");
        }
    }
}
