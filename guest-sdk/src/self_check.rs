//! The interface `self-check`: checks that the credential works and the cloud is reachable.

use crate::{Error, Provider};

/// Checks that the provider can work. Called when a generation is loaded and by `ccm provider check --online`.
pub trait SelfCheck: Provider {
    /// Sends one cheap read.
    ///
    /// # Errors
    /// The reason why the provider cannot work now: [`Error::Denied`] for a refused credential.
    fn check(&self) -> Result<(), Error>;
}
