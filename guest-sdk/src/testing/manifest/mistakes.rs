//! The mistakes in a manifest that `export_provider!` does not find and that authors make, in the real host's words.

use super::{Manifest, Rule, Target};
use crate::testing::path::check_pattern;

const AUTH: [&str; 7] = [
    "none",
    "bearer",
    "basic",
    "header",
    "aws-sigv4",
    "oauth2",
    "keystone",
];

pub(super) fn mistakes(manifest: &Manifest) -> Vec<String> {
    let schemes = manifest.schemes.iter().filter(|scheme| !is_scheme(scheme));
    let schemes = schemes.map(|scheme| {
        format!("scheme {scheme:?}: expected a URI scheme in lower case, without ://")
    });
    let limits = &manifest.limits;
    let limits = [
        ("memoryMiB", limits.memory_mib, 1024),
        ("callSeconds", limits.call_seconds, 300),
    ];
    let limits = limits.into_iter().filter_map(|(name, value, most)| {
        let is_wrong = value.is_some_and(|value| !(1..=most).contains(&value));
        is_wrong.then(|| format!("limits: {name}: expected 1 to {most}"))
    });
    let targets = manifest.targets.iter().flat_map(of_target);
    schemes.chain(targets).chain(limits).collect()
}

fn of_target(target: &Target) -> Vec<String> {
    let place = format!("target {:?}", target.name);
    let mut mistakes = Vec::new();
    if let Some(text) = &target.endpoint
        && let Err(why) = check_endpoint(text)
    {
        mistakes.push(format!("{place}: endpoint {text:?}: {why}"));
    }
    if !AUTH.contains(&target.auth.as_str()) {
        let kinds = AUTH.join(", ");
        mistakes.push(format!(
            "{place}: auth {:?}: expected one of {kinds}",
            target.auth
        ));
    }
    for (index, rule) in target.rules.iter().enumerate() {
        let place = format!("{place}: rule {}", index + 1);
        let of_rule = of_rule(rule).into_iter();
        mistakes.extend(of_rule.map(|mistake| format!("{place}: {mistake}")));
    }
    mistakes
}

fn of_rule(rule: &Rule) -> Vec<String> {
    let mut mistakes = Vec::new();
    if let Err(why) = check_pattern(&rule.path) {
        mistakes.push(format!("path {:?}: {why}", rule.path));
    }
    let changing = |method: &&String| ["PUT", "PATCH", "DELETE"].contains(&method.as_str());
    if rule.access == "read"
        && let Some(method) = rule.methods.iter().find(changing)
    {
        mistakes.push(format!("{method} changes something: its access is write"));
    }
    mistakes
}

fn check_endpoint(text: &str) -> Result<(), &'static str> {
    let (scheme, rest) = text
        .split_once("://")
        .ok_or("relative URL without a base")?;
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let is_loopback = ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .any(|name| host.strip_prefix(name).is_some_and(is_port));
    match scheme == "http" && !is_loopback {
        true => Err("expected https; http goes to loopback only"),
        false => Ok(()),
    }
}

/// Whether this, which comes after the name of a host, is a port or nothing.
fn is_port(text: &str) -> bool {
    text.is_empty() || text.starts_with(':')
}

/// RFC 3986, 3.1, in lower case.
fn is_scheme(text: &str) -> bool {
    let inner =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte);
    (1..=63).contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(inner)
}
