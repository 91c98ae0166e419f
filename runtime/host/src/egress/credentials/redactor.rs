//! Finds and removes credential values in answers and texts, in their usual encodings.
//!
//! A cloud that echoes a request may encode it as JSON, as XML, in a URL or as base64. Escapes have many forms, so they
//! are decoded before the search; base64 has few, so the encoded forms are searched directly. Other transformations
//! (compressed, reversed, in pieces) are not found.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use memchr::{memchr, memmem};
use parking_lot::RwLock;
use percent_encoding::percent_decode;
use zeroize::Zeroizing;

use super::issuers::Material;
use super::{basic, login_of_client};
use crate::grant::{AwsSource, Credential, KeystoneMethod, OAuth2Client, Presented, Secret};

/// Shorter values occur by chance in answers and error texts, and redacting them would reveal them.
const SHORTEST_WATCHED: usize = 8;
/// What stands in a text instead of a value.
const REDACTED: &str = "[redacted]";
/// What [`crate::sanitize::clean`] writes where it cuts a text.
const CUT: &str = "…";
/// A word of a header value with at least this length counts as the secret part, not as a user name or realm.
const SHORTEST_WORD: usize = 16;
/// Number of nested escape layers that are decoded: a URL in JSON, JSON in JSON.
const LAYERS: usize = 2;
/// Longest XML reference that is decoded, without `&` and `;`: the last character in hexadecimal, with a few zeros.
const LONGEST_REFERENCE: usize = 12;

/// Number of learned secrets of each kind: an exchange presents two and yields two at most, and a former result may
/// still be in use.
const MOST_LEARNED: usize = 8;

/// Searches for one credential.
struct SecretSearch {
    /// Longest first, so that the longest match is redacted as a whole.
    needles: Vec<Secret>,
}

impl SecretSearch {
    fn of(mut values: Vec<Secret>) -> SecretSearch {
        values.retain(|value| value.expose().len() >= SHORTEST_WATCHED);
        let mut needles: Vec<Secret> = values.iter().flat_map(spellings).collect();
        needles.append(&mut values);
        needles.sort_by(|one, other| {
            let length = |secret: &Secret| std::cmp::Reverse(secret.expose().len());
            (length(one), one.expose()).cmp(&(length(other), other.expose()))
        });
        needles.dedup_by(|one, other| one.expose() == other.expose());
        SecretSearch { needles }
    }

    /// Whether the bytes contain a watched value, escaped or not. Takes linear time.
    fn finds(&self, bytes: &[u8]) -> bool {
        !self.needles.is_empty() && any_form(bytes, LAYERS, &|bytes| self.has_value(bytes))
    }

    fn has_value(&self, bytes: &[u8]) -> bool {
        let mut needles = self.needles.iter();
        needles.any(|needle| memmem::find(bytes, needle.expose().as_bytes()).is_some())
    }

    /// Returns the text without any watched value, and without the part of one that is left where a text was cut: at its
    /// beginning, at its end, and before each `…`.
    fn redact(&self, text: &str) -> String {
        if self.needles.is_empty() {
            return text.to_owned();
        }
        let replace = |text: String, needle: &Secret| text.replace(needle.expose(), REDACTED);
        let text = self.needles.iter().fold(text.to_owned(), replace);
        let redacted = self.without_parts(&text);
        let is_left = |bytes: &[u8]| self.has_value(bytes) || self.has_part(bytes);
        match any_form(redacted.as_bytes(), LAYERS, &is_left) {
            // The value is escaped somewhere in the text; its position is unknown, so the whole text is redacted.
            true => REDACTED.to_owned(),
            false => redacted,
        }
    }

    fn without_parts(&self, text: &str) -> String {
        let mut plain = String::with_capacity(text.len());
        let text = match self.end_of_one(text.as_bytes()) {
            0 => text,
            part => {
                plain.push_str(REDACTED);
                text.get(part..).unwrap_or_default()
            }
        };
        for (number, piece) in text.split(CUT).enumerate() {
            if number > 0 {
                plain.push_str(CUT);
            }
            match self.beginning_of_one(piece.as_bytes()) {
                0 => plain.push_str(piece),
                part => {
                    let before = piece.len().saturating_sub(part);
                    plain.push_str(piece.get(..before).unwrap_or_default());
                    plain.push_str(REDACTED);
                }
            }
        }
        plain
    }

