//! Recognises answers in which AWS refuses an identity or a signature, and whether the clock is the reason. Pure.

use std::time::{Duration, SystemTime};

use http::header::HeaderMap;
use memchr::memmem;

use crate::egress::rate_limit_hold::sent;

/// Error codes of AWS's services about keys, tokens, signatures and their time, in their Query and JSON protocols.
const CODES: [&str; 10] = [
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "RequestExpired",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];

/// A signature is valid for five minutes; a little less, because the answer's own time is in between.
const TOLERATED: Duration = Duration::from_secs(280);

/// The error code of a refusal; `None` if the answer refuses no identity or signature.
pub(super) fn code(status: u16, body: &[u8]) -> Option<&'static str> {
    if !(400..500).contains(&status) {
        return None;
    }
    let is_in = |text: String| memmem::find(body, text.as_bytes()).is_some();
    CODES
        .into_iter()
        .find(|code| is_in(format!("<Code>{code}</Code>")) || is_in(format!("{code}\"")))
}

/// The error of this machine's clock, if it is the reason of a refusal.
pub(super) fn clock(headers: &HeaderMap, now: SystemTime) -> Option<String> {
    let theirs = sent(headers)?;
    let (by, word) = match now.duration_since(theirs) {
        Ok(ahead) => (ahead, "ahead of"),
        Err(behind) => (behind.duration(), "behind"),
    };
    let by_seconds = Duration::from_secs(by.as_secs());
    (by > TOLERATED).then(|| format!("the clock of this machine is {by_seconds:?} {word} AWS's"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use http::header::DATE;

    use super::*;

    #[test]
    fn refusals_of_a_signature_are_told_from_other_errors() {
        for (status, body, found) in [
            (
                403,
                "<Error><Code>SignatureDoesNotMatch</Code></Error>",
                Some("SignatureDoesNotMatch"),
            ),
            (401, "<Code>AuthFailure</Code>", Some("AuthFailure")),
            (
                400,
                r#"{"__type":"com.amazon.coral.service#InvalidSignatureException"}"#,
                Some("InvalidSignatureException"),
            ),
            (403, "<Code>UnauthorizedOperation</Code>", None),
            (400, "<Message>AuthFailure is a word</Message>", None),
            (200, "<Code>AuthFailure</Code>", None),
        ] {
            assert_eq!(code(status, body.as_bytes()), found, "{body}");
        }
    }

    #[test]
    fn every_code_of_a_refusal_is_found_in_both_protocols() {
        for name in [
            "AuthFailure",
            "ExpiredToken",
            "ExpiredTokenException",
            "IncompleteSignature",
            "InvalidClientTokenId",
            "InvalidSignatureException",
            "RequestExpired",
            "RequestTimeTooSkewed",
            "SignatureDoesNotMatch",
            "UnrecognizedClientException",
        ] {
            for body in [
                format!("<Error><Code>{name}</Code></Error>"),
                format!(r#"{{"__type":"com.amazon.coral.service#{name}"}}"#),
            ] {
                assert_eq!(code(400, body.as_bytes()), Some(name), "{body}");
            }
        }
    }

    #[test]
    fn a_clock_that_is_off_is_named_with_its_direction() {
        let theirs = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let headers = |date: String| HeaderMap::from_iter([(DATE, date.parse().unwrap())]);
        let dated = headers(httpdate::fmt_http_date(theirs));
        let minutes = |count: u64| Duration::from_secs(count * 60);
        for (now, expected) in [
            (theirs, None),
            (theirs + minutes(4), None),
            (theirs + minutes(17), Some("1020s ahead of")),
            (theirs - minutes(6), Some("360s behind")),
        ] {
            let found = clock(&dated, now);
            assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
            assert!(expected.is_none_or(|expected| found.unwrap().contains(expected)));
        }
        assert_eq!(clock(&headers("yesterday".to_owned()), theirs), None);
        assert_eq!(clock(&HeaderMap::new(), theirs), None);
    }
}
