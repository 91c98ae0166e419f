//! Connection to one running sandbox process: its calls, and the requests of their guests.

mod queue;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::process::Child;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::super::failure::Failure;
use super::super::protocol::{Caps, Frame, Head, Request, ToChild, ToParent, method, read};
use super::super::{Answer, CallPhase, Performance};
use super::ProcessEnd;
use super::child_exit::exit_output;
use crate::bindings::common;
use crate::egress::{CallScope, FetchError, FetchRequest, FetchResponse};
use crate::guest_egress::GuestEgress;
use crate::guest_log::GuestLog;
use crate::limits;
use crate::sanitize::clean;
use queue::{About, Message};

/// Result of a call.
pub(super) struct Ended {
    pub(super) answer: Result<Result<Answer, common::Failure>, (CallPhase, Failure)>,
    pub(super) computed: Duration,
}

/// Connection to a process. Dropping it ends the process.
pub(super) struct Connection(Arc<Shared>);

struct Shared {
    calls: Mutex<Calls>,
    next: AtomicU64,
    out: mpsc::UnboundedSender<Message>,
    /// Wakes the task that waits for the process.
    stop: tokio::sync::Notify,
}

#[derive(Default)]
struct Calls {
    under_way: HashMap<u64, UnderWay>,
    /// Why no further calls are possible; `None` while the connection is open.
    over: Option<ProcessEnd>,
}

struct UnderWay {
    /// Whether the child was told of it.
    is_known: bool,
    scope: Option<CallScope>,
    log: GuestLog,
    /// Its requests, by number.
    requests: HashMap<u64, RequestUnderWay>,
    /// Budget reservations of response bodies that the guest holds.
    held: HashMap<u64, Box<dyn Send + Sync>>,
    /// Number of answers that the child has not read.
    unread: usize,
    ended: oneshot::Sender<Ended>,
}

/// A request under way. Aborted on drop, which has no effect on one that has its answer.
struct RequestUnderWay {
    task: AbortHandle,
    /// Length of the request's body, in bytes.
    body: usize,
}

/// Bytes of request bodies of one call that are under way: what a guest can pass in one crossing, and as much for what
/// it has abandoned.
const BODIES: usize = 2 * limits::CROSSING_BYTES;
/// Requests of one call that are under way, whose responses the guest holds, or whose answers are unread: as many of each
/// as a guest has handles.
const REQUESTS: usize = 3 * limits::HANDLES;

impl Connection {
    /// Sends the process its module and waits until it is loaded.
    ///
    /// # Errors
    /// Why it is not loaded.
    pub(super) async fn open(
        mut child: Child,
        socket: UnixStream,
        load: Frame,
    ) -> Result<Connection, ProcessEnd> {
        let (mut from, mut to) = socket.into_split();
        // The child answers after the last byte; one that sends something earlier is no sandbox and may not even
        // read on.
        let greeting = tokio::select! {
            received = read::<ToParent>(&mut from, Caps::OF_CHILD) => received,
            Err(error) = load.write(&mut to) => Err(error),
        };
        match greeting {
            Ok(Some((ToParent::Loaded(Ok(())), _))) => {}
            Ok(Some((ToParent::Loaded(Err(why)), _))) => {
                return Err(ProcessEnd::of_child(clean(&why, limits::ERROR_BYTES)));
            }
            Ok(Some(_)) => return Err(nonsense("something else than that it is ready")),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(nonsense(&error.to_string()));
            }
            Ok(None) | Err(_) => return Err(exit_output(&mut child).await),
        }
        drop(load);
        let (out, messages) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            calls: Mutex::default(),
            next: AtomicU64::new(0),
            out,
            stop: tokio::sync::Notify::new(),
        });
        let unread = queue::write(messages, to, shared.clone());
        tokio::spawn(attend(shared.clone(), child, from, unread));
        Ok(Connection(shared))
    }

    /// Whether calls can begin.
    pub(super) fn is_open(&self) -> bool {
        self.0.calls.lock().over.is_none()
    }

    /// Ends the process and with it every call under way.
    pub(super) fn end(&self, why: ProcessEnd) {
        self.0.over(why);
        self.0.stop.notify_one();
    }

    /// Has the child empty the state that outlives calls.
    pub(super) fn forget(&self) {
        self.0
            .send_message(&ToChild::Forget, Bytes::new(), About::Other);
    }

    /// Performs a call. Dropping the future cancels the call in the child.
    pub(super) async fn call(&self, performance: Performance) -> Ended {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let Performance {
            ask,
            memory_bytes,
            deadline,
            fresh,
            egress,
            log,
        } = performance;
        let scope = match egress {
            Some(GuestEgress::Egress(scope)) => Some(scope),
            // `GuestEgress::Parent` exists only inside sandbox processes, which start no further ones.
            Some(GuestEgress::Parent(_)) | None => None,
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let message = ToChild::Call {
            call: number,
            ask: Box::new(ask),
            memory_bytes,
            milliseconds: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            fresh,
            open: scope.is_some(),
        };
        let (ended, end) = oneshot::channel();
        let under_way = UnderWay {
            is_known: false,
            scope,
            log,
            requests: HashMap::new(),
            held: HashMap::new(),
            unread: 0,
            ended,
        };
        if !self.0.begin(number, under_way) {
            return self.0.gone();
        }
        let _cancelled = Cancelled {
            shared: &self.0,
            number,
        };
        self.0
            .send_message(&message, Bytes::new(), About::Call(number));
        // The frame has a copy.
        drop(message);
        end.await.unwrap_or_else(|_| self.0.gone())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.stop.notify_one();
    }
}

