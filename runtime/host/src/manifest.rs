//! The manifest: what a module says about itself and asks for, and what of it is granted.
//!
//! It stands as JSON in the custom section `ccm:manifest` and is read without running the module, so it is
//! hostile input: bounded, strict, and never a source of rights. Rights come from [`Grants`] alone; the
//! manifest can only make them narrower.

mod check;
mod form;
mod narrow;

use std::fmt;

use ccm_core::permit::Access;
use serde::Serialize;
use thiserror::Error;
use url::Url;

pub use narrow::{Granted, GrantedTarget, Missing, prefix_covers};

use crate::egress::rules::Rule;
use crate::grant::{Credential, Grants, RequestBudget, TargetGrant};

/// Largest manifest in bytes. The largest of ours has 12 KiB.
pub const MAX_MANIFEST: usize = 64 << 10;

/// The version of the contract that this form of manifest belongs to. A manifest that names another one is read as
/// well, so that who loads it can say which version it wants.
pub const CONTRACT: &str = "0.1.0";

/// A manifest that was read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Version of the contract that the module was built against, as `1.2.3`; [`CONTRACT`] or not.
    pub contract: String,
    /// The provider's name: a DNS label.
    pub name: String,
    /// The module's own version: printable ASCII, at most 64 bytes.
    pub version: String,
    /// For people; may be empty.
    pub description: String,
    /// providerID schemes without `://`; needed by who exports `instances`.
    pub schemes: Vec<String>,
    /// Where it wants to send requests. None: no network.
    pub targets: Vec<Target>,
    /// Prefixes of the annotation keys that it wants to set on Services.
    pub annotation_prefixes: Vec<String>,
    /// Keys of the configuration that it reads.
    pub config: Vec<ConfigKey>,
    /// What it would like to use at most.
    pub limits: WantedLimits,
}

/// A target that a module asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name that its requests use.
    pub name: String,
    /// The usual endpoint; a grant may name another.
    pub endpoint: Url,
    /// The kind of credential that the host is to add.
    pub auth: AuthKind,
    /// For the person who grants it.
    pub why: String,
    /// What it asks for there.
    pub rules: Vec<Rule>,
    /// Whether the module cannot run without it. One that it can run without may be left ungranted.
    pub required: bool,
}

impl Target {
    /// A grant for exactly this target, without credential.
    pub fn as_grant(&self) -> TargetGrant {
        TargetGrant {
            name: self.name.clone(),
            endpoint: self.endpoint.clone(),
            rules: self.rules.clone(),
            credential: Credential::None,
            addresses: Vec::new(),
            ca_pem: None,
            requests: RequestBudget::default(),
        }
    }
}

/// Kinds of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthKind {
    /// No credential.
    None,
    /// `Authorization: Bearer …`.
    Bearer,
    /// `Authorization: Basic …`.
    Basic,
    /// A header of the vendor's own, named by the grant.
    Header,
}

impl AuthKind {
    /// The word in the manifest.
    pub fn as_str(self) -> &'static str {
        match self {
            AuthKind::None => "none",
            AuthKind::Bearer => "bearer",
            AuthKind::Basic => "basic",
            AuthKind::Header => "header",
        }
    }
}

impl fmt::Display for AuthKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A key of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigKey {
    /// The key.
    pub key: String,
    /// For the person who sets it.
    pub why: String,
    /// Whether the module cannot run without it.
    pub required: bool,
}

/// Limits that a module would like; the host's own hold in any case. `None`: the host's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WantedLimits {
    /// Linear memory of one call in MiB, 1 to 1024.
    pub memory_mib: Option<u32>,
    /// Time of one call in seconds, 1 to 300.
    pub call_seconds: Option<u32>,
}

/// Why a manifest cannot be used.
#[derive(Debug, Error)]
pub enum ManifestError {
    /// Over [`MAX_MANIFEST`].
    #[error("the manifest has {0} bytes, at most {MAX_MANIFEST}")]
    TooLarge(usize),
    /// Not JSON of this form: the syntax is broken, or a value has the wrong type.
    #[error("the manifest cannot be read")]
    Json(#[source] serde_json::Error),
    /// Readable, and wrong: every mistake, unknown keys included.
    #[error("the manifest has {} mistake(s): {}", .0.len(), .0.join("; "))]
    Mistakes(Vec<String>),
}

impl Manifest {
    /// Reads the bytes of the section.
    ///
    /// # Errors
    /// See [`ManifestError`]; mistakes are reported all at once.
    pub fn parse(json: &[u8]) -> Result<Manifest, ManifestError> {
        if json.len() > MAX_MANIFEST {
            return Err(ManifestError::TooLarge(json.len()));
        }
        let raw = serde_json::from_slice(json).map_err(ManifestError::Json)?;
        check::check(raw).map_err(ManifestError::Mistakes)
    }

    /// Requested and granted, intersected.
    ///
    /// # Errors
    /// What is required and not granted, line by line: such a module is not loaded. An optional target may be missing
    /// as a whole; one that is granted is granted with all its lines.
    pub fn narrow(&self, grants: Grants) -> Result<Granted, Missing> {
        narrow::narrow(self, grants)
    }

    /// Grants for exactly what the module cannot run without, without credentials: the start of a shipped module's
    /// built-in profile, and of what an operator writes down for any other. Optional targets are left out; see
    /// [`Target::as_grant`]. Never to be used for a module that nobody vouches for.
    pub fn as_grants(&self) -> Grants {
        let required = self.targets.iter().filter(|target| target.required);
        Grants {
            targets: required.map(Target::as_grant).collect(),
            annotation_prefixes: self.annotation_prefixes.clone(),
        }
    }

    /// Whether any rule asks to change something at the cloud.
    pub fn asks_to_write(&self) -> bool {
        let mut lines = self
            .targets
            .iter()
            .flat_map(|target| &target.rules)
            .flat_map(Rule::lines);
        lines.any(|line| line.access == Access::Write)
    }
}

#[cfg(test)]
mod tests;
