//! Starts the servers, each on a thread of its own, and ends them when it is dropped.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use crate::ServingError;
use crate::access_control::{Gate, pass};
use crate::authentication::Authenticator;
use crate::authorization::Authorizer;
use crate::certificates::Certificates;
use crate::cipher_suites::server_config;
use crate::connection::{self, HttpProtocol, Limits};
use crate::connection_limit::Slots;
use crate::endpoints::{Endpoints, status_router};
use crate::listener::listen;
use crate::settings::{Authentication, Authorization, ClusterAccess, SecureServing};
use crate::status::StatusSource;
use crate::told_reason::{ONCE_A_MINUTE, ToldReason};

/// Pause after an error of `accept`, such as too many open files.
const ACCEPT: Duration = Duration::from_millis(50);

/// A running server. It ends when this is dropped.
pub struct Server {
    address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl Server {
    /// The server of the secure port: listens, loads certificates and the cluster's authentication settings, and serves.
    ///
    /// # Errors
    /// See [`ServingError`].
    pub async fn secure(
        settings: SecureServing,
        authentication: Authentication,
        authorization: Authorization,
        endpoints: Endpoints,
    ) -> Result<Server, ServingError> {
        let begin = async move || {
            let listener = listen(settings.address(), settings.share_port)?;
            let certificates = Certificates::load(&settings).await?;
            let resolver = Arc::new(certificates.clone());
            let tls = server_config(&settings.tls, resolver, settings.http2_streams.is_some())?;
            let protocol = HttpProtocol {
                tls: Some(TlsAcceptor::from(Arc::new(tls))),
                streams: settings.http2_streams.unwrap_or_default(),
                limits: Limits::default(),
            };
            let reviews = client(authentication.cluster.as_ref(), "token reviews")?;
            let access = client(authorization.cluster.as_ref(), "access reviews")?;
            let authenticator = Arc::new(Authenticator::new(authentication, reviews).await?);
            tokio::spawn(certificates.follow());
            tokio::spawn(authenticator.clone().follow());
            let gate = Arc::new(Gate {
                authenticator,
                authorizer: Authorizer::new(authorization, access),
                unauthorized_log: ToldReason::new(ONCE_A_MINUTE),
            });
            let router = endpoints.router().layer(from_fn_with_state(gate, pass));
            Ok((listener, protocol, router))
        };
        run("secure-port", begin).await
    }

    /// A server of `/metrics` alone, without TLS and without authorisation, as some Go managers have one.
    ///
    /// # Errors
    /// See [`ServingError`].
    pub async fn plain(address: SocketAddr, endpoints: Endpoints) -> Result<Server, ServingError> {
        Server::without_tls("plain-port", address, endpoints.plain_router()).await
    }

    /// A server of the status page alone, without authentication: for loopback addresses.
    ///
    /// # Errors
    /// See [`ServingError`].
    pub async fn status(address: SocketAddr, source: StatusSource) -> Result<Server, ServingError> {
        Server::without_tls("status-port", address, status_router(source)).await
    }

    async fn without_tls(
        name: &str,
        address: SocketAddr,
        router: Router,
    ) -> Result<Server, ServingError> {
        let begin = async move || {
            let protocol = HttpProtocol {
                tls: None,
                streams: 0,
                limits: Limits::default(),
            };
            Ok((listen(address, false)?, protocol, router))
        };
        run(name, begin).await
    }

    /// The address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Runs a server on a new thread with a runtime of its own, and waits until it accepts connections.
async fn run<F>(name: &str, begin: F) -> Result<Server, ServingError>
where
    F: AsyncFnOnce() -> Result<(TcpListener, HttpProtocol, Router), ServingError> + Send + 'static,
{
    let (has_begun, begun) = oneshot::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let serve = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                let _ = has_begun.send(Err(ServingError::Thread(error)));
                return;
            }
        };
        runtime.block_on(async {
            let (listener, protocol, router) = match begin().await {
                Ok(parts) => parts,
                Err(error) => {
                    let _ = has_begun.send(Err(error));
                    return;
                }
            };
            let _ = has_begun.send(Ok(listener.local_addr()));
            tokio::select! {
                () = accept(listener, Arc::new(protocol), router) => {}
                // The sender is never used, only dropped.
                _ = stopped => {}
            }
        });
    };
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(serve)
        .map_err(ServingError::Thread)?;
    let ended = || ServingError::Thread(std::io::Error::other("the thread ended"));
    let address = begun.await.map_err(|_| ended())??;
    Ok(Server {
        address: address.map_err(ServingError::Thread)?,
        _stop: stop,
    })
}

async fn accept(listener: TcpListener, protocol: Arc<HttpProtocol>, router: Router) {
    let slots = Slots::default();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT).await;
            continue;
        };
        let slot = slots.take();
        let number = slot.number();
        let (protocol, router) = (protocol.clone(), router.clone());
        let task = tokio::spawn(async move {
            connection::serve(stream, &protocol, router, slot).await;
        });
        // The task has not begun: this runtime has one thread, and nothing is awaited here.
        slots.runs(number, task.abort_handle());
    }
}

fn client(
    cluster: Option<&ClusterAccess>,
    purpose: &'static str,
) -> Result<Option<Client>, ServingError> {
    let Some(ClusterAccess { config, connect }) = cluster else {
        return Ok(None);
    };
    connect(config)
        .map(Some)
        .map_err(|source| ServingError::Client { purpose, source })
}

#[cfg(test)]
pub(crate) mod tests;