impl Shared {
    fn begin(&self, number: u64, under_way: UnderWay) -> bool {
        let mut calls = self.calls.lock();
        if calls.over.is_some() {
            return false;
        }
        calls.under_way.insert(number, under_way);
        true
    }

    /// Result of a call whose process has ended.
    fn gone(&self) -> Ended {
        let over = self.calls.lock().over.clone();
        let mut end = over.unwrap_or_else(|| ProcessEnd::of_child(""));
        end.why.insert_str(0, "the sandbox's process ended: ");
        Ended {
            answer: Err((CallPhase::Function, end.into())),
            computed: limits::CALL_CPU_AT_ONCE,
        }
    }

    /// Prevents new calls and fails those under way. The first reason is kept.
    fn over(&self, why: ProcessEnd) {
        let mut calls = self.calls.lock();
        calls.over.get_or_insert(why);
        let under_way: Vec<_> = calls.under_way.drain().collect();
        drop(calls);
        drop(under_way);
    }

    fn send_message(&self, message: &impl Serialize, body: Bytes, about: About) {
        if let Ok(frame) = Frame::new(message, body) {
            // Fails only when the process has ended, which callers see by other means.
            let _ = self.out.send(Message { frame, about });
        }
    }

    /// Handles a message of the child.
    ///
    /// # Errors
    /// The message violates the protocol.
    fn receive(self: &Arc<Shared>, message: ToParent, body: Bytes) -> Result<(), String> {
        match message {
            ToParent::Loaded(_) => Err("it loads twice".to_owned()),
            ToParent::Log {
                call,
                level,
                text,
                is_contract_log,
            } => {
                // Outside the lock: writing the log may be slow.
                let log = self.of(call, |call| call.log.clone());
                match log {
                    Some(log) if is_contract_log => log.contract_line(level, &text),
                    Some(log) => log.line(level, &text),
                    None => {}
                }
                Ok(())
            }
            ToParent::Lost { call, lines } => {
                self.of(call, |call| call.log.lost(lines));
                Ok(())
            }
            ToParent::Request {
                call,
                request,
                what,
            } => self.request(call, request, what, body),
            ToParent::Abandoned { call, request } => {
                drop(self.of(call, |call| call.requests.remove(&request)));
                Ok(())
            }
            ToParent::Released { call, request } => {
                drop(self.of(call, |call| call.held.remove(&request)));
                Ok(())
            }
            ToParent::Ended {
                call,
                end,
                microseconds,
            } => {
                if self.of(call, |call| call.is_known) == Some(false) {
                    return Err("the end of a call that it was not told of".to_owned());
                }
                if let Some(under_way) = self.forget(call) {
                    // Fails only if the caller has stopped waiting.
                    let _ = under_way.ended.send(Ended {
                        answer: end.map_err(|(phase, failure)| (phase, failure.of_child())),
                        computed: Duration::from_micros(microseconds).min(limits::CALL_CPU),
                    });
                }
                Ok(())
            }
        }
    }