    /// Whether the bytes were cut within a watched value.
    fn has_part(&self, bytes: &[u8]) -> bool {
        let ends = memmem::find_iter(bytes, CUT).chain([bytes.len()]);
        let mut pieces = ends.scan(0, |begin, end| {
            let piece = bytes.get(*begin..end);
            *begin = end + CUT.len();
            piece
        });
        self.end_of_one(bytes) > 0 || pieces.any(|piece| self.beginning_of_one(piece) > 0)
    }

    /// Length of the longest beginning of a watched value that the bytes end with; 0 if it would occur by chance.
    fn beginning_of_one(&self, bytes: &[u8]) -> usize {
        self.longest_part(bytes, longest_beginning)
    }

    /// Length of the longest end of a watched value that the bytes begin with; 0 if it would occur by chance.
    fn end_of_one(&self, bytes: &[u8]) -> usize {
        self.longest_part(bytes, longest_end)
    }

    fn longest_part(&self, bytes: &[u8], length: fn(&[u8], &[u8]) -> Option<usize>) -> usize {
        // A text of a guest may be nothing but cuts.
        if bytes.len() < SHORTEST_WATCHED {
            return 0;
        }
        let needles = self.needles.iter();
        let lengths = needles.filter_map(|needle| length(needle.expose().as_bytes(), bytes));
        lengths.max().unwrap_or_default()
    }
}

/// Length of the longest beginning of `value`, short of the whole, that `bytes` end with. Searches for its first bytes: a
/// comparison for each length would take a guest's text times the length of the value.
fn longest_beginning(value: &[u8], bytes: &[u8]) -> Option<usize> {
    let first = value.get(..SHORTEST_WATCHED)?;
    let from = bytes.len().saturating_sub(value.len() - 1);
    let mut rest = bytes.get(from..)?;
    loop {
        rest = rest.get(memmem::find(rest, first)?..)?;
        if value.starts_with(rest) {
            return Some(rest.len());
        }
        rest = rest.get(1..)?;
    }
}

/// Length of the longest end of `value`, short of the whole, that `bytes` begin with; see [`longest_beginning`].
fn longest_end(value: &[u8], bytes: &[u8]) -> Option<usize> {
    let last = value.get(value.len().checked_sub(SHORTEST_WATCHED)?..)?;
    let mut rest = bytes.get(..bytes.len().min(value.len() - 1))?;
    loop {
        rest = rest.get(..memmem::rfind(rest, last)? + last.len())?;
        if value.ends_with(rest) {
            return Some(rest.len());
        }
        rest = rest.get(..rest.len() - 1)?;
    }
}

/// Whether `is_there` holds for the bytes or for any decoded form of them. The undecoded bytes count, too, because something
/// that only looks like an escape may hide a value's beginning.
fn any_form(bytes: &[u8], layers: usize, is_there: &dyn Fn(&[u8]) -> bool) -> bool {
    if is_there(bytes) {
        return true;
    }
    let Some(layers) = layers.checked_sub(1) else {
        return false;
    };
    let deeper = |inner: Cow<'_, [u8]>| match inner {
        Cow::Owned(inner) => any_form(&inner, layers, is_there),
        Cow::Borrowed(_) => false,
    };
    deeper(decoded(bytes, b'\\', escaped))
        || deeper(decoded(bytes, b'&', referenced))
        || deeper(percent_decode(bytes).into())
}

