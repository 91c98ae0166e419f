//! Runs a real OCI registry on loopback for one test, and third-party tools that use it.
//!
//! It is the upstream program with TLS from its own CA and basic authentication. It has no referrers API, so tools use
//! the fall-back tags. It starts empty, never touches another registry, and ends with the test.

mod layout;
mod tools;

use std::ffi::OsStr;
use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::authority;
use crate::ports;
use crate::process::Process;

/// The only user. No program may print its password.
pub const USER: &str = "robot";
/// The password of [`USER`].
pub const PASSWORD: &str = "correct-horse-7f3a";
/// bcrypt hash of [`PASSWORD`]; the cost is low, because every request checks it.
const PASSWORD_HASH: &str = "$2a$05$6isv/Wz0KBrXFKgqctBzbOyH8VuuBk5Ve3Ty3S9snMbN9v1My3iDu";

/// Start-up timeout. A start takes a tenth of a second.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Options of a registry.
#[derive(Debug, Clone, Copy)]
pub struct RegistryOptions {
    /// Whether it uses TLS, with a certificate of its own CA.
    pub tls: bool,
    /// Whether it requires [`USER`] and [`PASSWORD`].
    pub authentication: bool,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self {
            tls: true,
            authentication: true,
        }
    }
}

/// A running registry.
pub struct Registry {
    // Drop order: the process, its files.
    server: Process,
    folder: TempDir,
    programs: PathBuf,
    port: u16,
    ca_pem: String,
}

impl Registry {
    /// Starts a registry with TLS and a password. The first start on a machine builds the programs.
    ///
    /// # Errors
    /// As [`Registry::start_with`].
    pub async fn start() -> Result<Self> {
        Self::start_with(RegistryOptions::default()).await
    }

    /// Starts a registry and waits until it listens.
    ///
    /// # Errors
    /// The programs cannot be built, or the registry does not start; the error then holds the end of its log.
    pub async fn start_with(options: RegistryOptions) -> Result<Self> {
        let programs = tokio::task::spawn_blocking(tools::folder)
            .await
            .context("looking for the programs panicked")??;
        let folder = tempfile::Builder::new()
            .prefix("ccm-registry-")
            .tempdir()
            .context("cannot make a folder for the registry")?;
        let port = ports::keep().context("cannot find a free port")?;
        let ca_pem = write_certificates(folder.path())?;
        write_configuration(folder.path(), port, options)?;
        write_login(folder.path(), port)?;
        let server = spawn(&programs, folder.path())?;
        let mut started = Self {
            server,
            folder,
            programs,
            port,
            ca_pem,
        };
        started.wait_until_listening().await?;
        Ok(started)
    }

    /// Host and port, as in image references: `127.0.0.1:PORT`.
    #[must_use]
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The registry's CA certificate, in PEM.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The path of the CA certificate.
    #[must_use]
    pub fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// The folder with a `config.json` that contains the login: `DOCKER_CONFIG` for other tools.
    #[must_use]
    pub fn docker_config(&self) -> PathBuf {
        self.folder.path().join("docker")
    }

