//! Connects to a cluster, selected as by kubectl.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use ccm_proxy::without_login;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use super::arguments::ClusterOptions;
use crate::api_server_proxy::{named, set_proxy, unbound_client};
use crate::api_server_url::{complete, in_cluster};
use crate::kubeconfig::{read_existing, read_kubeconfig, usual_files};

/// Creates a client for the selected cluster, and names its API server for errors.
pub(super) async fn client(options: &ClusterOptions) -> anyhow::Result<(Client, String)> {
    let config = config(options).await?;
    Ok((unbound_client(&config)?, server(&config)))
}

/// The API server, for errors: a person may have several clusters.
pub(crate) fn server(config: &Config) -> String {
    let url = config.cluster_url.to_string();
    let shown = match url.contains('@') {
        true => without_login(&url).unwrap_or_default(),
        false => url,
    };
    format!("the API server {}", shown.trim_end_matches('/'))
}

/// The client configuration of the selected cluster.
pub(crate) async fn config(options: &ClusterOptions) -> anyhow::Result<Config> {
    let context = options.context.as_deref();
    let (mut config, proxy) = match &options.kubeconfig {
        Some(path) => of_kubeconfig(read_kubeconfig(path)?, context)
            .await
            .with_context(|| format!("kubeconfig {} is not usable", path.display()))?,
        None => usual(context).await?,
    };
    complete(&mut config)?;
    set_proxy(&mut config, proxy)?;
    Ok(config)
}

/// The configuration of a context of this kubeconfig, and the proxy that it names.
async fn of_kubeconfig(
    kubeconfig: Kubeconfig,
    context: Option<&str>,
) -> Result<(Config, Option<String>), KubeconfigError> {
    let proxy = named(&kubeconfig, context);
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok((config, proxy))
}

/// The same without `--kubeconfig`. The pod's own cluster is meant only if there is no kubeconfig: whoever has one with a
/// mistake means another cluster.
async fn usual(context: Option<&str>) -> anyhow::Result<(Config, Option<String>)> {
    let files = usual_files();
    let unusable = "the kubeconfig is not usable";
    if let Some(kubeconfig) = read_existing(&files).context(unusable)? {
        let config = of_kubeconfig(kubeconfig, context).await;
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
