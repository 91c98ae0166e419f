//! The request rules of a manifest: decides which requests the real host would allow.

use serde::Deserialize;
use std::collections::BTreeMap;

use crate::bindings::host::ccm::provider::http::Request;
use crate::http::method_name;

/// The request rules of a manifest.
#[derive(Debug, Deserialize)]
pub(super) struct Rules {
    #[serde(default)]
    targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
    rules: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
struct Rule {
    methods: Vec<String>,
    path: String,
    #[serde(default)]
    query: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    form: BTreeMap<String, Vec<String>>,
}

impl Rules {
    /// Parses a manifest.
    ///
    /// # Panics
    /// When the manifest cannot be parsed.
    pub(super) fn parse(manifest: &str) -> Rules {
        match serde_json::from_str(manifest) {
            Ok(rules) => rules,
            Err(error) => panic!("the manifest cannot be read: {error}"),
        }
    }

    /// Whether a rule covers the request.
    pub(super) fn allow(&self, request: &Request) -> bool {
        self.targets
            .iter()
            .filter(|target| target.name == request.target)
            .flat_map(|target| &target.rules)
            .any(|rule| rule.covers(request))
    }
}

impl Rule {
    fn covers(&self, request: &Request) -> bool {
        let method = method_name(request.method);
        self.methods.iter().any(|allowed| allowed == method)
            && path_matches(&self.path, &request.path)
            && fields_match(&self.query, &request.query)
            && fields_match(&self.form, &form(request))
    }
}

/// Whether the contract accepts `path`: it begins with `/`, and no server can interpret it as another path.
pub(super) fn is_path(path: &str) -> bool {
    let plain = |segment: &str| !matches!(segment, "" | "." | "..");
    let lower = path.to_ascii_lowercase();
    let encoded = ["%2f", "%5c", "%2e"]
        .iter()
        .any(|code| lower.contains(code));
    let odd = path.contains(['\\', '?', '#']) || path.contains(char::is_control);
    let segments = path.strip_prefix('/');
    segments.is_some_and(|rest| rest.is_empty() || rest.split('/').all(plain)) && !encoded && !odd
}

/// Matches a path; `{name}` in the pattern stands for exactly one non-empty segment.
fn path_matches(pattern: &str, path: &str) -> bool {
    let wanted: Vec<&str> = pattern.split('/').collect();
    let given: Vec<&str> = path.split('/').collect();
    wanted.len() == given.len()
        && wanted.iter().zip(&given).all(|(wanted, given)| {
            let placeholder = wanted.starts_with('{') && wanted.ends_with('}');
            if placeholder {
                !given.is_empty()
            } else {
                wanted == given
            }
        })
}

/// Whether every field named by the rule occurs exactly once, with one of the rule's values.
fn fields_match(rule: &BTreeMap<String, Vec<String>>, fields: &[(String, String)]) -> bool {
    rule.iter().all(|(key, allowed)| {
        let mut values = fields
            .iter()
            .filter(|(name, _)| name == key)
            .map(|(_, value)| value);
        matches!((values.next(), values.next()), (Some(value), None) if allowed.contains(value))
    })
}

/// The form fields of the body, not decoded: the values in rules need no decoding.
fn form(request: &Request) -> Vec<(String, String)> {
    let body = String::from_utf8_lossy(request.body.as_deref().unwrap_or_default()).into_owned();
    let pairs = body.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}
