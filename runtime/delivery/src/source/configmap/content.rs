//! Reads the content of a ConfigMap key: a whole module file, or its parts. A digest beside them detects changes made
//! one key at a time. Unpacks nothing and trusts nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ccm_host::{Digest, clean, list_first};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::artifact::{EVIDENCE_BYTES, SignatureEvidence};

/// Suffix of a signature's key, after the module's key.
const EVIDENCE: &str = ".sigstore.json";
/// Suffix of a digest's key.
const DIGEST: &str = ".sha256";
/// Maximum number of parts, whose numbers have two digits.
const MOST_PARTS: usize = 100;
/// Maximum number of keys shown.
const MOST_SHOWN: usize = 8;

/// The stored content of a module's file, and its evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleContent {
    /// The module's file, plain or packed with gzip.
    pub bytes: Vec<u8>,
    /// At most one bundle.
    pub evidence: Vec<SignatureEvidence>,
}

/// Why there is no module; for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotFound {
    /// There is no module (yet).
    Absent(String),
    /// The content is refused until it changes.
    Refused(String),
}

/// The module under `key`: whole, or in the parts `<key>.00`, `<key>.01` and so on. `<key>.sha256` is the digest of all
/// bytes, required for parts; `<key>.sigstore.json` is a bundle.
///
/// # Errors
/// There is no module, or its keys are not all from one change.
pub fn module_in(map: &ConfigMap, key: &str) -> Result<ModuleContent, NotFound> {
    let parts = parts(map, key)?;
    let bytes = match value(map, key)? {
        Some(_) if !parts.is_empty() => {
            return Err(NotFound::Refused(format!(
                "it has the key {key} and the parts {key}.00 and so on: one of them is old"
            )));
        }
        Some(whole) => whole.into_owned(),
        None if parts.is_empty() => return Err(NotFound::Absent(missing(map, key))),
        None => parts.concat(),
    };
    let is_split = !parts.is_empty();
    match value(map, &format!("{key}{DIGEST}"))? {
        None if is_split => {
            return Err(NotFound::Refused(format!(
                "a module in parts needs the key {key}{DIGEST}, the SHA-256 of all of them joined"
            )));
        }
        None => {}
        Some(text) => check_digest(&text, &bytes, key)?,
    }
    let evidence = match value(map, &format!("{key}{EVIDENCE}"))? {
        None => Vec::new(),
        Some(bundle) if bundle.len() > EVIDENCE_BYTES => {
            return Err(NotFound::Refused(format!(
                "{key}{EVIDENCE} has {} bytes, and at most {EVIDENCE_BYTES} are read",
                bundle.len()
            )));
        }
        Some(bundle) => vec![SignatureEvidence::Bundle(bundle.into_owned())],
    };
    Ok(ModuleContent { bytes, evidence })
}

/// The keys that may hold modules: `first`, and then all that are no digest or signature. A key such as `v0.12` may be
/// that of a part of `v0`, or of a whole module.
pub fn keys<'a>(map: &'a ConfigMap, first: &'a str) -> Vec<&'a str> {
    let text = map.data.iter().flat_map(BTreeMap::keys);
    let binary = map.binary_data.iter().flat_map(BTreeMap::keys);
    let mut others: Vec<&str> = text
        .chain(binary)
        .flat_map(|key| [key.as_str(), whole(key)])
        .filter(|key| *key != first && !key.ends_with(EVIDENCE) && !key.ends_with(DIGEST))
        .collect();
    others.sort_unstable();
    others.dedup();
    std::iter::once(first).chain(others).collect()
}

/// The module's key for the key of a part.
fn whole(key: &str) -> &str {
    match key.rsplit_once('.') {
        Some((whole, number))
            if number.len() == 2 && number.bytes().all(|one| one.is_ascii_digit()) =>
        {
            whole
        }
        _ => key,
    }
}

/// The values of `<key>.00`, `<key>.01` and so on, which are numbered without gaps.
fn parts<'a>(map: &'a ConfigMap, key: &str) -> Result<Vec<Cow<'a, [u8]>>, NotFound> {
    let mut parts = Vec::new();
    let mut end = None;
    for number in 0..MOST_PARTS {
        let name = format!("{key}.{number:02}");
        match (value(map, &name)?, &end) {
            (None, None) => end = Some(name),
            (Some(part), None) => parts.push(part),
            (Some(_), Some(hole)) => {
                return Err(NotFound::Refused(format!(
                    "it has the part {name}, but not {hole}"
                )));
            }
            (None, Some(_)) => {}
        }
    }
    Ok(parts)
}

/// The content of a key: the bytes in `binaryData`; in `data`, base64 text, or the file itself if it happens to be
/// text.
fn value<'a>(map: &'a ConfigMap, key: &str) -> Result<Option<Cow<'a, [u8]>>, NotFound> {
    if let Some(bytes) = map.binary_data.as_ref().and_then(|all| all.get(key)) {
        return Ok(Some(Cow::Borrowed(&bytes.0)));
    }
    let Some(text) = map.data.as_ref().and_then(|all| all.get(key)) else {
        return Ok(None);
    };
    let is_text = key.ends_with(EVIDENCE) || key.ends_with(DIGEST);
    if is_text || text.is_empty() || text.starts_with("\0asm") {
        return Ok(Some(Cow::Borrowed(text.as_bytes())));
    }
    let joined: String = text.split_ascii_whitespace().collect();
    match STANDARD.decode(joined) {
        Ok(bytes) => Ok(Some(Cow::Owned(bytes))),
        Err(_) => Err(NotFound::Refused(format!(
            "the text under {key} in `data` is not base64; `kubectl create configmap --from-file` puts a module into \
             `binaryData` by itself"
        ))),
    }
}

/// Accepts the digest as printed by `sha256sum`, with the prefix of image digests, or bare.
fn check_digest(text: &[u8], bytes: &[u8], key: &str) -> Result<(), NotFound> {
    let text = String::from_utf8_lossy(text);
    let word = text.split_ascii_whitespace().next().unwrap_or_default();
    let named = word
        .strip_prefix("sha256:")
        .unwrap_or(word)
        .to_ascii_lowercase();
    let Some(named) = Digest::parse(&format!("sha256:{named}")) else {
        return Err(NotFound::Refused(format!(
            "{key}{DIGEST} is not the SHA-256 of anything"
        )));
    };
    let found = Digest::of(bytes);
    if named == found {
        return Ok(());
    }
    Err(NotFound::Refused(format!(
        "{key}{DIGEST} says {named}, and the bytes have {found}: not everything is changed yet, or it is damaged"
    )))
}

fn missing(map: &ConfigMap, key: &str) -> String {
    let binary = map.binary_data.iter().flatten().map(|(key, _)| key);
    let mut keys: Vec<&String> = map
        .data
        .iter()
        .flatten()
        .map(|(key, _)| key)
        .chain(binary)
        .collect();
    keys.sort();
    if keys.is_empty() {
        return format!("it has no key {key}, and no other");
    }
    let keys: Vec<String> = keys.iter().map(|key| clean(key, 253)).collect();
    format!("it has no key {key}, but {}", list_first(&keys, MOST_SHOWN))
}

#[cfg(test)]
mod tests;
