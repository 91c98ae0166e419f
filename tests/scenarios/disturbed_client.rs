//! The wire between the controllers and the API server: counts requests, injects the planned fault, and ends the
//! process where that is planned. The server behind it is always honest.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyDataStream, BodyExt as _, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use crate::broken_clients::{self, Tamper};
use crate::crash::{Act, Life};
use crate::disturbance::{Asked, RequestFault, WatchFault};

/// The domain of another client's writes while the controllers work.
pub(crate) const OTHER_CLIENT: &str = "somebody.example";
/// Delay of a slow watch.
const SLOW: Duration = Duration::from_secs(60);
/// The `Retry-After` of refusals.
const RETRY_AFTER: &str = "2";
/// More conflicts than one reconciliation takes before it gives up and comes back later.
const MANY: usize = 25;

/// Maximum number of events of a slow watch under way; more than any scenario has.
const MOST_ON_THE_WAY: usize = 1000;

type Events = BoxStream<'static, Result<Bytes, BoxError>>;

/// A response as the client receives it.
pub(crate) type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// A wire. Clones are the same wire.
#[derive(Clone)]
pub(crate) struct Wire {
    shared: Arc<Shared>,
}

struct Shared {
    fault: Option<(RequestFault, usize)>,
    tamper: Option<Tamper>,
    /// Another client's connection to the same API server.
    request_as_other_client: Client,
    so_far: Mutex<SoFar>,
}

#[derive(Default)]
struct SoFar {
    asked: Vec<Asked>,
    hits: usize,
    held: broken_clients::Held,
}

impl Wire {
    /// A wire with this fault at the request with this number. `broken_clients` adds a defect of the client itself.
    pub(crate) fn new(
        fault: Option<(RequestFault, usize)>,
        tamper: Option<Tamper>,
        request_as_other_client: Client,
    ) -> Wire {
        let shared = Shared {
            fault,
            tamper,
            request_as_other_client,
            so_far: Mutex::default(),
        };
        Wire {
            shared: Arc::new(shared),
        }
    }

