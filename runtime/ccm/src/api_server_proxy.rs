//! The proxy between this process and an API server, chosen as client-go does: the `proxy-url` of the kubeconfig's
//! cluster, else `HTTPS_PROXY` or `HTTP_PROXY` unless `NO_PROXY` excludes the API server. Not the proxy to a provider's
//! cloud, which the configuration names.

use std::sync::Arc;

use anyhow::Context as _;
use ccm_controllers::{RestClients, tenure_client, with_response_timeout};
use ccm_core::safety::tenure::Tenure;
use ccm_proxy::{from_environment, without_login};
use http::Uri;
use kube::config::{Cluster, Kubeconfig};
use kube::{Client, Config};

use crate::api_server_url::complete;

/// A client configuration with its address completed, and with its proxy: `named` of its kubeconfig, else that of this
/// process's environment.
///
/// # Errors
/// The address has no host, or the proxy's URL cannot be read.
pub(crate) fn completed(mut config: Config, named: Option<String>) -> anyhow::Result<Config> {
    complete(&mut config)?;
    let variable = |name: &str| std::env::var(name).ok();
    config.proxy_url = proxy(named, &config.cluster_url, variable)
        .context("the proxy to the API server is not usable")?;
    Ok(config)
}

/// A client of this configuration, through its proxy and bound to no lease: for reads, and for the commands of a
/// person, who gets an error where a server takes a request and does not answer.
///
/// # Errors
/// The configuration or its proxy is unusable.
pub(crate) fn unbound_client(config: &Config) -> kube::Result<Client> {
    counted_client(config, &RestClients::default()).map(with_response_timeout)
}

/// A client like [`unbound_client`] that waits for each answer, and whose requests `clients` counts.
///
/// # Errors
/// The configuration or its proxy is unusable.
pub(crate) fn counted_client(config: &Config, clients: &RestClients) -> kube::Result<Client> {
    let tenure = Arc::new(Tenure::unlimited());
    tenure_client::client(config, tenure, None, clients)
        .map_err(|error| kube::Error::Service(Box::new(error)))
}

/// The `proxy-url` of the cluster that `kubeconfig` names in its context `context`, or in its current one. It counts
/// whatever `NO_PROXY` says, as in client-go.
pub(crate) fn named(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let url = cluster(kubeconfig, context)?.proxy_url.clone()?;
    Some(url).filter(|url| !url.is_empty())
}

/// The cluster of that context.
pub(crate) fn cluster<'a>(
    kubeconfig: &'a Kubeconfig,
    context: Option<&str>,
) -> Option<&'a Cluster> {
    let context = context.or(kubeconfig.current_context.as_deref())?;
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|one| one.name == context)?.context.as_ref()?;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|one| one.name == context.cluster)?;
    cluster.cluster.as_ref()
}

/// The proxy in front of `server`: `named`, or else one of the environment that `variable` reads.
///
/// # Errors
/// Its URL cannot be read.
pub(crate) fn proxy(
    named: Option<String>,
    server: &Uri,
    variable: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Option<Uri>> {
    if let Some(url) = named {
        return parsed("proxy-url", &url).map(Some);
    }
    let is_plain = server.scheme_str() == Some("http");
    let Some(found) = from_environment(is_plain, variable) else {
        return Ok(None);
    };
    let port = server.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
    if found
        .except
        .excepts(server.host().unwrap_or_default(), port)
    {
        return Ok(None);
    }
    parsed(found.variable, &found.url).map(Some)
}

/// A URL without a scheme is one of `http`.
fn parsed(name: &'static str, url: &str) -> anyhow::Result<Uri> {
    let url = url.trim();
    let parsed = match url.contains("://") {
        true => url.parse::<Uri>(),
        false => format!("http://{url}").parse(),
    };
    let parsed = parsed.ok().filter(|url| url.host().is_some());
    // The URL itself stays out of the text: it may contain a password.
    parsed.with_context(|| match without_login(url) {
        Some(proxy) => format!("{name} is not the URL of a proxy: {proxy}"),
        None => format!("{name} is not the URL of a proxy"),
    })
}

#[cfg(test)]
mod tests;
