//! Client with a timeout on the start of each response. kube limits the time between two watch events, but not the time
//! until the first: a response that never begins, or an error body that never ends, would block a watch for ever, and
//! with it every new node. Retries nothing.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use tower::BoxError;

/// Timeout for the response head, and for a complete error response. An API server sends the head of a watch at once,
/// and ends other requests after a minute by itself; a page of a list takes seconds.
const OPENING: Duration = Duration::from_secs(30);
/// Maximum size of an error response, in bytes; a `Status` object is far smaller.
const MOST_REFUSAL: usize = 64 << 10;

/// Wraps `inner`: a response head, and a complete error response, that take longer than 30 s are errors.
pub fn with_response_timeout(inner: Client) -> Client {
    let namespace = inner.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        async move {
            match tokio::time::timeout(OPENING, open(inner, request)).await {
                Ok(answer) => answer,
                Err(_) => Err(format!("the answer did not begin within {OPENING:?}").into()),
            }
        }
    });
    Client::new(service, namespace)
}

async fn open(inner: Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    let answer = inner.send(request).await?;
    if answer.status().is_success() {
        return Ok(answer);
    }
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, MOST_REFUSAL).collect().await?.to_bytes();
    Ok(Response::from_parts(head, Body::from(body.to_vec())))
}
