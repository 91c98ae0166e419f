//! The interface `self-check`: proof that the credential works and the cloud is reachable.

use crate::{Error, Provider};

/// Proves that the provider can work. Called when a generation is loaded and by `ccm provider check --online`.
pub trait SelfCheck: Provider {
    /// One cheap read.
    ///
    /// # Errors
    /// Why the provider could not work now: [`Error::Denied`] for a refused credential.
    fn check(&self) -> Result<(), Error>;
}
