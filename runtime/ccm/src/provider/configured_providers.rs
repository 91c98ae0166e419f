//! Reads a configuration as `run` would, for commands without access to a cluster.

use std::path::Path;

use anyhow::{Context as _, bail};

use crate::builtin_grants::{self, CloudConfig};
use crate::config::{self, Absent, ConfigContext, Mistakes, PLACEHOLDER, ProviderConfig};
use crate::provider_loading::{PROCESS, read_text, standard_input};

/// The inputs of a configuration that have to exist on this machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Inputs {
    /// None: `ccm` will run on another machine. Missing ones are listed.
    Elsewhere,
    /// Files and variables. Credentials in cluster Secrets are assumed to exist.
    Here,
    /// All. Cluster Secrets, which are not read, count as missing.
    Used,
}

/// A configuration that was read.
pub(super) struct Read {
    /// The configuration, or its mistakes.
    pub(super) providers: Result<Vec<ProviderConfig>, Mistakes>,
    /// Inputs that it names and this machine does not have, where that is no mistake.
    pub(super) absent: Vec<String>,
    /// Lines without effect, each with its reason.
    pub(super) ignored: Vec<String>,
}

impl Read {
    fn new(providers: Result<Vec<ProviderConfig>, Mistakes>) -> Read {
        Read {
            providers,
            absent: Vec::new(),
            ignored: Vec::new(),
        }
    }
}

/// Reads a configuration, also from standard input. `name` is `--cloud-provider`, which selects its entry alone.
///
/// # Errors
/// It cannot be read.
pub(super) fn read(path: &Path, name: Option<&str>, inputs: Inputs) -> anyhow::Result<Read> {
    let text = text(path)?;
    // With the name of its provider, an empty file is the Go provider's, which `run` takes with --cloud-config.
    match builtin_grants::cloud_config(name, &text, true) {
        Ok(None) => {}
        Err(mistakes) => return Ok(Read::new(Err(mistakes))),
        Ok(Some(CloudConfig { provider, ignored })) => {
            return Ok(Read {
                ignored,
                ..Read::new(Ok(vec![provider]))
            });
        }
    }
    let absent = Absent::new(Path::exists);
    let context = ConfigContext {
        secret: &|_| match inputs {
            Inputs::Elsewhere | Inputs::Here => Ok(PLACEHOLDER.to_owned()),
            Inputs::Used => Err("Secrets of a cluster are not read here".to_owned()),
        },
        absent: Some(&absent).filter(|_| inputs == Inputs::Elsewhere),
        ..PROCESS
    };
    let providers = config::parse(&text, &context);
    let providers = providers.and_then(|mut listed| {
        let Some(name) = name else {
            return Ok(listed);
        };
        match listed.iter().position(|one| one.name == name) {
            Some(position) => Ok(vec![listed.swap_remove(position)]),
            None => Err(Mistakes(vec![config::unlisted(name, &listed)])),
        }
    });
    Ok(Read {
        absent: absent.noted(),
        ..Read::new(providers)
    })
}

/// As [`read`], for callers that need a valid configuration.
///
/// # Errors
/// It cannot be read, or has mistakes.
pub(super) fn read_valid(path: &Path, inputs: Inputs) -> anyhow::Result<Vec<ProviderConfig>> {
    let read = read(path, None, inputs)?;
    read.providers
        .with_context(|| format!("{} is not a valid configuration", path.display()))
}

/// Selects one entry: by its name, the only one, or the one named like the module.
///
/// # Errors
/// There is none, or several match.
pub(super) fn entry(
    mut configured: Vec<ProviderConfig>,
    path: &Path,
    name: Option<&str>,
    module: Option<&str>,
) -> anyhow::Result<ProviderConfig> {
    if configured.is_empty() {
        bail!("{}: providers: there is none in the list", path.display());
    }
    let known: Vec<_> = configured.iter().map(|entry| entry.name.clone()).collect();
    let known = known.join(", ");
    let wanted = match (name, configured.as_slice()) {
        (None, [only]) => return Ok(only.clone()),
        (name, _) => name.or(module),
    };
    let Some(wanted) = wanted else {
        bail!(
            "{} has several providers, of which --provider says one: {known}",
            path.display()
        );
    };
    let position = configured.iter().position(|entry| entry.name == wanted);
    match position {
        Some(position) => Ok(configured.swap_remove(position)),
        None => bail!(
            "{} has no provider {wanted:?}: it has {known}",
            path.display()
        ),
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    match path.as_os_str() == "-" {
        true => standard_input(),
        false => read_text(path),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_file_without_the_provider_that_the_flag_names_is_a_mistake_as_for_run() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("ccm.yaml");
        let text = "apiVersion: wasm-ccm.dev/v1alpha1\nkind: ProviderConfiguration\nproviders: [{ name: aws }]\n";
        std::fs::write(&file, text).unwrap();
        for (name, is_valid) in [(None, true), (Some("aws"), true), (Some("hcloud"), false)] {
            let read = read(&file, name, Inputs::Elsewhere).unwrap();
            match read.providers {
                Ok(listed) => assert!(is_valid && listed.len() == 1, "{name:?}"),
                Err(Mistakes(mistakes)) => {
                    assert!(!is_valid, "{name:?}");
                    assert!(mistakes[0].ends_with("it has aws"), "{mistakes:?}");
                }
            }
        }
    }
}
