//! Connects to a cluster, selected as by kubectl.

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::arguments::ClusterOptions;

/// Creates a client for it.
pub(super) async fn client(options: &ClusterOptions) -> anyhow::Result<Client> {
    let context = KubeConfigOptions {
        context: options.context.clone(),
        ..KubeConfigOptions::default()
    };
    let config = match &options.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read kubeconfig {}", path.display()))?;
            Config::from_custom_kubeconfig(kubeconfig, &context)
                .await
                .with_context(|| format!("kubeconfig {} is not usable", path.display()))?
        }
        None if options.context.is_some() => Config::from_kubeconfig(&context)
            .await
            .context("the kubeconfig is not usable")?,
        None => Config::infer()
            .await
            .context("there is no kubeconfig, and this is not a pod with a service account")?,
    };
    Ok(Client::try_from(config)?)
}
