//! Request paths: parsed once into a canonical form, which is both matched and sent.
//!
//! Servers, proxies and this host may disagree about `/a/../b` or `%2e%2e`, so such paths are refused instead of
//! resolved. Pure functions; nothing here knows targets or rules.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use thiserror::Error;

/// Maximum length of a path in bytes, before and after canonicalization. Limit of the contract.
pub const MAX_PATH: usize = 2048;

/// Characters that stay unencoded in a sent path: RFC 3986's `unreserved` and `sub-delims`, `:` and `@`, but not
/// `;`, which some servers cut off together with everything behind it.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
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

/// Why a path is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PathError {
    /// Does not begin with `/`; a path has to be below the target's base path.
    #[error("a path begins with /")]
    NoSlash,
    /// Has more than [`MAX_PATH`] bytes.
    #[error("a path has at most {MAX_PATH} bytes")]
    TooLong,
    /// `//`, or a `/` at the end.
    #[error("a path has no empty segment, and no / at its end")]
    EmptySegment,
    /// `.`, `..` and segments that servers treat as such: more dots, dots and spaces, dots before a `;`.
    #[error("a path has no segment of dots")]
    DotSegment,
    /// Characters that end a path or act as a second separator: `?`, `#`, a backslash, an encoded `/`.
    #[error("a path has none of ? # \\ and no encoded / or \\")]
    Separator,
    /// Control characters, encoded or not.
    #[error("a path has no control characters")]
    Control,
    /// `%` without two hexadecimal digits, or bytes that are not UTF-8.
    #[error("the percent-encoding of the path is broken")]
    Encoding,
    /// `%25` before two hexadecimal digits: a server behind this host might decode once more.
    #[error("a path is percent-encoded once, not twice")]
    EncodedTwice,
}

/// A path in canonical form, as it is matched and sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanonicalPath {
    text: String,
    segments: Vec<String>,
}

impl CanonicalPath {
    /// Path exactly as sent, after the base path.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Decoded segments; none for `/`.
    pub fn segments(&self) -> &[String] {
        &self.segments
    }
}

/// Canonicalizes a path. Idempotent.
///
/// # Errors
/// The first mistake in it.
pub fn canonical(path: &str) -> Result<CanonicalPath, PathError> {
    if path.len() > MAX_PATH {
        return Err(PathError::TooLong);
    }
    let rest = path.strip_prefix('/').ok_or(PathError::NoSlash)?;
    if rest.is_empty() {
        return Ok(CanonicalPath {
            text: "/".to_owned(),
            segments: Vec::new(),
        });
    }
    let segments = rest
        .split('/')
        .map(segment)
        .collect::<Result<Vec<_>, _>>()?;
    let mut text = String::with_capacity(path.len());
    for segment in &segments {
        text.push('/');
        text.extend(utf8_percent_encode(segment, ENCODED));
    }
    if text.len() > MAX_PATH {
        return Err(PathError::TooLong);
    }
    Ok(CanonicalPath { text, segments })
}

/// Decodes one segment and checks the result.
fn segment(raw: &str) -> Result<String, PathError> {
    if raw.is_empty() {
        return Err(PathError::EmptySegment);
    }
    if raw.contains(['?', '#', '\\']) {
        return Err(PathError::Separator);
    }
    if has_bare_percent(raw) {
        return Err(PathError::Encoding);
    }
    let decoded = percent_decode_str(raw)
        .decode_utf8()
        .map_err(|_| PathError::Encoding)?;
    if decoded.contains(['/', '\\']) {
        return Err(PathError::Separator);
    }
    if decoded.chars().any(char::is_control) {
        return Err(PathError::Control);
    }
    if is_dots(&decoded) {
        return Err(PathError::DotSegment);
    }
    if escapes(&decoded).any(|hex| hex) {
        return Err(PathError::EncodedTwice);
    }
    Ok(decoded.into_owned())
}

/// For every `%`: whether two hexadecimal digits follow.
fn escapes(text: &str) -> impl Iterator<Item = bool> {
    let bytes = text.as_bytes();
    let percents = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    percents.map(|(at, _)| {
        bytes
            .get(at + 1..at + 3)
            .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

fn has_bare_percent(text: &str) -> bool {
    escapes(text).any(|hex| !hex)
}

/// Whether a server might treat the segment as `.` or `..`.
fn is_dots(decoded: &str) -> bool {
    let before = decoded.split(';').next().unwrap_or_default();
    before
        .chars()
        .all(|letter| letter == '.' || letter.is_whitespace())
}

/// Path of a rule: literal segments, and `{name}` for exactly one segment of any content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    text: String,
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Literal(String),
    Any,
}

impl PathPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// The mistake, with the accepted form.
    pub fn parse(text: &str) -> Result<PathPattern, String> {
        let bad = |why: &str| Err(format!("path {text:?}: {why}"));
        if text.len() > MAX_PATH {
            return bad("too long");
        }
        let Some(rest) = text.strip_prefix('/') else {
            return bad("expected to begin with /");
        };
        let mut segments = Vec::new();
        for raw in rest.split('/').filter(|_| !rest.is_empty()) {
            if let Some(name) = raw.strip_prefix('{') {
                let name = name.strip_suffix('}').unwrap_or_default();
                let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
                if name.is_empty() || name.len() > 32 || !name.bytes().all(is_name) {
                    return bad(
                        "a placeholder is {name}: one to 32 letters, digits or _, alone between slashes",
                    );
                }
                segments.push(Segment::Any);
            } else if raw.contains('*') {
                return bad("there are no wildcards; {name} stands for exactly one segment");
            } else {
                // A literal has to be written exactly as it is sent, so that the reader of a rule sees what it
                // matches.
                match segment(raw) {
                    Ok(decoded) if utf8_percent_encode(&decoded, ENCODED).eq([raw]) => {
                        segments.push(Segment::Literal(decoded));
                    }
                    Ok(_) => {
                        return bad("only characters that need no percent-encoding, and no braces");
                    }
                    Err(error) => return bad(&error.to_string()),
                }
            }
        }
        Ok(PathPattern {
            text: text.to_owned(),
            segments,
        })
    }

    /// Whether the pattern matches the path.
    pub fn matches(&self, path: &CanonicalPath) -> bool {
        self.segments.len() == path.segments.len()
            && self
                .segments
                .iter()
                .zip(&path.segments)
                .all(|(wanted, given)| match wanted {
                    Segment::Literal(literal) => literal == given,
                    Segment::Any => true,
                })
    }

    /// Whether this pattern matches every path that `other` matches.
    pub fn covers(&self, other: &PathPattern) -> bool {
        self.segments.len() == other.segments.len()
            && self
                .segments
                .iter()
                .zip(&other.segments)
                .all(|(ours, theirs)| *ours == Segment::Any || ours == theirs)
    }

    /// Whether the pattern ends with a placeholder: then a path names one object, and 404 means that it is absent.
    pub fn names_one_object(&self) -> bool {
        self.segments.last() == Some(&Segment::Any)
    }

    /// The pattern as it was written in the rule.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
