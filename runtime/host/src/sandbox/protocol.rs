//! Protocol between a sandbox process and its parent, over one Unix socket: frames of a serialised head and a body
//! of plain bytes.
//!
//! The parent trusts nothing that it reads: frames have a maximum size, a head may not expand into much more memory
//! than its own size, and any violation ends the child.

use std::io;

use bytes::Bytes;
use ccm_core::cloud::Capabilities;
use http::Method;
use postcard::de_flavors::Flavor;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::{Answer, Ask, CallPhase, Failure};
use crate::bindings::{common, lifecycle};
use crate::egress::{FetchError, FetchRequest};
use crate::guest_log::Level;
use crate::limits;
use crate::manifest::Contract;

/// Messages of the parent.
#[derive(Serialize, Deserialize)]
pub(super) enum ToChild {
    /// First message: the module's settings. The body is the compiled code.
    Load(Load),
    /// Starts a call with this number.
    Call {
        call: u64,
        ask: Box<Ask>,
        /// Linear memory that the guest may have.
        memory_bytes: usize,
        /// Time until the deadline, in milliseconds.
        milliseconds: u64,
        fresh: bool,
        /// Whether the call may send requests.
        open: bool,
    },
    /// Empties the state that outlives calls.
    Forget,
    /// Cancels the call with this number.
    Cancel { call: u64 },
    /// Result of a request. The body is the response's.
    Answered {
        call: u64,
        request: u64,
        end: Result<Head, FetchError>,
    },
}

/// Settings under which a module runs.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Load {
    pub contract: Contract,
    pub config: lifecycle::Config,
    /// Controller interfaces that it exports.
    pub capabilities: Capabilities,
    pub self_check: bool,
}

/// Response of a cloud without its body.
#[derive(Serialize, Deserialize)]
pub(super) struct Head {
    pub status: u16,
    pub headers: Vec<(String, String)>,
}

/// Messages of the child.
#[derive(Serialize, Deserialize)]
pub(super) enum ToParent {
    /// The module is ready, or the error.
    Loaded(Result<(), String>),
    /// A line of the guest's log.
    Log {
        call: u64,
        level: Level,
        text: String,
        /// Whether the line came through the contract's `log`, not an output.
        is_contract_log: bool,
    },
    /// Number of log lines that were dropped.
    Lost { call: u64, lines: usize },
    /// A request. The body is the request's.
    Request {
        call: u64,
        request: u64,
        what: Request,
    },
    /// The guest has abandoned this request.
    Abandoned { call: u64, request: u64 },
    /// The guest has dropped the body of this request's response.
    Released { call: u64, request: u64 },
    /// Result of a call, and its CPU time in microseconds.
    Ended {
        call: u64,
        end: Result<Result<Answer, common::Failure>, (CallPhase, Failure)>,
        microseconds: u64,
    },
}

/// A guest's request, without the body.
#[derive(Serialize, Deserialize)]
pub(super) enum Request {
    /// A request to a target by its name.
    Fetch {
        target: String,
        method: String,
        path: String,
        query: Vec<(String, String)>,
        headers: Vec<(String, String)>,
        has_body: bool,
        supplementary: bool,
    },
    /// A request with an absolute URL.
    Url {
        method: String,
        url: String,
        headers: Vec<(String, Vec<u8>)>,
    },
    /// Number of requests in a list that is too long.
    Together(usize),
}

impl Request {
    /// Request to a target, and its body.
    pub(super) fn of(request: FetchRequest) -> (Request, Bytes) {
        let head = Request::Fetch {
            target: request.target,
            method: request.method.as_str().to_owned(),
            path: request.path,
            query: request.query,
            headers: request.headers,
            has_body: request.body.is_some(),
            supplementary: request.supplementary,
        };
        (head, little_enough(request.body.unwrap_or_default()))
    }

    /// Request to a URL, and its body.
    pub(super) fn of_url(request: http::Request<Bytes>) -> (Request, Bytes) {
        let (parts, body) = request.into_parts();
        let headers = parts.headers.iter();
        let head = Request::Url {
            method: parts.method.as_str().to_owned(),
            url: parts.uri.to_string(),
            headers: headers
                .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
                .collect(),
        };
        (head, little_enough(body))
    }
}

/// Truncates a body that is too large to one byte beyond the limit, so that the parent still refuses it.
fn little_enough(body: Bytes) -> Bytes {
    body.slice(..body.len().min(BODY_BYTES))
}

const BODY_BYTES: usize = limits::REQUEST_BODY_BYTES + 1;

/// Parses a method name. An invalid name is the guest's mistake.
///
/// # Errors
/// Error for the guest.
pub(super) fn method(name: &str) -> Result<Method, FetchError> {
    Method::from_bytes(name.as_bytes())
        .map_err(|_| FetchError::Invalid("the method is none".to_owned()))
}

/// A head and a body. Large data is in the body and is not copied.
pub(super) struct Frame {
    head: Vec<u8>,
    body: Bytes,
}

