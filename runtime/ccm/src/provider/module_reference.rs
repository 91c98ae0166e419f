//! Module references on the command line, and fetching their bytes. Verifies nothing: callers do.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ccm_delivery::artifact::{Artifact, MODULE_BYTES};
use ccm_delivery::source::configmap::ConfigMapSource;
use ccm_delivery::source::embedded::EmbeddedSource;
use ccm_delivery::source::file::FileSource;
use ccm_delivery::source::{FilePlace, Location, Source, unpack};

use super::arguments::RegistryArguments;
use super::terminal::Screen;
use super::{cluster, registry};
use crate::builtin_grants;
use crate::config::ProviderConfig;

/// The location of a module as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModuleReference {
    typed: String,
    /// `None`: standard input.
    location: Option<Location>,
    /// Name of the configuration entry, which selects a file in a folder.
    entry: String,
}

impl ModuleReference {
    /// Parses `-`, one of the forms of a configuration's `source`, or a path.
    ///
    /// # Errors
    /// It resembles one of those forms but is invalid.
    pub(crate) fn parse(text: &str) -> Result<ModuleReference, String> {
        let location = if text == "-" {
            None
        } else if text.starts_with("embedded:") || text.contains("://") {
            Some(Location::parse(text).map_err(|error| error.to_string())?)
        } else if text.is_empty() {
            return Err("a path cannot be empty".to_owned());
        } else {
            Some(Location::File(FilePlace {
                path: PathBuf::from(text),
                is_folder: text.ends_with('/'),
            }))
        };
        Ok(ModuleReference {
            typed: text.to_owned(),
            location,
            entry: String::new(),
        })
    }

    /// The source of a configured provider.
    pub(super) fn configured(provider: &ProviderConfig) -> ModuleReference {
        ModuleReference {
            typed: provider.source.to_string(),
            location: Some(provider.source.clone()),
            entry: provider.name.clone(),
        }
    }

    /// The location, unless it is standard input.
    pub(super) fn location(&self) -> Option<&Location> {
        self.location.as_ref()
    }

    /// The reference that is meant by a path where there is no file: of a shipped provider or of a registry, without the
    /// scheme.
    fn meant(&self) -> Option<String> {
        let (typed, path) = (&self.typed, Path::new(&self.typed));
        if path.exists() || typed.contains("://") {
            return None;
        }
        if builtin_grants::module(typed).is_some() {
            return Some(format!("embedded:{typed}"));
        }
        // A registry has a port, or a name with dots, but is neither this folder nor the one above it.
        let (registry, _) = typed.split_once('/')?;
        let is_registry = registry.contains(['.', ':']) && !registry.starts_with('.');
        let reference = format!("oci://{typed}");
        (is_registry && Location::parse(&reference).is_ok()).then_some(reference)
    }

    /// Fetches the module.
    ///
    /// # Errors
    /// It cannot be fetched, or the content cannot be a module.
    pub(super) async fn bring(
        &self,
        access: &RegistryArguments,
        screen: Screen,
    ) -> anyhow::Result<Artifact> {
        match &self.location {
            None => from_standard_input(),
            Some(Location::Embedded(name)) => {
                let wasm = builtin_grants::module(name)
                    .with_context(|| builtin_grants::not_embedded(name))?;
                next(EmbeddedSource::new(self.typed.clone(), wasm)).await
            }
            Some(Location::File(place)) => {
                let source = FileSource::new(self.typed.clone(), place.clone(), self.entry.clone());
                let found = source.now().await;
                match self.meant().filter(|_| found.is_err()) {
                    Some(meant) => Ok(found.with_context(|| {
                        format!("{} does not exist as a file: is {meant} meant?", self.typed)
                    })?),
                    None => Ok(found?),
                }
            }
            Some(Location::ConfigMap(key)) => {
                let (client, unreadable) = cluster::client(&access.cluster).await?;
                let source = ConfigMapSource::new(self.typed.clone(), client, key.clone());
                next(source).await.context(unreadable)
            }
            Some(Location::Oci(at)) => registry::pull(at, access, screen).await,
        }
    }
}

impl fmt::Display for ModuleReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.location {
            None => f.write_str("standard input"),
            Some(_) => f.write_str(&self.typed),
        }
    }
}

async fn next(mut source: impl Source) -> anyhow::Result<Artifact> {
    Ok(source.next().await?)
}

fn from_standard_input() -> anyhow::Result<Artifact> {
    let place = "standard input";
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(MODULE_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .context("cannot read standard input")?;
    Ok(unpack::artifact(place, bytes, Vec::new())?)
}

#[cfg(test)]
mod tests {
    use super::ModuleReference;

    #[test]
    fn a_path_is_a_place_and_what_looks_like_another_form_has_to_be_one() {
        for (text, shown) in [
            ("provider.wasm", Some("provider.wasm")),
            ("./a folder/", Some("./a folder/")),
            ("/x:y.wasm", Some("/x:y.wasm")),
            ("-", Some("standard input")),
            ("embedded:hcloud", Some("embedded:hcloud")),
            ("file:///x.wasm", Some("file:///x.wasm")),
            ("oci://localhost:5000/a:1", Some("oci://localhost:5000/a:1")),
            ("configmap://ns/name/key", Some("configmap://ns/name/key")),
            ("", None),
            ("file://x.wasm", None),
            ("oci://", None),
            ("https://example.com/x.wasm", None),
            ("embedded:", None),
        ] {
            let place = ModuleReference::parse(text)
                .ok()
                .map(|place| place.to_string());
            assert_eq!(place.as_deref(), shown, "{text:?}");
        }
    }
}
