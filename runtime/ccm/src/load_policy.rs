//! Load policy of a configured provider's module: configured grants, or the built-in grants for exactly the bytes that
//! this program ships. Reads variables and files; fetches nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ccm_delivery::load_policy::LoadPolicyOf;
use ccm_delivery::source::Location;
use ccm_host::manifest::Manifest;
use ccm_host::{GuestConfig, Inspection, Loading};
use parking_lot::Mutex;

use crate::builtin_grants;
use crate::config::ProviderConfig;
use crate::provider_loading::{PROCESS, variable_names};

/// A provider's configuration, and the flags that its grants depend on.
pub(crate) struct ConfiguredLoadPolicy {
    /// The configuration of the provider.
    pub config: ProviderConfig,
    /// `--cluster-name`.
    pub cluster_name: String,
    /// `--cluster-cidr`, split.
    pub cluster_cidrs: Vec<String>,
    /// The remarks about unusual settings that were logged.
    pub remarks: Remarks,
}

/// The logged remarks about settings, by provider: each is logged once, however often the settings are read. Clones
/// share them.
#[derive(Clone, Default)]
pub(crate) struct Remarks(Arc<Mutex<BTreeSet<(String, String)>>>);

impl Remarks {
    fn is_new(&self, provider: &str, remark: &str) -> bool {
        let mut logged = self.0.lock();
        logged.insert((provider.to_owned(), remark.to_owned()))
    }
}

/// Why a module of this source cannot run without grants of the operator.
pub(crate) fn needs_grants(source: &Location) -> String {
    format!(
        "{source} is not a module that this binary ships, so it needs grants: `ccm provider inspect -o grants` prints what it requests, to be put into --config"
    )
}

impl ConfiguredLoadPolicy {
    /// The load policy for a module, with all mistakes in its inputs. If there are mistakes, some credentials are
    /// placeholders: the module may be asked for its own mistakes, but the policy must not be used.
    ///
    /// # Errors
    /// There is no load policy for this module.
    pub(crate) fn read(&self, inspection: &Inspection) -> Result<(Loading, Vec<String>), String> {
        let config = &self.config;
        let (builtin, values) = match (
            &config.grants,
            builtin_grants::recognise(&inspection.digest),
        ) {
            (Some(grants), _) => (
                builtin_grants::BuiltinGrants::written(grants.clone()),
                config.values.clone(),
            ),
            (None, Some(guest)) => profile(guest, &inspection.manifest, config),
            (None, None) => {
                return Err(needs_grants(&config.source));
            }
        };
        let is_new = |remark: &&String| self.remarks.is_new(&config.name, remark);
        for warning in builtin.warnings.iter().filter(is_new) {
            tracing::warn!(provider = config.name, "{warning}");
        }
        for note in builtin.notes.iter().filter(is_new) {
            tracing::info!(provider = config.name, "{note}");
        }
        let loading = Loading {
            name: Some(config.name.clone()),
            grants: builtin.grants,
            config: GuestConfig {
                cluster_name: self.cluster_name.clone(),
                cluster_cidrs: self.cluster_cidrs.clone(),
                values,
                schemes: config.nodes.schemes.clone(),
            },
            limits: config.limits,
            ..Loading::default()
        };
        Ok((loading, builtin.mistakes))
    }
}

impl LoadPolicyOf for ConfiguredLoadPolicy {
    fn load_policy(&self, inspection: &Inspection) -> Result<Loading, Vec<String>> {
        match self.read(inspection) {
            Ok((loading, mistakes)) if mistakes.is_empty() => Ok(loading),
            Ok((_, mistakes)) => Err(mistakes),
            Err(mistake) => Err(vec![mistake]),
        }
    }
}

/// Grants and values of a shipped module: from variables, overridden by the file.
fn profile(
    guest: &str,
    manifest: &Manifest,
    config: &ProviderConfig,
) -> (builtin_grants::BuiltinGrants, BTreeMap<String, String>) {
    let mut values = builtin_grants::values(manifest, &PROCESS);
    values.extend(config.values.clone());
    let unknown_instance = builtin_grants::add_instance(&mut values, config.instance.as_ref());
    let mut policy =
        builtin_grants::grants(guest, manifest, &values, config.region.as_ref(), &PROCESS);
    for target in &mut policy.grants.targets {
        target.proxy = config.proxy.clone().grant();
        if let Some(issuer) = target.credential.issuer_mut() {
            issuer.proxy = config.proxy.clone().grant();
        }
    }
    let unknown = builtin_grants::unknown(guest, manifest, &variable_names());
    policy.warnings.extend(unknown_instance);
    policy.warnings.extend(unknown);
    (policy, values)
}
