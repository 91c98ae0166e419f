//! The vendor's rules for labels and names.

use std::collections::BTreeMap;

use super::api::Refusal;

/// Validates labels; one invalid label refuses all of them.
pub(super) fn allowed(
    labels: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Refusal> {
    let refuse = |why: String| Err(Refusal::invalid("labels", &why));
    for (key, value) in &labels {
        let (prefix, name) = match key.split_once('/') {
            Some((prefix, name)) => (Some(prefix), name),
            None => (None, key.as_str()),
        };
        if name.is_empty() || !is_segment(name) {
            return refuse(format!("'{key}' is not a valid key"));
        }
        if prefix.is_some_and(|prefix| !is_subdomain(prefix)) {
            return refuse(format!("'{key}' has no valid prefix"));
        }
        if prefix == Some("hetzner.cloud") {
            return refuse("the prefix hetzner.cloud/ is reserved".to_owned());
        }
        if !is_segment(value) {
            return refuse(format!("the value of '{key}' is not valid"));
        }
    }
    Ok(labels)
}

/// Validates the name of a load balancer or certificate: 1 to 128 characters without leading or trailing blanks.
pub(super) fn allowed_name(name: String) -> Result<String, Refusal> {
    let length = name.chars().count();
    if name.trim() == name && (1..=128).contains(&length) {
        Ok(name)
    } else {
        let why = "must have 1 to 128 characters, and no blanks around them";
        Err(Refusal::invalid("name", why))
    }
}

/// At most 63 characters that begin and end with a letter or a digit; may be empty.
fn is_segment(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let end = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && text.chars().all(plain)
        && end(text.chars().next())
        && end(text.chars().next_back())
}

fn is_subdomain(text: &str) -> bool {
    let part = |part: &str| !part.is_empty() && is_segment(part) && !part.contains('_');
    text.len() <= 253 && text.split('.').all(part)
}
