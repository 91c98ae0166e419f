//! The path of a request: read once, brought into one form, matched in that form and sent in that form.
//!
//! A server, a proxy before it and we may disagree about what `/a/../b` or `%2e%2e` means, so such paths
//! are refused rather than resolved. Plain functions; nothing here knows targets or rules.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use thiserror::Error;

/// Longest path in bytes, before and after it is brought into its one form. The contract's number.
pub const MAX_PATH: usize = 2048;

/// What stays as it is in a sent path: RFC 3986's `unreserved` and `sub-delims`, `:` and `@`, but not `;`,
/// which some servers cut off together with what follows.
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

/// Why a path is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PathError {
    /// It has to be below the target's base path.
    #[error("a path begins with /")]
    NoSlash,
    /// Over [`MAX_PATH`].
    #[error("a path has at most {MAX_PATH} bytes")]
    TooLong,
    /// `//`, or a `/` at the end.
    #[error("a path has no empty segment, and no / at its end")]
    EmptySegment,
    /// `.`, `..` and what servers take for them: more dots, dots and spaces, dots before a `;`.
    #[error("a path has no segment of dots")]
    DotSegment,
    /// Belongs elsewhere, or would be a second separator: `?`, `#`, a backslash, an encoded `/`.
    #[error("a path has none of ? # \\ and no encoded / or \\")]
    Separator,
    /// Control characters, encoded or not.
    #[error("a path has no control characters")]
    Control,
    /// `%` without two hexadecimal digits, or bytes that are not UTF-8.
    #[error("the percent-encoding of the path is broken")]
    Encoding,
    /// `%25` before two hexadecimal digits: somebody behind us would decode once more.
    #[error("a path is percent-encoded once, not twice")]
    EncodedTwice,
}

/// A path in its one form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanonicalPath {
    text: String,
    segments: Vec<String>,
}

impl CanonicalPath {
    /// Exactly what is sent, after the base path.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The segments, decoded; none for `/`.
    pub fn segments(&self) -> &[String] {
        &self.segments
    }
}

/// Brings a path into its one form. Doing so again changes nothing.
///
/// # Errors
/// The first thing that is wrong with it.
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

/// Decodes one segment and checks what came out.
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

/// Whether a server might take the segment for `.` or `..`.
fn is_dots(decoded: &str) -> bool {
    let before = decoded.split(';').next().unwrap_or_default();
    before
        .chars()
        .all(|letter| letter == '.' || letter.is_whitespace())
}

/// The path of a rule: literal segments, and `{name}` for exactly one segment of any content.
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
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong, with the accepted form.
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
            } else {
                // A literal has to stand as it is sent, so that what a person reads is what is matched.
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

    /// Whether a path is one of those that the pattern means.
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

    /// Whether every path that `other` matches is matched by this one.
    pub fn covers(&self, other: &PathPattern) -> bool {
        self.segments.len() == other.segments.len()
            && self
                .segments
                .iter()
                .zip(&other.segments)
                .all(|(ours, theirs)| *ours == Segment::Any || ours == theirs)
    }

    /// Whether the pattern ends with a placeholder, so that a path names one object and 404 says it is not there.
    pub fn names_one_object(&self) -> bool {
        self.segments.last() == Some(&Segment::Any)
    }

    /// As it was written.
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
