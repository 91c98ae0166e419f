//! What a profile's credential is read from: its variables, and its key in a Secret.

use super::profile::Login;
use super::{aws, profile_of};

impl Login {
    /// The variables of the credential.
    pub(super) fn variables(&self) -> Vec<&'static str> {
        match self {
            Login::Token { variable, .. } | Login::Authorization { variable, .. } => vec![variable],
            Login::Basic { user, password, .. } => vec![user, password],
            Login::Aws { .. } => aws::SECRETS.to_vec(),
        }
    }
}

/// The key of a target's credential in the Secret of the manifests of a shipped provider. `None`: they have none. Grants
/// nothing, so the name of the module suffices.
pub(crate) fn secret_key(module: &str, target: &str) -> Option<&'static str> {
    let mut targets = profile_of(module)?.targets.iter();
    match targets.find(|one| one.name == target)?.login {
        Login::Token { key, .. } | Login::Basic { key, .. } | Login::Authorization { key, .. } => {
            Some(key)
        }
        Login::Aws { .. } => None,
    }
}
