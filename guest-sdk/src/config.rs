//! The operator's configuration, read key by key with [`Config::read`].
//!
//! Secrets are never among the values: the host adds credentials to requests.

use std::collections::BTreeMap;

use crate::bindings::lifecycle::exports::ccm::provider::lifecycle::Config as RawConfig;
use crate::values::Values;
use crate::{Error, GrantedTarget};

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
    /// What a later host adds within this version of the contract. Ignore unknown keys.
    pub extra: BTreeMap<String, String>,
}

impl Config {
    /// The configuration that the host passes to `init`.
    pub(crate) fn of_host(raw: RawConfig) -> Config {
        let RawConfig {
            cluster_name,
            cluster_cidrs,
            values,
            targets,
            schemes,
            extra,
        } = raw;
        Config {
            cluster_name,
            cluster_cidrs,
            values: values.into_iter().collect(),
            targets: Some(targets),
            schemes,
            extra: extra.into_iter().collect(),
        }
    }

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

    /// Reads the values key by key:
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ccm_guest::{Config, Error};
    /// struct Settings {
    ///     region: String,
    ///     size: u8,
    ///     max_age: Duration,
    /// }
    ///
    /// fn settings(config: &Config) -> Result<Settings, Error> {
    ///     config.read(|values| Settings {
    ///         region: values.required("ACME_REGION").unwrap_or_default().to_owned(),
    ///         size: values.number("ACME_SIZE", 1..=9).unwrap_or(1),
    ///         max_age: values.duration("ACME_MAX_AGE").unwrap_or_default(),
    ///     })
    /// }
    /// # let config = ccm_guest::testing::config(&[("ACME_REGION", "north"), ("ACME_SIZE", "7")]);
    /// # let read = settings(&config).unwrap();
    /// # assert_eq!((read.region.as_str(), read.size, read.max_age), ("north", 7, Duration::ZERO));
    /// ```
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