    /// The requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.so_far.lock().unwrap().asked.clone()
    }

    /// How many requests have met the fault.
    pub(crate) fn hits(&self) -> usize {
        self.shared.so_far.lock().unwrap().hits
    }

    /// `inner`, reached through this wire by a process with this life; `None`: by one that nothing kills.
    pub(crate) fn client(&self, inner: Client, life: Option<Life>) -> Client {
        let wire = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (wire, inner, life) = (wire.clone(), inner.clone(), life.clone());
            async move { wire.send(inner, life, request).await }
        });
        Client::new(service, "default")
    }

    async fn send(
        self,
        inner: Client,
        life: Option<Life>,
        request: Request<Body>,
    ) -> Result<Answer, BoxError> {
        if let Some(life) = &life {
            life.wait_if_over().await;
        }
        let is_write = request.method() != Method::GET;
        let fault = self.count(&request);
        let carry_out = self.through(inner, fault, request);
        match life {
            Some(life) if is_write => life.effect(Act::Write, carry_out).await,
            _ => carry_out.await,
        }
    }

    /// Counts a request, and returns the fault that it meets.
    fn count(&self, request: &Request<Body>) -> Option<RequestFault> {
        let path = request.uri().path();
        let query = request.uri().query().unwrap_or_default();
        let asked = Asked {
            is_watch: query.contains("watch=true"),
            is_write: request.method() != Method::GET,
            is_about_an_object: path.contains("/nodes/") || path.contains("/services/"),
        };
        let mut so_far = self.shared.so_far.lock().unwrap();
        so_far.asked.push(asked);
        let (fault, number) = self.shared.fault?;
        let is_hit = match fault {
            RequestFault::Conflicts => {
                so_far.asked.len() >= number && so_far.hits < MANY && fault.can_meet(asked)
            }
            _ => so_far.asked.len() == number,
        };
        so_far.hits += usize::from(is_hit);
        is_hit.then_some(fault)
    }

    /// Sends a request and receives its answer, both with the client's defect.
    async fn through(
        self,
        inner: Client,
        fault: Option<RequestFault>,
        request: Request<Body>,
    ) -> Result<Answer, BoxError> {
        let path = request.uri().path().to_owned();
        let is_write = request.method() != Method::GET;
        let tamper = self.shared.tamper.filter(|_| is_write);
        let answer = self.carry_out(inner.clone(), fault, request).await;
        match tamper {
            Some(tamper) => tamper.receive(inner, path, answer).await,
            None => answer,
        }
    }

    async fn carry_out(
        self,
        inner: Client,
        fault: Option<RequestFault>,
        request: Request<Body>,
    ) -> Result<Answer, BoxError> {
        match fault {
            None => self.deliver(inner, request).await,
            Some(RequestFault::Conflict | RequestFault::Conflicts) => {
                self.interfere(request.uri().path()).await;
                Ok(refusal(409))
            }
            Some(RequestFault::Meddling) => {
                self.interfere(request.uri().path()).await;
                self.deliver(inner, request).await
            }
            Some(RequestFault::HangsBefore) => std::future::pending().await,
            Some(RequestFault::HangsAfter) => {
                drop(self.deliver(inner, request).await);
                std::future::pending().await
            }
            Some(RequestFault::ResetBefore) => Err(reset()),
            Some(RequestFault::ResetAfter) => {
                drop(self.deliver(inner, request).await);
                Err(reset())
            }
            Some(RequestFault::Refused(code)) => Ok(refusal(code)),
            Some(RequestFault::TooOld) => Ok(refusal(410)),
            Some(RequestFault::Watch(fault, after)) => {
                let answer = self.deliver(inner, request).await?;
                Ok(answer.map(|body| disturbed(body, fault, after)))
            }
        }
    }

    /// Sends the request to the server, through the client's defect if there is one.
    async fn deliver(&self, inner: Client, request: Request<Body>) -> Result<Answer, BoxError> {
        let Some(tamper) = self.shared.tamper else {
            return plain(inner, request).await;
        };
        if tamper == Tamper::Deaf && request.method() == Method::GET && self.hits() > 0 {
            let answer = plain(inner, request).await?;
            return Ok(answer.map(|body| disturbed(body, WatchFault::Silent, 0)));
        }
        let held = self.shared.so_far.lock().unwrap().held.clone();
        tamper.deliver(held, inner, request).await
    }

    /// Another client writes to the object at `path`: an annotation, and its taint or condition if that is missing.
    async fn interfere(&self, path: &str) {
        let object = path.trim_end_matches("/status");
        // An object that is gone cannot be written.
        let Some(now) = self
            .request_as_other_client("GET", object, Value::Null)
            .await
        else {
            return;
        };
        let number = self.hits();
        let mut patch = json!({ "metadata": { "annotations": { format!("{OTHER_CLIENT}/note"): format!("{number}") } } });
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        if object.contains("/services/") {
            let mut conditions = list(&now["status"]["conditions"]);
            if !conditions
                .iter()
                .any(|one| is_of_other_client(&one["type"]))
            {
                conditions.push(json!({
                    "type": format!("{OTHER_CLIENT}/Seen"), "status": "True", "reason": "Seen", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }));
                let status = json!({ "status": { "conditions": conditions } });
                self.request_as_other_client("PATCH", &format!("{object}/status"), status)
                    .await;
            }
        } else {
            let mut taints = list(&now["spec"]["taints"]);
            if !taints.iter().any(|one| is_of_other_client(&one["key"])) {
                taints.push(
                    json!({ "key": format!("{OTHER_CLIENT}/taint"), "effect": "NoSchedule" }),
                );
                patch["spec"] = json!({ "taints": taints });
            }
        }
        let patched = self.request_as_other_client("PATCH", object, patch).await;
        assert!(patched.is_some(), "anybody may write to {object}");
    }

    /// A request of another client; returns the object, if there is one.
    async fn request_as_other_client(
        &self,
        method: &str,
        path: &str,
        body: Value,
    ) -> Option<Value> {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/merge-patch+json");
        let body = serde_json::to_vec(&body).expect("JSON");
        let request = request.body(Body::from(body)).expect("a request");
        let answer = self.shared.request_as_other_client.send(request).await;
        let answer = answer.expect("the in-memory API server answers");
        let is_there = answer.status().is_success();
        let body = answer.into_body().collect_bytes().await.ok()?;
        is_there.then(|| serde_json::from_slice(&body).expect("an object"))
    }
}

