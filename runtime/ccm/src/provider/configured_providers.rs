//! A configuration as `run` would read it, for commands that ask no cluster.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;

use crate::config::{self, Mistakes, ProviderConfig, Surroundings};
use crate::provider_loading::PROCESS;

/// Larger ones are refused, as by `run`.
const MOST_BYTES: u64 = 1 << 20;

/// What is said of credentials that are in Secrets of the cluster, which is not asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrets {
    /// They are there, whatever they are.
    Assumed,
    /// They are needed, and missing.
    Missed,
}

/// Reads a configuration, also from standard input; with all of its mistakes, if there are any.
///
/// # Errors
/// It cannot be read.
pub(super) fn read(
    path: &Path,
    secrets: Secrets,
) -> anyhow::Result<Result<Vec<ProviderConfig>, Mistakes>> {
    let text = text(path)?;
    let surroundings = Surroundings {
        variable: PROCESS.variable,
        file: PROCESS.file,
        secret: &|_| match secrets {
            // A token as good as any, and a docker configuration without log-ins: a Secret may be either.
            Secrets::Assumed => Ok(r#"{"auths":{}}"#.to_owned()),
            Secrets::Missed => Err("Secrets of a cluster are not read here".to_owned()),
        },
    };
    Ok(config::parse(&text, &surroundings))
}

/// The same, for those who need a valid one.
///
/// # Errors
/// It cannot be read, or has mistakes.
pub(super) fn read_valid(path: &Path, secrets: Secrets) -> anyhow::Result<Vec<ProviderConfig>> {
    read(path, secrets)?.with_context(|| format!("{} is not a valid configuration", path.display()))
}

fn text(path: &Path) -> anyhow::Result<String> {
    if path.as_os_str() != "-" {
        return (PROCESS.file)(path)
            .map_err(anyhow::Error::msg)
            .with_context(|| format!("cannot read {}", path.display()));
    }
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .take(MOST_BYTES)
        .read_to_string(&mut text)
        .context("cannot read standard input")?;
    Ok(text)
}
