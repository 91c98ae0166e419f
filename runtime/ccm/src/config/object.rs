//! The `spec` of an object `Provider`: an entry of the configuration whose author need not be the operator. It names
//! Secrets of one namespace and nothing else of the manager's: no variable, no file but a module, no built-in grants,
//! no identity of its machine. The definition of the kind refuses the same; a cluster may have another definition.
//! Reads no objects itself.

use std::collections::BTreeSet;

use ccm_core::name_syntax::is_dns_label;
use ccm_delivery::record::{RefusalReason, SpecRefusal};
use serde::Deserialize as _;
use serde_json::Value;

use super::raw::RawProvider;
use super::references::References;
use super::secret::SecretKey;
use super::{ConfigContext, Mistakes, ProviderConfig, provider};

/// Largest spec that is read, as JSON.
pub(crate) const MOST_SPEC_BYTES: usize = 128 << 10;
/// Reserved names: the kubelet calls every manager of this kind `external`.
const RESERVED: [&str; 1] = ["external"];

/// A parsed spec, before the Secrets that it refers to are read.
pub(crate) struct WrittenObject(RawProvider);

impl WrittenObject {
    /// Reads the spec of the object with this name. Secrets may be in `secret_namespace` only.
    ///
    /// # Errors
    /// The reason why it is not used.
    pub(crate) fn read(
        name: &str,
        spec: &Value,
        secret_namespace: &str,
    ) -> Result<WrittenObject, SpecRefusal> {
        if !is_dns_label(name) || RESERVED.contains(&name) {
            return Err(invalid(format!(
                "{name:?} cannot be the name of a provider: lower-case letters, digits and dashes, at most 63, and not {}",
                RESERVED.join(", ")
            )));
        }
        let mut entry = spec.clone();
        let Some(fields) = entry.as_object_mut() else {
            return Err(invalid("the spec is no object".to_owned()));
        };
        if fields.insert("name".to_owned(), name.into()).is_some() {
            return Err(invalid("name: it is the object's own".to_owned()));
        }
        let raw = RawProvider::deserialize(entry).map_err(|error| invalid(described(&error)))?;
        let mut mistakes = Vec::new();
        if raw.grants.is_none() {
            mistakes.push("grants: an object says itself what its module may reach".to_owned());
        }
        let references = References::of(&raw);
        if references.has_manager_file {
            mistakes.push("an object names no file of the manager's machine: certificates and keys stand in it as caPem and pem".to_owned());
        }
        if references.has_manager_identity {
            mistakes.push("an object uses no identity of the manager's own: container and instanceMetadata are for the file of --config".to_owned());
        }
        if references.has_manager_secret {
            mistakes.push(
                "an object names a Secret: env and file are for the file of --config".to_owned(),
            );
        }
        if !mistakes.is_empty() {
            return Err(invalid(mistakes.join("; ")));
        }
        let mut keys = references.secrets.into_iter();
        if let Some(key) = keys.find(|key| key.namespace != secret_namespace) {
            return Err(SpecRefusal {
                reason: RefusalReason::SecretNotAllowed,
                message: format!(
                    "{key}: objects may name Secrets of the namespace {secret_namespace:?} only (--provider-secret-namespace)"
                ),
            });
        }
        Ok(WrittenObject(raw))
    }

    /// The Secrets it refers to, which must be read before [`WrittenObject::meaning`] asks for them.
    pub(crate) fn secrets(&self) -> BTreeSet<SecretKey> {
        References::of(&self.0).secrets
    }

    /// Interprets the spec; reads Secrets only.
    ///
    /// # Errors
    /// All mistakes together.
    pub(crate) fn meaning(
        self,
        secret: &dyn Fn(&SecretKey) -> Result<String, String>,
    ) -> Result<ProviderConfig, SpecRefusal> {
        let context = ConfigContext {
            variable: &|_| None,
            file: &|_| Err("objects name no files".to_owned()),
            secret,
            absent: None,
        };
        let mut mistakes = Vec::new();
        match provider(self.0, &context, &mut mistakes) {
            Some(config) if mistakes.is_empty() => Ok(config),
            _ => Err(invalid(mistakes.join("; "))),
        }
    }
}

/// Whether this provider can serve beside the others that are already accepted.
///
/// # Errors
/// A conflict with one of them.
pub(crate) fn beside(
    accepted: &[ProviderConfig],
    provider: &ProviderConfig,
) -> Result<(), SpecRefusal> {
    let mut all = accepted.to_vec();
    all.push(provider.clone());
    super::together(&all).map_err(|Mistakes(mistakes)| SpecRefusal {
        reason: RefusalReason::Conflict,
        message: mistakes.join("; "),
    })
}

/// The mistake without the value that is one: it may be a secret in place of a reference to it, which an earlier
/// definition of the kind lets pass, and the status is read by more people than Secrets are.
fn described(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(", expected ") {
        // A field's name is no value.
        Some((found, expected)) if !found.starts_with("unknown field ") => {
            format!("expected {expected}")
        }
        _ => text,
    }
}

/// A refusal because of the spec itself.
pub(crate) fn invalid(message: String) -> SpecRefusal {
    SpecRefusal {
        reason: RefusalReason::InvalidSpec,
        message,
    }
}

#[cfg(test)]
mod tests;
