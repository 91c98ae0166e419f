//! The program under test: `ccm run`, or the vendor's Go manager, as its own process at its own defaults.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use ccm_tests::process::Process;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::cloud::{Cloud, TOKEN};
use crate::cluster::{Cluster, repository};
use crate::figure::Subject;
use crate::options::Options;
use crate::usage::{self, Usage};

/// The location of load balancers.
const PLACE: (&str, &str) = ("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1");
/// The flags that make the vendor's manager as fast as its API server.
const TUNED: [&str; 4] = [
    "--kube-api-qps=2000",
    "--kube-api-burst=4000",
    "--concurrent-node-syncs=16",
    "--concurrent-service-syncs=16",
];

/// SIGTERM's number.
const SIGTERM: i32 = 15;
/// Timeout of its end after SIGTERM.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The program and the options of its start.
#[derive(Clone, Copy)]
pub(crate) struct Launch<'a> {
    pub(crate) subject: Subject,
    /// The folder of compiled modules, for ccm alone.
    pub(crate) cache: &'a Path,
    pub(crate) flags: &'a [&'a str],
    /// Whether it runs with leader election. Its renewals would count among the writes of an idle minute.
    pub(crate) is_elected: bool,
}

pub(crate) struct Manager {
    process: Process,
    subject: Subject,
    /// The time just before its start, on the clock of this process and on the wall clock.
    pub(crate) began: Instant,
    pub(crate) began_at: Timestamp,
}

impl Manager {
    pub(crate) fn start(
        options: &Options,
        launch: &Launch<'_>,
        cluster: &Cluster,
        cloud: &Cloud,
        run: &str,
    ) -> Result<Self> {
        let mut command = match (launch.subject, &options.peer) {
            (Subject::Ccm, _) => ours(options, launch, cluster, cloud)?,
            (Subject::PeerDefaults, Some(path)) => peer(path, &[], cluster, cloud),
            (Subject::PeerTuned, Some(path)) => peer(path, &TUNED, cluster, cloud),
            (subject, _) => bail!("{} is no program", subject.name()),
        };
        if launch.subject.is_peer() {
            command.args(&options.peer_flag);
        }
        let elected = format!("--leader-elect={}", launch.is_elected);
        command.arg(elected).args(launch.flags);
        let log = log_file(options, cluster, run)?;
        let (began_at, began) = (Timestamp::now(), Instant::now());
        Ok(Self {
            process: Process::spawn(command, &log)?,
            subject: launch.subject,
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

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        self.process.output()
    }

    /// The end of the log.
    pub(crate) fn tail(&self) -> String {
        self.process.tail()
    }

    /// Kills it, as a crash does. Returns when it is gone.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Asks it to stop, and fails unless it ends in order. The vendor's manager does not handle the signal: the kernel
    /// ends it.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.process.terminate()?;
        let status = self.process.ended(TIMEOUT).await?;
        let is_left_to_the_kernel = self.subject.is_peer() && status.signal() == Some(SIGTERM);
        ensure!(
            status.success() || is_left_to_the_kernel,
            "ended with {status}:\n{}",
            self.process.tail()
        );
        Ok(())
    }
}

fn ours(
    options: &Options,
    launch: &Launch<'_>,
    cluster: &Cluster,
    cloud: &Cloud,
) -> Result<Command> {
    let config = cluster.folder.path().join("ccm.json");
    std::fs::write(&config, configuration(&cloud.endpoint)?.to_string())?;
    let mut command = Command::new(&options.ccm);
    command
        .args(["run", "--cloud-provider=hcloud", "--secure-port=0"])
        // The default is one change a second and 20 deletions of load balancers in ten minutes, for real accounts. The
        // peer has no such limits, and the simulated cloud has its own where they are part of the workload (W6).
        .arg("--brake=cloud-mutations=100000:0:100000")
        .arg("--brake=load-balancer-deletion=100000:0:100000")
        .arg(format!("--kubeconfig={}", cluster.kubeconfig.display()))
        .arg(format!("--config={}", config.display()))
        .arg(format!("--compiled-cache-dir={}", launch.cache.display()))
        .args(&options.ccm_flag)
        .env_clear()
        .env("CLOUD_TOKEN", TOKEN);
    Ok(command)
}

fn peer(path: &Path, flags: &[&str], cluster: &Cluster, cloud: &Cloud) -> Command {
    let mut command = Command::new(path);
    command
        .args([
            "--cloud-provider=hcloud",
            "--route-reconciliation-period=30s",
            "--configure-cloud-routes=false",
            "--allow-untagged-cloud",
            "--webhook-secure-port=0",
        ])
        .arg(format!(
            "--kubeconfig={}",
            cluster.peer_kubeconfig.display()
        ))
        .args(flags)
        .env_clear()
        .env("HCLOUD_ENDPOINT", &cloud.endpoint)
        .env("HCLOUD_TOKEN", TOKEN)
        .env(PLACE.0, PLACE.1);
    command
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
        "providers": [{
            "name": "hcloud",
            "config": {PLACE.0: PLACE.1},
            "grants": {"targets": [target]},
        }],
    }))
}
