//! Injectable faults: what the client gets instead of the correct response.

use std::time::Duration;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::Value;

use super::api::Refusal;
use super::rate::RateLimits;
use crate::loopback::{self, Answer, Delivery, refusing};

/// A trouble and the requests it applies to.
pub type Fault = loopback::Fault<Trouble>;

/// The type of a fault.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// The rate limit is exceeded, regardless of earlier requests: the vendor's 403. Not executed.
    RateLimited,
    /// An error in the vendor's envelope, for example 403 `FORBIDDEN`. Not executed.
    Refuse {
        /// The HTTP status, 400 to 599. Others become 500.
        status: u16,
        /// The vendor's error code.
        code: String,
    },
    /// Any status, content type and body: a proxy, a login page, a maintenance notice, malformed JSON. Not executed.
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
    /// The first half of the correct response, sent as if it were complete.
    Truncated,
    /// The first half of the correct response, then the connection ends.
    Cut,
    /// A list without entries, which the vendor never sends.
    EmptyList,
    /// A list without the second half of its entries.
    PartialList,
}

/// The response of faults that replace the execution of the request.
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

/// The correct response as distorted by a fault.
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
