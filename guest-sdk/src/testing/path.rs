//! Paths as the host reads them: a path that servers could read in two ways is refused.

use percent_encoding::percent_decode_str;

use crate::http::path;

/// Maximum length of a path, in bytes.
const MAX_PATH: usize = 2048;

/// The path in canonical form, as it is sent, and its decoded segments.
///
/// # Errors
/// The first mistake in it, in the real host's words.
pub(super) fn canonical(text: &str) -> Result<(String, Vec<String>), &'static str> {
    let too_long = "a path has at most 2048 bytes";
    if text.len() > MAX_PATH {
        return Err(too_long);
    }
    let rest = text.strip_prefix('/').ok_or("a path begins with /")?;
    if rest.is_empty() {
        return Ok(("/".to_owned(), Vec::new()));
    }
    let segments: Vec<String> = rest.split('/').map(segment).collect::<Result<_, _>>()?;
    let text = path(&segments);
    match text.len() > MAX_PATH {
        true => Err(too_long),
        false => Ok((text, segments)),
    }
}

fn segment(raw: &str) -> Result<String, &'static str> {
    let separator = "a path has none of ? # \\ and no encoded / or \\";
    let encoding = "the percent-encoding of the path is broken";
    if raw.is_empty() {
        return Err("a path has no empty segment, and no / at its end");
    }
    if raw.contains(['?', '#', '\\']) {
        return Err(separator);
    }
    if escapes(raw).any(|hex| !hex) {
        return Err(encoding);
    }
    let decoded = percent_decode_str(raw)
        .decode_utf8()
        .map_err(|_| encoding)?;
    if decoded.contains(['/', '\\']) {
        return Err(separator);
    }
    if decoded.chars().any(char::is_control) {
        return Err("a path has no control characters");
    }
    let mut before = decoded.split(';').next().unwrap_or_default().chars();
    if before.all(|letter| letter == '.' || letter.is_whitespace()) {
        return Err("a path has no segment of dots");
    }
    if escapes(&decoded).any(|hex| hex) {
        return Err("a path is percent-encoded once, not twice");
    }
    Ok(decoded.into_owned())
}

/// For every `%`: whether two hexadecimal digits follow.
fn escapes(text: &str) -> impl Iterator<Item = bool> {
    let bytes = text.as_bytes();
    let percents = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    percents.map(|(at, _)| {
        let digits = bytes.get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// Checks the literal segments of a rule's path.
///
/// # Errors
/// The first mistake in them, in the real host's words.
pub(super) fn check_pattern(pattern: &str) -> Result<(), &'static str> {
    let rest = pattern.strip_prefix('/').unwrap_or(pattern);
    let segments = rest.split('/').filter(|_| !rest.is_empty());
    for raw in segments.filter(|raw| !raw.starts_with('{')) {
        if path([segment(raw)?]) != format!("/{raw}") {
            return Err("only characters that need no percent-encoding, and no braces");
        }
    }
    Ok(())
}

/// Whether the request's segments match a rule's path, in which `{name}` is one segment of any content.
pub(super) fn matches(pattern: &str, segments: &[String]) -> bool {
    let rest = pattern.strip_prefix('/').unwrap_or(pattern);
    let wanted: Vec<&str> = rest.split('/').filter(|_| !rest.is_empty()).collect();
    let same = |(wanted, given): (&&str, &String)| {
        wanted.starts_with('{') || percent_decode_str(wanted).eq(given.bytes())
    };
    wanted.len() == segments.len() && wanted.iter().zip(segments).all(same)
}

/// Whether a rule's path ends with a placeholder.
pub(super) fn names_one_object(pattern: &str) -> bool {
    pattern
        .rsplit('/')
        .next()
        .is_some_and(|last| last.starts_with('{'))
}
