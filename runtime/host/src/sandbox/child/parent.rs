//! Handle to the parent process for a guest's call in the child: sends requests and log lines to it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, oneshot};

use crate::bindings::common;
use crate::egress::{
    EgressLimits, FetchError, FetchRequest, FetchResponse, MAX_TOGETHER, side_by_side,
};
use crate::guest_log::Level;
use crate::sandbox::protocol::{Frame, Head, Request, ToParent};
use crate::sandbox::{Answer, CallEnd};

/// Writing end of the only socket. Clones share it.
#[derive(Clone)]
pub(super) struct Socket(mpsc::UnboundedSender<Frame>);

/// Connection of one call to the parent. Clones share the call.
#[derive(Clone)]
pub(crate) struct Parent(Arc<Shared>);

struct Shared {
    number: u64,
    socket: Socket,
    requests: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Fetched>>>,
    /// One permit for each request body that is being read.
    bodies: Semaphore,
}

type Fetched = Result<FetchResponse, FetchError>;

impl Socket {
    pub(super) fn new(out: mpsc::UnboundedSender<Frame>) -> Socket {
        Socket(out)
    }

    /// Sends a message without a body.
    pub(super) fn send_message(&self, message: &impl Serialize) {
        self.send(message, Bytes::new());
    }

    fn send(&self, message: &impl Serialize, body: Bytes) {
        if let Ok(frame) = Frame::new(message, body) {
            self.send_frame(frame);
        }
    }

    /// Sending fails only when the parent is gone; then this process ends, too.
    fn send_frame(&self, frame: Frame) {
        let _ = self.0.send(frame);
    }

    pub(super) fn call(&self, number: u64) -> Parent {
        Parent(Arc::new(Shared {
            number,
            socket: self.clone(),
            requests: AtomicU64::new(0),
            waiting: Mutex::default(),
            bodies: Semaphore::new(EgressLimits::standard().in_flight_per_call),
        }))
    }
}

impl Parent {
    pub(super) fn number(&self) -> u64 {
        self.0.number
    }

    /// Sends one request to a target: [`crate::egress::CallScope::fetch`].
    pub(crate) async fn fetch(&self, request: FetchRequest) -> Fetched {
        let (what, body) = Request::of(request);
        self.ask(what, body).await
    }

    /// Sends several requests concurrently: [`crate::egress::CallScope::fetch_all`].
    pub(crate) async fn fetch_all(&self, requests: Vec<FetchRequest>) -> Vec<Fetched> {
        if requests.len() > MAX_TOGETHER {
            let count = requests.len();
            let end = self.ask(Request::Together(count), Bytes::new()).await;
            return vec![end; count];
        }
        let width = EgressLimits::standard().in_flight_per_call;
        side_by_side(width, requests, |request| self.fetch(request)).await
    }

    /// Sends a request with a URL: [`crate::egress::CallScope::fetch_url`].
    pub(crate) async fn fetch_url(&self, request: http::Request<Bytes>) -> Fetched {
        let (what, body) = Request::of_url(request);
        self.ask(what, body).await
    }

    /// Waits for a permit to read a request body: [`crate::egress::CallScope::place`].
    pub(crate) async fn place(&self) -> Result<SemaphorePermit<'_>, FetchError> {
        let closed = |_| FetchError::Unavailable("the call is over".to_owned());
        self.0.bodies.acquire().await.map_err(closed)
    }

    /// Sends a line of the guest's log.
    pub(crate) fn log(&self, level: Level, text: &str, is_contract_log: bool) {
        self.0.socket.send_message(&ToParent::Log {
            call: self.0.number,
            level,
            text: text.to_owned(),
            is_contract_log,
        });
    }

    /// Reports how many lines were dropped.
    pub(crate) fn lost(&self, lines: usize) {
        let call = self.0.number;
        self.0.socket.send_message(&ToParent::Lost { call, lines });
    }

    /// Reports the result of the call.
    pub(super) fn ended(&self, end: CallEnd<Result<Answer, common::Failure>>) {
        let CallEnd {
            answer, computed, ..
        } = end;
        let ended = |end| ToParent::Ended {
            call: self.0.number,
            end,
            microseconds: u64::try_from(computed.as_micros()).unwrap_or(u64::MAX),
        };
        match Frame::new(&ended(answer), Bytes::new()) {
            Ok(frame) if frame.is_readable() => self.0.socket.send_frame(frame),
            _ => {
                let what = "the answer is larger than any that there can be".to_owned();
                let refused = Ok(Err(common::Error::Internal(what).into()));
                self.0.socket.send_message(&ended(refused));
            }
        }
    }

    /// Delivers the parent's answer to a request.
    pub(super) fn answered(&self, request: u64, end: Result<Head, FetchError>, body: Bytes) {
        let released = Released {
            call: self.clone(),
            request,
        };
        let end = end.map(|head| FetchResponse {
            status: head.status,
            headers: head.headers,
            body: match body.is_empty() {
                true => body,
                false => Bytes::from_owner(Body {
                    body,
                    _released: released,
                }),
            }
            .into(),
        });
        if let Some(waiting) = self.0.waiting.lock().remove(&request) {
            // Fails only if the waiting future was dropped.
            let _ = waiting.send(end);
        }
    }

    async fn ask(&self, what: Request, body: Bytes) -> Fetched {
        let request = self.0.requests.fetch_add(1, Ordering::Relaxed);
        let (send, receive) = oneshot::channel();
        self.0.waiting.lock().insert(request, send);
        let _abandoned = Abandoned {
            call: self,
            request,
        };
        let call = self.0.number;
        let message = ToParent::Request {
            call,
            request,
            what,
        };
        self.0.socket.send(&message, body);
        receive
            .await
            .unwrap_or_else(|_| Err(FetchError::Unavailable("the call is over".to_owned())))
    }
}

/// Tells the parent on drop that the guest abandoned the request.
struct Abandoned<'a> {
    call: &'a Parent,
    request: u64,
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        if self.call.0.waiting.lock().remove(&self.request).is_some() {
            let (call, request) = (self.call.0.number, self.request);
            let message = ToParent::Abandoned { call, request };
            self.call.0.socket.send_message(&message);
        }
    }
}

/// Tells the parent on drop that the last owner of a response body has dropped it.
struct Released {
    call: Parent,
    request: u64,
}

impl Drop for Released {
    fn drop(&mut self) {
        let (call, request) = (self.call.0.number, self.request);
        self.call
            .0
            .socket
            .send_message(&ToParent::Released { call, request });
    }
}

struct Body {
    body: Bytes,
    _released: Released,
}

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}
