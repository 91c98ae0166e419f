//! Reads a configuration as `run` would, for commands without access to a cluster.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;

use crate::config::{self, Mistakes, ProviderConfig, Surroundings};
use crate::provider_loading::PROCESS;

/// Size limit in bytes, as in `run`.
const MOST_BYTES: u64 = 1 << 20;

/// How to treat credentials in cluster Secrets, which are not read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrets {
    /// Assumed to exist.
    Assumed,
    /// Required, and reported as missing.
    Missed,
}

/// Reads a configuration, also from standard input, and returns it or its mistakes.
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
            // Valid both as a token and as a docker configuration without logins: a Secret may be either.
            Secrets::Assumed => Ok(r#"{"auths":{}}"#.to_owned()),
            Secrets::Missed => Err("Secrets of a cluster are not read here".to_owned()),
        },
    };
    Ok(config::parse(&text, &surroundings))
}

/// As [`read`], for callers that need a valid configuration.
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