    /// Starts a request for a guest.
    fn request(
        self: &Arc<Shared>,
        number: u64,
        request: u64,
        what: Request,
        body: Bytes,
    ) -> Result<(), String> {
        let mut calls = self.calls.lock();
        let Some(call) = calls.under_way.get_mut(&number) else {
            // The end of the call and this request have crossed.
            return Ok(());
        };
        let Some(scope) = call.scope.clone().filter(|_| call.is_known) else {
            return Err("a request of a call that may send none".to_owned());
        };
        if call.requests.len() + call.held.len() + call.unread >= REQUESTS {
            return Err("more requests than a guest has handles".to_owned());
        }
        if call.requests.contains_key(&request) || call.held.contains_key(&request) {
            return Err("a request with a number that another one has".to_owned());
        }
        let bytes: usize = call.requests.values().map(|other| other.body).sum();
        if bytes + body.len() > BODIES {
            return Err("more bytes of requests than a guest can pass".to_owned());
        }
        let length = body.len();
        let shared = self.clone();
        let task = tokio::spawn(async move {
            let end = send(&scope, what, body).await;
            shared.answer(number, request, end);
        });
        let under_way = RequestUnderWay {
            task: task.abort_handle(),
            body: length,
        };
        call.requests.insert(request, under_way);
        Ok(())
    }

    /// Sends the child the result of a request, unless the guest has abandoned it. The body counts against the budget
    /// until the guest has dropped it.
    fn answer(&self, number: u64, request: u64, end: Result<FetchResponse, FetchError>) {
        let (end, body, held) = match end {
            Ok(answer) => {
                let (body, held) = answer.body.into_parts();
                let head = Head {
                    status: answer.status,
                    headers: answer.headers,
                };
                (Ok(head), body, Some(held))
            }
            Err(error) => (Err(error), Bytes::new(), None),
        };
        let awaited = self.of(number, |call| {
            call.requests.remove(&request)?;
            call.unread += 1;
            if let Some(held) = held.filter(|_| !body.is_empty()) {
                call.held.insert(request, Box::new(held));
            }
            Some(())
        });
        if awaited.flatten().is_none() {
            return;
        }
        let message = ToChild::Answered {
            call: number,
            request,
            end,
        };
        self.send_message(&message, body, About::Answer(number));
    }

    /// Accesses a call under way.
    fn of<T>(&self, number: u64, look: impl FnOnce(&mut UnderWay) -> T) -> Option<T> {
        self.calls.lock().under_way.get_mut(&number).map(look)
    }

    fn forget(&self, number: u64) -> Option<UnderWay> {
        self.calls.lock().under_way.remove(&number)
    }
}

impl Drop for RequestUnderWay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Tells the child on drop that the caller has stopped waiting for the call.
struct Cancelled<'a> {
    shared: &'a Shared,
    number: u64,
}

impl Drop for Cancelled<'_> {
    fn drop(&mut self) {
        if self.shared.forget(self.number).is_some() {
            let call = self.number;
            self.shared
                .send_message(&ToChild::Cancel { call }, Bytes::new(), About::Other);
        }
    }
}

/// Sends a guest's request through the call's scope.
async fn send(scope: &CallScope, what: Request, body: Bytes) -> Result<FetchResponse, FetchError> {
    match what {
        Request::Fetch {
            target,
            method: name,
            path,
            query,
            headers,
            has_body,
            supplementary,
        } => {
            let request = FetchRequest {
                target,
                method: method(&name)?,
                path,
                query,
                headers,
                body: has_body.then_some(body),
                supplementary,
            };
            scope.fetch(request).await
        }
        Request::Url {
            method: name,
            url,
            headers,
        } => {
            let mut request = http::Request::builder().method(method(&name)?).uri(url);
            for (name, value) in headers {
                request = request.header(name, value);
            }
            let request = request
                .body(body)
                .map_err(|error| FetchError::Invalid(error.to_string()))?;
            scope.fetch_url_whole(request).await
        }
        Request::Together(count) => Err(scope.too_many(count)),
    }
}

/// Handles messages of the child until it ends or must be killed, also because `unread` completes.
async fn attend(
    shared: Arc<Shared>,
    mut child: Child,
    mut from: OwnedReadHalf,
    unread: impl Future<Output = ()>,
) {
    let receive = async {
        loop {
            match read::<ToParent>(&mut from, Caps::OF_CHILD).await {
                Ok(Some((message, body))) => shared.receive(message, body)?,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err(error.to_string());
                }
                Ok(None) | Err(_) => return Ok(()),
            }
        }
    };
    let why = tokio::select! {
        received = receive => match received {
            Ok(()) => exit_output(&mut child).await,
            Err(what) => nonsense(&what),
        },
        () = shared.stop.notified() => ProcessEnd::of_child("no call needs it"),
        () = unread => nonsense("nothing, and reads nothing either"),
    };
    shared.over(why);
    // The child may have ended already.
    let _ = child.kill().await;
}

fn nonsense(what: &str) -> ProcessEnd {
    ProcessEnd::of_child(format!("it said what no sandbox says: {what}"))
}

#[cfg(test)]
mod tests;
