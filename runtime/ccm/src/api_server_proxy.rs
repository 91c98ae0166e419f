//! Which proxy stands between this process and an API server, decided as client-go does: the `proxy-url` of the
//! kubeconfig's cluster, else `HTTPS_PROXY` or `HTTP_PROXY` unless `NO_PROXY` excludes the API server. Says nothing about a
//! provider's cloud.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::Context as _;
use ccm_controllers::{RestClients, tenure_client};
use ccm_core::tenure::Tenure;
use http::Uri;
use ipnet::IpNet;
use kube::config::Kubeconfig;
use kube::{Client, Config};

/// The variables of the environment that name proxies; the upper case is asked first (golang.org/x/net/http/httpproxy).
const HTTPS: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
const HTTP: [&str; 2] = ["HTTP_PROXY", "http_proxy"];
const NONE: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Sets the proxy of a configuration whose kubeconfig has the proxy `named`, by this process's environment.
///
/// # Errors
/// Its URL cannot be read.
pub(crate) fn set_proxy(config: &mut Config, named: Option<String>) -> anyhow::Result<()> {
    let variable = |name: &str| std::env::var(name).ok();
    config.proxy_url = proxy(named, &config.cluster_url, variable)
        .context("the proxy to the API server is not usable")?;
    Ok(())
}

/// A client of this configuration, through its proxy and bound to no lease: for what reads, and for the commands of a
/// person.
///
/// # Errors
/// The configuration or its proxy is unusable.
pub(crate) fn unbound_client(config: &Config) -> kube::Result<Client> {
    let tenure = Arc::new(Tenure::unlimited());
    tenure_client::client(config, tenure, None, &RestClients::default())
        .map_err(|error| kube::Error::Service(Box::new(error)))
}

/// The `proxy-url` of the cluster that `kubeconfig` names in its context `context`, or in its current one. It counts
/// whatever `NO_PROXY` says, as in client-go.
pub(crate) fn named(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let context = context.or(kubeconfig.current_context.as_deref())?;
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|one| one.name == context)?.context.as_ref()?;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|one| one.name == context.cluster)?;
    let url = cluster.cluster.as_ref()?.proxy_url.clone()?;
    Some(url).filter(|url| !url.is_empty())
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
    let first = |names: [&'static str; 2]| {
        let mut found = names.into_iter().map(|name| (name, variable(name)));
        found.find_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)))
    };
    if let Some(url) = named {
        return parsed("proxy-url", &url).map(Some);
    }
    let is_plain = server.scheme_str() == Some("http");
    let Some((name, url)) = first(if is_plain { HTTP } else { HTTPS }) else {
        return Ok(None);
    };
    let exceptions = first(NONE).map(|(_, value)| value).unwrap_or_default();
    let port = server.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
    if is_excepted(server.host().unwrap_or_default(), port, &exceptions) {
        return Ok(None);
    }
    parsed(name, &url).map(Some)
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
    parsed.with_context(|| format!("{name} is not the URL of a proxy"))
}

/// Whether no proxy is used for this host and port. This machine never needs one.
fn is_excepted(host: &str, port: u16, exceptions: &str) -> bool {
    let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.to_canonical().is_loopback()) {
        return true;
    }
    let mut exceptions = exceptions.split(',').map(str::trim);
    exceptions.any(|entry| excepts(&entry.to_ascii_lowercase(), &host, address, port))
}

/// Whether one entry of `NO_PROXY` names the host: `*`, a network, an address or a domain; each but the first two with a
/// port, if it is to be only that one. `example.com` names its subdomains, too, `.example.com` and `*.example.com` only
/// them.
fn excepts(entry: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Ok(network) = entry.parse::<IpNet>() {
        return address.is_some_and(|address| network.contains(&address.to_canonical()));
    }
    let (name, only) = match entry.rsplit_once(':') {
        // More colons without brackets are an IPv6 address.
        Some((name, only)) if !name.contains(':') || name.ends_with(']') => (name, Some(only)),
        _ => (entry, None),
    };
    if only.is_some_and(|only| only != port.to_string()) {
        return false;
    }
    let name = name.trim_matches(['[', ']']);
    if let Ok(one) = name.parse::<IpAddr>() {
        return address.is_some_and(|address| address.to_canonical() == one.to_canonical());
    }
    let suffix = name.strip_prefix('*').unwrap_or(name);
    match suffix.strip_prefix('.') {
        _ if suffix.is_empty() => false,
        Some(_) => host.ends_with(suffix),
        None => {
            let before = host.strip_suffix(suffix);
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        }
    }
}

#[cfg(test)]
mod tests;
