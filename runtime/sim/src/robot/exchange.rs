//! Processing of one request.
//!
//! The order is: record the request, reject locked-out clients, look for a fault, check the login, count the request,
//! execute, distort the response. Makes no decisions about the account.

use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::{sleep, timeout};

use super::Options;
use super::api::{self, Account, Refusal};
use super::faults::{self, Fault, Trouble};
use super::login::Login;
use super::rate::{CallKind, Windows};
use crate::loopback::{self, Answer, Body, Clock, Journal, Line, REQUEST_TIMEOUT, Respond};

/// The largest form, in bytes; the vendor's own are a few hundred bytes.
const MAX_BODY: usize = 1 << 16;

/// State shared by all connections.
pub(super) struct Shared {
    state: Mutex<State>,
    latency: Duration,
    clock: Clock,
}

/// State protected by one lock.
pub(super) struct State {
    pub(super) login: Login,
    pub(super) account: Account,
    pub(super) journal: Journal,
    pub(super) faults: Vec<Fault>,
    windows: Option<Windows>,
}

/// The initial handling of a request.
enum Arrival {
    LockedOut,
    Admitted {
        sequence: u64,
        trouble: Option<Trouble>,
    },
}

impl Shared {
    pub(super) fn new(options: Options) -> Self {
        let state = State {
            login: Login::new(&options.user, &options.password, options.lockout),
            account: Account::default(),
            journal: Journal::default(),
            faults: Vec::new(),
            windows: options.rate_limits.map(Windows::new),
        };
        Self {
            state: Mutex::new(state),
            latency: options.latency,
            clock: options.clock,
        }
    }

    /// Locks the state.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn receive(&self, line: &Line, head: &Parts) -> Arrival {
        let sent = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut state = self.lock();
        let authorized = state.login.fits(authorization(head));
        let path = sent.to_owned();
        let sequence = state.journal.record(line, head, path, None, authorized);
        if state.login.is_shut((self.clock)()) {
            return Arrival::LockedOut;
        }
        let trouble = loopback::pick(&mut state.faults, &head.method, sent, None);
        Arrival::Admitted { sequence, trouble }
    }

    /// Checks login and limits, and executes the request.
    fn carry_out(&self, head: &Parts, body: &Bytes, trouble: Option<&Trouble>) -> Answer {
        let now = (self.clock)();
        let mut state = self.lock();
        let fits = state.login.fits(authorization(head));
        state.login.count(fits, now);
        if !fits {
            return Refusal::unauthorized().into();
        }
        let path = head.uri.path();
        let kind = CallKind::of(head.method != Method::GET, path);
        if let Some(windows) = &mut state.windows
            && let Err(limit) = windows.take(kind, now)
        {
            return Refusal::rate_limited(limit).into();
        }
        match (
            api::answer(&mut state.account, &head.method, path, body),
            trouble,
        ) {
            (Err(refusal), _) => refusal.into(),
            (Ok(right), Some(trouble)) => faults::distort(trouble, right),
            (Ok(right), None) => Answer::json(StatusCode::OK, right.to_string()),
        }
    }
}

impl Respond for Shared {
    async fn respond(&self, line: &Line, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let Arrival::Admitted { sequence, trouble } = self.receive(line, &head) else {
            match line.reset().await {}
        };
        if self.latency > Duration::ZERO {
            sleep(self.latency).await;
        }
        match &trouble {
            Some(Trouble::ResetBefore) => match line.reset().await {},
            Some(Trouble::SlowBefore(pause)) => sleep(*pause).await,
            _ => {}
        }
        let answer = match trouble.as_ref().and_then(faults::instead) {
            Some(answer) => answer,
            None => match timeout(REQUEST_TIMEOUT, Limited::new(body, MAX_BODY).collect()).await {
                Ok(Ok(body)) => self.carry_out(&head, &body.to_bytes(), trouble.as_ref()),
                _ => {
                    let message = "the form is too large or never ends";
                    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "INVALID_INPUT", message).into()
                }
            },
        };
        match &trouble {
            Some(Trouble::ResetAfter) => match line.reset().await {},
            Some(Trouble::SlowAfter(pause)) => sleep(*pause).await,
            _ => {}
        }
        self.lock()
            .journal
            .answered(sequence, answer.status.as_u16());
        loopback::response(answer)
    }
}

fn authorization(head: &Parts) -> Option<&str> {
    let header = head.headers.get(AUTHORIZATION);
    header.and_then(|value| value.to_str().ok())
}
