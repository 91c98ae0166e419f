//! `ccm status`: asks a running manager for its status page's content, and shows it in a terminal. Changes nothing.

mod text;

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use ccm_core::status_report::StatusReport;
use ccm_host::egress::address_policy::is_loopback_host;
use clap::Args;
use http::header::ACCEPT;
use http::{Request, Uri};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;

use crate::api_server_proxy::{completed, unbound_client};
use crate::{block_on, cli, provider, telemetry};

/// Path of a pod's own token.
const POD_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// The secure port on this machine.
const HERE: &str = "https://127.0.0.1:10258";

/// The options of `ccm status`.
#[derive(Args)]
pub(crate) struct StatusCommand {
    /// The manager's secure port. Without --ca-file, the certificate of a loopback address is not verified; http:// is for
    /// the demo's page
    #[arg(long, value_name = "URL", default_value = HERE)]
    pub server: Uri,
    /// File with the bearer token of a user who has the verb get on the nonResourceURL /; without it, the pod's own
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Certificate authorities of the manager (PEM); without it: the system's, but see --server
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// How the result is printed
    #[arg(short, long, value_name = "FORM", default_value = "text", value_parser = ["text", "json"])]
    pub output: String,
}

/// The command line of `ccm status`.
pub(crate) fn command() -> clap::Command {
    StatusCommand::augment_args(clap::Command::new("status"))
        .about("Show what a running manager does: providers and grants, what waits and why, brakes, leader, the last decisions")
        .after_help("Example:\n  kubectl -n kube-system exec ds/ccm -- /ccm status")
}

/// Prints the status.
///
/// # Errors
/// The manager does not answer, or refuses this user.
pub(crate) fn main(command: &StatusCommand) -> anyhow::Result<()> {
    telemetry::begin_for_person()?;
    let answer = block_on(ask(command))?;
    let report = serde_json::from_str::<StatusReport>(&answer);
    let report = report.context("the answer is not that of a status page of this version")?;
    let text = match command.output.as_str() {
        "json" => format!("{:#}\n", serde_json::to_value(&report)?),
        _ => provider::visible(&text::describe(&report)),
    };
    cli::write(text.as_bytes())
}

async fn ask(command: &StatusCommand) -> anyhow::Result<String> {
    let server = &command.server;
    // In a pod the environment's proxy is for the cloud and the API server, and never for this machine.
    let config = completed(config(command).await?, None)?;
    let client = unbound_client(&config)?;
    let request = Request::get("/").header(ACCEPT, "application/json");
    let answered = client.request_text(request.body(Vec::new())?).await;
    match answered {
        Ok(answer) => Ok(answer),
        Err(kube::Error::Api(status)) => {
            let hint = match status.code {
                401 => {
                    "; the credential is not valid, or the manager could not have the API server review it: its log says which, \
                     and it needs the ClusterRole system:auth-delegator"
                }
                403 => "; the user needs the verb get on the nonResourceURL /",
                _ => "",
            };
            bail!(
                "{server} answered {}: {}{hint}",
                status.code,
                status.message
            )
        }
        Err(error) => Err(error).with_context(|| format!("{server} does not answer")),
    }
}

async fn config(command: &StatusCommand) -> anyhow::Result<Config> {
    let server = &command.server;
    let is_plain = match server.scheme_str() {
        Some("https") => false,
        Some("http") => true,
        _ => bail!("--server {server}: expected a URL such as {HERE}"),
    };
    let is_here = is_loopback_host(server.host().unwrap_or_default());
    ensure!(
        !is_plain || is_here,
        "{server}: without TLS only a loopback address is asked"
    );
    let token = match &command.token_file {
        // Without TLS, the token could be read on the way.
        _ if is_plain => None,
        Some(file) => Some(file.clone()),
        None => Some(PathBuf::from(POD_TOKEN)).filter(|file| file.exists()),
    };
    let text = |file: PathBuf| file.display().to_string();
    // With `Config::root_cert_file`, kube wants the system's authorities besides, and does not name a file that is missing.
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "clusters": [{ "name": "manager", "cluster": {
            "server": server.to_string(),
            "certificate-authority": command.ca_file.clone().map(text),
            "insecure-skip-tls-verify": is_here && command.ca_file.is_none(),
        } }],
        "users": [{ "name": "manager", "user": { "tokenFile": token.map(text) } }],
        "contexts": [{ "name": "manager", "context": { "cluster": "manager", "user": "manager" } }],
        "current-context": "manager",
    }))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    config.context("--server, --token-file or --ca-file is not usable")
}
