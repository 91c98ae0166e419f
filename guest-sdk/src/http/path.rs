//! Paths and the parts of a URL that a guest may use. Pure.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters that a segment keeps unencoded. They are those of the host's canonical form, so that the path is sent as
/// it is written here.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// Joins segments to a path and percent-encodes each: `path(["machines", id])` is `/machines/7` for the id `7`. Use it
/// wherever a segment comes from outside, such as from a provider ID.
///
/// A segment can never become two, or a part of a query. The host refuses a segment that servers read in different ways
/// when the request is sent: an empty one, `.`, `..`, and one with a slash, a backslash or a control character.
pub fn path<S: AsRef<str>>(segments: impl IntoIterator<Item = S>) -> String {
    let mut path = String::new();
    for segment in segments {
        path.push('/');
        path.extend(utf8_percent_encode(segment.as_ref(), SEGMENT));
    }
    path
}

/// Splits an absolute or relative reference (RFC 3986) into its path and its query.
pub(super) fn path_and_query(reference: &str) -> (&str, &str) {
    let reference = reference.split('#').next().unwrap_or_default();
    let (before, query) = reference.split_once('?').unwrap_or((reference, ""));
    let path = match before.split_once("://") {
        Some((_, rest)) => rest.find('/').and_then(|at| rest.get(at..)),
        None => Some(before),
    };
    (path.unwrap_or_default(), query)
}

/// The target of the first link with the relation `rel` in the header `Link` (RFC 8288).
pub(super) fn link<'a>(header: &'a str, rel: &str) -> Option<&'a str> {
    let mut rest = header;
    while let Some((_, after)) = rest.split_once('<') {
        let (target, after) = after.split_once('>')?;
        let (parameters, others) = until_comma(after);
        let mut parameters = parameters.split(';').filter_map(|one| one.split_once('='));
        let has_rel = parameters.any(|(key, value)| {
            let mut relations = value.trim().trim_matches('"').split_ascii_whitespace();
            key.trim().eq_ignore_ascii_case("rel")
                && relations.any(|one| one.eq_ignore_ascii_case(rel))
        });
        if has_rel {
            return Some(target);
        }
        rest = others;
    }
    None
}

/// Splits at the first comma outside quotes.
fn until_comma(text: &str) -> (&str, &str) {
    let mut quoted = false;
    let end = text.find(|letter| {
        quoted ^= letter == '"';
        letter == ',' && !quoted
    });
    text.split_at(end.unwrap_or(text.len()))
}
