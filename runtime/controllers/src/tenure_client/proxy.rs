//! Connections to the API server, straight or through a proxy: by HTTP CONNECT, or by SOCKS 5. The proxy sees the API
//! server's name and port, and otherwise TLS that it cannot read. Decides nothing about which proxy is used, and opens
//! no socket itself: everything goes through the connector that the caller guards.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};
use hyper::rt::{Read, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::Connection;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;
use kube::client::ConfigExt as _;
use kube::config::AuthInfo;
use tower::util::MapErr;
use tower::{BoxError, Service, ServiceExt as _};

use super::GuardedError;

/// The default port of SOCKS (RFC 1928).
const SOCKS_PORT: u16 = 1080;

type ToProxy<C> = MapErr<HttpsConnector<C>, fn(BoxError) -> io::Error>;

/// The way to the API server, above the connector `C` that opens sockets.
#[derive(Clone)]
pub(super) enum Dial<C> {
    Direct(C),
    Tunnel(Tunnel<ToProxy<C>>),
    Socks(SocksV5<ToProxy<C>>),
}

impl<C, S> Dial<C>
where
    C: Service<Uri, Response = S>,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
    S: Read + Write + Connection + Send + Unpin + 'static,
{
    /// The way that `config` names. TLS to a proxy trusts the authorities of the kubeconfig, as in client-go, but shows
    /// it no client certificate.
    pub(super) fn new(config: &Config, connector: C) -> Result<Dial<C>, GuardedError> {
        let Some(url) = &config.proxy_url else {
            return Ok(Dial::Direct(connector));
        };
        let unusable = || GuardedError::Proxy(shown(url));
        // It reads user and password, and knows the schemes.
        let all = Matcher::builder().all(url.to_string()).build();
        let proxy = all.intercept(&config.cluster_url).ok_or_else(unusable)?;
        let mut outer = config.clone();
        outer.auth_info = AuthInfo::default();
        outer.tls_server_name = None;
        let to_proxy = outer
            .rustls_https_connector_with_connector(connector)
            .map_err(GuardedError::Config)?
            .map_err(io::Error::other as fn(BoxError) -> io::Error);
        match proxy.uri().scheme_str() {
            Some("http" | "https") => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), to_proxy);
                if let Some(credentials) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(credentials.clone());
                }
                Ok(Dial::Tunnel(tunnel))
            }
            Some("socks5" | "socks5h") => {
                let at = with_port(proxy.uri(), Some(Scheme::HTTP), SOCKS_PORT);
                let mut socks = SocksV5::new(at.ok_or_else(unusable)?, to_proxy);
                if let Some((user, password)) = proxy.raw_auth() {
                    socks = socks.with_auth(user.to_owned(), password.to_owned());
                }
                Ok(Dial::Socks(socks))
            }
            _ => Err(unusable()),
        }
    }
}

impl<C, S> Service<Uri> for Dial<C>
where
    C: Service<Uri, Response = S>,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
    S: Read + Write + Connection + Send + Unpin + 'static,
{
    type Response = MaybeHttpsStream<S>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self {
            Dial::Direct(connector) => connector.poll_ready(context).map_err(Into::into),
            Dial::Tunnel(tunnel) => tunnel.poll_ready(context).map_err(Into::into),
            Dial::Socks(socks) => socks.poll_ready(context).map_err(Into::into),
        }
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        // A tunnel without a port would go to 443, whatever the scheme.
        let port = if server.scheme() == Some(&Scheme::HTTP) {
            80
        } else {
            443
        };
        let target = with_port(&server, None, port).unwrap_or_else(|| server.clone());
        match self {
            Dial::Direct(connector) => {
                let stream = connector.call(server);
                Box::pin(
                    async move { Ok(MaybeHttpsStream::Http(stream.await.map_err(Into::into)?)) },
                )
            }
            Dial::Tunnel(tunnel) => {
                let stream = tunnel.call(target);
                Box::pin(async move { Ok(stream.await?) })
            }
            Dial::Socks(socks) => {
                let stream = socks.call(target);
                Box::pin(async move { Ok(stream.await?) })
            }
        }
    }
}

/// The same URL with an explicit port, and with another scheme if one is given. `None`: it has no host.
fn with_port(url: &Uri, scheme: Option<Scheme>, default: u16) -> Option<Uri> {
    let mut parts = url.clone().into_parts();
    let port = url.port_u16().unwrap_or(default);
    let authority = format!("{}:{port}", url.host()?);
    parts.authority = Some(Authority::try_from(authority).ok()?);
    parts.scheme = scheme.or(parts.scheme);
    parts.path_and_query = Some(PathAndQuery::from_static("/"));
    Uri::from_parts(parts).ok()
}

/// The proxy's URL without user and password.
fn shown(proxy: &Uri) -> String {
    let scheme = proxy.scheme_str().unwrap_or("http");
    format!("{scheme}://{}", proxy.host().unwrap_or_default())
}