/// Every form in which a credential is sent, with the long words of a header value such as `Token <value>`. Issued
/// secrets are added by [`SecretRedactor::learn`].
fn values(credential: &Credential) -> Vec<Secret> {
    match credential {
        Credential::None => Vec::new(),
        Credential::Bearer(token) => vec![token.clone()],
        Credential::Basic { user, password } => of_login(user, password),
        Credential::Header { value, .. } => {
            let words = value.expose().split([' ', '=', ':', ';', ',']);
            let long = words.filter(|word| word.len() >= SHORTEST_WORD);
            let words = long.map(|word| Secret::new(word.to_owned()));
            std::iter::once(value.clone()).chain(words).collect()
        }
        Credential::AwsSigV4(aws) => match &aws.source {
            AwsSource::Keys(keys) => Material::AwsKeys(keys.clone()).secrets(),
            AwsSource::WebIdentity(identity) => text(&identity.token),
            AwsSource::Container { authorization, .. } => {
                authorization.iter().flat_map(text).collect()
            }
            AwsSource::InstanceMetadata { .. } => Vec::new(),
        },
        Credential::OAuth2(oauth2) => {
            let client = oauth2.client.iter().flat_map(of_client);
            let token = oauth2.grant.presented().into_iter().flat_map(text);
            client.chain(token).collect()
        }
        Credential::Keystone(keystone) => match &keystone.method {
            KeystoneMethod::Password {
                password: secret, ..
            }
            | KeystoneMethod::ApplicationCredential { secret, .. } => vec![secret.clone()],
        },
    }
}

fn of_login(user: &str, password: &Secret) -> Vec<Secret> {
    vec![
        password.clone(),
        Secret::new(format!("{user}:{}", password.expose())),
        Secret::new(basic(user, password)),
    ]
}

fn of_client(client: &OAuth2Client) -> Vec<Secret> {
    let OAuth2Client { id, secret, .. } = client;
    let of_secret = |secret: &Secret| {
        let (user, password) = login_of_client(id, secret);
        let mut values = of_login(&user, &password);
        values.push(secret.clone());
        values
    };
    secret.iter().flat_map(of_secret).collect()
}

/// A presented token. The token of a file is added when the file is read.
fn text(token: &Presented) -> Vec<Secret> {
    match token {
        Presented::Text(secret) => vec![secret.clone()],
        Presented::File(_) => Vec::new(),
    }
}

/// Searches for the credential of a target, and for secrets that were recently presented and issued for it.
pub(in crate::egress) struct SecretRedactor {
    fixed: Vec<Secret>,
    state: RwLock<Learned>,
}

struct Learned {
    /// Secrets that were issued recently, the oldest first; at most [`MOST_LEARNED`].
    issued: VecDeque<Secret>,
    /// Secrets that were presented recently, likewise. Exchanges that fail present some, too, while what was issued
    /// before them is still used: they must not displace it.
    presented: VecDeque<Secret>,
    search: Arc<SecretSearch>,
}

impl SecretRedactor {
    /// Creates a redactor of the secrets in a grant.
    pub(in crate::egress) fn new(credential: &Credential) -> SecretRedactor {
        let fixed = values(credential);
        SecretRedactor {
            state: RwLock::new(Learned {
                issued: VecDeque::new(),
                presented: VecDeque::new(),
                search: Arc::new(SecretSearch::of(fixed.clone())),
            }),
            fixed,
        }
    }

    /// Adds issued secrets, before they are used for the first time.
    pub(in crate::egress) fn learn(&self, secrets: Vec<Secret>) {
        self.add(secrets, |learned| &mut learned.issued);
    }

    /// Adds secrets that are presented to an issuer.
    pub(in crate::egress) fn learn_presented(&self, secrets: Vec<Secret>) {
        self.add(secrets, |learned| &mut learned.presented);
    }

    /// Adds secrets to one kind. The oldest of it are dropped beyond [`MOST_LEARNED`].
    fn add(&self, secrets: Vec<Secret>, kind: fn(&mut Learned) -> &mut VecDeque<Secret>) {
        let mut state = self.state.write();
        let known = kind(&mut state);
        let is_new = |secret: &Secret| !known.contains(secret);
        let new: Vec<Secret> = secrets.into_iter().filter(is_new).collect();
        if new.is_empty() {
            return;
        }
        known.extend(new);
        let surplus = known.len().saturating_sub(MOST_LEARNED);
        known.drain(..surplus);
        let learned = state.issued.iter().chain(&state.presented);
        let all = self.fixed.iter().chain(learned).cloned();
        state.search = Arc::new(SecretSearch::of(all.collect()));
    }

