//! The connections of one client. As in client-go, they are made anew once the files of the kubeconfig's client
//! certificate have changed: the certificate of a connection is the one of its handshake. Requests under way finish
//! where they began. A refused request is not repeated: its sender retries.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use kube::Config;
use kube::client::Body;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt as _};

use crate::clock::timer_now;

/// How long the files are not read again, unless the certificate is refused.
const FILE_TIME: Duration = Duration::from_secs(50);

/// The connections that `make` opens. Clones share them.
pub(super) struct Rotating<P, M>(Arc<Shared<P, M>>);

struct Shared<P, M> {
    make: M,
    /// The files of the certificate and of its key; empty if the kubeconfig names none.
    files: Vec<PathBuf>,
    current: Mutex<Current<P>>,
}

struct Current<P> {
    connections: P,
    /// Content of the files.
    content: Vec<Vec<u8>>,
    /// When the files were read.
    since: Instant,
}

impl<P, M> Clone for Rotating<P, M> {
    fn clone(&self) -> Rotating<P, M> {
        Rotating(self.0.clone())
    }
}

impl<P, M> Rotating<P, M>
where
    P: Clone + Send + 'static,
    M: Fn() -> kube::Result<P> + Send + Sync + 'static,
{
    /// Makes the connections for `config`.
    ///
    /// # Errors
    /// They cannot be made.
    pub(super) fn new(config: &Config, make: M) -> kube::Result<Rotating<P, M>> {
        let files = files(config);
        let current = Current {
            // Before the connections: a change in between is found later. `make` reports a file that cannot be read.
            content: read(&files).unwrap_or_default(),
            connections: make()?,
            since: timer_now(),
        };
        Ok(Rotating(Arc::new(Shared {
            make,
            files,
            current: Mutex::new(current),
        })))
    }

    /// The connections of the next request.
    async fn current(&self) -> P {
        let mut current = self.0.current.lock().await;
        if timer_now().duration_since(current.since) >= FILE_TIME {
            self.renew(&mut current).await;
        }
        current.connections.clone()
    }

    /// Reads the files, and replaces the connections if the files have changed. If that fails, the connections stay.
    async fn renew(&self, current: &mut Current<P>) {
        if self.0.files.is_empty() {
            return;
        }
        current.since = timer_now();
        let (shared, known) = (self.0.clone(), current.content.clone());
        let renewed = spawn_blocking(move || -> Result<_, BoxError> {
            let content = read(&shared.files)?;
            if content == known {
                return Ok(None);
            }
            Ok(Some((content, (shared.make)()?)))
        });
        match renewed.await.map_err(BoxError::from).flatten() {
            Ok(None) => {}
            Ok(Some((content, connections))) => {
                tracing::info!("the client certificate for the API server has been replaced");
                current.content = content;
                current.connections = connections;
            }
            Err(error) => {
                tracing::warn!(%error, "the client certificate for the API server cannot be read again");
            }
        }
    }
}

/// The files of the client certificate. As in client-go, data in the kubeconfig itself count before them.
fn files(config: &Config) -> Vec<PathBuf> {
    let own = &config.auth_info;
    let certificate = own.client_certificate.iter();
    let certificate = certificate.filter(|_| own.client_certificate_data.is_none());
    let key = own.client_key.iter();
    let key = key.filter(|_| own.client_key_data.is_none());
    certificate.chain(key).map(PathBuf::from).collect()
}

fn read(files: &[PathBuf]) -> io::Result<Vec<Vec<u8>>> {
    files.iter().map(std::fs::read).collect()
}

impl<P, M, O> Service<Request<Body>> for Rotating<P, M>
where
    P: Service<Request<Body>, Response = Response<O>> + Clone + Send + 'static,
    P::Error: Into<BoxError>,
    P::Future: Send,
    M: Fn() -> kube::Result<P> + Send + Sync + 'static,
    O: Send + 'static,
{
    type Response = Response<O>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<O>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The request waits for the connections, which may be replaced until then.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = self.clone();
        Box::pin(async move {
            let connections = shared.current().await;
            let answer = connections.oneshot(request).await.map_err(Into::into)?;
            if answer.status() == StatusCode::UNAUTHORIZED {
                let mut current = shared.0.current.lock().await;
                shared.renew(&mut current).await;
            }
            Ok(answer)
        })
    }
}
