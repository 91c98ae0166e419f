//! Runs a real kube-apiserver with its etcd on loopback for one test.
//!
//! Each [`ApiServer`] is a fresh, empty cluster without nodes, controllers or kubelets, and consists of two processes.
//! It never touches an existing cluster and never outlives the test: dropping it ends both processes. Its clients do
//! not retry by themselves, so a test sees each response once.

mod assets;
mod audit;
mod bootstrapped;
mod files;

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

pub use audit::{Arrival, AuditEntry};
use files::Files;

use crate::link::Link;
use crate::ports;
use crate::process::Process;

/// Start-up timeout. A start takes two seconds; only a heavily loaded machine needs more.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Options of an API server.
#[derive(Clone, Debug, Default)]
pub struct StartOptions {
    /// Users besides `admin` (group `system:masters`), each with its groups. Their permissions come from RBAC: none at
    /// first. `system:serviceaccount:NAMESPACE:NAME` stands for that service account.
    pub users: Vec<(String, Vec<String>)>,
    /// Whether requests are recorded for [`ApiServer::audit_log`].
    pub audit: bool,
    /// Whether the server reaches its etcd through a [`Link`], available as [`ApiServer::etcd_link`].
    pub etcd_link: bool,
    /// Whether pods need their ServiceAccount, and get its token mounted, as everywhere.
    pub pods_have_accounts: bool,
    /// Further flags of kube-apiserver; the last one of a name wins.
    pub flags: Vec<String>,
    /// Whether both servers collect garbage as often as in production, for benchmarks. Tests have a server each, and
    /// without it a start takes half the processor time and half as much memory again.
    pub default_gc: bool,
}

/// A running kube-apiserver with its etcd.
pub struct ApiServer {
    // Drop order: the API server, the link to its etcd, its etcd, their files.
    server: Process,
    etcd_link: Option<Link>,
    etcd: Process,
    files: Files,
    folder: TempDir,
    program: PathBuf,
    arguments: Vec<String>,
    default_gc: bool,
    port: u16,
}

impl ApiServer {
    /// Starts a server with the user `admin` and no audit log.
    ///
    /// # Errors
    /// As [`ApiServer::start_with`].
    pub async fn start() -> Result<Self> {
        Self::start_with(StartOptions::default()).await
    }

    /// Starts a server and waits until it is ready. The first start on a machine builds the two programs.
    ///
    /// # Errors
    /// The programs cannot be found or built, or one of them ended or did not respond in time; the error then holds
    /// the last lines of its log.
    pub async fn start_with(options: StartOptions) -> Result<Self> {
        let assets = tokio::task::spawn_blocking(assets::locate)
            .await
            .context("looking for the programs panicked")??;
        // The Service of the API server has an address of the range.
        let has_usual_range = !options
            .flags
            .iter()
            .any(|flag| flag.starts_with("--service-cluster-ip-range="));
        let data = if has_usual_range {
            bootstrapped::data(&assets).await?
        } else {
            None
        };
        Self::start_on(assets.folder(), data.as_deref(), &options).await
    }