    /// Whether the bytes contain a secret; see [`SecretSearch::finds`].
    pub(in crate::egress) fn finds(&self, bytes: &[u8]) -> bool {
        self.search().finds(bytes)
    }

    /// Returns the text without secrets; see [`SecretSearch::redact`].
    pub(in crate::egress) fn redact(&self, text: &str) -> String {
        self.search().redact(text)
    }

    fn search(&self) -> Arc<SecretSearch> {
        self.state.read().search.clone()
    }
}

/// Encodings of a value: base64 in both alphabets and at each of its three alignments, and form encoding.
fn spellings(value: &Secret) -> Vec<Secret> {
    let engines = [&BASE64_STANDARD_NO_PAD, &BASE64_URL_SAFE_NO_PAD];
    let mut spellings: Vec<Secret> = engines
        .iter()
        .flat_map(|engine| (0..3).map(|ahead| inside(*engine, value, ahead)))
        .collect();
    // Forms percent-encode everything else.
    if value.expose().contains(' ') {
        spellings.push(Secret::new(value.expose().replace(' ', "+")));
    }
    spellings
}

/// Part of the base64 text that does not depend on the surrounding bytes, for a value behind `ahead` bytes: the
/// letters all of whose six bits belong to the value.
fn inside(engine: &impl base64::Engine, value: &Secret, ahead: usize) -> Secret {
    let value = value.expose().as_bytes();
    let mut bytes = Zeroizing::new(Vec::with_capacity(ahead + value.len()));
    bytes.resize(ahead, 0);
    bytes.extend_from_slice(value);
    let text = Zeroizing::new(engine.encode(bytes.as_slice()));
    let letters = (ahead * 8).div_ceil(6)..bytes.len() * 8 / 6;
    Secret::new(text.get(letters).unwrap_or_default().to_owned())
}

/// Decodes the escapes that begin with `mark` anywhere in the bytes; leaves invalid escapes unchanged. `read` decodes one:
/// its character, and its length in bytes, which is 1 for the mark itself.
fn decoded(bytes: &[u8], mark: u8, read: fn(&[u8]) -> (char, usize)) -> Cow<'_, [u8]> {
    if memchr(mark, bytes).is_none() {
        return Cow::Borrowed(bytes);
    }
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = memchr(mark, rest) {
        let (before, escape) = rest.split_at(at);
        plain.extend_from_slice(before);
        let (letter, length) = read(escape);
        let mut utf8 = [0; 4];
        plain.extend_from_slice(letter.encode_utf8(&mut utf8).as_bytes());
        rest = escape.get(length..).unwrap_or_default();
    }
    plain.extend_from_slice(rest);
    // Every escape is longer than its character. URLs are full of `&`: nothing else is searched once more.
    match plain.len() < bytes.len() {
        true => Cow::Owned(plain),
        false => Cow::Borrowed(bytes),
    }
}

/// Reads an XML reference to a character (XML 1.0, 4.1 and 4.6).
fn referenced(reference: &[u8]) -> (char, usize) {
    character(reference).unwrap_or(('&', 1))
}

fn character(reference: &[u8]) -> Option<(char, usize)> {
    // A search to the end of the text, for each `&`, would take the square of its length.
    let inner = reference.get(1..reference.len().min(LONGEST_REFERENCE + 2))?;
    let end = memchr(b';', inner)?;
    let letter = match std::str::from_utf8(inner.get(..end)?).ok()? {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        number => {
            let digits = number.strip_prefix('#')?;
            let code = match digits.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => digits.parse(),
            };
            char::from_u32(code.ok()?)?
        }
    };
    Some((letter, end + 2))
}

/// Reads a JSON escape (RFC 8259, 7).
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

/// Decodes `\uNNNN`, or a surrogate pair of two.
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
