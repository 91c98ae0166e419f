//! Keeps the pause that the API server asks for. kube's client reads the body of a refusal and no header, and the API
//! server's fairness between clients refuses with a header and plain text. Waits for nothing itself.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::{Either, Full};
use serde_json::json;

/// The answer. A 429 in plain text with a `Retry-After` in seconds becomes the `Status` that says the same.
pub(crate) fn with_retry_after<O>(answer: Response<O>) -> Response<Either<O, Full<Bytes>>> {
    let Some(seconds) = asked_for(&answer) else {
        return answer.map(Either::Left);
    };
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "too many requests",
        "reason": "TooManyRequests",
        "details": { "retryAfterSeconds": seconds },
        "code": 429,
    });
    let (mut head, _) = answer.into_parts();
    head.headers.remove(CONTENT_TYPE);
    head.headers.remove(CONTENT_LENGTH);
    Response::from_parts(head, Either::Right(Full::from(status.to_string())))
}

/// The seconds that a 429 without an object in its body asks for.
fn asked_for<O>(answer: &Response<O>) -> Option<u32> {
    let header = |name: HeaderName| answer.headers().get(name)?.to_str().ok();
    let is_object = header(CONTENT_TYPE).is_some_and(|media| media.starts_with("application/"));
    let is_busy = answer.status() == StatusCode::TOO_MANY_REQUESTS && !is_object;
    header(RETRY_AFTER)?.parse().ok().filter(|_| is_busy)
}
