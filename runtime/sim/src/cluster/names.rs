//! Syntax of names, label keys and label values, with upstream's error messages. Checks single strings only and knows
//! no object.

const LABEL_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const KEY_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// The names that a kind allows.
#[derive(Clone, Copy)]
pub(super) enum NameRule {
    /// RFC 1123 subdomain, at most 253 characters.
    Subdomain,
    /// RFC 1123 label, at most 63 characters.
    Label,
    /// Anything that is valid as one path segment.
    PathSegment,
}

/// Errors of a name; empty if valid.
pub(super) fn name_errors(rule: NameRule, name: &str) -> Vec<String> {
    match rule {
        NameRule::Subdomain => subdomain_errors(name),
        NameRule::Label => label_errors(name),
        NameRule::PathSegment => segment_errors(name),
    }
}

/// Errors of a DNS subdomain.
pub(super) fn subdomain_errors(name: &str) -> Vec<String> {
    let mut errors = too_long(name, 253);
    if !name.split('.').all(is_dns_label) {
        errors.push(format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
             and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{SUBDOMAIN_FORMAT}')"
        ));
    }
    errors
}

/// Errors of a DNS label.
pub(super) fn label_errors(name: &str) -> Vec<String> {
    let mut errors = too_long(name, 63);
    if !is_dns_label(name) {
        errors.push(format!(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
             and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{LABEL_FORMAT}')"
        ));
    }
    errors
}

/// Errors of a label key, a taint key, an annotation key or a finalizer.
pub(super) fn qualified_name_errors(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, name)) if name.contains('/') => {
            errors.push(format!(
                "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
                 (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{KEY_FORMAT}') \
                 with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return errors;
        }
        Some(("", name)) => {
            errors.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            errors.extend(
                subdomain_errors(prefix)
                    .into_iter()
                    .map(|error| format!("prefix part {error}")),
            );
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else {
        errors.extend(
            too_long(name, 63)
                .into_iter()
                .map(|error| format!("name part {error}")),
        );
    }
    if !is_key_name(name) {
        errors.push(format!(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
             (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{KEY_FORMAT}')"
        ));
    }
    errors
}

/// Errors of a label value or a taint value.
pub(super) fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = too_long(value, 63);
    if !value.is_empty() && !is_key_name(value) {
        errors.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
             (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '({KEY_FORMAT})?')"
        ));
    }
    errors
}

/// Errors of a key of a ConfigMap or a Secret.
pub(super) fn config_key_errors(key: &str) -> Vec<String> {
    let mut errors = too_long(key, 253);
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if key.is_empty() || !key.chars().all(legal) {
        errors.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' \
             (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    errors
}

/// Errors of a path segment.
pub(super) fn segment_errors(name: &str) -> Vec<String> {
    match name {
        "." => vec!["may not be '.'".to_owned()],
        ".." => vec!["may not be '..'".to_owned()],
        _ => ["/", "%"]
            .iter()
            .filter(|illegal| name.contains(**illegal))
            .map(|illegal| format!("may not contain '{illegal}'"))
            .collect(),
    }
}

fn too_long(value: &str, limit: usize) -> Vec<String> {
    if value.len() > limit {
        vec![format!("must be no more than {limit} bytes")]
    } else {
        Vec::new()
    }
}

fn is_dns_label(label: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    label.starts_with(edge) && label.ends_with(edge) && label.chars().all(|c| edge(c) || c == '-')
}

fn is_key_name(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    name.starts_with(edge)
        && name.ends_with(edge)
        && name.chars().all(|c| edge(c) || "-_.".contains(c))
}
