//! On which terms a module is loaded: the operator's side of it. Looks at no module's bytes.

use ccm_host::grant::Grants;
use ccm_host::{GuestConfig, Inspection};

pub use ccm_host::LimitsGranted;

/// What the operator grants and configures for one provider. Implemented by whoever reads the configuration.
pub trait LoadPolicyOf: Send + Sync {
    /// The terms for this module. Built-in ones belong to the bytes of a shipped module; written ones to whatever is
    /// loaded.
    ///
    /// # Errors
    /// What is missing, for people: one line each.
    fn terms(&self, inspection: &Inspection) -> Result<LoadPolicy, Vec<String>>;
}

/// See [`LoadPolicyOf`].
#[derive(Clone, Default)]
pub struct LoadPolicy {
    /// What the module may do.
    pub grants: Grants,
    /// What it is told.
    pub config: GuestConfig,
    /// What it may use at most.
    pub limits: LimitsGranted,
}
