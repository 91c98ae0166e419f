//! The syntax of DNS names and of label keys and values of the Kubernetes API. Predicates over single texts, used by
//! all code in this program that reads such names.
//!
//! The Kubernetes rules are those of `k8s.io/apimachinery/pkg/util/validation` (0.34). Its subdomain has at most 253
//! bytes and, unlike a DNS name, no limit per part: `IsDNS1123Subdomain` matches a regular expression, and only
//! `IsDNS1123Label` limits the length to 63 bytes.

/// Longest DNS name, in bytes (RFC 1123, section 2.1, without the final dot), and longest prefix of a label key.
pub const MAX_DNS_NAME: usize = 253;
/// Longest part of a DNS name, longest name of a label key, and longest label value, in bytes.
pub const MAX_PART: usize = 63;

/// A DNS label in lower case: letters, digits and inner dashes, at most [`MAX_PART`] bytes (`IsDNS1123Label`).
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= MAX_PART && is_lower_case_part(text)
}

/// The name of most objects: parts of lower-case letters, digits and inner dashes, joined by dots, at most
/// [`MAX_DNS_NAME`] bytes in all (`IsDNS1123Subdomain`).
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= MAX_DNS_NAME && text.split('.').all(is_lower_case_part)
}

/// A DNS name in either case, because clouds and people write both: parts of letters, digits and inner dashes, joined
/// by dots (RFC 1123).
pub fn is_dns_name(text: &str) -> bool {
    let is_part = |part: &str| {
        part.len() <= MAX_PART
            && has_plain_ends(part)
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    text.len() <= MAX_DNS_NAME && text.split('.').all(is_part)
}

/// Whether `domain` is `parent` or a subdomain of it.
pub fn is_within(domain: &str, parent: &str) -> bool {
    match domain.strip_suffix(parent) {
        Some(before) => before.is_empty() || before.ends_with('.'),
        None => false,
    }
}

/// A label key, an annotation key in lower case or a load balancer class: a name of at most [`MAX_PART`] bytes,
/// optionally after a subdomain and `/` (`IsQualifiedName`).
pub fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        None => is_name(text),
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name(name),
    }
}

/// A label value: empty, or letters, digits and inner `-`, `_`, `.`; at most [`MAX_PART`] bytes (`IsValidLabelValue`).
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

fn is_name(text: &str) -> bool {
    text.len() <= MAX_PART
        && has_plain_ends(text)
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Any length except zero: the parts of a subdomain have no limit.
fn is_lower_case_part(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    has_plain_ends(text) && text.bytes().all(is_inner)
}

fn has_plain_ends(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_plain = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    is_plain(bytes.first()) && is_plain(bytes.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` letters.
    fn letters(count: usize) -> String {
        "a".repeat(count)
    }

    #[test]
    fn label_keys_are_kubernetes_qualified_names() {
        // The parts of a prefix may be longer than those of a DNS name, as in apimachinery.
        let long_part = format!("{}.example/x", letters(64));
        let longest = format!("{}/{}", letters(253), letters(63));
        for key in [
            "a",
            "A-b_c.9",
            "example.com/a",
            "e-x.9/A",
            &long_part,
            &longest,
        ] {
            assert!(is_label_key(key), "{key}");
        }
        let long_name = letters(64);
        let long_prefix = format!("{}/x", letters(254));
        for key in [
            "",
            "/",
            "a/",
            "/a",
            "a/b/c",
            "-a",
            "a-",
            "a b",
            "ä",
            "A.example/a",
            "a_b/c",
            "a..b/c",
            ".a/b",
            "-a/b",
            "a-/b",
            &long_name,
            &long_prefix,
        ] {
            assert!(!is_label_key(key), "{key}");
        }
    }

    #[test]
    fn label_values_are_empty_or_names() {
        let (longest, too_long) = (letters(63), letters(64));
        for (value, expected) in [
            ("", true),
            ("A-b_c.9", true),
            (&longest, true),
            (&too_long, false),
            ("-a", false),
            ("a.", false),
            ("a/b", false),
            ("a\n", false),
        ] {
            assert_eq!(is_label_value(value), expected, "{value}");
        }
    }

    #[test]
    fn dns_names_labels_and_subdomains_have_their_own_lengths_and_cases() {
        let (longest, too_long) = (letters(63), letters(64));
        let many = format!("{}a", "a.".repeat(127));
        for (name, is_name, is_label, is_subdomain) in [
            ("a", true, true, true),
            ("a-b", true, true, true),
            ("a.example", true, false, true),
            ("A.example", true, false, false),
            ("A", true, false, false),
            (&longest, true, true, true),
            (&too_long, false, false, true),
            (&many, false, false, false),
            ("", false, false, false),
            ("a.", false, false, false),
            ("a..b", false, false, false),
            ("a_b", false, false, false),
            ("-a", false, false, false),
            ("a.-b", false, false, false),
        ] {
            assert_eq!(is_dns_name(name), is_name, "{name}");
            assert_eq!(is_dns_label(name), is_label, "{name}");
            assert_eq!(is_dns_subdomain(name), is_subdomain, "{name}");
        }
    }
}