    /// Starts the servers with a copy of `data`, or without any.
    async fn start_on(
        programs: &Path,
        data: Option<&Path>,
        options: &StartOptions,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("ccm-apiserver-")
            .tempdir()
            .context("cannot make a folder for the servers")?;
        let free = || ports::keep().context("cannot find a free port");
        let (etcd_port, port) = (free()?, free()?);
        let files = Files::write(folder.path(), port, options)?;
        if let Some(data) = data {
            bootstrapped::copy(data, &etcd_data(folder.path()))?;
        }

        let mut etcd = command(&programs.join("etcd"), options.default_gc);
        etcd.args(etcd_arguments(folder.path(), etcd_port));
        let mut etcd = Process::spawn(etcd, &folder.path().join("etcd.log"))?;
        wait_until_listening(&mut etcd, etcd_port).await?;

        let store = SocketAddr::from((Ipv4Addr::LOCALHOST, etcd_port));
        let etcd_link = options.etcd_link.then(|| Link::to(store)).transpose()?;
        let store = etcd_link.as_ref().map_or(store, Link::address);

        let program = programs.join("kube-apiserver");
        let mut arguments = files.arguments();
        arguments.extend([
            format!("--etcd-servers=http://{store}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            "--authorization-mode=RBAC".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/16".to_owned(),
            // Nothing in the cluster can reach this server's address.
            "--endpoint-reconciler-type=none".to_owned(),
        ]);
        if !options.pods_have_accounts {
            // No controller creates the service account that every pod would need.
            arguments.push("--disable-admission-plugins=ServiceAccount".to_owned());
        }
        arguments.extend(options.flags.iter().cloned());
        let server = spawn(&program, &arguments, options.default_gc, folder.path())?;

        let mut started = Self {
            server,
            etcd_link,
            etcd,
            files,
            folder,
            program,
            arguments,
            default_gc: options.default_gc,
            port,
        };
        started.wait_until_ready().await?;
        Ok(started)
    }

    /// A client for `user` that does not retry by itself.
    ///
    /// # Errors
    /// The server was started without this user.
    pub async fn client_for(&self, user: &str) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig(user)?)?;
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }

    /// The path of a kubeconfig file for `user`. The file is deleted with the server.
    ///
    /// # Errors
    /// The server was started without this user.
    pub fn kubeconfig(&self, user: &str) -> Result<PathBuf> {
        self.files.kubeconfig(user)
    }

    /// The path of a kubeconfig file with `token`, such as a service account's. The file is deleted with the server;
    /// `name` must not be used twice.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn kubeconfig_with_token(&self, name: &str, token: &str) -> Result<PathBuf> {
        self.files.write_kubeconfig(name, token)
    }

    /// The base address of the server, `https://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The authority that the server's certificate comes from, as PEM.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub fn ca_pem(&self) -> Result<String> {
        self.files.ca_pem()
    }

    /// The link from the API server to its etcd, for delaying it.
    ///
    /// # Errors
    /// The server was started without `etcd_link`.
    pub fn etcd_link(&self) -> Result<&Link> {
        let link = self.etcd_link.as_ref();
        link.context("this API server was started without a link to its etcd")
    }

    /// Kills the API server (not etcd) as a crash would; [`ApiServer::restart`] starts it again.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Kills the API server (not etcd) as a crash would, starts it again on the same port with the same data,
    /// and waits until it is ready. The audit log loses an event that was only written in part.
    ///
    /// # Errors
    /// The server did not come back; the error holds the last lines of its log.
    pub async fn restart(&mut self) -> Result<()> {
        self.server.kill();
        if let Some(log) = self.files.audit_log() {
            audit::cut_torn_line(log)?;
        }
        self.server = spawn(
            &self.program,
            &self.arguments,
            self.default_gc,
            self.folder.path(),
        )?;
        self.wait_until_ready().await
    }

    /// All requests so far, in order of arrival. An entry is written when its response has been sent (for a watch:
    /// when it begins), so the latest entry may appear a moment after the response.
    ///
    /// # Errors
    /// The server was started without `audit`, or its log cannot be read.
    pub fn audit_log(&self) -> Result<Vec<AuditEntry>> {
        let path = self
            .files
            .audit_log()
            .context("this API server was started without an audit log")?;
        audit::read(path)
    }

    /// The requests since the last call, in response order. `read` is the read position in the log; start with 0.
    ///
    /// # Errors
    /// As [`ApiServer::audit_log`].
    pub fn read_audit_log(&self, read: &mut u64) -> Result<Vec<Arrival>> {
        let path = self
            .files
            .audit_log()
            .context("this API server was started without an audit log")?;
        audit::read_on(path, read)
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let client = self.client_for(files::ADMIN).await?;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            self.etcd.check()?;
            self.server.check()?;
            let asked = timeout(Duration::from_secs(5), ask_if_ready(&client)).await;
            let error = match asked.context("no answer in time").and_then(|answer| answer) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if Instant::now() > deadline {
                let tail = self.server.tail();
                return Err(error.context(format!("kube-apiserver is not ready:\n{tail}")));
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// A program of Go, which collects garbage when its heap is twice what was alive, or only at 500 MiB.
fn command(program: &Path, default_gc: bool) -> Command {
    let mut command = Command::new(program);
    if !default_gc {
        command.envs([("GOGC", "off"), ("GOMEMLIMIT", "500MiB")]);
    }
    command
}

fn spawn(program: &Path, arguments: &[String], default_gc: bool, folder: &Path) -> Result<Process> {
    let mut command = command(program, default_gc);
    command.args(arguments);
    Process::spawn(command, &folder.join("kube-apiserver.log"))
}

/// Checks readiness: `/readyz` succeeds, and the namespaces that every cluster has exist.
async fn ask_if_ready(client: &Client) -> Result<()> {
    let request = http::Request::get("/readyz").body(Vec::new())?;
    let answer = client.request_text(request).await?;
    ensure!(answer == "ok", "/readyz answered {answer:?}");
    let namespaces = Api::<Namespace>::all(client.clone());
    for name in ["default", "kube-system"] {
        namespaces.get(name).await?;
    }
    Ok(())
}

async fn wait_until_listening(server: &mut Process, port: u16) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        server.check()?;
        ensure!(
            Instant::now() < deadline,
            "etcd does not listen:\n{}",
            server.tail()
        );
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// etcd's folder within that of a server.
fn etcd_data(folder: &Path) -> PathBuf {
    folder.join("etcd")
}

fn etcd_arguments(folder: &Path, port: u16) -> Vec<String> {
    let clients = format!("http://127.0.0.1:{port}");
    vec![
        format!("--data-dir={}", etcd_data(folder).display()),
        format!("--listen-client-urls={clients}"),
        format!("--advertise-client-urls={clients}"),
        // A member without peers: any port works, and nothing connects to it.
        "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
        // The data only lives as long as the test, so it need not survive a machine crash.
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}
