//! The host's checks of a cloud's answer, before a guest sees it.

use super::headers;
use crate::bindings::host::ccm::provider::http::{FetchError, Response};

/// Limits of the host. The number of headers is limited with HTTP/1.1 only.
const MAX_HEADERS: usize = 100;
const MAX_HEADER_BYTES: usize = 64 << 10;
const MAX_BODY: usize = 16 << 20;

/// The answer as a guest sees it.
///
/// # Errors
/// The error that the host would return in its place.
pub(super) fn shown(
    status: u16,
    given: Vec<(String, String)>,
    body: Vec<u8>,
) -> Result<Response, FetchError> {
    check_head(status, &given)?;
    if body.len() > MAX_BODY {
        return Err(FetchError::TooLarge(format!("more than {MAX_BODY} bytes")));
    }
    Ok(Response {
        status,
        headers: headers::shown(given),
        body,
    })
}

fn check_head(status: u16, given: &[(String, String)]) -> Result<(), FetchError> {
    let unavailable = |why: &str| Err(FetchError::Unavailable(why.to_owned()));
    if given.len() > MAX_HEADERS {
        return unavailable("client error (SendRequest): message head is too large");
    }
    if !(200..=599).contains(&status) {
        return unavailable(&format!("status {status} is no answer"));
    }
    if status == 206 {
        return unavailable("status 206: a partial response, which was not requested");
    }
    let bytes = given.iter().map(|(name, value)| name.len() + value.len());
    let bytes: usize = bytes.sum();
    if bytes > MAX_HEADER_BYTES {
        return Err(FetchError::TooLarge(format!("{bytes} bytes of headers")));
    }
    let is_compressed = |(name, value): &(String, String)| {
        let is_plain = value.is_empty() || value.eq_ignore_ascii_case("identity");
        name.eq_ignore_ascii_case("content-encoding") && !is_plain
    };
    match given.iter().any(is_compressed) {
        true => unavailable("the response is compressed, which was not requested"),
        false => Ok(()),
    }
}
