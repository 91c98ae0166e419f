//! Responses: the API's reply, or its distortion by a trouble.
//!
//! Knows no socket; only describes how the body is sent.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use serde_json::{Value, json};

use super::api::{Refusal, Reply};
use super::faults::Trouble;
use crate::loopback::{Answer, Delivery, refusing};

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        match reply.body {
            // Indented, so that a server takes about as many bytes as in the vendor's responses.
            Some(json) => Self::json(reply.status, format!("{json:#}")),
            None => Self::plain(reply.status.as_u16(), Bytes::new()),
        }
    }
}

/// The response of troubles that replace the execution of the request.
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
            let refusal = Refusal::new(refusing(*status), code, "refused on purpose");
            Some(refusal.into_reply().into())
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

/// The correct response as distorted by a trouble.
pub(super) fn distort(trouble: &Trouble, mut reply: Reply) -> Answer {
    match trouble {
        Trouble::RefuseAfter { status, code } => {
            let message = "refused on purpose, after it was carried out";
            reply = Refusal::new(refusing(*status), code, message).into_reply();
        }
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

/// The entries of a list reply: the only array beside `meta`.
fn entries(reply: &mut Reply) -> Option<&mut Vec<Value>> {
    let fields = reply.body.as_mut()?.as_object_mut()?;
    fields.contains_key("meta").then_some(())?;
    fields.values_mut().find_map(Value::as_array_mut)
}

fn pagination(reply: &mut Reply) -> Option<&mut Value> {
    reply.body.as_mut()?.pointer_mut("/meta/pagination")
}
