//! The operator's configuration, checked against the keys that the manifest declares, in the host's words.

use std::collections::BTreeMap;

use super::manifest::Manifest;

/// Limits of the contract.
const MAX_ENTRIES: usize = 256;
const MAX_BYTES: usize = 256 << 10;

/// Minimum similarity, of 1, at which an unknown key is taken for a misspelled one.
const LIKE: f64 = 0.75;

/// Checks the values of a configuration.
///
/// # Errors
/// All mistakes.
pub(super) fn check(manifest: &Manifest, values: &BTreeMap<String, String>) -> Result<(), String> {
    let keys = &manifest.config;
    let is_unknown = |name: &&String| !keys.iter().any(|key| key.key == **name);
    let unknown = values.keys().filter(is_unknown);
    let mut mistakes: Vec<String> = unknown.map(|name| unknown_key(name, manifest)).collect();
    let missing = keys
        .iter()
        .filter(|key| key.required && !values.contains_key(&key.key));
    mistakes.extend(missing.map(|key| format!("{} is required: {}", key.key, key.why)));
    let bytes = values.iter().map(|(key, value)| key.len() + value.len());
    let bytes: usize = bytes.sum();
    if values.len() > MAX_ENTRIES || bytes > MAX_BYTES {
        mistakes.push(format!(
            "{} values with {bytes} bytes: at most {MAX_ENTRIES} and {} KiB",
            values.len(),
            MAX_BYTES >> 10
        ));
    }
    match mistakes.is_empty() {
        true => Ok(()),
        false => Err(mistakes.join("; ")),
    }
}

/// Reports a key that the manifest does not declare, with the most similar declared one.
fn unknown_key(name: &str, manifest: &Manifest) -> String {
    let keys = manifest.config.iter().map(|key| key.key.as_str());
    let likely = keys
        .map(|key| (strsim::normalized_damerau_levenshtein(name, key), key))
        .filter(|(likeness, _)| *likeness > LIKE)
        .max_by(|(left, _), (right, _)| left.total_cmp(right));
    let known = format!("{} has no key {name}", manifest.name);
    match likely {
        Some((_, key)) => format!("{known}; did you mean {key}?"),
        None => known,
    }
}
