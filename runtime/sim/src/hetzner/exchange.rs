//! One request and its answer.
//!
//! The order is: record the request, look for a fault, check the token, take from the budget, carry
//! it out, distort the answer. Nothing is decided about the project here.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName, USER_AGENT};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::time::{Instant, sleep, timeout};

use super::answer::{self, Answer};
use super::api::{self, Call, Refusal};
use super::faults::{self, Fault, Trouble};
use super::journal::{self, Journal};
use super::query::Query;
use super::rate::Bucket;
use super::serve::{Line, PATIENCE};
use super::wire::{self, Body};
use super::world::{Clock, World};

/// The largest request body; the vendor's user data is at most 32 KiB.
const MAX_BODY: usize = 1 << 20;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const RATE_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RATE_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// What all connections share.
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) latency: Duration,
    pub(super) connections: AtomicU64,
    pub(super) clock: Clock,
}

/// What one lock guards.
pub(super) struct State {
    pub(super) token: String,
    pub(super) world: World,
    pub(super) journal: Journal,
    pub(super) faults: Vec<Fault>,
    pub(super) bucket: Option<Bucket>,
}

impl Shared {
    pub(super) fn new(state: State, latency: Duration, clock: Clock) -> Self {
        Self {
            state: Mutex::new(state),
            latency,
            connections: AtomicU64::new(0),
            clock,
        }
    }

    /// The state; a panic of another holder does not spoil it for us.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers one request, unless a fault takes the connection away.
pub(super) async fn respond(
    shared: &Shared,
    line: &Line,
    request: Request<Incoming>,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let (sequence, trouble) = arrive(shared, line, &head);
    if shared.latency > Duration::ZERO {
        sleep(shared.latency).await;
    }
    match &trouble {
        Some(Trouble::ResetBefore) => match line.reset().await {},
        Some(Trouble::SlowBefore(pause)) => sleep(*pause).await,
        _ => {}
    }
    let answer = match trouble.as_ref().and_then(answer::instead) {
        Some(answer) => answer,
        None => match timeout(PATIENCE, Limited::new(body, MAX_BODY).collect()).await {
            Ok(Ok(body)) => carry_out(shared, &head, body.to_bytes(), trouble.as_ref()),
            _ => {
                let status = StatusCode::PAYLOAD_TOO_LARGE;
                let message = "the request body is too large or never ends";
                Refusal::new(status, "invalid_input", message)
                    .into_reply()
                    .into()
            }
        },
    };
    match &trouble {
        Some(Trouble::ResetAfter) => match line.reset().await {},
        Some(Trouble::SlowAfter(pause)) => sleep(*pause).await,
        _ => {}
    }
    shared
        .lock()
        .journal
        .answered(sequence, answer.status.as_u16());
    wire::response(answer)
}

/// Records a request and finds the fault that meets it.
fn arrive(shared: &Shared, line: &Line, head: &Parts) -> (u64, Option<Trouble>) {
    let path = local_path(head);
    let query = Query::parse(head.uri.query().unwrap_or_default());
    let page = query.first("page").and_then(|page| page.parse().ok());
    let mut header_names: Vec<String> = head.headers.keys().map(ToString::to_string).collect();
    header_names.sort_unstable();
    let agent = head
        .headers
        .get(USER_AGENT)
        .and_then(|value| value.to_str().ok());
    let mut state = shared.lock();
    let authorized = authorized(&state, head);
    let sequence = state.journal.record(journal::Request {
        sequence: 0,
        connection: line.number,
        method: head.method.clone(),
        path: path.clone(),
        status: None,
        page,
        user_agent: agent.map(str::to_owned),
        authorized,
        header_names,
        write: !matches!(head.method, Method::GET | Method::HEAD),
    });
    let trouble = faults::pick(&mut state.faults, &head.method, &path, page);
    (sequence, trouble)
}

/// Checks token and budget, and lets the API answer.
fn carry_out(shared: &Shared, head: &Parts, body: Bytes, trouble: Option<&Trouble>) -> Answer {
    let now = Instant::now();
    let mut state = shared.lock();
    if !authorized(&state, head) {
        let message = "unable to authenticate";
        return Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
            .into_reply()
            .into();
    }
    let spent = state.bucket.as_mut().map(|bucket| bucket.take(now));
    let reply = if spent.as_ref().is_some_and(|spent| !spent.allowed) {
        let message = "limit of requests per hour reached";
        Refusal::new(
            StatusCode::TOO_MANY_REQUESTS,
            "rate_limit_exceeded",
            message,
        )
        .into_reply()
    } else {
        let call = Call {
            method: head.method.clone(),
            path: head
                .uri
                .path()
                .strip_prefix("/v1/")
                .unwrap_or_default()
                .to_owned(),
            query: Query::parse(head.uri.query().unwrap_or_default()),
            body,
            now,
            doom: faults::doom(trouble),
        };
        api::answer(&mut state.world, &call)
    };
    drop(state);
    let answer = match trouble {
        Some(trouble) => answer::distort(trouble, reply),
        None => reply.into(),
    };
    let Some(spent) = spent else { return answer };
    let now = (shared.clock)()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let full_at = now.saturating_add(spent.full_in).as_secs();
    answer
        .header(RATE_LIMIT, &spent.limit.to_string())
        .header(RATE_REMAINING, &spent.remaining.to_string())
        .header(RATE_RESET, &full_at.to_string())
}

fn authorized(state: &State, head: &Parts) -> bool {
    let header = head
        .headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    header.and_then(|value| value.strip_prefix("Bearer ")) == Some(state.token.as_str())
}

/// Path and query after the endpoint's `/v1`; a path without it stays whole.
fn local_path(head: &Parts) -> String {
    let sent = head.uri.path_and_query().map_or("/", |path| path.as_str());
    sent.strip_prefix("/v1")
        .filter(|rest| rest.starts_with('/'))
        .unwrap_or(sent)
        .to_owned()
}
