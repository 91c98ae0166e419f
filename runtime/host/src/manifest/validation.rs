//! Converts a manifest from its JSON form into a checked value: every rule of its form, and all mistakes at once.
//!
//! Unknown keys are mistakes too, so that a typo cannot make a module request less or more than its author meant.
//! Nothing here knows grants.

use std::collections::BTreeMap;

use ccm_core::name_syntax::is_dns_label;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::syntax::{is_scheme, is_version, prefix_form, text};
use super::{AuthKind, ConfigKey, Manifest, REGION, Target, WantedLimits, unnamed_endpoint};
use crate::egress::rules::{Absence, RawRule, Rule};
use crate::sanitize::clean;

/// Each maximum exceeds the needs of every cloud that was looked at, and is small enough for a person to read the list.
const MAX_SCHEMES: usize = 16;
const MAX_TARGETS: usize = 16;
const MAX_RULES: usize = 256;
const MAX_ABSENCE: usize = 8;
const MAX_PREFIXES: usize = 16;
const MAX_CONFIG: usize = 256;
/// Length to which the error about an invalid rule is cut, in bytes.
const MAX_ERROR: usize = 512;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawManifest {
    /// Read by editors only.
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    // An absent key is reported like other mistakes, and does not hide them.
    #[serde(default)]
    contract: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    schemes: Vec<String>,
    #[serde(default)]
    targets: Vec<RawTarget>,
    #[serde(default)]
    annotation_prefixes: Vec<String>,
    #[serde(default)]
    config: Vec<RawConfigKey>,
    #[serde(default)]
    limits: RawLimits,
    #[serde(flatten)]
    unknown: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTarget {
    #[serde(default)]
    name: String,
    endpoint: Option<String>,
    #[serde(default)]
    auth: String,
    #[serde(default)]
    why: String,
    #[serde(default)]
    rules: Vec<Value>,
    #[serde(default = "yes")]
    required: bool,
    #[serde(flatten)]
    unknown: BTreeMap<String, Value>,
}

/// Default of `required`.
fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawConfigKey {
    #[serde(default)]
    key: String,
    #[serde(default)]
    why: String,
    #[serde(default)]
    required: bool,
    #[serde(flatten)]
    unknown: BTreeMap<String, Value>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct RawLimits {
    #[serde(rename = "memoryMiB", alias = "memoryMib")]
    memory_mib: Option<u32>,
    call_seconds: Option<u32>,
    #[serde(flatten)]
    unknown: BTreeMap<String, Value>,
}

pub(super) fn check(raw: RawManifest) -> Result<Manifest, Vec<String>> {
    let mut mistakes = Vec::new();
    let wrong = &mut mistakes;
    unknown("", &raw.unknown, wrong);
    if !is_version(&raw.contract) {
        wrong.push(format!(
            "contract {:?}: expected the version of ccm:provider, such as 0.2.0",
            raw.contract
        ));
    }
    let is_first = raw.contract.starts_with("0.1.");
    if !is_dns_label(&raw.name) {
        wrong.push(format!(
            "name {:?}: expected a DNS label: 1 to 63 lower-case letters, digits or -",
            raw.name
        ));
    }
    let is_printable = |text: &str| {
        !text.is_empty() && text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if !is_printable(&raw.version) {
        wrong.push(format!(
            "version {:?}: expected 1 to 64 printable ASCII characters",
            raw.version
        ));
    }
    text("description", &raw.description, wrong);
    list("schemes", &raw.schemes, MAX_SCHEMES, String::clone, wrong);
    for scheme in raw.schemes.iter().filter(|scheme| !is_scheme(scheme)) {
        wrong.push(format!(
            "scheme {scheme:?}: expected a URI scheme in lower case, without ://"
        ));
    }
    list(
        "annotationPrefixes",
        &raw.annotation_prefixes,
        MAX_PREFIXES,
        String::clone,
        wrong,
    );
    for prefix in &raw.annotation_prefixes {
        if let Err(why) = prefix_form(prefix) {
            wrong.push(format!("annotation prefix {prefix:?}: {why}"));
        }
    }
    list(
        "targets",
        &raw.targets,
        MAX_TARGETS,
        |target| target.name.clone(),
        wrong,
    );
    let targets = raw
        .targets
        .into_iter()
        .filter_map(|raw| target(raw, is_first, wrong))
        .collect();
    list(
        "config",
        &raw.config,
        MAX_CONFIG,
        |key| key.key.clone(),
        wrong,
    );
    let config = raw
        .config
        .into_iter()
        .map(|raw| config_key(raw, wrong))
        .collect();
    let limits = limits(&raw.limits, wrong);
    if mistakes.is_empty() {
        Ok(Manifest {
            contract: raw.contract,
            name: raw.name,
            version: raw.version,
            description: raw.description,
            schemes: raw.schemes,
            targets,
            annotation_prefixes: raw.annotation_prefixes,
            config,
            limits,
        })
    } else {
        Err(mistakes)
    }
}

/// `is_first`: the manifest is of contract 0.1, which has no target without an endpoint and no proofs of absence.
fn target(raw: RawTarget, is_first: bool, wrong: &mut Vec<String>) -> Option<Target> {
    let place = format!("target {:?}", raw.name);
    unknown(&place, &raw.unknown, wrong);
    if !is_dns_label(&raw.name) {
        wrong.push(format!("{place}: expected a DNS label as name"));
    }
    text(&place, &raw.why, wrong);
    let endpoint = match raw.endpoint.as_deref() {
        None if !is_first => unnamed_endpoint(),
        text => {
            let text = text.unwrap_or_default();
            endpoint(text)
                .map_err(|why| wrong.push(format!("{place}: endpoint {text:?}: {why}")))
                .ok()
        }
    };
    let auth = AuthKind::parse(&raw.auth);
    if auth.is_none() {
        wrong.push(format!(
            "{place}: auth {:?}: expected one of {}",
            raw.auth,
            AuthKind::ALL.map(AuthKind::as_str).join(", ")
        ));
    }
    if raw.rules.is_empty() || raw.rules.len() > MAX_RULES {
        wrong.push(format!(
            "{place}: {} rules, expected 1 to {MAX_RULES}",
            raw.rules.len()
        ));
    }
    let rules: Vec<_> = raw
        .rules
        .into_iter()
        .enumerate()
        .filter_map(|(index, value)| {
            let place = format!("{place}: rule {}", index + 1);
            match is_first {
                true => rule(&place, value, wrong),
                false => rule_with_absence(&place, value, wrong),
            }
        })
        .collect();
    Some(Target {
        name: raw.name,
        endpoint: endpoint?,
        auth: auth?,
        why: raw.why,
        rules,
        required: raw.required,
    })
}

/// Parses a rule and its `absence`: answers that prove that the requested object does not exist.
fn rule_with_absence(place: &str, mut value: Value, wrong: &mut Vec<String>) -> Option<Rule> {
    let absence = value
        .as_object_mut()
        .and_then(|rule| rule.remove("absence"));
    let rule = rule(place, value, wrong);
    let Some(absence) = absence else {
        return rule;
    };
    let absence: Vec<Absence> = serde_json::from_value(absence)
        .map_err(|error| {
            let error = clean(&error.to_string(), MAX_ERROR);
            wrong.push(format!("{place}: absence: {error}"));
        })
        .ok()?;
    if absence.is_empty() || absence.len() > MAX_ABSENCE {
        let count = absence.len();
        wrong.push(format!(
            "{place}: absence: {count} answers, expected 1 to {MAX_ABSENCE}"
        ));
    }
    let unusable = absence.iter().filter_map(|one| one.check().err());
    wrong.extend(unusable.map(|why| format!("{place}: {why}")));
    rule.map(|rule| rule.with_absence(absence))
}

fn rule(place: &str, value: Value, wrong: &mut Vec<String>) -> Option<Rule> {
    let raw: RawRule = serde_json::from_value(value)
        .map_err(|error| {
            // The error repeats an unknown key verbatim, so it is sanitised.
            let error = clean(&error.to_string(), MAX_ERROR);
            wrong.push(format!("{place}: {error}"));
        })
        .ok()?;
    raw.read()
        .map_err(|mistakes| {
            wrong.extend(mistakes.iter().map(|mistake| format!("{place}: {mistake}")))
        })
        .ok()
}

/// The endpoint has the same form as in a grant; `http` only to loopback. The host may contain [`REGION`].
fn endpoint(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    // The endpoint with the real region is checked with the grant.
    let in_a_region: Url = match url.host_str() {
        Some(host) if host.contains(REGION) => text
            .replacen(REGION, "region", 1)
            .parse()
            .map_err(|_| format!("{REGION} stands in the host, and in its place a name"))?,
        _ => url.clone(),
    };
    let is_loopback = url
        .host_str()
        .is_some_and(|host| ["localhost", "127.0.0.1", "[::1]"].contains(&host));
    if url.scheme() == "http" && !is_loopback {
        return Err("expected https; http goes to loopback only".to_owned());
    }
    crate::egress::check_endpoint(&in_a_region).map(|()| url)
}

fn config_key(raw: RawConfigKey, wrong: &mut Vec<String>) -> ConfigKey {
    let place = format!("config key {:?}", raw.key);
    unknown(&place, &raw.unknown, wrong);
    let is_key = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if raw.key.is_empty() || raw.key.len() > 128 || !raw.key.bytes().all(is_key) {
        wrong.push(format!(
            "{place}: expected 1 to 128 letters, digits, _ - or ."
        ));
    }
    text(&place, &raw.why, wrong);
    ConfigKey {
        key: raw.key,
        why: raw.why,
        required: raw.required,
    }
}

fn limits(raw: &RawLimits, wrong: &mut Vec<String>) -> WantedLimits {
    unknown("limits", &raw.unknown, wrong);
    for (name, value, most) in [
        ("memoryMiB", raw.memory_mib, 1024),
        ("callSeconds", raw.call_seconds, 300),
    ] {
        if value.is_some_and(|value| !(1..=most).contains(&value)) {
            wrong.push(format!("limits: {name}: expected 1 to {most}"));
        }
    }
    WantedLimits {
        memory_mib: raw.memory_mib,
        call_seconds: raw.call_seconds,
    }
}

fn unknown(place: &str, keys: &BTreeMap<String, Value>, wrong: &mut Vec<String>) {
    let place = if place.is_empty() {
        String::new()
    } else {
        format!("{place}: ")
    };
    wrong.extend(keys.keys().map(|key| format!("{place}unknown key {key:?}")));
}

fn list<T>(
    place: &str,
    items: &[T],
    most: usize,
    name: impl Fn(&T) -> String,
    wrong: &mut Vec<String>,
) {
    if items.len() > most {
        wrong.push(format!("{place}: {} entries, at most {most}", items.len()));
    }
    let mut seen = std::collections::BTreeSet::new();
    for item in items {
        let name = name(item);
        if !seen.insert(name.clone()) {
            wrong.push(format!("{place}: {name:?} is there twice"));
        }
    }
}
