//! The program under test: `ccm run`, or the vendor's Go manager, as its own process at its own defaults.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use ccm_tests::process::Process;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::cloud::{Cloud, TOKEN};
use crate::cluster::{Cluster, repository};
use crate::options::Options;
use crate::usage::{self, Usage};

/// How long it may take to end when asked to.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which program.
#[derive(Clone, Copy)]
pub(crate) enum Program<'a> {
    /// Ours, with this folder of compiled modules and further flags.
    Ccm {
        cache: &'a Path,
        flags: &'a [&'a str],
    },
    /// The vendor's, with further flags.
    Peer {
        path: &'a Path,
        flags: &'a [&'a str],
    },
}

pub(crate) struct Manager {
    process: Process,
    /// Just before it was started, on the clock of this process and on the wall's.
    pub(crate) began: Instant,
    pub(crate) began_at: Timestamp,
}

impl Manager {
    pub(crate) fn start(
        options: &Options,
        program: Program<'_>,
        cluster: &Cluster,
        cloud: &Cloud,
        run: &str,
    ) -> Result<Self> {
        let command = match program {
            Program::Ccm { cache, flags } => {
                let config = cluster.folder.path().join("ccm.json");
                std::fs::write(&config, configuration(&cloud.endpoint)?.to_string())?;
                let mut command = Command::new(&options.ccm);
                command
                    // Renewals of a Lease would count among the writes of an idle minute; who leads is measured elsewhere.
                    .args([
                        "run",
                        "--cloud-provider=hcloud",
                        "--leader-elect=false",
                        "--secure-port=0",
                    ])
                    .arg(format!("--kubeconfig={}", cluster.kubeconfig.display()))
                    .arg(format!("--config={}", config.display()))
                    .arg(format!("--compiled-cache-dir={}", cache.display()))
                    .args(flags)
                    .args(&options.ccm_flag)
                    .env_clear()
                    .env("CLOUD_TOKEN", TOKEN);
                command
            }
            Program::Peer { path, flags } => {
                let mut command = Command::new(path);
                command
                    .args([
                        "--cloud-provider=hcloud",
                        "--leader-elect=false",
                        "--route-reconciliation-period=30s",
                    ])
                    .args([
                        "--configure-cloud-routes=false",
                        "--allow-untagged-cloud",
                        "--webhook-secure-port=0",
                    ])
                    .arg(format!(
                        "--kubeconfig={}",
                        cluster.admin_kubeconfig.display()
                    ))
                    .args(flags)
                    .env_clear()
                    .env("HCLOUD_ENDPOINT", &cloud.endpoint)
                    .env("HCLOUD_TOKEN", TOKEN);
                command
            }
        };
        let log = log_file(options, cluster, run)?;
        let (began_at, began) = (Timestamp::now(), Instant::now());
        Ok(Self {
            process: Process::spawn(command, &log)?,
            began,
            began_at,
        })
    }

    pub(crate) fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        usage::of(self.process.id())
    }

    /// Everything that it logged.
    pub(crate) fn log(&self) -> String {
        self.process.output()
    }

    /// Asks it to stop, and fails unless it does so in order.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.process.terminate()?;
        let status = self.process.ended(PATIENCE).await?;
        ensure!(
            status.success(),
            "ended with {status}:\n{}",
            self.process.tail()
        );
        Ok(())
    }
}

fn log_file(options: &Options, cluster: &Cluster, run: &str) -> Result<PathBuf> {
    let folder = match &options.logs {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
            folder
        }
        None => cluster.folder.path(),
    };
    let path = folder.join(format!("{run}.log"));
    // Logs are appended to, and one of an earlier benchmark would be read as part of this one.
    if path.exists() {
        std::fs::remove_file(&path)?;
    }
    Ok(path)
}

/// The shipped guest with what it requests, granted for the simulated cloud.
fn configuration(endpoint: &str) -> Result<Value> {
    let manifest = std::fs::read(repository().join("guests/hcloud/manifest.json"))?;
    let manifest: Value = serde_json::from_slice(&manifest)?;
    let target = json!({
        "name": "api",
        "endpoint": endpoint,
        "addresses": ["127.0.0.1"],
        "credential": {"bearer": {"env": "CLOUD_TOKEN"}},
        "rules": manifest["targets"][0]["rules"],
    });
    Ok(json!({
        "apiVersion": "wasm-ccm.dev/v1alpha1",
        "kind": "ProviderConfiguration",
        "providers": [{"name": "hcloud", "grants": {"targets": [target]}}],
    }))
}