impl Frame {
    /// # Errors
    /// It is an answer with more look-ups than nodes can be asked about: see `found`. All else can be serialised.
    pub(super) fn new(head: &impl Serialize, body: Bytes) -> io::Result<Frame> {
        let head = postcard::to_allocvec(head).map_err(io::Error::other)?;
        Ok(Frame { head, body })
    }

    /// Whether the parent would accept the frame's head.
    pub(super) fn is_readable(&self) -> bool {
        let Caps { head, unfolded, .. } = Caps::OF_CHILD;
        self.head.len() <= head
            && (self.head.len() <= unfolded / UNFOLDED_BYTE
                || unfold::<ToParent>(&self.head, unfolded).is_ok())
    }

    /// # Errors
    /// The other end is gone.
    pub(super) async fn write(&self, socket: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let lengths = [self.head.len() as u64, self.body.len() as u64].map(u64::to_be_bytes);
        socket.write_all(&lengths.concat()).await?;
        socket.write_all(&self.head).await?;
        socket.write_all(&self.body).await
    }
}

/// Maximum sizes for reading.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caps {
    /// Bytes of a head.
    pub head: usize,
    /// Bytes of a body.
    pub body: usize,
    /// Approximate bytes of memory that a head may expand into.
    pub unfolded: usize,
}

impl Caps {
    /// Caps for a child's messages: the answer of a guest, or a request with its body.
    pub(super) const OF_CHILD: Caps = Caps {
        head: limits::CROSSING_BYTES,
        body: BODY_BYTES,
        // As much as a usual call may have in the guest and in the host. A larger guest's answer may not take more.
        unfolded: limits::MEMORY_BYTES + limits::HELD_BYTES,
    };
    /// Caps for the parent's messages. The child trusts it.
    pub(super) const OF_PARENT: Caps = Caps {
        head: usize::MAX,
        body: usize::MAX,
        unfolded: usize::MAX,
    };
}

/// Reads the next frame; `None` if the stream ends between two frames.
///
/// # Errors
/// The frame exceeds the caps, is truncated, or is malformed.
pub(super) async fn read<T: DeserializeOwned>(
    socket: &mut (impl AsyncRead + Unpin),
    caps: Caps,
) -> io::Result<Option<(T, Bytes)>> {
    let mut lengths = [0; 16];
    match socket.read_exact(&mut lengths).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let lengths = u128::from_be_bytes(lengths);
    let head = bytes(socket, (lengths >> 64) as u64, caps.head).await?;
    let body = bytes(socket, lengths as u64, caps.body).await?;
    Ok(Some((unfold(&head, caps.unfolded)?, body.into())))
}

