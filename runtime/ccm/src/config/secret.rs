//! References to secrets. The secrets themselves are never in the configuration file.

use std::fmt;
use std::path::PathBuf;

use ccm_host::grant::Secret;
use schemars::JsonSchema;
use serde::Deserialize;
use zeroize::Zeroizing;

use super::{ConfigContext, PLACEHOLDER};

/// Source of a secret.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.env) && !has(self.file)", "message": "an object names a Secret: env and file are for the file of --config"}
]))]
pub(super) enum SecretSource {
    /// An environment variable; in the file of --config only.
    Env(#[schemars(length(max = 256))] String),
    /// A file, such as one of a mounted Secret; in the file of --config only.
    File(#[schemars(length(max = 4096))] PathBuf),
    /// A key of a Secret in the cluster.
    Secret(SecretKey),
}

/// One key of a Secret in the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SecretKey {
    /// The Secret's namespace; of an object the one that the manager's flags allow.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// The Secret's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key in its data.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

impl fmt::Display for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "key {:?} of Secret {}/{}",
            self.key, self.namespace, self.name
        )
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretSource::Env(name) => write!(f, "the variable {name}"),
            SecretSource::File(path) => write!(f, "the file {}", path.display()),
            SecretSource::Secret(key) => key.fmt(f),
        }
    }
}

impl SecretSource {
    /// Reads the secret.
    ///
    /// # Errors
    /// The reason; never any part of the secret.
    pub(super) fn read(&self, context: &ConfigContext<'_>) -> Result<Secret, String> {
        Ok(Secret::new(self.text(context)?.to_string()).read_from(&self.to_string()))
    }

    /// Reads the secret as text, for callers with their own type.
    ///
    /// # Errors
    /// As for [`SecretSource::read`].
    pub(super) fn text(&self, context: &ConfigContext<'_>) -> Result<Zeroizing<String>, String> {
        let text = match self {
            SecretSource::Env(name) => or_placeholder(context.value_of(name)?),
            SecretSource::File(path) => {
                let text = context.text_of(path);
                or_placeholder(text.map_err(|error| format!("{}: {error}", path.display()))?)
            }
            SecretSource::Secret(key) => {
                (context.secret)(key).map_err(|error| format!("{key}: {error}"))?
            }
        };
        // Mounted Secrets and `echo` end in a newline that no token contains.
        let text = text.trim();
        if text.is_empty() {
            return Err("the secret is empty".to_owned());
        }
        Ok(Zeroizing::new(text.to_owned()))
    }
}

fn or_placeholder(text: Option<String>) -> String {
    text.unwrap_or_else(|| PLACEHOLDER.to_owned())
}
