//! Faults on demand: what the client gets to see instead of the right answer.

use std::time::Duration;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::Value;

use super::api::Refusal;
use super::rate::RateLimits;
use crate::loopback::{self, Answer, Delivery, refusing};

/// A trouble and the requests it meets.
pub type Fault = loopback::Fault<Trouble>;

/// What goes wrong.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// The limit is reached, whatever was sent before: 403 in the vendor's words. Nothing is carried out.
    RateLimited,
    /// An error in the vendor's envelope, for example 403 `FORBIDDEN`. Nothing is carried out.
    Refuse {
        /// The HTTP status, 400 to 599. Others become 500.
        status: u16,
        /// The vendor's error code.
        code: String,
    },
    /// Any status, any type, any body: a proxy, a login page, a maintenance notice, malformed JSON.
    /// Nothing is carried out.
    Foreign {
        /// The HTTP status, 200 to 999. Others become 500.
        status: u16,
        /// The `Content-Type`.
        content_type: String,
        /// The body, as it is.
        body: Vec<u8>,
    },
    /// A redirect to any URL. Nothing is carried out.
    Redirect {
        /// 301, 302, 303, 307 or 308.
        status: u16,
        /// The `Location` header's value.
        location: String,
    },
    /// The connection is reset (TCP RST) before the request is carried out.
    ResetBefore,
    /// The request is carried out, then the connection is reset without an answer.
    ResetAfter,
    /// Nothing happens for a while, then the request is carried out and answered.
    SlowBefore(Duration),
    /// The request is carried out at once, and answered after a while.
    SlowAfter(Duration),
    /// The first half of the right answer, sent as if it were whole.
    Truncated,
    /// The first half of the right answer, then the connection ends.
    Cut,
    /// A list without entries, which the vendor never sends.
    EmptyList,
    /// A list without the second half of its entries.
    PartialList,
}

/// The answer that stands in for carrying the request out, for troubles that do that.
pub(super) fn instead(trouble: &Trouble) -> Option<Answer> {
    match trouble {
        Trouble::RateLimited => {
            let limit = RateLimits::VENDOR.server_reads;
            Some(Refusal::rate_limited(limit).into())
        }
        Trouble::Refuse { status, code } => {
            Some(Refusal::new(refusing(*status), code, "refused on purpose").into())
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

/// The right answer as a trouble lets it through.
pub(super) fn distort(trouble: &Trouble, mut right: Value) -> Answer {
    if let Some(entries) = right.as_array_mut() {
        match trouble {
            Trouble::EmptyList => entries.clear(),
            Trouble::PartialList => entries.truncate(entries.len() / 2),
            _ => {}
        }
    }
    let mut answer = Answer::json(StatusCode::OK, right.to_string());
    match trouble {
        Trouble::Truncated => answer.halve(),
        Trouble::Cut => answer.delivery = Delivery::Cut,
        _ => {}
    }
    answer
}
