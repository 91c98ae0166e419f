//! Kubernetes client of the controllers: its connections refuse to send bytes outside of the tenure.
//!
//! The check sits below TLS, the pool and all of our buffers, in the call that hands bytes to the operating system: a
//! request that waited for name resolution, a handshake, a pool slot or a thread until the tenure was over fails there,
//! together with its connection. Bytes that the operating system has already taken cannot be recalled. To keep it from
//! delivering them late, it drops unacknowledged bytes after the time between the renew deadline and the end of the
//! lease (`TCP_USER_TIMEOUT`), even while the process is stopped, and when the connection closes (`SO_LINGER` of zero).
//! One gap of a few instructions remains: a process can be stopped between the check and the system call. No response
//! is awaited beyond the end of the lease. A proxy in between changes none of this: bytes to the proxy pass the same
//! check. Bytes that the proxy has taken it may deliver late, as any router may.
//!
//! Everything else is as in kube's own builder for a [`Config`], without its retries and its tracing layer, and with
//! `rest_client`'s metrics and limit, a credential that is replaced once it was refused, and a client certificate that is
//! replaced when its files change.

mod credential;
mod rotation;
mod service_account;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ccm_core::safety::tenure::Tenure;
use ccm_proxy::{BadProxy, Connector, Gated, Proxy, WriteGate, without_login};
use http::{Request, Response};
use hyper_rustls::HttpsConnector;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::{Body, ConfigExt as _};
use kube::config::AuthInfo;
use kube::{Client, Config};
use thiserror::Error;
use tokio::net::TcpStream;
use tower::layer::layer_fn;
use tower::{BoxError, ServiceBuilder, ServiceExt as _};

use crate::RestClients;
use crate::clock::boottime;
use crate::rest_client::{NodesAsProtobuf, with_retry_after};

use credential::Credential;
use rotation::rotating;

pub use service_account::TokenSource;

/// Maximum size of the buffer into which a connection is read, in bytes. hyper's own of 400 KiB is filled by lists alone, at
/// each of a dozen connections.
const READ_BUFFER: usize = 64 << 10;

