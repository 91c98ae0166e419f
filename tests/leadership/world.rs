//! The set-up of the processes: an API server, a cloud, and for each process its own connection to either, so that each
//! can be isolated alone and each request has a known sender. Judges nothing.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use ccm_fixtures::TOKEN;
use ccm_sim::hetzner::{Hetzner, Options};
use ccm_tests::apiserver::{ApiServer, StartOptions};
use ccm_tests::compiled_modules::CompiledModules;
use ccm_tests::link::Link;
use ccm_tests::process::Process;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::deploy::deploy;
use crate::oracle::{Judgement, Timings, What, judge};
use crate::recorder::{Recorder, address};
use crate::stall::Stalls;
use crate::work::Work;

/// Timeout for expected events. Only a failing test waits that long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(240);

/// The Lease of the manager.
pub(crate) const LEASE: &str = "cloud-controller-manager";

/// Only the requests of the processes are recorded, and all writes to Leases.
const AUDIT_POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1",
  "kind": "Policy",
  "rules": [
    {"level": "Metadata", "users": ["system:serviceaccount:kube-system:ccm"], "verbs": ["watch"],
     "omitStages": ["RequestReceived", "ResponseComplete"]},
    {"level": "Metadata", "users": ["system:serviceaccount:kube-system:ccm"], "verbs": ["get", "list"],
     "omitStages": ["RequestReceived", "ResponseStarted"]},
    {"level": "Request", "users": ["system:serviceaccount:kube-system:ccm"],
     "omitStages": ["RequestReceived", "ResponseStarted"]},
    {"level": "Request", "users": ["admin"], "verbs": ["create", "update", "patch"],
     "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
     "omitStages": ["RequestReceived", "ResponseStarted"]},
    {"level": "None"}
  ]
}"#;

/// The work of the processes, apart from new nodes.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Load {
    /// No further work.
    None,
    /// The cloud is asked all the time, also during an outage of the API server, and answers slowly: at any time a
    /// request is on the wire.
    Steady,
}

/// One process of `ccm` that runs, or whose end was not noticed yet.
pub(crate) struct Replica {
    pub(crate) number: u32,
    pub(crate) process: Process,
    /// Its connection to the API server.
    pub(crate) api: Link,
    /// Its connection to the cloud.
    pub(crate) cloud: Link,
    /// The file that moves its wall clock, if it was started with one.
    pub(crate) clock: Option<PathBuf>,
}

/// A cluster, a cloud, and the processes between them.
pub(crate) struct World {
    pub(crate) replicas: Vec<Replica>,
    pub(crate) recorder: Recorder,
    pub(crate) timings: Timings,
    pub(crate) work: Work,
    pub(crate) cloud: Hetzner,
    pub(crate) client: Client,
    pub(crate) api: ApiServer,
    pub(crate) folder: TempDir,
    started: u32,
    began: (Instant, Timestamp),
    pub(crate) stalls: Stalls,
    token: String,
    flags: Vec<String>,
}

impl World {
    pub(crate) async fn start(timings: Timings, load: Load) -> Self {
        let folder = TempDir::new().unwrap();
        let modules = CompiledModules {
            kept: env!("CARGO_TARGET_TMPDIR"),
            program: env!("CARGO_BIN_EXE_ccm"),
        };
        let shipped = embedded_guests::HCLOUD.to_vec();
        modules.add(shipped).await.unwrap();
        modules.fill(&folder.path().join("compiled")).unwrap();
        let policy = folder.path().join("audit-policy.json");
        fs::write(&policy, AUDIT_POLICY).unwrap();
        let api = ApiServer::start_with(StartOptions {
            audit: true,
            flags: vec![
                format!("--audit-policy-file={}", policy.display()),
                // One log file, however large.
                "--audit-log-maxsize=100000".to_owned(),
            ],
            ..StartOptions::default()
        })
        .await
        .unwrap();
        let client = api.client_for("admin").await.unwrap();
        let token = deploy(&client).await;
        let cloud = Hetzner::start(Options {
            rate_limit: None,
            latency: match load {
                Load::None => Duration::ZERO,
                Load::Steady => Duration::from_millis(100),
            },
            ..Options::new(TOKEN)
        })
        .await
        .unwrap();
        let flag = |name: &str, time: Duration| format!("--{name}={}ms", time.as_millis());
        let mut flags = vec![
            flag("leader-elect-lease-duration", timings.lease),
            flag("leader-elect-renew-deadline", timings.renew),
            flag("leader-elect-retry-period", timings.retry),
        ];
        if load == Load::Steady {
            flags.push("--node-status-update-frequency=300ms".to_owned());
        }
        Self {
            replicas: Vec::new(),
            recorder: Recorder::default(),
            timings,
            work: Work::new(&client, &cloud),
            cloud,
            client,
            api,
            folder,
            started: 0,
            stalls: Stalls::watch(),
            began: (Instant::now(), Timestamp::now()),
            token,
            flags,
        }
    }

