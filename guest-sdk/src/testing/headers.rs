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

/// Checks the headers of a request. `credential` is the header that the host adds for the target.
///
/// # Errors
/// The first header that cannot be sent, with the reason in the real host's words.
pub(super) fn check(given: &[(String, String)], credential: Option<&str>) -> Result<(), String> {
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
        if is_owned(&name) || credential == Some(folded(&name).as_str()) {
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

/// The form in which names are compared: servers read `x_forwarded_for` as `x-forwarded-for`.
fn folded(name: &str) -> String {
    let one = |letter: char| match letter.is_ascii_alphanumeric() {
        true => letter,
        false => '-',
    };
    name.chars().map(one).collect()
}

/// Whether the header belongs to the host.
fn is_owned(name: &str) -> bool {
    let folded = folded(name);
    let is_second_type = folded == "content-type" && name != "content-type";
    is_second_type
        || OWNED.contains(&folded.as_str())
        || OWNED_PREFIXES
            .iter()
            .any(|prefix| folded.starts_with(prefix))
}

/// The headers of an answer as a guest sees them: without those whose values are not visible ASCII.
pub(super) fn shown(headers: Vec<(String, String)>) -> Vec<(String, String)> {
    let is_visible = |byte: u8| (0x20..0x7f).contains(&byte) || byte == b'\t';
    let headers = headers.into_iter();
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value));
    headers
        .filter(|(name, value)| !HIDDEN.contains(&name.as_str()) && value.bytes().all(is_visible))
        .collect()
}