/// Why a client cannot be created.
#[derive(Debug, Error)]
pub enum GuardedError {
    /// No connection can go through the proxy's URL.
    #[error("the proxy to the API server cannot be used{}", .named.as_deref().map(|named| format!(": {named}")).unwrap_or_default())]
    Proxy {
        /// The proxy, without its login; `None` if the URL cannot be parsed.
        named: Option<String>,
        /// The mistake in the URL.
        #[source]
        source: BadProxy,
    },
    /// The configuration is unusable.
    #[error("cannot make a Kubernetes client")]
    Config(#[source] kube::Error),
}

/// Creates a client that sends only within `tenure`, through the proxy of `config` if it has one: the environment is
/// not read here. Bytes that the API server has not acknowledged after `unacknowledged` are dropped; `None`: the
/// operating system's default. Its requests are counted, and limited, as `clients` says. Must be called inside a tokio
/// runtime.
///
/// # Errors
/// See [`GuardedError`].
pub fn client(
    config: &Config,
    tenure: Arc<Tenure>,
    unacknowledged: Option<Duration>,
    clients: &RestClients,
) -> Result<Client, GuardedError> {
    authenticated(config, None, tenure, unacknowledged, clients)
}

/// As [`client`], but authenticates with `tokens` in place of the credential of `config`.
///
/// # Errors
/// See [`GuardedError`].
pub fn client_of(
    tokens: TokenSource,
    config: &Config,
    tenure: Arc<Tenure>,
    unacknowledged: Option<Duration>,
    clients: &RestClients,
) -> Result<Client, GuardedError> {
    let mut config = config.clone();
    config.auth_info = AuthInfo::default();
    authenticated(&config, Some(tokens), tenure, unacknowledged, clients)
}

fn authenticated(
    config: &Config,
    tokens: Option<TokenSource>,
    tenure: Arc<Tenure>,
    unacknowledged: Option<Duration>,
    clients: &RestClients,
) -> Result<Client, GuardedError> {
    let gate = tenure.clone();
    let dial = sockets(unacknowledged).map_response(move |stream: TokioIo<TcpStream>| {
        // Connect even if this fails: the gate does not depend on it.
        let _ = stream.inner().set_zero_linger();
        Gated::new(stream, TenureGate(gate.clone()))
    });
    let dial = match &config.proxy_url {
        None => Connector::Direct(dial),
        Some(url) => {
            let url = url.to_string();
            let proxy = Proxy::parse(&url).map_err(|source| GuardedError::Proxy {
                named: without_login(&url),
                source,
            })?;
            Connector::Through(Arc::new(proxy), to_proxy(config, dial)?)
        }
    };
    let of_config = config.clone();
    let connections = rotating(config, move || {
        let encrypted = of_config.rustls_https_connector_with_connector(dial.clone())?;
        let mut connector = TimeoutConnector::new(encrypted);
        connector.set_connect_timeout(of_config.connect_timeout);
        connector.set_read_timeout(of_config.read_timeout);
        connector.set_write_timeout(of_config.write_timeout);
        connector.set_reset_reader_on_write(of_config.reset_reader_on_write);
        let mut pool = legacy::Client::builder(TokioExecutor::new());
        pool.http1_max_buf_size(READ_BUFFER);
        Ok(pool.build::<_, Body>(connector))
    });
    let connections = connections.map_err(GuardedError::Config)?;
    let ends_with_the_lease = move |answer| {
        let tenure = tenure.clone();
        async move {
            tokio::select! {
                answer = answer => answer,
                () = over(&tenure) => Err(BoxError::from("given up: the lease has ended")),
            }
        }
    };
    let credential = Credential::new(config).map_err(GuardedError::Config)?;
    let nodes = NodesAsProtobuf::default();
    let answered_nodes = nodes.clone();
    let service = ServiceBuilder::new()
        .map_request(move |request: Request<Body>| nodes.asked(request))
        .map_response(move |answer: Response<_>| {
            with_retry_after(answered_nodes.translated(answer))
        })
        .layer(config.base_uri_layer())
        .layer_fn(|inner| credential.clone().around(inner))
        .option_layer(tokens.map(|tokens| layer_fn(move |inner| tokens.clone().around(inner))))
        .layer(config.extra_headers_layer().map_err(GuardedError::Config)?)
        .map_future(ends_with_the_lease)
        .layer_fn(|inner| clients.around(&config.cluster_url, inner))
        .service(connections);
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// Connector of sockets, of which the operating system drops bytes that stay `unacknowledged` for longer.
fn sockets(unacknowledged: Option<Duration>) -> HttpConnector {
    let mut sockets = HttpConnector::new();
    sockets.enforce_http(false);
    sockets.set_tcp_user_timeout(unacknowledged);
    sockets
}

/// TLS to a proxy at `https://`: trusts the authorities of the kubeconfig, as in client-go, but shows the proxy no
/// client certificate.
fn to_proxy<C>(config: &Config, connector: C) -> Result<HttpsConnector<C>, GuardedError> {
    let mut outer = config.clone();
    outer.auth_info = AuthInfo::default();
    outer.tls_server_name = None;
    outer
        .rustls_https_connector_with_connector(connector)
        .map_err(GuardedError::Config)
}

/// Completes when the lease ends; each renewal postpones that.
pub(crate) async fn over(tenure: &Tenure) {
    loop {
        let left = boottime().until(tenure.ends());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left).await;
    }
}

/// Lets connections write bytes only during this tenure.
struct TenureGate(Arc<Tenure>);

impl WriteGate for TenureGate {
    fn check(&self) -> io::Result<()> {
        if self.0.may_write(boottime()) {
            Ok(())
        } else {
            let why = "not sent: this process does not hold the lease (any more)";
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
        }
    }
}

#[cfg(test)]
mod tests;
