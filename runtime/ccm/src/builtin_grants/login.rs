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
    match login(module, target)? {
        Login::Token { key, .. } | Login::Basic { key, .. } | Login::Authorization { key, .. } => {
            Some(key)
        }
        Login::Aws { .. } => None,
    }
}

/// The header of a target's credential, if that is a header of a shipped provider's cloud.
pub(crate) fn header(module: &str, target: &str) -> Option<&'static str> {
    let is_header = matches!(login(module, target)?, Login::Authorization { .. });
    is_header.then_some("Authorization")
}

fn login(module: &str, target: &str) -> Option<&'static Login> {
    let mut targets = profile_of(module)?.targets.iter();
    let target = targets.find(|one| one.name == target)?;
    Some(&target.login)
}
