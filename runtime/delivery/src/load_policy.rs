//! Load policy: what the operator grants and configures for a module. Never reads the module's bytes.

use ccm_host::{Inspection, Loading};

/// The operator's grants and configuration for one provider. Implemented by the reader of the configuration.
pub trait LoadPolicyOf: Send + Sync {
    /// Grants, configuration and limits for this module. Built-in grants apply to the exact bytes of a shipped module;
    /// configured ones to any module.
    ///
    /// # Errors
    /// The missing grants or configuration, one line each, for people.
    fn load_policy(&self, inspection: &Inspection) -> Result<Loading, Vec<String>>;
}