/// Whether it is the key of a taint, or the type of a condition, that the other client writes.
pub(crate) fn is_of_other_client(key: &Value) -> bool {
    key.as_str()
        .is_some_and(|key| key.starts_with(OTHER_CLIENT))
}

/// Sends a request without any fault.
pub(crate) async fn plain(inner: Client, request: Request<Body>) -> Result<Answer, BoxError> {
    let answer = inner.send(request).await?;
    Ok(answer.map(|body| UnsyncBoxBody::new(body.map_err(BoxError::from))))
}

/// A body that consists of these bytes.
pub(crate) fn whole(bytes: impl Into<Bytes>) -> UnsyncBoxBody<Bytes, BoxError> {
    UnsyncBoxBody::new(Full::new(bytes.into()).map_err(|never| match never {}))
}

fn status(code: u16) -> Value {
    let (reason, message) = match code {
        409 => ("Conflict", "the object has been modified"),
        410 => ("Expired", "too old resource version"),
        429 => ("TooManyRequests", "too many requests"),
        _ => ("ServiceUnavailable", "the server is not ready"),
    };
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": format!("injected: {message}"),
    })
}

fn refusal(code: u16) -> Answer {
    let mut answer = Response::new(whole(status(code).to_string()));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap();
    if matches!(code, 429 | 503) {
        let headers = answer.headers_mut();
        headers.insert(http::header::RETRY_AFTER, RETRY_AFTER.parse().unwrap());
    }
    answer
}

fn reset() -> BoxError {
    std::io::Error::new(
        std::io::ErrorKind::ConnectionReset,
        "injected: the connection was reset",
    )
    .into()
}

/// The events of a watch, with a fault after the first few.
fn disturbed(
    body: UnsyncBoxBody<Bytes, BoxError>,
    fault: WatchFault,
    after: usize,
) -> UnsyncBoxBody<Bytes, BoxError> {
    // The server sends one event per frame.
    let events = BodyDataStream::new(body).enumerate();
    let calm =
        move |(index, _): &(usize, Result<Bytes, BoxError>)| std::future::ready(*index < after);
    let event = |(_, event): (usize, Result<Bytes, BoxError>)| event;
    let events: Events = match fault {
        WatchFault::Ended => events.take_while(calm).map(event).boxed(),
        WatchFault::Expired => {
            let line = format!("{}\n", json!({ "type": "ERROR", "object": status(410) }));
            let last = stream::iter([Ok(Bytes::from(line))]);
            events.take_while(calm).map(event).chain(last).boxed()
        }
        WatchFault::Reset => {
            let last = stream::iter([Err(reset())]);
            events.take_while(calm).map(event).chain(last).boxed()
        }
        WatchFault::Silent => {
            let silence = stream::pending();
            events.take_while(calm).map(event).chain(silence).boxed()
        }
        WatchFault::Truncated => {
            let cut = move |(index, event): (usize, Result<Bytes, BoxError>)| match event {
                Ok(event) if index == after => Ok(event.slice(..event.len() / 2)),
                event => event,
            };
            events.take(after + 1).map(cut).boxed()
        }
        WatchFault::Slow => {
            let late = move |(index, event): (usize, Result<Bytes, BoxError>)| async move {
                if index >= after {
                    tokio::time::sleep(SLOW).await;
                }
                event
            };
            events.map(late).buffered(MOST_ON_THE_WAY).boxed()
        }
    };
    UnsyncBoxBody::new(StreamBody::new(events.map(|event| event.map(Frame::data))))
}
