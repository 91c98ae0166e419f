//! The kubeconfig's credential. kube makes it, and replaces it before it expires; here it is made anew once the API
//! server has refused it, as client-go does: an exec plugin runs again, a token file is read again. A refused request
//! is not repeated: its sender retries. A client certificate is part of the connections (`rotation.rs`).
//!
//! A token file is read here, as client-go reads it: each minute, without the end of its line, and before a token that
//! stands beside it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use http::header::HeaderValue;
use http::{Request, Response, StatusCode};
use kube::Config;
use kube::client::{AuthError, Body, ConfigExt as _, middleware::AuthLayer};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tower::{BoxError, Layer as _, Service, ServiceExt as _, service_fn};

use crate::clock::timer_now;

/// How long the token of a file is used: client-go's minute, less its ten seconds.
const FILE_TIME: Duration = Duration::from_secs(50);
/// Characters of an exec plugin's standard error in a message.
const MOST_SAID: usize = 512;

/// The credential of one client. Clones share it.
#[derive(Clone)]
pub(super) struct Credential(Arc<Shared>);

struct Shared {
    config: Config,
    current: Mutex<Current>,
}

struct Current {
    /// `None`: the kubeconfig has no credential that is sent in a header.
    layer: Arc<Option<AuthLayer>>,
    /// When it was made, or could not be replaced.
    since: Instant,
}

impl Credential {
    /// Makes the credential of `config`, which may run an exec plugin.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn new(config: &Config) -> kube::Result<Credential> {
        Ok(Credential(Arc::new(Shared {
            current: Mutex::new(Current {
                layer: Arc::new(made(config)?),
                since: timer_now(),
            }),
            config: config.clone(),
        })))
    }

    /// Sends each request through `inner`, with this credential.
    pub(super) fn around<S, O>(
        self,
        inner: S,
    ) -> impl Service<Request<Body>, Response = Response<O>, Error = BoxError, Future: Send> + Clone + Send
    where
        S: Service<Request<Body>, Response = Response<O>, Error = BoxError> + Clone + Send,
        S::Future: Send,
        O: Send,
    {
        service_fn(move |request: Request<Body>| {
            let (credential, inner) = (self.clone(), inner.clone());
            async move {
                let current = credential.current().await;
                let answer = match &*current {
                    Some(layer) => {
                        let answer = layer.layer(inner).oneshot(request).await;
                        answer.map_err(|error| match error.downcast::<AuthError>() {
                            Ok(error) => without_secrets(*error).into(),
                            Err(error) => error,
                        })?
                    }
                    None => inner.oneshot(request).await?,
                };
                if answer.status() == StatusCode::UNAUTHORIZED {
                    credential.refused(&current).await;
                }
                Ok::<_, BoxError>(answer)
            }
        })
    }

    /// The credential of the next request.
    async fn current(&self) -> Arc<Option<AuthLayer>> {
        let mut current = self.0.current.lock().await;
        let is_old = timer_now().duration_since(current.since) >= FILE_TIME;
        if is_old && token_file(&self.0.config).is_some() {
            // As in client-go, the token counts until there is another one.
            if let Err(error) = self.renew(&mut current).await {
                tracing::warn!(%error, "the token of the API server cannot be read again");
            }
        }
        current.layer.clone()
    }

    /// Replaces a refused credential unless that has happened already. Requests wait meanwhile. If it fails, the
    /// refused credential stays, and the next refusal is the next attempt.
    async fn refused(&self, refused: &Arc<Option<AuthLayer>>) {
        let mut current = self.0.current.lock().await;
        // A credential that is not sent in a header cannot be replaced here.
        if refused.is_none() || !Arc::ptr_eq(&current.layer, refused) {
            return;
        }
        if let Err(error) = self.renew(&mut current).await {
            tracing::warn!(%error, "the API server refused the credential, and it cannot be replaced");
        }
    }

    async fn renew(&self, current: &mut Current) -> Result<(), BoxError> {
        let config = self.0.config.clone();
        current.since = timer_now();
        // A plugin may take seconds.
        current.layer = Arc::new(spawn_blocking(move || made(&config)).await??);
        Ok(())
    }
}

/// Makes the credential of `config`.
fn made(config: &Config) -> kube::Result<Option<AuthLayer>> {
    let Some(file) = token_file(config) else {
        return auth_layer(config);
    };
    let mut of_token = Config::new(config.cluster_url.clone());
    of_token.auth_info = config.auth_info.clone();
    of_token.auth_info.token_file = None;
    match token(file) {
        Ok(token) => of_token.auth_info.token = Some(token.into()),
        // As in client-go, the token beside the file counts until that can be read.
        Err(_) if config.auth_info.token.is_some() => {}
        Err(error) => return Err(kube::Error::Auth(error)),
    }
    auth_layer(&of_token)
}

/// The credential that kube makes of `config`.
fn auth_layer(config: &Config) -> kube::Result<Option<AuthLayer>> {
    // kube panics for a token with a line break, which also an exec plugin may print.
    let made = catch_unwind(AssertUnwindSafe(|| config.auth_layer()));
    let made = made.unwrap_or_else(|_| {
        let why = "the token has characters that no header can have".to_owned();
        Err(kube::Error::Auth(AuthError::AuthExec(why)))
    });
    made.map_err(|error| match error {
        kube::Error::Auth(error) => kube::Error::Auth(without_secrets(error)),
        other => other,
    })
}

/// The file of the token, unless kube prefers another credential.
fn token_file(config: &Config) -> Option<&str> {
    let own = &config.auth_info;
    let has_login = own.username.is_some() && own.password.is_some();
    let is_other = has_login || own.auth_provider.is_some();
    own.token_file.as_deref().filter(|_| !is_other)
}

fn token(file: &str) -> Result<String, AuthError> {
    let unusable = |error| AuthError::ReadTokenFile(error, file.into());
    let text = std::fs::read_to_string(file).map_err(unusable)?;
    let token = text.trim();
    if token.is_empty() {
        let empty = io::Error::new(io::ErrorKind::InvalidData, "it is empty");
        return Err(unusable(empty));
    }
    HeaderValue::try_from(token).map_err(AuthError::InvalidBearerToken)?;
    Ok(token.to_owned())
}

/// The error without the environment and the output of an exec plugin, which may have secrets. Its standard error is for
/// the log, as in client-go.
fn without_secrets(error: AuthError) -> AuthError {
    AuthError::AuthExec(match error {
        AuthError::AuthExecRun { out, .. } => {
            let said = String::from_utf8_lossy(&out.stderr);
            let said: String = said.trim().chars().take(MOST_SAID).collect();
            format!("the plugin ended with {}: {said}", out.status)
        }
        AuthError::AuthExecParse(_) => "the plugin printed no ExecCredential".to_owned(),
        other => return other,
    })
}
