//! Headers: which of them a guest may set, and which it gets to see.
//!
//! What frames a message, names its host, proves who sends it or says who it comes from belongs to the
//! host. A guest that names such a header has made a mistake and hears so; nothing is dropped silently,
//! except what HTTP libraries set by themselves in requests that come through `wasi:http`.
//!
//! Many servers hand headers on as variables, in whose names everything but letters and digits is one character (RFC
//! 3875, 4.1.18): `x_forwarded_for` is `x-forwarded-for` there. So names are compared in that form.

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

/// The contract's numbers.
const MAX_HEADERS: usize = 32;
const MAX_HEADER_BYTES: usize = 16 << 10;

/// Belong to the host in requests.
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
    // Answers are looked at as a whole: a secret that is read in pieces would be in none of them. The third is what
    // `range` was called before it was a standard, and servers still know it.
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
    // Another method or path than the one that was matched, for servers that believe these.
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
];

/// The same, by beginning. `x-amz-` holds AWS's session token and the header that names an action.
const OWNED_PREFIXES: &[&str] = &["proxy-", "x-forwarded-", "x-amz-", "sec-"];

/// Set by HTTP libraries without being asked, and set by the host anyway.
const USUAL: &[&str] = &["accept-encoding", "content-length", "host", "user-agent"];

/// Not shown to guests: they belong to the connection, or would let a cloud keep state in a guest.
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

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The contract's `fetch`: every header was written by the guest's author.
    Fetch,
    /// `wasi:http`: a library wrote some of them.
    Wasi,
}

/// Whether a header of a request belongs to the host.
pub(super) fn is_owned(name: &HeaderName) -> bool {
    let folded = folded(name);
    // A second type of the body would be another one than the rules have looked at.
    let is_second_type = folded == CONTENT_TYPE.as_str() && *name != CONTENT_TYPE;
    is_second_type
        || OWNED.contains(&folded.as_str())
        || OWNED_PREFIXES
            .iter()
            .any(|prefix| folded.starts_with(prefix))
}

/// The name with one spelling for everything but letters and digits.
fn folded(name: &HeaderName) -> String {
    let one = |letter: char| match letter.is_ascii_alphanumeric() {
        true => letter,
        false => '-',
    };
    name.as_str().chars().map(one).collect()
}

/// Reads a guest's headers. `credential` is the header that the host adds for this target.
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
        // The parser takes upper case too and refuses what is not a token (RFC 9110, 5.6.2).
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else {
            return Err(format!("{name:?} is not a header name"));
        };
        if source == Source::Wasi && USUAL.contains(&name.as_str()) {
            continue;
        }
        if is_owned(&name) || credential.as_ref() == Some(&folded(&name)) {
            return Err(format!("header {name} belongs to the host"));
        }
        // Refuses CR, LF and NUL; folding over lines is made of them.
        let Ok(value) = HeaderValue::from_str(value) else {
            return Err(format!(
                "the value of header {name} has characters that no header can carry"
            ));
        };
        headers.append(name, value);
    }
    Ok(headers)
}

/// What a guest sees of an answer's headers: names in lower case, values of visible ASCII.
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
