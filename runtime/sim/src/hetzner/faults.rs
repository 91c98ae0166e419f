//! Injectable faults: what the client gets instead of the correct response.
//!
//! A fault distorts the response or the transport. Each variant says whether the request is executed; apart from
//! failing actions, no fault changes the effect of a request. The module `answer` builds the distorted responses.

use std::time::Duration;

use super::actions::Failure;
use crate::loopback;

/// A trouble and the requests it applies to.
pub type Fault = loopback::Fault<Trouble>;

/// The type of a fault.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// 429, with this `Retry-After` (seconds or an HTTP date) or without. Not executed.
    TooManyRequests {
        /// The header's value.
        retry_after: Option<String>,
    },
    /// An error in the vendor's envelope, for example 403 `token_readonly`. Not executed.
    Refuse {
        /// The HTTP status, 400 to 599. Others become 500.
        status: u16,
        /// The vendor's error code.
        code: String,
    },
    /// The same error, but after the request is executed.
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
        /// The `Content-Type`.
        content_type: String,
        /// The body, sent unchanged.
        body: Vec<u8>,
    },
    /// A redirect to any URL. Not executed.
    Redirect {
        /// 301, 302, 303, 307 or 308.
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
        /// Number of blanks.
        blanks: u64,
        /// Whether `Content-Length` announces the size.
        declared: bool,
    },
    /// The correct response preceded by blanks, gzip-compressed regardless of what the client accepts.
    Gzip {
        /// Number of blanks, at most 256 MiB.
        blanks: usize,
    },
    /// A list without entries, with consistent totals.
    EmptyList,
    /// A list without the second half of its entries, with inconsistent totals.
    PartialPage,
    /// A page that names itself as the next page.
    NextPageIsThisPage,
    /// The action started by a write fails in the end and changes nothing.
    ActionFails {
        /// The vendor's error code.
        code: String,
        /// The message.
        message: String,
    },
}

/// The failure that a trouble imposes on the action of a request.
pub(super) fn doom(trouble: Option<&Trouble>) -> Option<Failure> {
    match trouble {
        Some(Trouble::ActionFails { code, message }) => Some(Failure {
            code: code.clone(),
            message: message.clone(),
        }),
        _ => None,
    }
}
