//! Connects to a cluster, selected as by kubectl.

use std::error::Error as _;

use anyhow::{Context as _, anyhow};
use ccm_proxy::without_login;
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use super::arguments::ClusterOptions;
use crate::api_server_proxy::{named, set_proxy, unbound_client};
use crate::api_server_url::complete;
use crate::cli;
use crate::kubeconfig::read_kubeconfig;

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
    let context = KubeConfigOptions {
        context: options.context.clone(),
        ..KubeConfigOptions::default()
    };
    let (mut config, proxy) = match &options.kubeconfig {
        Some(path) => {
            let kubeconfig = read_kubeconfig(path)?;
            let proxy = named(&kubeconfig, context.context.as_deref());
            let config = Config::from_custom_kubeconfig(kubeconfig, &context)
                .await
                .with_context(|| format!("kubeconfig {} is not usable", path.display()))?;
            (config, proxy)
        }
        None if options.context.is_some() => {
            let config = Config::from_kubeconfig(&context).await;
            let config = config.context("the kubeconfig is not usable")?;
            (config, in_its_usual_place(&context))
        }
        None => {
            let config = Config::infer().await.map_err(unusable)?;
            (config, in_its_usual_place(&context))
        }
    };
    complete(&mut config)?;
    set_proxy(&mut config, proxy)?;
    Ok(config)
}

/// Why neither a kubeconfig nor a pod's own account was found. The library's own text tells both in one line.
fn unusable(error: InferConfigError) -> anyhow::Error {
    let Some(cause) = error.source() else {
        return error.into();
    };
    let is_missing = matches!(cause.downcast_ref(), Some(KubeconfigError::ReadConfig(..)));
    let what = match is_missing {
        true => "there is no kubeconfig, and this is not a pod with a service account",
        false => "the kubeconfig is not usable, and this is not a pod with a service account",
    };
    let cause = cli::in_our_words(cause).unwrap_or_else(|| cause.to_string());
    anyhow!(cause).context(what)
}

/// The proxy of the kubeconfig that kubectl would read, if there is one.
fn in_its_usual_place(options: &KubeConfigOptions) -> Option<String> {
    let kubeconfig = Kubeconfig::read().ok()?;
    named(&kubeconfig, options.context.as_deref())
}
