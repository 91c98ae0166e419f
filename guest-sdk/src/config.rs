//! The operator's configuration: a typed value by [`Config::parse`], or key by key with [`Config::read`].
//!
//! Secrets are never among the values: the host adds credentials to requests.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::{DeserializeOwned, Deserializer, Error as _};

use crate::bindings::lifecycle::exports::ccm::provider::lifecycle::Config as RawConfig;
use crate::{Error, GrantedTarget};

pub use crate::values::Values;
pub use crate::values::duration::parse_duration;

mod parse;
#[cfg(test)]
mod tests;

/// The operator's configuration, as `init` receives it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// `--cluster-name`: marks the cloud objects that belong to this cluster.
    pub cluster_name: String,
    /// `--cluster-cidr`, split at commas; empty when not set.
    pub cluster_cidrs: Vec<String>,
    /// The configuration keys that the manifest declares, with the operator's values.
    pub values: BTreeMap<String, String>,
    /// The targets that the operator granted; `None` in tests that do not set them. See [`Config::is_granted`].
    pub targets: Option<Vec<GrantedTarget>>,
    /// Schemes of provider IDs, without `://`, from the manifest or from the operator. Nodes of these schemes are this
    /// provider's.
    pub schemes: Vec<String>,
}

impl From<RawConfig> for Config {
    fn from(raw: RawConfig) -> Config {
        let RawConfig {
            cluster_name,
            cluster_cidrs,
            values,
            targets,
            schemes,
            extra: _,
        } = raw;
        Config {
            cluster_name,
            cluster_cidrs,
            values: values.into_iter().collect(),
            targets: Some(targets),
            schemes,
        }
    }
}

impl Config {
    /// Whether the operator grants this target of the manifest. Only a target with `"required": false` can be missing.
    /// `init` should reject a configuration that needs a missing target: see [`Values::mistake`].
    pub fn is_granted(&self, target: &str) -> bool {
        let granted = self.targets.as_ref();
        granted.is_none_or(|targets| targets.iter().any(|one| one.name == target))
    }

    /// The region that requests to this target are signed for, such as `eu-central-1`; `None` without one.
    pub fn region(&self, target: &str) -> Option<&str> {
        let mut granted = self.targets.iter().flatten();
        granted.find(|one| one.name == target)?.region.as_deref()
    }

    /// The values as a struct with one field for each key:
    ///
    /// ```
    /// #[derive(serde::Deserialize)]
    /// #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
    /// struct Settings {
    ///     acme_region: String,
    ///     acme_zones: Option<Vec<String>>,
    ///     #[serde(default)]
    ///     acme_ipv6: bool,
    ///     #[serde(default, deserialize_with = "ccm_guest::config::duration")]
    ///     acme_max_age: std::time::Duration,
    /// }
    /// # let config = ccm_guest::testing::config(&[("ACME_REGION", "north"), ("ACME_ZONES", "a, b"), ("ACME_IPV6", "T")]);
    /// let settings: Settings = config.parse()?;
    /// # assert_eq!((settings.acme_region.as_str(), settings.acme_ipv6), ("north", true));
    /// # assert_eq!(settings.acme_zones.unwrap(), ["a", "b"]);
    /// # Ok::<(), ccm_guest::Error>(())
    /// ```
    ///
    /// Values are read as by [`Values`]: an empty one counts as not set, a list is separated by commas, a boolean is in
    /// any form that Go accepts. An enum without data is one of its variants' names.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every mistake, also about values that are missing.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        parse::parse(&self.values)
    }

    /// Reads the values key by key.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every mistake that `read` came upon.
    pub fn read<'a, T>(&'a self, read: impl FnOnce(&mut Values<'a>) -> T) -> Result<T, Error> {
        let mut values = self.values();
        let settings = read(&mut values);
        values.finish().map(|()| settings)
    }

    /// Starts reading the values. End with [`Values::finish`]; [`Config::read`] does both.
    pub fn values(&self) -> Values<'_> {
        Values::of_configuration(&self.values)
    }
}

/// For serde's `deserialize_with`: a duration as [`Values::duration`] reads it, for a field of the type [`Duration`] or
/// `Option<Duration>`.
///
/// # Errors
/// The text is no duration.
pub fn duration<'de, D: Deserializer<'de>, T: From<Duration>>(value: D) -> Result<T, D::Error> {
    let text: String = serde::Deserialize::deserialize(value)?;
    let duration = parse_duration(text.trim());
    let duration =
        duration.ok_or_else(|| D::Error::custom("must be a duration such as 10s or 1m30s"))?;
    Ok(duration.into())
}
