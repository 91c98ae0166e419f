//! What kube-apiserver writes into an empty etcd at its first start: namespaces, priority levels, the roles of RBAC.
//!
//! It is written once for each build of the servers, and each server starts with a copy: that takes a third less
//! processor time. Nothing in it belongs to one server.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::assets::Assets;
use super::{ApiServer, StartOptions, TIMEOUT, etcd_data};
use crate::built;

/// The size of the steps in which etcd writes its log, in bytes.
const LOG_PAGE: usize = 4096;

/// etcd's folder after the first start of these servers; `None` if somebody else has built them. Its first use on a
/// machine starts them, which takes seconds.
///
/// # Errors
/// The servers do not start, or the folder cannot be written.
pub(super) async fn data(assets: &Assets) -> Result<Option<PathBuf>> {
    let Assets::Built { sources, files, .. } = assets else {
        return Ok(None);
    };
    let (sources, mut files) = (sources.clone(), files.to_vec());
    files.push("../../src/apiserver/bootstrapped.rs".to_owned());
    let programs = assets.folder().to_owned();
    let runtime = tokio::runtime::Handle::current();
    let find = move || {
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        built::folder("etcd-data", &sources, &files, |folder| {
            runtime.block_on(write(&programs, folder))
        })
    };
    let folder = tokio::task::spawn_blocking(find).await;
    folder
        .context("the first start of the servers panicked")?
        .map(Some)
}

async fn write(programs: &Path, folder: &Path) -> Result<()> {
    let options = StartOptions::default();
    let mut servers = ApiServer::start_on(programs, None, &options).await?;
    // It deletes its own Lease as it ends. With these options it writes nothing else that is its own.
    servers.server.terminate()?;
    servers.server.ended(TIMEOUT).await?;
    servers.etcd.terminate()?;
    servers.etcd.ended(TIMEOUT).await?;
    copy(&etcd_data(servers.folder.path()), folder)
}

/// Copies etcd's folder. No etcd may have it open.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    // etcd complains about a folder that others may read.
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(to)
        .with_context(|| format!("cannot make {}", to.display()))?;
    let entries = fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    for entry in entries {
        let from = entry?.path();
        let to = to.join(from.file_name().unwrap_or_default());
        match from.extension().and_then(OsStr::to_str) {
            _ if from.is_dir() => copy(&from, &to)?,
            // The next part of the log, empty and 64 MB large.
            Some("tmp") => {}
            Some("wal") => {
                let mut log = fs::read(&from)?;
                let end = log
                    .iter()
                    .rposition(|byte| *byte != 0)
                    .map_or(0, |at| at + 1);
                // Allocated in advance, so zeros from there on.
                log.truncate(end.next_multiple_of(LOG_PAGE));
                fs::write(&to, log)?;
            }
            _ => drop(fs::copy(&from, &to)?),
        }
    }
    Ok(())
}
