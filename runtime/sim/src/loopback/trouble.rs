//! Injectable faults: what the client gets instead of the correct response.
//!
//! A fault distorts the response or the transport. Each variant says whether the request is executed; apart from
//! failing actions, no fault changes the effect of a request. Knows no socket, and no vendor but through [`Api`].

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use serde_json::Value;

use super::exchange::{Api, Denial};
use super::wire::{Answer, Delivery, refusing};

/// The type of a fault.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// The vendor's refusal of one request too many, with this `Retry-After` (seconds or an HTTP date) or without. Not
    /// executed.
    TooManyRequests {
        /// The value of the header, seconds or an HTTP date.
        retry_after: Option<String>,
    },
    /// An error in the vendor's envelope, for example 403. Not executed.
    Refuse {
        /// The HTTP status, 400 to 599. Others become 500.
        status: u16,
        /// The vendor's error code.
        code: String,
    },
    /// The same error as [`Trouble::Refuse`], but after the request is executed.
    RefuseAfter {
        /// The HTTP status, 400 to 599. Others become 500.
        status: u16,
        /// The vendor's error code.
        code: String,
    },
    /// The response of an intermediate proxy: any status, content type and body. Not executed.
    Foreign {
        /// The HTTP status, 200 to 999. Others become 500.
        status: u16,
        /// The value of the `Content-Type` header.
        content_type: String,
        /// The body, sent unchanged.
        body: Vec<u8>,
    },
    /// A redirect to any URL. Not executed.
    Redirect {
        /// The HTTP status: 301, 302, 303, 307 or 308.
        status: u16,
        /// The `Location` header's value.
        location: String,
    },
    /// The connection is reset (TCP RST) before the request is executed.
    ResetBefore,
    /// The request is executed, then the connection is reset without a response.
    ResetAfter,
    /// The request is executed and answered after a delay.
    SlowBefore(Duration),
    /// The request is executed at once, and answered after a delay.
    SlowAfter(Duration),
    /// The correct response in small pieces.
    Drip {
        /// Bytes per piece; 0 counts as 1.
        piece: usize,
        /// The pause before each piece.
        pause: Duration,
    },
    /// The first half of the correct response, sent as if it were complete.
    Truncated,
    /// The first half of the correct response, then the connection ends.
    Cut,
    /// The correct response preceded by blanks, which JSON allows.
    Oversize {
        /// Number of blanks before the JSON.
        blanks: u64,
        /// Whether `Content-Length` announces the size.
        declared: bool,
    },
    /// The correct response preceded by blanks, gzip-compressed regardless of what the client accepts.
    Gzip {
        /// Number of blanks before the JSON, at most 256 MiB.
        blanks: usize,
    },
    /// A list without entries, with consistent totals if it has any.
    EmptyList,
    /// A list without the second half of its entries, with inconsistent totals if it has any.
    PartialPage,
    /// A page that names itself as the next page. Ignored by clouds without pages.
    NextPageIsThisPage,
    /// The action that a write starts fails in the end and changes nothing. Ignored by clouds without actions.
    ActionFails {
        /// The vendor's error code.
        code: String,
        /// The error's message.
        message: String,
    },
}

/// A response with the vendor's JSON, or without a body.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: Option<Value>,
}

impl Reply {
    pub(crate) fn ok(body: Value) -> Self {
        Self {
            status: StatusCode::OK,
            body: Some(body),
        }
    }

    pub(crate) fn created(body: Value) -> Self {
        Self {
            status: StatusCode::CREATED,
            body: Some(body),
        }
    }

    pub(crate) fn no_content() -> Self {
        Self {
            status: StatusCode::NO_CONTENT,
            body: None,
        }
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        match reply.body {
            // Indented, so that an object takes about as many bytes as in the vendors' responses.
            Some(json) => Self::json(reply.status, format!("{json:#}")),
            None => Self::plain(reply.status.as_u16(), Bytes::new()),
        }
    }
}

/// The response of faults that replace the execution of the request.
pub(super) fn instead<A: Api>(trouble: &Trouble) -> Option<Answer> {
    match trouble {
        Trouble::TooManyRequests { retry_after } => {
            let answer = Answer::from(A::denial(Denial::TooMany));
            Some(match retry_after {
                Some(value) => answer.header(RETRY_AFTER, value),
                None => answer,
            })
        }
        Trouble::Refuse { status, code } => {
            Some(A::refusal(refusing(*status), code, "refused on purpose").into())
        }
        Trouble::Foreign {
            status,
            content_type,
            body,
        } => {
            let answer = Answer::plain(*status, body.clone());
            Some(answer.header(CONTENT_TYPE, content_type))
        }
        Trouble::Redirect { status, location } => Some(Answer::redirect(*status, location)),
        _ => None,
    }
}

/// The correct response as distorted by a fault.
pub(super) fn distort<A: Api>(trouble: &Trouble, mut reply: Reply) -> Answer {
    match trouble {
        Trouble::RefuseAfter { status, code } => {
            let message = "refused on purpose, after it was carried out";
            reply = A::refusal(refusing(*status), code, message);
        }
        Trouble::EmptyList => {
            if let Some(entries) = entries(&mut reply) {
                entries.clear();
                reply.body.as_mut().into_iter().for_each(A::empty);
            }
        }
        Trouble::PartialPage => {
            if let Some(entries) = entries(&mut reply) {
                entries.truncate(entries.len() / 2);
            }
        }
        Trouble::NextPageIsThisPage if entries(&mut reply).is_some() => {
            reply.body.as_mut().into_iter().for_each(A::repeat);
        }
        _ => {}
    }
    let mut answer = Answer::from(reply);
    match trouble {
        Trouble::Truncated => answer.halve(),
        Trouble::Cut => answer.delivery = Delivery::Cut,
        Trouble::Drip { piece, pause } => {
            let (piece, pause) = ((*piece).max(1), *pause);
            answer.delivery = Delivery::Drip { piece, pause };
        }
        Trouble::Oversize { blanks, declared } => {
            let (count, declared) = (*blanks, *declared);
            answer.delivery = Delivery::Blanks { count, declared };
        }
        Trouble::Gzip { blanks } => {
            if let Ok(body) = gzip((*blanks).min(256 << 20), &answer.body) {
                answer.body = body;
                answer = answer.header(CONTENT_ENCODING, "gzip");
            }
        }
        _ => {}
    }
    answer
}

fn gzip(blanks: usize, body: &[u8]) -> std::io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    std::io::copy(
        &mut std::io::Read::take(std::io::repeat(b' '), blanks as u64),
        &mut encoder,
    )?;
    encoder.write_all(body)?;
    Ok(encoder.finish()?.into())
}

/// The entries of a list: the whole body, or the only array beside `meta`.
fn entries(reply: &mut Reply) -> Option<&mut Vec<Value>> {
    match reply.body.as_mut()? {
        Value::Array(entries) => Some(entries),
        Value::Object(fields) if fields.contains_key("meta") => {
            fields.values_mut().find_map(Value::as_array_mut)
        }
        _ => None,
    }
}