/// Reads `length` bytes; the buffer grows as they arrive.
async fn bytes(
    socket: &mut (impl AsyncRead + Unpin),
    length: u64,
    cap: usize,
) -> io::Result<Vec<u8>> {
    if length > cap as u64 {
        return Err(invalid(format!("a frame of {length} bytes, at most {cap}")));
    }
    let mut bytes = Vec::new();
    socket.take(length).read_to_end(&mut bytes).await?;
    match bytes.len() as u64 == length {
        true => Ok(bytes),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn unfold<T: DeserializeOwned>(head: &[u8], most: usize) -> io::Result<T> {
    let bounded = Bounded {
        rest: head,
        left: most,
    };
    let mut deserializer = postcard::Deserializer::from_flavor(bounded);
    T::deserialize(&mut deserializer).map_err(|error| invalid(error.to_string()))
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Memory charged per byte that is read singly. Such a byte becomes a number, length or enum case. Elements of lists take
/// at most half of this for each of them, and a list that grows may have twice the room; look-ups take more and are
/// counted: see `found`.
const UNFOLDED_BYTE: usize = 64;

/// Bytes of a head, with a bound on the memory that they expand into.
struct Bounded<'h> {
    rest: &'h [u8],
    left: usize,
}

impl Bounded<'_> {
    fn pay(&mut self, bytes: usize) -> postcard::Result<()> {
        self.left = self
            .left
            .checked_sub(bytes)
            .ok_or(postcard::Error::SerializeBufferFull)?;
        Ok(())
    }
}

impl<'h> Flavor<'h> for Bounded<'h> {
    type Remainder = &'h [u8];
    type Source = &'h [u8];

    fn pop(&mut self) -> postcard::Result<u8> {
        self.pay(UNFOLDED_BYTE)?;
        let (byte, rest) = self
            .rest
            .split_first()
            .ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        self.rest = rest;
        Ok(*byte)
    }

    fn try_take_n(&mut self, count: usize) -> postcard::Result<&'h [u8]> {
        self.pay(count)?;
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        self.rest = rest;
        Ok(taken)
    }

    fn finalize(self) -> postcard::Result<&'h [u8]> {
        Ok(self.rest)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    async fn sent(frame: &Frame, caps: Caps) -> io::Result<Option<(ToParent, Bytes)>> {
        let mut bytes = Vec::new();
        frame.write(&mut bytes).await.unwrap();
        read(&mut bytes.as_slice(), caps).await
    }

    #[tokio::test]
    async fn a_frame_arrives_as_it_was_sent() {
        let head = ToParent::Abandoned {
            call: 7,
            request: u64::MAX,
        };
        let frame = Frame::new(&head, Bytes::from_static(b"body")).unwrap();
        let (head, body) = sent(&frame, Caps::OF_CHILD).await.unwrap().unwrap();
        assert!(matches!(
            head,
            ToParent::Abandoned {
                call: 7,
                request: u64::MAX
            }
        ));
        assert_eq!(body, b"body".as_ref());
    }

    #[tokio::test]
    async fn what_is_too_large_is_not_read() {
        let frame = |head: usize, body: usize| Frame {
            head: vec![0; head],
            body: vec![0; body].into(),
        };
        for (frame, expected) in [
            (frame(limits::CROSSING_BYTES + 1, 0), "a frame of 33554433"),
            (frame(0, BODY_BYTES + 1), "a frame of 1048578"),
        ] {
            let error = sent(&frame, Caps::OF_CHILD).await.err().unwrap();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    /// The end of a call with so many look-ups, as a child may have written it: each is one byte, and in memory more
    /// than a hundred.
    fn found(lookups: usize) -> Vec<u8> {
        let (ended, call, is_ok, found, gone) = (6_u32, 0_u64, 0_u32, 2_u32, 1_u32);
        let events: [u8; 0] = [];
        let end = (is_ok, is_ok, found, vec![gone; lookups], events.as_slice());
        postcard::to_allocvec(&(ended, call, end, 0_u64)).unwrap()
    }

    #[tokio::test]
    async fn a_small_head_does_not_unfold_into_a_large_answer() {
        for (lookups, is_read) in [
            (1, true),
            (limits::NODES, true),
            (limits::NODES + 1, false),
            (1_300_000, false),
        ] {
            let frame = Frame {
                head: found(lookups),
                body: Bytes::new(),
            };
            let received = sent(&frame, Caps::OF_CHILD).await;
            assert_eq!(received.is_ok(), is_read, "{lookups}");
            let Ok(received) = received else { continue };
            let (message, _) = received.unwrap();
            let ToParent::Ended {
                end: Ok(Ok(Answer::Found(reply))),
                ..
            } = &message
            else {
                panic!("{lookups}");
            };
            assert_eq!(reply.lookups.len(), lookups);
            // As a child writes it.
            assert_eq!(Frame::new(&message, Bytes::new()).unwrap().head, frame.head);
        }
        let answer = Answer::Found(crate::bindings::instances::FindReply {
            lookups: vec![crate::bindings::instances::Lookup::Gone; limits::NODES + 1],
            events: Vec::new(),
        });
        assert!(Frame::new(&answer, Bytes::new()).is_err());
    }

    /// What the parent refuses for its shape has to reach it.
    #[test]
    fn answers_beyond_what_is_allowed_are_still_read() {
        use crate::bindings::instances::{FindReply, NodeEvent};
        let event = common::Event {
            event_type: common::EventType::Normal,
            reason: "Flood".to_owned(),
            message: "one of many".to_owned(),
        };
        let events = vec![NodeEvent { node: 0, event }; 100_000];
        let lookups = Vec::new();
        let head = ToParent::Ended {
            call: 0,
            end: Ok(Ok(Answer::Found(FindReply { lookups, events }))),
            microseconds: 0,
        };
        assert!(Frame::new(&head, Bytes::new()).unwrap().is_readable());
    }

    /// The elements of a child's lists, look-ups apart, each with its smallest form.
    #[test]
    fn elements_of_lists_take_at_most_half_of_what_is_charged_for_their_bytes() {
        use crate::bindings::{instances, routes};
        fn check<T: DeserializeOwned>(smallest: &[u8]) {
            let (_, rest) = postcard::take_from_bytes::<T>(smallest).unwrap();
            assert!(rest.is_empty());
            let (takes, charged) = (size_of::<T>(), smallest.len() * UNFOLDED_BYTE);
            let name = std::any::type_name::<T>();
            assert!(2 * takes <= charged, "{name}: {takes} of {charged}");
        }
        check::<(String, String)>(&[0, 0]);
        check::<(String, Vec<u8>)>(&[0, 0]);
        check::<u8>(&[0]);
        check::<lifecycle::Capability>(&[0]);
        check::<common::Address>(&[0, 0]);
        check::<common::Event>(&[0, 0, 0]);
        check::<common::AnnotationChange>(&[0, 0]);
        check::<common::Ingress>(&[0, 0, 0, 0]);
        check::<common::PortStatus>(&[0, 0, 0]);
        check::<instances::NodeEvent>(&[0, 0, 0, 0]);
        // Without a text: a black hole.
        check::<routes::Route>(&[0, 0, 2, 0]);
    }

    #[tokio::test]
    async fn bytes_at_random_are_no_frame_and_break_nothing() {
        let mut bytes = vec![0_u8; 64];
        for _ in 0..10_000 {
            getrandom::fill(&mut bytes).unwrap();
            let frame = Frame {
                head: bytes.clone(),
                body: Bytes::new(),
            };
            let _ = sent(&frame, Caps::OF_CHILD).await;
        }
    }
}
