//! The address of an API server that a kubeconfig, `--master` or a pod's environment names, as client-go reads it.
//! Connects to nothing.

use anyhow::Context as _;
use http::Uri;
use kube::Config;
use kube::config::{AuthInfo, InClusterError};

/// The configuration of a pod's own cluster.
///
/// # Errors
/// This is not a pod with a service account.
pub(crate) fn in_cluster() -> Result<Config, InClusterError> {
    let mut config = Config::incluster()?;
    config.cluster_url = with_port(config.cluster_url);
    Ok(config)
}

/// The URL of a pod's API server with its port, as client-go has it: kube leaves out 443. The label `host` of metrics
/// shows it.
pub(crate) fn with_port(url: Uri) -> Uri {
    let missing = url
        .authority()
        .filter(|authority| authority.port().is_none());
    let Some(authority) = missing else {
        return url;
    };
    let with_port = format!("https://{authority}:443").parse::<Uri>();
    with_port.unwrap_or(url)
}

/// Completes an address without a scheme, such as `10.0.0.1:6443`: by `https` if the configuration has an authority or a
/// client certificate, or accepts every server, and by `http` otherwise. With `http` the credentials are dropped: everybody
/// on the way could read them.
///
/// # Errors
/// The address has no host.
pub(crate) fn complete(config: &mut Config) -> anyhow::Result<()> {
    if config.cluster_url.scheme().is_none() {
        config.cluster_url = with_scheme(config)?;
    }
    if config.cluster_url.scheme_str() == Some("http") {
        drop_credentials(config);
    }
    Ok(())
}

fn with_scheme(config: &Config) -> anyhow::Result<Uri> {
    let url = &config.cluster_url;
    let host = url.authority().with_context(|| {
        let shown = redact_login(&url.to_string());
        format!("the address of the API server must be a URL or HOST:PORT: {shown}")
    })?;
    let own = &config.auth_info;
    let certificates = [&own.client_certificate, &own.client_certificate_data];
    let has_certificate = certificates
        .into_iter()
        .flatten()
        .any(|one| !one.is_empty());
    let is_encrypted = config.root_cert.is_some() || config.accept_invalid_certs || has_certificate;
    let url = Uri::builder()
        .scheme(if is_encrypted { "https" } else { "http" })
        .authority(host.clone())
        .path_and_query("/")
        .build()?;
    Ok(url)
}

/// An address as it is written, without the user and the password that may stand in it.
pub(crate) fn redact_login(address: &str) -> String {
    let (scheme, rest) = match address.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), address),
    };
    // A password may have any character, so everything before the last @ counts as the login.
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    scheme + rest
}

/// As client-go, which reads no credentials unless the connection is encrypted. Impersonation is no credential and stays.
fn drop_credentials(config: &mut Config) {
    let own = std::mem::take(&mut config.auth_info);
    let has_credentials = own.token.is_some()
        || own.token_file.is_some()
        || own.username.is_some()
        || own.auth_provider.is_some()
        || own.exec.is_some();
    if has_credentials {
        tracing::warn!(
            target: "api",
            "the API server's address begins with http://: the credentials are not sent, because the connection is not encrypted"
        );
    }
    config.auth_info = AuthInfo {
        impersonate: own.impersonate,
        impersonate_uid: own.impersonate_uid,
        impersonate_groups: own.impersonate_groups,
        impersonate_user_extra: own.impersonate_user_extra,
        ..AuthInfo::default()
    };
}