    /// The content of that `config.json`, also valid for a Secret of type `kubernetes.io/dockerconfigjson`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn docker_config_json(&self) -> Result<String> {
        let file = self.docker_config().join("config.json");
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    }

    /// A folder for the test's files, deleted with the registry.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs `crane` with the registry's CA and login. The caller checks the exit status.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn crane<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<Output> {
        self.run("crane", arguments)
    }

    /// Pushes a module to `reference` (`repository:tag`) with `crane push`. Returns the digest of its manifest.
    ///
    /// # Errors
    /// crane cannot be started, or fails; the error then holds its output.
    pub fn push(&self, reference: &str, wasm: &[u8]) -> Result<String> {
        let folder = tempfile::tempdir_in(self.folder())?;
        let digest = layout::write(folder.path(), wasm)?;
        let reference = format!("{}/{reference}", self.host());
        let pushed = self.crane([
            OsStr::new("push"),
            folder.path().as_os_str(),
            reference.as_ref(),
        ])?;
        let reported = String::from_utf8_lossy(&pushed.stderr);
        ensure!(pushed.status.success(), "crane push: {reported}");
        Ok(digest)
    }

    /// Runs `cosign` with the registry's CA and login, an empty key password and no terminal. It contacts no external
    /// service.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn cosign<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Output> {
        self.run("cosign", arguments)
    }

    fn run<S: AsRef<OsStr>>(
        &self,
        tool: &str,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Output> {
        let mut command = Command::new(self.programs.join(tool));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("DOCKER_CONFIG", self.docker_config())
            .env("SSL_CERT_FILE", self.ca_file())
            .env("HOME", self.folder.path())
            .env("COSIGN_PASSWORD", "")
            .env("COSIGN_YES", "true");
        command
            .output()
            .with_context(|| format!("cannot start {tool}"))
    }

    /// The registry's output so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.server.output()
    }

    /// Kills the registry like a crash; [`Registry::restart`] starts it again.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Starts the registry again on the same port with the same data, and waits until it listens.
    ///
    /// # Errors
    /// It did not come back; the error holds the end of its log.
    pub async fn restart(&mut self) -> Result<()> {
        self.server.kill();
        self.server = spawn(&self.programs, self.folder.path())?;
        self.wait_until_listening().await
    }

    async fn wait_until_listening(&mut self) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            self.server.check()?;
            ensure!(
                Instant::now() < deadline,
                "the registry does not listen:\n{}",
                self.server.tail()
            );
            sleep(Duration::from_millis(20)).await;
        }
        self.server.check()
    }
}

/// Returns the path of `crane` or `cosign`, for tests without a registry. Builds the programs if they do not exist
/// yet.
///
/// # Errors
/// They cannot be built.
pub fn tool(name: &str) -> Result<PathBuf> {
    let file = tools::folder()?.join(name);
    ensure!(file.is_file(), "there is no {}", file.display());
    Ok(file)
}

fn spawn(programs: &Path, folder: &Path) -> Result<Process> {
    let mut command = Command::new(programs.join("registry"));
    command
        .arg("serve")
        .arg(folder.join("config.yml"))
        // Telemetry exporters are enabled by default and would look for a collector.
        .env("OTEL_TRACES_EXPORTER", "none");
    Process::spawn(command, &folder.join("registry.log"))
}

/// Writes a CA and a server certificate signed by it. Returns the CA certificate.
fn write_certificates(folder: &Path) -> Result<String> {
    let tls = authority::issue("registry")?;
    fs::write(folder.join("ca.pem"), &tls.ca_pem)?;
    fs::write(folder.join("server.pem"), &tls.certificate_pem)?;
    fs::write(folder.join("server.key"), &tls.key_pem)?;
    Ok(tls.ca_pem)
}

fn write_configuration(folder: &Path, port: u16, options: RegistryOptions) -> Result<()> {
    let at = |name: &str| folder.join(name).display().to_string();
    let mut http = serde_json::json!({"addr": format!("127.0.0.1:{port}"), "secret": "of no use"});
    if options.tls {
        http["tls"] = serde_json::json!({"certificate": at("server.pem"), "key": at("server.key")});
    }
    let mut configuration = serde_json::json!({
        "version": 0.1,
        "log": {"level": "info", "accesslog": {"disabled": false}},
        "storage": {
            "filesystem": {"rootdirectory": at("data")},
            "delete": {"enabled": true},
        },
        "http": http,
    });
    if options.authentication {
        configuration["auth"] =
            serde_json::json!({"htpasswd": {"realm": "test", "path": at("htpasswd")}});
    }
    fs::write(folder.join("htpasswd"), format!("{USER}:{PASSWORD_HASH}\n"))?;
    // JSON is YAML.
    fs::write(
        folder.join("config.yml"),
        serde_json::to_vec_pretty(&configuration)?,
    )?;
    Ok(())
}

fn write_login(folder: &Path, port: u16) -> Result<()> {
    let docker = folder.join("docker");
    fs::create_dir_all(&docker)?;
    let login = serde_json::json!({
        "auths": {format!("127.0.0.1:{port}"): {"username": USER, "password": PASSWORD}}
    });
    fs::write(docker.join("config.json"), serde_json::to_vec(&login)?)?;
    Ok(())
}
