//! Configuration of a provider by the operator, checked against the keys that its manifest declares.

use std::collections::BTreeMap;

use crate::bindings::lifecycle;
use crate::grant::Credential;
use crate::limits;
use crate::manifest::{Granted, Manifest};
use crate::sanitize::clean;

/// Configuration of a provider. Contains no secrets: the guest sees all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuestConfig {
    /// Value of `--cluster-name`.
    pub cluster_name: String,
    /// Values of `--cluster-cidr`, split at commas.
    pub cluster_cidrs: Vec<String>,
    /// Values of keys that the manifest declares. At most 256, and 256 KiB including keys.
    pub values: BTreeMap<String, String>,
    /// Provider ID schemes of this provider's nodes. Empty: the schemes of its manifest.
    pub schemes: Vec<String>,
}

impl GuestConfig {
    /// Mistakes with respect to the keys that this manifest declares, as far as they show without running the module.
    pub fn mistakes(&self, manifest: &Manifest) -> Vec<String> {
        let mut mistakes = Vec::new();
        let declared = |name: &str| manifest.config.iter().any(|key| key.key == name);
        for name in self.values.keys().filter(|name| !declared(name)) {
            mistakes.push(unknown(name, manifest));
        }
        for key in manifest
            .config
            .iter()
            .filter(|key| key.required && !self.values.contains_key(&key.key))
        {
            mistakes.push(format!(
                "{} is required: {}",
                key.key,
                clean(&key.why, limits::LOG_LINE_BYTES)
            ));
        }
        let values = self.values.iter();
        let bytes: usize = values.map(|(key, value)| key.len() + value.len()).sum();
        if self.values.len() > limits::CONFIG_ENTRIES || bytes > limits::CONFIG_BYTES {
            let (entries, kib) = (limits::CONFIG_ENTRIES, limits::CONFIG_BYTES >> 10);
            mistakes.push(format!(
                "{} values with {bytes} bytes: at most {entries} and {kib} KiB",
                self.values.len()
            ));
        }
        mistakes
    }
}

/// Minimum similarity, of 1, at which an unknown key is taken for a misspelled one.
const LIKE: f64 = 0.75;

/// Reports a key that the manifest does not declare, with the most similar declared one.
fn unknown(name: &str, manifest: &Manifest) -> String {
    let likeness = |key: &str| strsim::normalized_damerau_levenshtein(name, key);
    let likely = manifest.config.iter().map(|key| key.key.as_str());
    let likely = likely
        .map(|key| (likeness(key), key))
        .filter(|(likeness, _)| *likeness > LIKE)
        .max_by(|(left, _), (right, _)| left.total_cmp(right));
    let known = format!("{} has no key {name}", manifest.name);
    match likely {
        Some((_, key)) => format!("{known}; did you mean {key}?"),
        None => known,
    }
}

/// Argument of `init`: the configuration and the granted targets. Otherwise a guest with optional targets would not
/// know which of them are granted before it needs one, nor in which region a target is.
pub(crate) fn init_config(
    config: GuestConfig,
    manifest: &Manifest,
    granted: &Granted,
) -> lifecycle::Config {
    let targets = granted.targets.iter().map(|target| {
        let region = match &target.grant.credential {
            Credential::AwsSigV4(aws) => Some(aws.region.clone()),
            _ => None,
        };
        lifecycle::GrantedTarget {
            name: target.grant.name.clone(),
            region,
        }
    });
    lifecycle::Config {
        cluster_name: config.cluster_name,
        cluster_cidrs: config.cluster_cidrs,
        values: config.values.into_iter().collect(),
        targets: targets.collect(),
        schemes: match config.schemes.is_empty() {
            true => manifest.schemes.clone(),
            false => config.schemes,
        },
        extra: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
    use super::*;

    fn manifest() -> Manifest {
        let json = r#"{"contract":"0.1.0","name":"sample","version":"1","description":"","schemes":["sample"],
                "config":[{"key":"NEEDED","why":"because","required":true},{"key":"OTHER","why":"so","required":false}]}"#;
        Manifest::parse(json.as_bytes()).unwrap()
    }

    fn config(values: &[(&str, &str)]) -> GuestConfig {
        let values = values.iter();
        let values = values.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        GuestConfig {
            values: values.collect(),
            ..GuestConfig::default()
        }
    }

    #[test]
    fn a_typing_error_has_a_suggestion() {
        let manifest = manifest();
        let mistakes = config(&[("NEEDED", ""), ("OTHR", "")]).mistakes(&manifest);
        assert_eq!(mistakes, ["sample has no key OTHR; did you mean OTHER?"]);
    }

    #[test]
    fn required_keys_are_there_and_unknown_ones_are_not() {
        let manifest = manifest();
        let mistakes = |values: &[(&str, &str)]| config(values).mistakes(&manifest);
        assert!(mistakes(&[("NEEDED", "")]).is_empty());
        assert!(mistakes(&[("NEEDED", ""), ("OTHER", "")]).is_empty());
        assert_eq!(
            mistakes(&[("needed", ""), ("OTHER", "")]),
            ["sample has no key needed", "NEEDED is required: because"]
        );
    }
}
