//! Answers as they leave: the API's reply, or what a trouble makes of it.
//!
//! It knows no socket; how bytes travel is only described here.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};

use super::api::{Refusal, Reply};
use super::faults::Trouble;

/// An answer ready for the wire.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Bytes,
    pub(super) delivery: Delivery,
}

/// How a body travels.
pub(super) enum Delivery {
    Whole,
    Drip { piece: usize, pause: Duration },
    Cut,
    Blanks { count: u64, declared: bool },
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        // Indented: a server then takes about as many bytes on the wire as one of the vendor's.
        let body = reply.body.map(|json| Bytes::from(format!("{json:#}")));
        let json = HeaderValue::from_static("application/json");
        Self {
            status: reply.status,
            headers: body.iter().map(|_| (CONTENT_TYPE, json.clone())).collect(),
            body: body.unwrap_or_default(),
            delivery: Delivery::Whole,
        }
    }
}

impl Answer {
    /// Adds a header, unless its value cannot stand in one.
    pub(super) fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    fn plain(status: u16, body: Bytes) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            headers: Vec::new(),
            body,
            delivery: Delivery::Whole,
        }
    }
}

/// The answer that stands in for carrying the request out, for troubles that do that.
pub(super) fn instead(trouble: &Trouble) -> Option<Answer> {
    match trouble {
        Trouble::TooManyRequests { retry_after } => {
            let refusal = Refusal::new(
                StatusCode::TOO_MANY_REQUESTS,
                "rate_limit_exceeded",
                "limit of requests per hour reached",
            );
            let answer = Answer::from(refusal.into_reply());
            Some(match retry_after {
                Some(value) => answer.header(RETRY_AFTER, value),
                None => answer,
            })
        }
        Trouble::Refuse { status, code } => {
            let status = StatusCode::from_u16(*status)
                .ok()
                .filter(|status| status.is_client_error() || status.is_server_error())
                .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let refusal = Refusal::new(status, code, "refused on purpose");
            Some(refusal.into_reply().into())
        }
        Trouble::Foreign {
            status,
            content_type,
            body,
        } => {
            let status = if *status < 200 { 500 } else { *status };
            let answer = Answer::plain(status, body.clone().into());
            Some(answer.header(CONTENT_TYPE, content_type))
        }
        Trouble::Redirect { status, location } => {
            let status = if (300..400).contains(status) {
                *status
            } else {
                302
            };
            Some(Answer::plain(status, Bytes::new()).header(LOCATION, location))
        }
        _ => None,
    }
}

/// The right answer as a trouble lets it through.
pub(super) fn distort(trouble: &Trouble, mut reply: Reply) -> Answer {
    match trouble {
        Trouble::EmptyList => {
            if let Some(entries) = entries(&mut reply) {
                entries.clear();
                if let Some(meta) = pagination(&mut reply) {
                    meta["total_entries"] = json!(0);
                    meta["last_page"] = json!(1);
                    meta["next_page"] = Value::Null;
                }
            }
        }
        Trouble::PartialPage => {
            if let Some(entries) = entries(&mut reply) {
                entries.truncate(entries.len() / 2);
            }
        }
        Trouble::NextPageIsThisPage => {
            if let Some(meta) = pagination(&mut reply) {
                meta["next_page"] = meta["page"].clone();
            }
        }
        _ => {}
    }
    let mut answer = Answer::from(reply);
    match trouble {
        Trouble::Truncated => answer.body.truncate(answer.body.len() / 2),
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

/// The entries of a list reply: the one array beside `meta`.
fn entries(reply: &mut Reply) -> Option<&mut Vec<Value>> {
    let fields = reply.body.as_mut()?.as_object_mut()?;
    fields.contains_key("meta").then_some(())?;
    fields.values_mut().find_map(Value::as_array_mut)
}

fn pagination(reply: &mut Reply) -> Option<&mut Value> {
    reply.body.as_mut()?.pointer_mut("/meta/pagination")
}