    /// From now on processes are started with these flags, which replace others of the same names.
    pub(crate) fn set_flags(&mut self, flags: &[&str]) {
        let name = |flag: &str| flag.split('=').next().map(str::to_owned);
        for flag in flags {
            self.flags.retain(|old| name(old) != name(flag));
            self.flags.push((*flag).to_owned());
        }
    }

    /// Starts one more process, and returns its number.
    pub(crate) fn start_replica(&mut self) -> u32 {
        self.start_with(&[], None)
    }

    /// Starts one more process with variables of its own.
    pub(crate) fn start_with(
        &mut self,
        variables: &[(String, String)],
        clock: Option<PathBuf>,
    ) -> u32 {
        self.started += 1;
        let number = self.started;
        let server: SocketAddr = self.api.url().replace("https://", "").parse().unwrap();
        let api = Link::between(address(number), server).unwrap();
        let cloud = Link::between(address(number), self.cloud.address()).unwrap();
        let configuration = self.file(number, "ccm.json", &self.configuration(&cloud));
        let kubeconfig = self.file(number, "kubeconfig.json", &self.kubeconfig(number, &api));
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccm"));
        command
            .args(["run", "--cloud-provider=hcloud", "--secure-port=0", "-v=4"])
            .arg(format!("--config={}", configuration.display()))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!(
                "--compiled-cache-dir={}",
                self.folder.path().join("compiled").display()
            ))
            .args(&self.flags)
            .env_clear()
            .env("CLOUD_TOKEN", TOKEN)
            .envs(variables.iter().cloned());
        let process = Process::spawn(command, &self.path(number, "ccm.log")).unwrap();
        self.replicas.push(Replica {
            number,
            process,
            api,
            cloud,
            clock,
        });
        number
    }

    fn configuration(&self, link: &Link) -> Value {
        let manifest = root().join("guests/hcloud/manifest.json");
        let manifest: Value = serde_json::from_slice(&fs::read(manifest).unwrap()).unwrap();
        let port = |address: SocketAddr| format!(":{}/", address.port());
        let (there, here) = (port(self.cloud.address()), port(link.address()));
        json!({
            "apiVersion": "wasm-ccm.dev/v1alpha1",
            "kind": "ProviderConfiguration",
            "providers": [{
                "name": "hcloud",
                // Each look-up of the machines is a request.
                "config": {"HCLOUD_SERVER_CACHE_MAX_AGE": "0"},
                "grants": {"targets": [{
                    "name": "api",
                    "endpoint": self.cloud.endpoint().replace(&there, &here),
                    "addresses": ["127.0.0.1", "::1"],
                    "credential": {"bearer": {"env": "CLOUD_TOKEN"}},
                    "rules": manifest["targets"][0]["rules"],
                }]},
            }],
        })
    }

    fn kubeconfig(&self, number: u32, link: &Link) -> Value {
        let name = format!("replica-{number}");
        let path = self.api.kubeconfig_with_token(&name, &self.token).unwrap();
        let mut kubeconfig: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let server = format!("https://{}", link.address());
        kubeconfig["clusters"][0]["cluster"]["server"] = json!(server);
        kubeconfig
    }

    fn path(&self, number: u32, name: &str) -> PathBuf {
        self.folder.path().join(format!("{number}-{name}"))
    }

    fn file(&self, number: u32, name: &str, content: &Value) -> PathBuf {
        let path = self.path(number, name);
        fs::write(&path, content.to_string()).unwrap();
        path
    }

    /// The process with this number, which must not have been dropped.
    pub(crate) fn replica(&mut self, number: u32) -> &mut Replica {
        let mut replicas = self.replicas.iter_mut();
        let found = replicas.find(|replica| replica.number == number);
        found.expect("a process that is looked after")
    }

    /// The output of a process.
    pub(crate) fn log(&self, number: u32) -> String {
        let log = fs::read(self.path(number, "ccm.log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// The end of a process's log.
    pub(crate) fn tail(&self, number: u32) -> String {
        let log = self.log(number);
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Reads the records again and again until they have an answer; fails when they never do.
    pub(crate) async fn until<T>(
        &mut self,
        what: &str,
        mut ask: impl FnMut(&mut World) -> Option<T>,
    ) -> T {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            self.recorder.refresh(&self.api, &self.cloud);
            if let Some(answer) = ask(self) {
                return answer;
            }
            assert!(
                Instant::now() < deadline,
                "waited for {what}:\n{}\n{}",
                self.mentions(what),
                self.report()
            );
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a process has ended, and removes it. Returns when its end was noticed, at most 10 ms late.
    pub(crate) async fn ended(&mut self, number: u32) -> (Timestamp, ExitStatus) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.replica(number).process.status().unwrap() {
                let now = Timestamp::now();
                self.forget(number);
                return (now, status);
            }
            let is_late = Instant::now() > deadline;
            assert!(!is_late, "{number} does not end:\n{}", self.report());
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Drops a process: it is killed, and its links with it.
    pub(crate) fn forget(&mut self, number: u32) {
        self.replicas.retain(|replica| replica.number != number);
    }

    /// Fails when a process has ended unexpectedly.
    pub(crate) fn all_run(&mut self) {
        for replica in &mut self.replicas {
            replica.process.check().unwrap();
        }
    }

    /// Waits until one of the processes leads.
    pub(crate) async fn leader(&mut self) -> u32 {
        self.until("a leader", |world| {
            world.all_run();
            let (holder, _) = world.recorder.holder()?;
            let mut replicas = world.replicas.iter();
            replicas
                .any(|replica| replica.number == holder)
                .then_some(holder)
        })
        .await
    }

    /// Waits until a process has read the Lease twice, so that it waits for the end of the lease.
    pub(crate) async fn stands_by(&mut self, number: u32) {
        let what = format!("{number} to stand by");
        self.until(&what, |world| {
            world.all_run();
            (world.recorder.looks(number) >= 2).then_some(())
        })
        .await;
    }

    /// Waits until a process other than `last` has taken the Lease, and returns its number and the time.
    pub(crate) async fn successor(&mut self, last: u32) -> (u32, Timestamp) {
        self.until("a successor", |world| {
            let (holder, _) = world.recorder.holder()?;
            let taken = world.recorder.taken(holder)?;
            (holder > 0 && holder != last).then_some((holder, taken))
        })
        .await
    }

    /// Waits until a process should renew the Lease once more, and a moment longer.
    pub(crate) async fn next_renewal(&mut self, number: u32, moment: Duration) {
        let now = Timestamp::now();
        let renewed = self
            .until("a renewal", |world| {
                world.recorder.renewed(number).filter(|at| *at > now)
            })
            .await;
        let due = renewed + self.timings.retry + moment;
        sleep(due.duration_since(Timestamp::now()).unsigned_abs()).await;
    }

    /// Writes another holder into a Lease, and returns when that was sent.
    pub(crate) async fn steal(&self, lease: &str) -> Timestamp {
        self.hold_by_hand(lease, "somebody-else").await
    }

    /// Writes a holder into a Lease, or none if the name is empty, and returns when the write was sent: the answer may
    /// come after another process has read the result.
    ///
    /// It replaces what it has read: a renewal that is stored in between makes it read again. A patch would be stored
    /// upon a renewal that had arrived after it, and the records, which are in the order of arrival, would show a
    /// leader that takes its lease back.
    pub(crate) async fn hold_by_hand(&self, lease: &str, holder: &str) -> Timestamp {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-system");
        loop {
            let mut read = leases.get(lease).await.unwrap();
            let spec = read.spec.get_or_insert_default();
            spec.holder_identity = Some(holder.to_owned());
            spec.lease_duration_seconds = Some(self.timings.lease.as_secs().try_into().unwrap());
            let sent = Timestamp::now();
            spec.renew_time = Some(MicroTime(sent));
            match leases.replace(lease, &PostParams::default(), &read).await {
                Ok(_) => return sent,
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                Err(error) => panic!("{lease}: {error}"),
            }
        }
    }

    /// Judges the record so far; fails if the machine's clock was set meanwhile.
    pub(crate) fn judge(&mut self) -> Judgement {
        let (began, wall) = self.began;
        let elapsed = Timestamp::now().duration_since(wall).as_secs_f64();
        let drift = elapsed - began.elapsed().as_secs_f64();
        assert!(
            drift.abs() < 0.1,
            "the machine's clock was set by {drift} s"
        );
        self.recorder.refresh(&self.api, &self.cloud);
        judge(self.recorder.traffic(), self.timings)
    }

    /// The requests about the nodes that a text names.
    fn mentions(&self, text: &str) -> String {
        let names: Vec<_> = text
            .split(' ')
            .filter(|word| word.starts_with("node-"))
            .collect();
        let traffic = self.recorder.traffic().iter();
        let lines = traffic.filter_map(|record| match &record.what {
            What::Act(act) => {
                let mut words = act.split(['/', '?', ' ', '=']);
                let is_named = words.any(|word| names.contains(&word));
                is_named.then(|| format!("{} {:?} {act}\n", record.at, record.by))
            }
            _ => None,
        });
        lines.collect()
    }

    /// Information about a failure: the leaders, the last requests, and the ends of the logs.
    pub(crate) fn report(&self) -> String {
        self.report_until(Timestamp::now())
    }

    /// The same until an earlier time.
    pub(crate) fn report_until(&self, end: Timestamp) -> String {
        let mut report = String::new();
        let before = self.recorder.traffic().iter().filter(|one| one.at <= end);
        let (acts, election): (Vec<_>, Vec<_>) =
            before.partition(|record| matches!(record.what, What::Act(_)));
        for records in [election, acts] {
            for record in &records[records.len().saturating_sub(40)..] {
                let line = format!("{} {:?} {:?}\n", record.at, record.by, record.what);
                report.push_str(&line);
            }
        }
        let oldest = self.started.saturating_sub(3).max(1);
        for number in oldest..=self.started {
            report.push_str(&format!("--- {number}\n{}\n", self.tail(number)));
        }
        report
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
