//! Authenticates a client as a ServiceAccount: its short-lived token comes from a TokenRequest of the base client, and
//! is replaced in good time (PROC-030). Grants nothing: what the account may do is the cluster's RBAC.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::moment::Moment;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, Response, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client};
use tokio::sync::Mutex;
use tower::{BoxError, Service, ServiceExt as _, service_fn};

use crate::clock::{boottime, wall};

/// Lifetime that is asked for, in seconds; upstream's.
const LIFETIME: i64 = 3600;
/// Attempts to get a token, and the pause after the first one, which doubles; upstream's.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(500);
/// Pause between attempts to replace a token that is still valid.
const AGAIN: Duration = Duration::from_secs(10);
/// Maximum time for which a request waits while such a token is replaced.
const REPLACED_WITHIN: Duration = Duration::from_secs(2);
/// Minimum life of a token, as in client-go: a shorter one means that the clocks differ. The API server judges the token by
/// its own, and one that it refuses is replaced.
const LEAST: Duration = Duration::from_secs(600);

/// The tokens of one ServiceAccount. Clones share them.
#[derive(Clone)]
pub struct TokenSource(Arc<Source>);

struct Source {
    accounts: Api<ServiceAccount>,
    name: String,
    current: Mutex<Option<Token>>,
}

#[derive(Clone)]
struct Token {
    header: HeaderValue,
    /// When a new token is requested: after four fifths of its life.
    stale: Moment,
    /// When the API server refuses it.
    ended: Moment,
}

impl TokenSource {
    /// The tokens of ServiceAccount `name` in `namespace`, requested through `base`, which may have to create the
    /// account.
    pub fn new(base: Client, namespace: &str, name: &str) -> TokenSource {
        TokenSource(Arc::new(Source {
            accounts: Api::namespaced(base, namespace),
            name: name.to_owned(),
            current: Mutex::default(),
        }))
    }

    /// Sends each request through `inner`, with a token.
    pub(super) fn around<S, O>(
        self,
        inner: S,
    ) -> impl Service<Request<Body>, Response = Response<O>, Error = BoxError, Future: Send> + Clone + Send
    where
        S: Service<Request<Body>, Response = Response<O>, Error = BoxError> + Clone + Send,
        S::Future: Send,
        O: Send,
    {
        service_fn(move |mut request: Request<Body>| {
            let (tokens, inner) = (self.clone(), inner.clone());
            async move {
                let header = tokens.header().await?;
                request.headers_mut().insert(AUTHORIZATION, header.clone());
                let answer = inner.oneshot(request).await?;
                if answer.status() == StatusCode::UNAUTHORIZED {
                    tokens.refused(&header).await;
                }
                Ok::<_, BoxError>(answer)
            }
        })
    }

    /// The value of `Authorization`. Requests that need a new token wait for the same one.
    async fn header(&self) -> Result<HeaderValue, BoxError> {
        let mut current = self.0.current.lock().await;
        let now = boottime();
        current.take_if(|token| token.ended <= now);
        let asked = match current.as_mut() {
            Some(valid) if now < valid.stale => return Ok(valid.header.clone()),
            Some(valid) => {
                // Before the request, since this future may be dropped meanwhile.
                valid.stale = now.after(AGAIN);
                tokio::time::timeout(REPLACED_WITHIN, self.request(1))
                    .await
                    .unwrap_or_else(|_| Err(format!("no answer within {REPLACED_WITHIN:?}").into()))
            }
            None => self.request(TRIES).await,
        };
        let account = &self.0.name;
        match (asked, current.as_ref()) {
            (Ok(token), _) => Ok(current.insert(token).header.clone()),
            (Err(error), Some(valid)) => {
                tracing::warn!(account, %error, "its token could not be replaced; it is still valid");
                Ok(valid.header.clone())
            }
            (Err(error), None) => {
                Err(format!("no token for ServiceAccount {account}: {error}").into())
            }
        }
    }

    /// Drops a token that the API server refused, such as that of an account that was deleted and created again.
    async fn refused(&self, header: &HeaderValue) {
        let mut current = self.0.current.lock().await;
        if current
            .as_ref()
            .is_some_and(|token| token.header == *header)
        {
            *current = None;
        }
    }

    async fn request(&self, mut tries: u32) -> Result<Token, BoxError> {
        let mut pause = PAUSE;
        loop {
            let error = match self.request_once().await {
                Ok(token) => return Ok(token),
                Err(error) => error,
            };
            tries -= 1;
            if tries == 0 {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    async fn request_once(&self) -> Result<Token, BoxError> {
        let Source { accounts, name, .. } = &*self.0;
        let params = PostParams::default();
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(LIFETIME),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let granted = match accounts.create_token_request(name, &params, &request).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let account = ServiceAccount {
                    metadata: ObjectMeta {
                        name: Some(name.clone()),
                        ..ObjectMeta::default()
                    },
                    ..ServiceAccount::default()
                };
                match accounts.create(&params, &account).await {
                    Ok(_) => tracing::info!(account = name, "the ServiceAccount was created"),
                    // Another process has created it first.
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    Err(error) => return Err(error.into()),
                }
                accounts
                    .create_token_request(name, &params, &request)
                    .await?
            }
            granted => granted?,
        };
        let status = granted.status.ok_or("the answer has no token")?;
        let life = status.expiration_timestamp.0.duration_since(wall());
        let life = Duration::try_from(life).unwrap_or_default().max(LEAST);
        Token::granted(&status.token, life, boottime())
    }
}

impl Token {
    /// The token that was granted at `now` for `life`.
    fn granted(token: &str, life: Duration, now: Moment) -> Result<Token, BoxError> {
        let mut header = HeaderValue::try_from(format!("Bearer {token}"))?;
        header.set_sensitive(true);
        Ok(Token {
            header,
            stale: now.after(life / 5 * 4),
            ended: now.after(life),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_token_is_replaced_after_four_fifths_of_its_life_and_never_shown() {
        let at = |second| Moment(Duration::from_secs(second));
        let token = Token::granted("secret", Duration::from_secs(3600), at(100)).unwrap();
        assert_eq!((token.stale, token.ended), (at(2980), at(3700)));
        assert!(token.header.is_sensitive());
    }
}
