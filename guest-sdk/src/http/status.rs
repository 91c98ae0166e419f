//! Maps statuses and missing responses to errors of the contract. Pure.

use std::time::Duration;

use super::{FetchError, Response};
use crate::Error;

/// Maximum length of a body quoted in an error, in characters.
const QUOTED: usize = 300;

/// The error for a request without a response.
pub(super) fn no_answer(label: &str, error: FetchError) -> Error {
    match error {
        FetchError::Denied(why) => Error::denied(format!("{label}: {why}")),
        FetchError::Invalid(why) => Error::internal(format!("{label}: not a request: {why}")),
        FetchError::Throttled(millis) => {
            let wait = Duration::from_millis(millis);
            Error::throttled(format!("{label}: held back"), Some(wait))
        }
        FetchError::TimedOut(why) => {
            Error::unavailable(format!("{label}: no answer in time: {why}"))
        }
        FetchError::TooLarge(why) => {
            Error::unavailable(format!("{label}: the answer is too large: {why}"))
        }
        FetchError::Unavailable(why) => Error::unavailable(format!("{label}: {why}")),
    }
}

/// The error for a response's status; `None` for 2xx. The table is at [`Response::ok`].
pub(super) fn meaning(response: &Response) -> Option<Error> {
    let status = response.status();
    let header = response.header("retry-after");
    let retry_after = retry_after(header);
    let message = || format!("{}: {status} {}", response.label(), quote(response.body()));
    match status {
        200..=299 => None,
        401 | 403 => Some(Error::denied(message())),
        429 => Some(Error::throttled(message(), retry_after)),
        501 => Some(Error::unsupported(message())),
        503 if header.is_some() => Some(Error::throttled(message(), retry_after)),
        // 409 and 412: the object is busy or has changed meanwhile. No status says that another object holds what was asked
        // for, which is what a conflict is.
        404 | 408 | 409 | 412 | 423 | 425 => Some(Error::unavailable(message())),
        400..=499 => Some(Error::invalid(message())),
        _ => Some(Error::unavailable(message())),
    }
}

/// Parses `Retry-After` in seconds (RFC 9110, 10.2.3). Ignores the date form; the host obeys both forms itself.
fn retry_after(header: Option<&str>) -> Option<Duration> {
    header?.trim().parse().ok().map(Duration::from_secs)
}

/// The start of a body for a message: one line, no control characters.
fn quote(body: &[u8]) -> String {
    // A character has at most four bytes, so the rest of the body is not needed.
    let begin = body.get(..QUOTED * 4).unwrap_or(body);
    let text = String::from_utf8_lossy(begin);
    let line: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    line.join(" ").chars().take(QUOTED).collect()
}
