//! The watch that a credential's value never comes back out, in whatever usual spelling.
//!
//! A cloud that repeats what it was sent may write it as JSON, into a URL or as base64. Escapes have many forms, so they
//! are undone before it is looked for the value; base64 has few, so these are looked for themselves. What a cloud
//! turns into anything else (compressed, reversed, in pieces) is not found.

use std::borrow::Cow;

use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use memchr::{memchr, memmem};
use percent_encoding::percent_decode;
use zeroize::Zeroizing;

use super::basic;
use crate::grant::{Credential, Secret};

/// Shorter values are in answers and error texts by chance, and taking them out would show what they are.
const SHORTEST_WATCHED: usize = 8;
/// A word of a header that is at least this long is the secret part, not a user or a realm.
const SHORTEST_WORD: usize = 16;
/// How many escapes around each other are undone: a URL in JSON, JSON in JSON.
const LAYERS: usize = 2;

/// Knows what must not be seen.
pub(in crate::egress) struct SecretRedactor {
    /// Longest first, so that what is taken out is taken out whole.
    needles: Vec<Secret>,
}

impl SecretRedactor {
    /// Watches every form in which the credential is sent, and the long words of a header that has several, such as
    /// `Token <value>`.
    pub(in crate::egress) fn new(credential: &Credential) -> SecretRedactor {
        let mut values = match credential {
            Credential::None => Vec::new(),
            Credential::Bearer(token) => vec![token.clone()],
            Credential::Basic { user, password } => vec![
                password.clone(),
                Secret::new(format!("{user}:{}", password.expose())),
                Secret::new(basic(user, password)),
            ],
            Credential::Header { value, .. } => {
                let words = value.expose().split([' ', '=', ':', ';', ',']);
                let long = words.filter(|word| word.len() >= SHORTEST_WORD);
                let words = long.map(|word| Secret::new(word.to_owned()));
                std::iter::once(value.clone()).chain(words).collect()
            }
        };
        values.retain(|value| value.expose().len() >= SHORTEST_WATCHED);
        let mut needles: Vec<Secret> = values.iter().flat_map(spellings).collect();
        needles.append(&mut values);
        needles.sort_by(|one, other| {
            let length = |secret: &Secret| std::cmp::Reverse(secret.expose().len());
            (length(one), one.expose()).cmp(&(length(other), other.expose()))
        });
        needles.dedup_by(|one, other| one.expose() == other.expose());
        SecretRedactor { needles }
    }

    /// Whether the bytes hold a watched value, escaped or not. Takes time in proportion to their number.
    pub(in crate::egress) fn finds(&self, bytes: &[u8]) -> bool {
        !self.needles.is_empty() && self.finds_below(bytes, LAYERS)
    }

    /// Looks at the bytes as they are too, because what only looks like an escape may hide the value's beginning.
    fn finds_below(&self, bytes: &[u8], layers: usize) -> bool {
        let mut needles = self.needles.iter();
        if needles.any(|needle| memmem::find(bytes, needle.expose().as_bytes()).is_some()) {
            return true;
        }
        let Some(layers) = layers.checked_sub(1) else {
            return false;
        };
        let deeper = |inner: Cow<'_, [u8]>| match inner {
            Cow::Owned(inner) => self.finds_below(&inner, layers),
            Cow::Borrowed(_) => false,
        };
        deeper(unescaped(bytes)) || deeper(percent_decode(bytes).into())
    }

    /// The text without any watched value.
    pub(in crate::egress) fn redact(&self, text: &str) -> String {
        let replace = |text: String, needle: &Secret| text.replace(needle.expose(), "[redacted]");
        let redacted = self.needles.iter().fold(text.to_owned(), replace);
        match self.finds(redacted.as_bytes()) {
            // Escaped somewhere in it; where cannot be told apart from the rest.
            true => "[redacted]".to_owned(),
            false => redacted,
        }
    }
}

/// How a value looks in base64, in both alphabets and at each of the three places where it can begin, and in a form.
fn spellings(value: &Secret) -> Vec<Secret> {
    let engines = [&BASE64_STANDARD_NO_PAD, &BASE64_URL_SAFE_NO_PAD];
    let mut spellings: Vec<Secret> = engines
        .iter()
        .flat_map(|engine| (0..3).map(|ahead| inside(*engine, value, ahead)))
        .collect();
    // Everything else that a form writes otherwise is percent-encoded.
    if value.expose().contains(' ') {
        spellings.push(Secret::new(value.expose().replace(' ', "+")));
    }
    spellings
}

/// What is in a base64 text that holds the value behind `ahead` bytes, whatever these and those behind it are: the letters
/// all of whose six bits are the value's.
fn inside(engine: &impl base64::Engine, value: &Secret, ahead: usize) -> Secret {
    let value = value.expose().as_bytes();
    let mut bytes = Zeroizing::new(Vec::with_capacity(ahead + value.len()));
    bytes.resize(ahead, 0);
    bytes.extend_from_slice(value);
    let text = Zeroizing::new(engine.encode(bytes.as_slice()));
    let letters = (ahead * 8).div_ceil(6)..bytes.len() * 8 / 6;
    Secret::new(text.get(letters).unwrap_or_default().to_owned())
}

/// The bytes with JSON's escapes (RFC 8259, 7) undone, wherever they are; what is no escape stays.
fn unescaped(bytes: &[u8]) -> Cow<'_, [u8]> {
    if memchr(b'\\', bytes).is_none() {
        return Cow::Borrowed(bytes);
    }
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = memchr(b'\\', rest) {
        let (before, escape) = rest.split_at(at);
        plain.extend_from_slice(before);
        let (letter, length) = escaped(escape);
        let mut utf8 = [0; 4];
        plain.extend_from_slice(letter.encode_utf8(&mut utf8).as_bytes());
        rest = escape.get(length..).unwrap_or_default();
    }
    plain.extend_from_slice(rest);
    Cow::Owned(plain)
}

/// The letter that an escape stands for, and how many bytes the escape has.
fn escaped(escape: &[u8]) -> (char, usize) {
    match escape.get(1) {
        Some(b'u') => unicode(escape).unwrap_or(('\\', 1)),
        Some(letter @ (b'"' | b'\\' | b'/')) => (char::from(*letter), 2),
        Some(b'b') => ('\u{8}', 2),
        Some(b'f') => ('\u{c}', 2),
        Some(b'n') => ('\n', 2),
        Some(b'r') => ('\r', 2),
        Some(b't') => ('\t', 2),
        _ => ('\\', 1),
    }
}

/// `\uNNNN`, or two of them for what UTF-16 needs two for.
fn unicode(escape: &[u8]) -> Option<(char, usize)> {
    let first = unit(escape)?;
    let second = escape.get(6..).and_then(unit);
    let units = std::iter::once(first).chain(second);
    let letter = char::decode_utf16(units).next()?.ok()?;
    Some((letter, letter.len_utf16() * 6))
}

fn unit(escape: &[u8]) -> Option<u16> {
    let digits = escape.strip_prefix(b"\\u")?.get(..4)?;
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
    u16::from_str_radix(text, 16).ok()
}
