//! A client whose answers begin in time. kube limits the time between two events of a watch, and not the time
//! until the first one: an answer that never begins, or a refusal that never ends, would keep a watch waiting
//! for ever, and with it every new node. Repeats nothing.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use tower::BoxError;

/// How long the head of an answer, and the whole of a refusal, may take. An API server sends the head of a watch at
/// once, and gives up on other requests after a minute by itself; a page of a list takes seconds.
const OPENING: Duration = Duration::from_secs(30);
/// Bytes of a refusal: a `Status` object is far smaller.
const MOST_REFUSAL: usize = 64 << 10;

/// `inner`, with this bound.
pub(super) fn bounded(inner: Client) -> Client {
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
