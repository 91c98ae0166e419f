//! Faults on demand: what the client gets to see instead of the right answer.
//!
//! A fault distorts the answer or the transport. Whether the project changed is said for each one;
//! apart from failing actions none of them changes what a request does to the project. How the
//! distorted answers look is in the module `answer`.

use std::time::Duration;

use super::actions::Failure;
use crate::loopback;

/// A trouble and the requests it meets.
pub type Fault = loopback::Fault<Trouble>;

/// What goes wrong.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// The budget is spent, with this `Retry-After` (seconds or an HTTP date) or without. Nothing is
    /// carried out.
    TooManyRequests {
        /// The header's value.
        retry_after: Option<String>,
    },
    /// An error in the vendor's envelope, for example 403 `token_readonly`. Nothing is carried out.
    Refuse {
        /// The HTTP status, 400 to 599. Others become 500.
        status: u16,
        /// The vendor's error code.
        code: String,
    },
    /// The same error, but the request is carried out first.
    RefuseAfter {
        /// The HTTP status, 400 to 599. Others become 500.
        status: u16,
        /// The vendor's error code.
        code: String,
    },
    /// An answer of a proxy in between: any status, any type, any body. Nothing is carried out.
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
    /// The right answer in small pieces.
    Drip {
        /// Bytes at a time; 0 counts as 1.
        piece: usize,
        /// The pause before each piece.
        pause: Duration,
    },
    /// The first half of the right answer, sent as if it were whole.
    Truncated,
    /// The first half of the right answer, then the connection ends.
    Cut,
    /// The right answer after so many blanks, which JSON allows.
    Oversize {
        /// How many blanks.
        blanks: u64,
        /// Whether `Content-Length` tells the size beforehand.
        declared: bool,
    },
    /// The right answer after so many blanks, compressed, whatever the client accepts.
    Gzip {
        /// How many blanks, at most 256 MiB.
        blanks: usize,
    },
    /// A list without entries, and with numbers that agree.
    EmptyList,
    /// A list without the second half of its entries, and with numbers that do not agree.
    PartialPage,
    /// A page that names itself as the next one.
    NextPageIsThisPage,
    /// The action that a write starts fails in the end and changes nothing.
    ActionFails {
        /// The vendor's error code.
        code: String,
        /// The message.
        message: String,
    },
}

/// The failure that a trouble wants for the action of a request.
pub(super) fn doom(trouble: Option<&Trouble>) -> Option<Failure> {
    match trouble {
        Some(Trouble::ActionFails { code, message }) => Some(Failure {
            code: code.clone(),
            message: message.clone(),
        }),
        _ => None,
    }
}
