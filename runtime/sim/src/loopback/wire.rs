//! Responses and the delivery of their bodies.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use tokio::time::sleep;

/// Delay before the connection ends, long enough for half a response to leave the process.
const FLUSH: Duration = Duration::from_millis(50);

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A response ready to send.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
    pub(crate) delivery: Delivery,
}

/// How a body is delivered.
pub(crate) enum Delivery {
    Whole,
    Drip { piece: usize, pause: Duration },
    Cut,
    Blanks { count: u64, declared: bool },
}

/// The status of an injected refusal. A status that is no error becomes 500.
pub(crate) fn refusing(status: u16) -> StatusCode {
    StatusCode::from_u16(status)
        .ok()
        .filter(|status| status.is_client_error() || status.is_server_error())
        .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

impl Answer {
    /// A response without headers. An invalid status becomes 500.
    pub(crate) fn plain(status: u16, body: impl Into<Bytes>) -> Self {
        let status = if status < 200 { 500 } else { status };
        Self {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            headers: Vec::new(),
            body: body.into(),
            delivery: Delivery::Whole,
        }
    }

    /// An injected redirect. A status that is no redirect becomes 302.
    pub(crate) fn redirect(status: u16, location: &str) -> Self {
        let is_redirect = (300..400).contains(&status);
        Self::plain(if is_redirect { status } else { 302 }, Bytes::new()).header(LOCATION, location)
    }

    /// A response with this JSON text.
    pub(crate) fn json(status: StatusCode, text: String) -> Self {
        let json = HeaderValue::from_static("application/json");
        Self {
            headers: vec![(CONTENT_TYPE, json)],
            ..Self::plain(status.as_u16(), text)
        }
    }

    /// Adds a header, unless its value is invalid.
    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    /// Drops the second half of the body without a trace.
    pub(crate) fn halve(&mut self) {
        self.body.truncate(self.body.len() / 2);
    }
}

pub(crate) fn response(answer: Answer) -> Response<Body> {
    let length = answer.body.len() as u64;
    let (body, declared) = match answer.delivery {
        Delivery::Whole => (
            Full::new(answer.body)
                .map_err(|never| match never {})
                .boxed_unsync(),
            None,
        ),
        Delivery::Drip { piece, pause } => {
            let pieces = stream::unfold(answer.body, move |mut rest| async move {
                if rest.is_empty() {
                    return None;
                }
                sleep(pause).await;
                let next = rest.split_to(piece.min(rest.len()));
                Some((Ok(Frame::data(next)), rest))
            });
            (StreamBody::new(pieces).boxed_unsync(), Some(length))
        }
        Delivery::Cut => {
            let half = answer.body.slice(..answer.body.len() / 2);
            let pieces = stream::unfold(Some(half), |half| async move {
                let Some(half) = half else {
                    // An immediate error would discard the half that is still buffered.
                    sleep(FLUSH).await;
                    return Some((Err(io::ErrorKind::ConnectionAborted.into()), None));
                };
                Some((Ok(Frame::data(half)), None))
            });
            (StreamBody::new(pieces).boxed_unsync(), Some(length))
        }
        Delivery::Blanks { count, declared } => {
            let whole = count.saturating_add(length);
            (blanks_before(answer.body, count), declared.then_some(whole))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = answer.status;
    response.headers_mut().extend(answer.headers);
    if let Some(length) = declared {
        response
            .headers_mut()
            .insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}

fn blanks_before(body: Bytes, count: u64) -> Body {
    static BLANKS: [u8; 1 << 16] = [b' '; 1 << 16];
    let pieces = stream::unfold((count, Some(body)), |(left, body)| async move {
        if left == 0 {
            return body.map(|body| (Ok(Frame::data(body)), (0, None)));
        }
        let piece = left.min(BLANKS.len() as u64);
        let blanks = BLANKS.get(..piece as usize).unwrap_or_default();
        Some((
            Ok(Frame::data(Bytes::from_static(blanks))),
            (left - piece, body),
        ))
    });
    StreamBody::new(pieces).boxed_unsync()
}
