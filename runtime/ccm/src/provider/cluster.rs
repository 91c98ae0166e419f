//! Connects to a cluster, selected as by kubectl.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use ccm_proxy::without_login;
use kube::{Client, Config};

use super::arguments::ClusterOptions;
use crate::api_server_proxy::{completed, unbound_client};
use crate::api_server_url::in_cluster;
use crate::kubeconfig::{configuration, configuration_of, read_existing, usual_files};

/// Creates a client for the selected cluster, and the headline of an error of its requests.
pub(super) async fn client(options: &ClusterOptions) -> anyhow::Result<(Client, String)> {
    let config = config(options).await?;
    Ok((unbound_client(&config)?, unreadable(&config)))
}

/// The headline of an error. It names the API server: a person may have several clusters.
pub(crate) fn unreadable(config: &Config) -> String {
    let url = config.cluster_url.to_string();
    let shown = match url.contains('@') {
        true => without_login(&url).unwrap_or_default(),
        false => url,
    };
    format!(
        "cannot read from the API server {}",
        shown.trim_end_matches('/')
    )
}

/// The client configuration of the selected cluster.
pub(crate) async fn config(options: &ClusterOptions) -> anyhow::Result<Config> {
    let context = options.context.as_deref();
    let (config, proxy) = match &options.kubeconfig {
        Some(path) => configuration_of(path, context).await?,
        None => usual(context).await?,
    };
    completed(config, proxy)
}

/// The configuration without `--kubeconfig`, and the proxy that the kubeconfig names. The pod's own cluster is meant only
/// if there is no kubeconfig: whoever has one with a mistake means another cluster.
async fn usual(context: Option<&str>) -> anyhow::Result<(Config, Option<String>)> {
    let files = usual_files();
    let unusable = "the kubeconfig is not usable";
    if let Some(kubeconfig) = read_existing(&files).context(unusable)? {
        let config = configuration(kubeconfig, context).await;
        return config.context(unusable);
    }
    let (own, what) = match context {
        // A pod's own cluster has no contexts.
        Some(_) => (None, "there is no kubeconfig"),
        None => (
            in_cluster().ok(),
            "there is no kubeconfig, and this is not a pod with a service account",
        ),
    };
    let own = own.ok_or_else(|| absent(&files)).context(what)?;
    Ok((own, None))
}

/// Why these files are no kubeconfig.
fn absent(files: &[PathBuf]) -> anyhow::Error {
    if files.is_empty() {
        return anyhow!("no file is named");
    }
    let files: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    anyhow!("not found, or without a context: {}", files.join(", "))
}
