//! Reads a manifest while the provider is compiled, so that mistakes in it are compiler errors. Constant functions
//! only: they add nothing to the module.
//!
//! It finds the mistakes that authors make: broken JSON, unknown and missing keys, values of the wrong type, another
//! version than that of the crate or of the contract, wildcards in paths. The host checks everything again, and more, when
//! it loads the module.

use keys::Place;
use reader::Reader;

mod keys;
mod reader;

/// Version of the contract that this SDK is written for.
pub const CONTRACT: &str = "0.2.0";

/// Largest manifest, in bytes.
const MAX_BYTES: usize = 64 << 10;
/// Deepest nesting of values.
const MAX_DEPTH: usize = 16;

/// Text before an inserted version.
const BEFORE: &str = "{\"version\":\"";
const AFTER: &str = "\",";

/// A mistake, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mistake {
    what: &'static str,
    at: usize,
}

/// Checks a manifest, and returns its length with the version, in bytes. `version` is that of the crate; a manifest
/// that states a version must state the same one.
///
/// # Panics
/// At the first mistake, with the text where it is. At compile time this is a compiler error.
pub const fn checked_length(manifest: &[u8], version: &str) -> usize {
    match check(manifest, version.as_bytes()) {
        Ok(true) => manifest.len(),
        Ok(false) => manifest.len() - 1 + BEFORE.len() + version.len() + AFTER.len(),
        Err(mistake) => fail(manifest, mistake),
    }
}

/// The manifest with the version inserted; `LENGTH` is its [`checked_length`].
pub const fn with_version<const LENGTH: usize>(manifest: &[u8], version: &str) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    let mut to = 0;
    let mut from = 0;
    if LENGTH > manifest.len() {
        // Only whitespace comes before the first brace.
        while manifest[from] != b'{' {
            bytes[to] = manifest[from];
            to += 1;
            from += 1;
        }
        from += 1;
        to = copy(&mut bytes, to, BEFORE.as_bytes());
        to = copy(&mut bytes, to, version.as_bytes());
        to = copy(&mut bytes, to, AFTER.as_bytes());
    }
    while from < manifest.len() {
        bytes[to] = manifest[from];
        to += 1;
        from += 1;
    }
    bytes
}

const fn copy(bytes: &mut [u8], mut to: usize, text: &[u8]) -> usize {
    let mut from = 0;
    while from < text.len() {
        bytes[to] = text[from];
        to += 1;
        from += 1;
    }
    to
}

/// Whether the manifest states a version.
const fn check(manifest: &[u8], version: &[u8]) -> Result<bool, Mistake> {
    if manifest.len() > MAX_BYTES {
        return Err(Mistake {
            what: "it has more than 64 KiB",
            at: 0,
        });
    }
    if std::str::from_utf8(manifest).is_err() {
        return Err(Mistake {
            what: "it is not UTF-8",
            at: 0,
        });
    }
    let mut reader = Reader {
        json: manifest,
        at: 0,
        version,
        has_version: false,
    };
    match reader.value(Place::Root, 0) {
        Err(mistake) => Err(mistake),
        Ok(()) => {
            reader.blanks();
            match reader.at == manifest.len() {
                true => Ok(reader.has_version),
                false => Err(reader.wrong("nothing may follow its last brace")),
            }
        }
    }
}

/// Whether a manifest may state this version of the contract where the SDK is written for `own`: the same minor version,
/// and no later patch.
const fn fits(stated: &[u8], own: &[u8]) -> bool {
    let mut patch = own.len();
    while patch > 0 && own[patch - 1] != b'.' {
        patch -= 1;
    }
    let mut at = 0;
    while at < patch {
        if at == stated.len() || stated[at] != own[at] {
            return false;
        }
        at += 1;
    }
    match (number(stated, patch), number(own, patch)) {
        (Some(stated), Some(own)) => stated <= own,
        _ => false,
    }
}

/// The number that the text has from this place on, with at most nine digits.
const fn number(text: &[u8], mut at: usize) -> Option<u32> {
    if at == text.len() || text.len() - at > 9 {
        return None;
    }
    let mut number = 0;
    while at < text.len() {
        if !text[at].is_ascii_digit() {
            return None;
        }
        number = number * 10 + (text[at] - b'0') as u32;
        at += 1;
    }
    Some(number)
}

/// Panics with the mistake and the rest of the line where it is.
const fn fail(manifest: &[u8], mistake: Mistake) -> ! {
    let mut message = [b' '; 240];
    let mut end = copy(&mut message, 0, b"the manifest: ");
    end = copy(&mut message, end, mistake.what.as_bytes());
    if mistake.at > 0 {
        end = copy(&mut message, end, b": ");
        let mut at = mistake.at;
        while at < manifest.len() && manifest[at] != b'\n' && end < message.len() {
            // The message is built byte by byte, which could cut a character beyond ASCII in two.
            message[end] = if manifest[at].is_ascii() {
                manifest[at]
            } else {
                b'?'
            };
            at += 1;
            end += 1;
        }
    }
    let (message, _) = message.split_at(end);
    match std::str::from_utf8(message) {
        Ok(message) => panic!("{}", message),
        Err(_) => panic!("the manifest has a mistake"),
    }
}

#[cfg(test)]
mod tests;
