//! Header policy: which headers a guest may set, and which response headers it sees.
//!
//! Headers that frame a message, name its host, authenticate its sender or state its origin belong to the host. A
//! guest that sets one gets an error; nothing is dropped silently, except headers that HTTP libraries add by
//! themselves to requests through `wasi:http`.
//!
//! Many servers pass headers on as variables, in whose names everything but letters and digits becomes one character
//! (RFC 3875, 4.1.18): `x_forwarded_for` is `x-forwarded-for` there. So names are compared in that form.

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

/// Limits of the contract.
const MAX_HEADERS: usize = 32;
const MAX_HEADER_BYTES: usize = 16 << 10;

/// Request headers that belong to the host.
const OWNED: &[&str] = &[
    "accept-encoding",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "cookie",
    "cookie2",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    // Only whole answers can be checked: a secret read in pieces would be in none of them. `request-range` is the
    // pre-standard name of `range`, and servers still know it.
    "if-range",
    "keep-alive",
    "range",
    "request-range",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
    "x-real-ip",
    // Override the matched method or path on servers that honour them.
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
];

/// Prefixes of headers that belong to the host. `x-amz-` holds AWS's session token and the header that names an
/// action.
const OWNED_PREFIXES: &[&str] = &["proxy-", "x-forwarded-", "x-amz-", "sec-"];

/// Headers that HTTP libraries set unasked; the host sets them anyway.
const USUAL: &[&str] = &["accept-encoding", "content-length", "host", "user-agent"];

/// Response headers hidden from guests: connection headers, and headers by which a cloud could keep state in a guest.
const HIDDEN: &[&str] = &[
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "set-cookie",
    "set-cookie2",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Interface that a request comes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The contract's `fetch`: the guest's author wrote every header.
    Fetch,
    /// `wasi:http`: a library wrote some of the headers.
    Wasi,
}

/// Whether a request header belongs to the host.
pub(super) fn is_owned(name: &HeaderName) -> bool {
    let folded = folded(name);
    // A second spelling of content-type could declare another body type than the rules have checked.
    let is_second_type = folded == CONTENT_TYPE.as_str() && *name != CONTENT_TYPE;
    is_second_type
        || OWNED.contains(&folded.as_str())
        || OWNED_PREFIXES
            .iter()
            .any(|prefix| folded.starts_with(prefix))
}

/// Name with `-` for everything but letters and digits.
fn folded(name: &HeaderName) -> String {
    let one = |letter: char| match letter.is_ascii_alphanumeric() {
        true => letter,
        false => '-',
    };
    name.as_str().chars().map(one).collect()
}

/// Parses and checks a guest's headers. `credential` is the header that the host adds for this target.
///
/// # Errors
/// The first header that cannot be sent.
pub(super) fn request(
    given: &[(String, String)],
    credential: Option<&HeaderName>,
    source: Source,
) -> Result<HeaderMap, String> {
    if given.len() > MAX_HEADERS {
        return Err(format!("{} headers, at most {MAX_HEADERS}", given.len()));
    }
    let bytes: usize = given
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if bytes > MAX_HEADER_BYTES {
        return Err(format!(
            "{bytes} bytes of headers, at most {MAX_HEADER_BYTES}"
        ));
    }
    let credential = credential.map(folded);
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        // The parser also accepts upper case and refuses everything that is not a token (RFC 9110, 5.6.2).
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else {
            return Err(format!("{name:?} is not a header name"));
        };
        if source == Source::Wasi && USUAL.contains(&name.as_str()) {
            continue;
        }
        if is_owned(&name) || credential.as_ref() == Some(&folded(&name)) {
            return Err(format!("header {name} belongs to the host"));
        }
        // Refuses CR, LF and NUL, and with them folded lines.
        let Ok(value) = HeaderValue::from_str(value) else {
            return Err(format!(
                "the value of header {name} has characters that no header can carry"
            ));
        };
        headers.append(name, value);
    }
    Ok(headers)
}

/// Response headers that a guest sees: names in lower case, values of visible ASCII.
pub(super) fn answer(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .filter(|(name, _)| !HIDDEN.contains(&name.as_str()))
        .filter_map(|(name, value)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests;
