//! Maps HTTP requests to responses: faults, the lock, the log, and the choice of handler. Handlers know no HTTP beyond
//! status codes; this file knows no kind.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use kube::client::Body;
use serde_json::Value;
use tower::BoxError;

use super::ask::{Ask, Place, Verb};
use super::delete;
use super::discovery::{self, Document};
use super::fault::{self, FaultEffect};
use super::ledger;
use super::refusal::Refusal;
use super::watch::Watch;
use super::write::Moment;
use super::{Inner, Request, World, read, write};

/// The largest request body, in bytes: kube-apiserver's own limit.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// An HTTP response whose body may be a stream.
type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The result of a handler.
enum Reply {
    Object(StatusCode, Value),
    Text(&'static str),
    Watch(Box<Watch>),
}

/// Answers one request of one client.
pub(super) async fn answer(
    inner: Arc<Inner>,
    identity: Arc<str>,
    request: http::Request<Body>,
) -> Result<Answer, BoxError> {
    let (head, body) = request.into_parts();
    let custom = !inner.world.lock().is_undefined;
    let place = match discovery::document(head.uri.path(), custom) {
        Some(document) => Err(document),
        None => Ok(Place::find(head.uri.path()).and_then(|place| {
            if custom || !place.kind.is_custom {
                Ok(place)
            } else {
                Err(Refusal::no_such_path())
            }
        })),
    };
    let place = match place {
        Err(Document::Json(object)) => return respond(Ok(Reply::Object(StatusCode::OK, object))),
        Err(Document::Text(text)) => return respond(Ok(Reply::Text(text))),
        Ok(Err(refusal)) => return respond(Err(refusal)),
        Ok(Ok(place)) => place,
    };
    let mut entry = Request::about(&identity, &place, &head);
    let mut ask = match Ask::read(place, &head) {
        Ok(ask) => ask,
        Err(refusal) => {
            entry.code = Some(refusal.code);
            inner.world.lock().record(entry);
            return respond(Err(refusal));
        }
    };
    entry.verb = ask.verb.as_str();
    let body = match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => return respond(Err(Refusal::bad_request("the request body is too large"))),
    };
    let effect = inner.take_fault(&identity, ask.verb, &head);
    if let Some(FaultEffect::Delayed(delay)) = effect {
        tokio::time::sleep(delay).await;
    }
    let (reply, changed) = {
        let mut world = inner.world.lock();
        let before = world.store.revision();
        let object_before = ledger::look(&world, &ask);
        let reply = match effect {
            Some(FaultEffect::LostBeforeCommit) => None,
            Some(FaultEffect::Refused { code, retry_after }) => {
                Some(Err(Refusal::injected(code, retry_after)))
            }
            Some(FaultEffect::LostAfterCommit) => {
                // Discard the response: the client never receives it.
                drop(handle(&inner, &mut world, &mut ask, &body));
                None
            }
            Some(FaultEffect::Delayed(_)) | None => {
                Some(handle(&inner, &mut world, &mut ask, &body))
            }
        };
        entry.code = reply.as_ref().map(|reply| match reply {
            Ok(Reply::Object(code, _)) => code.as_u16(),
            Ok(_) => 200,
            Err(refusal) => refusal.code,
        });
        world.record(entry);
        ledger::keep(&mut world, &ask, &body, object_before);
        (reply, world.store.revision() != before)
    };
    if changed {
        inner.wake();
    }
    match reply {
        Some(reply) => respond(reply),
        None => Err(lost()),
    }
}

fn handle(
    inner: &Arc<Inner>,
    world: &mut World,
    ask: &mut Ask,
    body: &[u8],
) -> Result<Reply, Refusal> {
    let object = |(code, object)| Reply::Object(code, object);
    let moment = Moment {
        now: inner.now(),
        serial: world.next_serial(),
    };
    let store = &mut world.store;
    match ask.verb {
        Verb::Get => read::get(store, ask).map(|one| Reply::Object(StatusCode::OK, one)),
        Verb::List => read::list(store, ask).map(|list| Reply::Object(StatusCode::OK, list)),
        Verb::Watch => Watch::open(inner, store, ask).map(|open| Reply::Watch(Box::new(open))),
        Verb::Create => write::create(store, ask, body, &moment).map(object),
        Verb::Update => write::update(store, ask, body, &moment).map(object),
        Verb::Patch => write::patch(store, ask, body).map(object),
        Verb::Delete => {
            let options = delete::Options::read(ask, body)?;
            delete::delete(store, ask, &options, &moment.now).map(object)
        }
        Verb::DeleteCollection => {
            let options = delete::Options::read(ask, body)?;
            delete::delete_collection(store, ask, &options, &moment.now).map(object)
        }
    }
}

fn respond(reply: Result<Reply, Refusal>) -> Result<Answer, BoxError> {
    let json = HeaderValue::from_static("application/json");
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    let whole = |bytes: Vec<u8>| Full::new(Bytes::from(bytes)).boxed_unsync();
    let mut retry_after = None;
    let (code, content_type, body) = match reply {
        Ok(Reply::Object(code, object)) => (code, json, whole(object.to_string().into_bytes())),
        Ok(Reply::Text(answer)) => (StatusCode::OK, text, whole(answer.as_bytes().to_vec())),
        Ok(Reply::Watch(open)) => {
            let stream = StreamBody::new(open.stream());
            (StatusCode::OK, json, BodyExt::boxed_unsync(stream))
        }
        Err(refusal) => {
            retry_after = refusal.retry_after;
            let code = StatusCode::from_u16(refusal.code)?;
            match refusal.plain_text() {
                Some(answer) => (code, text, whole(answer.as_bytes().to_vec())),
                None => (code, json, whole(refusal.status().to_string().into_bytes())),
            }
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    if let Some(seconds) = retry_after {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    Ok(response)
}

/// The error that a client sees when the connection breaks.
fn lost() -> BoxError {
    std::io::Error::new(
        std::io::ErrorKind::TimedOut,
        "injected: the connection was lost",
    )
    .into()
}

impl Inner {
    fn take_fault(&self, identity: &str, verb: Verb, head: &Parts) -> Option<FaultEffect> {
        let place = Place::find(head.uri.path()).ok()?;
        fault::take(&mut self.world.lock().faults, identity, verb, &place)
    }
}
