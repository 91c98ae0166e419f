//! The rules of a manifest, as far as a test needs them: which requests the real host would let through.

use serde::Deserialize;
use std::collections::BTreeMap;

use crate::bindings::host::ccm::provider::http::Request;
use crate::http::method_name;

/// The part of a manifest that is about requests.
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
}

impl Rules {
    /// Reads a manifest.
    ///
    /// # Panics
    /// When it cannot be read: the test cannot go on.
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
            && self.query.iter().all(|(key, allowed)| {
                let values: Vec<&String> = request
                    .query
                    .iter()
                    .filter(|(name, _)| name == key)
                    .map(|(_, value)| value)
                    .collect();
                matches!(values.as_slice(), [value] if allowed.contains(value))
            })
    }
}

/// `{name}` in a pattern stands for exactly one segment that is not empty.
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
