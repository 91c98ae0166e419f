//! Load policy: what the operator grants and configures for a module. Never reads the module's bytes.

use ccm_host::grant::Grants;
use ccm_host::{GuestConfig, Inspection, LimitsGranted};

/// The operator's grants and configuration for one provider. Implemented by the reader of the configuration.
pub trait LoadPolicyOf: Send + Sync {
    /// Load policy for this module. Built-in grants apply to the exact bytes of a shipped module; configured ones to
    /// any module.
    ///
    /// # Errors
    /// The missing grants or configuration, one line each, for people.
    fn load_policy(&self, inspection: &Inspection) -> Result<LoadPolicy, Vec<String>>;
}

/// Grants, configuration and limits with which one module is loaded; see [`LoadPolicyOf`].
#[derive(Clone, Default)]
pub struct LoadPolicy {
    /// Permissions granted to the module.
    pub grants: Grants,
    /// Configuration passed to the module.
    pub config: GuestConfig,
    /// Upper limits of its resources.
    pub limits: LimitsGranted,
}
