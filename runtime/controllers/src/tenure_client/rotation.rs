//! The connections of one client. As in client-go, they are made anew once the files of the kubeconfig's client
//! certificate have changed: the certificate of a connection is the one of its handshake. Requests under way finish
//! where they began. A refused request is not repeated: its sender retries.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use kube::Config;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt as _, service_fn};

use crate::clock::timer_now;

/// How long the files are not read again, unless the certificate is refused.
const FILE_TIME: Duration = Duration::from_secs(50);

/// Sends each request through connections that `make` opens, and opens them anew after a change of the files that
/// `config` names.
///
/// # Errors
/// They cannot be made.
pub(super) fn rotating<P, M, O>(
    config: &Config,
    make: M,
) -> kube::Result<
    impl Service<Request<Body>, Response = Response<O>, Error = BoxError, Future: Send>
    + Clone
    + Send
    + use<P, M, O>,
>
where
    P: Service<Request<Body>, Response = Response<O>> + Clone + Send + 'static,
    P::Error: Into<BoxError>,
    P::Future: Send,
    M: Fn() -> kube::Result<P> + Send + Sync + 'static,
    O: Send + 'static,
{
    let files = files(config);
    let current = Current {
        // Before the connections: a change in between is found later. `make` reports a file that cannot be read.
        content: read(&files).unwrap_or_default(),
        connections: make()?,
        since: timer_now(),
    };
    let rotation = Arc::new(Rotation {
        make,
        files,
        reading: tokio::sync::Mutex::default(),
        current: Mutex::new(current),
    });
    Ok(service_fn(move |request| {
        let rotation = rotation.clone();
        async move {
            let connections = rotation.connections().await;
            let answer = connections.oneshot(request).await.map_err(Into::into)?;
            if answer.status() == StatusCode::UNAUTHORIZED {
                let _reading = rotation.reading.lock().await;
                rotation.renew().await;
            }
            Ok::<_, BoxError>(answer)
        }
    }))
}

struct Rotation<P, M> {
    make: M,
    /// The files of the certificate and of its key; empty if the kubeconfig names none.
    files: Vec<PathBuf>,
    /// Held while the files are read.
    reading: tokio::sync::Mutex<()>,
    /// Held for moments only.
    current: Mutex<Current<P>>,
}

struct Current<P> {
    connections: P,
    /// Content of the files.
    content: Vec<Vec<u8>>,
    /// When the files were read.
    since: Instant,
}

impl<P, M> Rotation<P, M>
where
    P: Clone + Send + 'static,
    M: Fn() -> kube::Result<P> + Send + Sync + 'static,
{
    /// The connections of the next request. The first one after a while reads the files; others do not wait for it.
    async fn connections(self: &Arc<Self>) -> P {
        let is_due = timer_now().duration_since(self.current.lock().since) >= FILE_TIME;
        if is_due && let Ok(_reading) = self.reading.try_lock() {
            self.renew().await;
        }
        self.current.lock().connections.clone()
    }

    /// Reads the files, and replaces the connections if the files have changed. If that fails, the connections stay.
    async fn renew(self: &Arc<Self>) {
        if self.files.is_empty() {
            return;
        }
        let known = {
            let mut current = self.current.lock();
            current.since = timer_now();
            current.content.clone()
        };
        let rotation = self.clone();
        let renewed = spawn_blocking(move || -> Result<_, BoxError> {
            let content = read(&rotation.files)?;
            if content == known {
                return Ok(None);
            }
            Ok(Some((content, (rotation.make)()?)))
        });
        match renewed.await.map_err(BoxError::from).flatten() {
            Ok(None) => {}
            Ok(Some((content, connections))) => {
                tracing::info!("the client certificate for the API server has been replaced");
                let mut current = self.current.lock();
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
