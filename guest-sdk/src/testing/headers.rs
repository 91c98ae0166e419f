//! Which request headers the host accepts, and which response headers a guest sees.

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
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
];

/// Prefixes of request headers that belong to the host.
const OWNED_PREFIXES: &[&str] = &["proxy-", "x-forwarded-", "x-amz-", "sec-"];

/// Response headers that no guest sees.
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

/// Checks the headers of a request.
///
/// # Errors
/// The first header that cannot be sent, with the reason in the real host's words.
pub(super) fn check(given: &[(String, String)]) -> Result<(), String> {
    if given.len() > MAX_HEADERS {
        return Err(format!("{} headers, at most {MAX_HEADERS}", given.len()));
    }
    let bytes = given.iter().map(|(name, value)| name.len() + value.len());
    let bytes: usize = bytes.sum();
    if bytes > MAX_HEADER_BYTES {
        return Err(format!(
            "{bytes} bytes of headers, at most {MAX_HEADER_BYTES}"
        ));
    }
    for (name, value) in given {
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(format!("{name:?} is not a header name"));
        }
        let name = name.to_ascii_lowercase();
        if is_owned(&name) {
            return Err(format!("header {name} belongs to the host"));
        }
        // RFC 9110, 5.5: visible characters, blanks, and bytes beyond ASCII.
        let is_allowed = |byte: u8| byte >= 0x20 && byte != 0x7f || byte == b'\t';
        if !value.bytes().all(is_allowed) {
            return Err(format!(
                "the value of header {name} has characters that no header can carry"
            ));
        }
    }
    Ok(())
}

/// Whether a header name may have this character (RFC 9110, 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether the header belongs to the host. Servers read `x_forwarded_for` as `x-forwarded-for`, so names are compared
/// in that form.
fn is_owned(name: &str) -> bool {
    let one = |letter: char| match letter.is_ascii_alphanumeric() {
        true => letter,
        false => '-',
    };
    let folded: String = name.chars().map(one).collect();
    let is_second_type = folded == "content-type" && name != "content-type";
    is_second_type
        || OWNED.contains(&folded.as_str())
        || OWNED_PREFIXES
            .iter()
            .any(|prefix| folded.starts_with(prefix))
}

/// The headers of an answer as a guest sees them.
pub(super) fn shown(headers: Vec<(String, String)>) -> Vec<(String, String)> {
    let headers = headers.into_iter();
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value));
    headers
        .filter(|(name, _)| !HIDDEN.contains(&name.as_str()))
        .collect()
}
