//! The kubeconfig's credential. kube makes it, and replaces it before it expires; here it is made anew once the API
//! server has refused it, as client-go does: an exec plugin runs again, a token file is read again. A refused request
//! is not repeated: its sender retries. A client certificate is part of the connections, and stays.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response, StatusCode};
use kube::Config;
use kube::client::{Body, ConfigExt as _, middleware::AuthLayer};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tower::{BoxError, Layer, Service, ServiceExt as _};

/// The credential of one client. Clones share it.
#[derive(Clone)]
pub(super) struct Credential(Arc<Shared>);

struct Shared {
    config: Config,
    /// `None`: the kubeconfig has no credential that is sent in a header.
    current: Mutex<Arc<Option<AuthLayer>>>,
}

impl Credential {
    /// Makes the credential of `config`, which may run an exec plugin.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn new(config: &Config) -> kube::Result<Credential> {
        Ok(Credential(Arc::new(Shared {
            current: Mutex::new(Arc::new(config.auth_layer()?)),
            config: config.clone(),
        })))
    }

    /// Replaces a refused credential unless that has happened already. Requests wait meanwhile. If it fails, the
    /// refused credential stays, and the next refusal is the next attempt.
    async fn refused(&self, refused: &Arc<Option<AuthLayer>>) {
        let mut current = self.0.current.lock().await;
        // A credential that is not sent in a header cannot be replaced here.
        if refused.is_none() || !Arc::ptr_eq(&current, refused) {
            return;
        }
        let config = self.0.config.clone();
        // A plugin may take seconds.
        let made = spawn_blocking(move || config.auth_layer()).await;
        match made.map_err(BoxError::from).and_then(|made| Ok(made?)) {
            Ok(made) => *current = Arc::new(made),
            Err(error) => {
                tracing::warn!(%error, "the API server refused the credential, and it cannot be replaced");
            }
        }
    }
}

impl<S> Layer<S> for Credential {
    type Service = Authenticated<S>;

    fn layer(&self, inner: S) -> Authenticated<S> {
        Authenticated {
            credential: self.clone(),
            inner,
        }
    }
}

/// The service that [`Credential`] makes.
#[derive(Clone)]
pub(super) struct Authenticated<S> {
    credential: Credential,
    inner: S,
}

impl<S, O> Service<Request<Body>> for Authenticated<S>
where
    S: Service<Request<Body>, Response = Response<O>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
    O: Send + 'static,
{
    type Response = Response<O>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<O>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The request waits for the inner service, whose readiness would belong to another clone.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (credential, inner) = (self.credential.clone(), self.inner.clone());
        Box::pin(async move {
            let current = credential.0.current.lock().await.clone();
            let answer = match &*current {
                Some(layer) => layer.layer(inner).oneshot(request).await?,
                None => inner.oneshot(request).await?,
            };
            if answer.status() == StatusCode::UNAUTHORIZED {
                credential.refused(&current).await;
            }
            Ok(answer)
        })
    }
}
