//! Predicates for the forms of texts in a manifest.

use ccm_core::name_syntax::{MAX_DNS_NAME, is_dns_label, is_within};
use ccm_core::well_known::RESERVED_DOMAINS;

/// Maximum length in bytes; enough for two sentences.
const MAX_TEXT: usize = 1024;

/// Checks human-readable text, shown in terminals: no control characters, none that change the writing direction.
pub(super) fn text(place: &str, text: &str, wrong: &mut Vec<String>) {
    let turns = |letter: char| matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if text.len() > MAX_TEXT
        || text
            .chars()
            .any(|letter| letter.is_control() || turns(letter))
    {
        wrong.push(format!(
            "{place}: expected text of at most {MAX_TEXT} bytes without control characters"
        ));
    }
}

/// The version of a contract: three numbers, as in `0.2.0`.
pub(super) fn is_version(text: &str) -> bool {
    let is_number = |part: &str| {
        (1..=9).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    text.split('.').count() == 3 && text.split('.').all(is_number)
}

/// RFC 3986, 3.1, in lower case.
pub(super) fn is_scheme(text: &str) -> bool {
    let inner =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte);
    (1..=63).contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(inner)
}

/// `<DNS name>/` and optionally the beginning of the key's name part.
pub(super) fn prefix_form(prefix: &str) -> Result<(), &'static str> {
    let form = "expected <domain>/ or <domain>/<beginning of a name>";
    let (domain, rest) = prefix.split_once('/').ok_or(form)?;
    let is_domain =
        domain.len() <= MAX_DNS_NAME && domain.contains('.') && domain.split('.').all(is_dns_label);
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if !is_domain || rest.len() > 63 || !rest.bytes().all(is_name) {
        return Err(form);
    }
    let mut reserved = RESERVED_DOMAINS.into_iter();
    if reserved.any(|reserved| is_within(domain, reserved)) {
        return Err("this domain is Kubernetes' or the manager's own");
    }
    Ok(())
}
