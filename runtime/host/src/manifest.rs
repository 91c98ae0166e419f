//! Manifest: the module's description of itself and the rights that it requests, narrowed by the grants.
//!
//! It is JSON in the custom section `ccm:manifest` and is read without running the module. It is hostile input:
//! bounded, parsed strictly, and never a source of rights. Rights come from [`Grants`] alone; the manifest can only
//! narrow them.

mod grant_check;
mod syntax;
mod validation;

use std::fmt;

use ccm_core::name_syntax::is_dns_label;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use url::Url;

pub use grant_check::{Granted, GrantedTarget, Missing, prefix_covers};

use crate::egress::rules::Rule;
use crate::grant::{Credential, Grants, RequestBudget, TargetGrant};

/// Largest manifest in bytes. The largest of ours has 12 KiB.
pub const MAX_MANIFEST: usize = 64 << 10;

/// Versions of the contract that this host speaks. Manifests that name another one are parsed as well, so that the
/// error can name the version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Contract {
    /// Version 0.1, `ccm:provider@0.1`.
    V0_1,
    /// Version 0.2, `ccm:provider@0.2`.
    V0_2,
}

impl Contract {
    /// All versions, the newest last.
    pub const ALL: [Contract; 2] = [Contract::V0_1, Contract::V0_2];

    /// The whole version number, such as `0.2.0`.
    pub const fn version(self) -> &'static str {
        match self {
            Contract::V0_1 => "0.1.0",
            Contract::V0_2 => "0.2.0",
        }
    }

    /// Whether `version` is a later one than this host has of this contract.
    pub(crate) fn is_before(self, version: &str) -> bool {
        let numbers = |text: &str| -> Vec<u64> {
            let parts = text.split('.');
            parts.map(|part| part.parse().unwrap_or(0)).collect()
        };
        numbers(self.version()) < numbers(version)
    }
}

/// A parsed and checked manifest. The default requests nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    /// Contract version that the module was built against, as `1.2.3`; not necessarily one of [`Contract`].
    pub contract: String,
    /// Name of the provider: a DNS label.
    pub name: String,
    /// Version of the module: printable ASCII, at most 64 bytes.
    pub version: String,
    /// Description for operators; may be empty.
    pub description: String,
    /// providerID schemes without `://`; required with the export `instances`.
    pub schemes: Vec<String>,
    /// Requested targets. Empty: no network.
    pub targets: Vec<Target>,
    /// Prefixes of the annotation keys that it requests to set on Services.
    pub annotation_prefixes: Vec<String>,
    /// Configuration keys that it reads.
    pub config: Vec<ConfigKey>,
    /// Limits that the module requests.
    pub limits: WantedLimits,
}

/// A target that a module requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Name of the target in the module's requests.
    pub name: String,
    /// Default endpoint; a grant may name another. An endpoint with [`REGION`] or [`UNNAMED`] in its host is
    /// incomplete: the grant has to name one, see [`Target::endpoint_in`].
    pub endpoint: Url,
    /// Kind of credential that the host is to add.
    pub auth: AuthKind,
    /// Reason, shown to the operator who grants it.
    pub why: String,
    /// Rules that the module requests.
    pub rules: Vec<Rule>,
    /// Whether the module needs the target to run. An optional target may be left ungranted.
    pub required: bool,
}

/// Placeholder for the region in the host of a manifest's endpoint, which only the grant names:
/// `https://ec2.{region}.amazonaws.com`.
pub const REGION: &str = "{region}";

/// Host of the endpoint of a target whose manifest names none. No request can be sent there.
pub const UNNAMED: &str = "{endpoint}";

/// Placeholder for an endpoint that only the operator can name.
pub(crate) fn unnamed_endpoint() -> Option<Url> {
    Url::parse(&format!("https://{UNNAMED}/")).ok()
}

impl Target {
    /// Whether the manifest names an endpoint, with or without a region.
    pub fn names_endpoint(&self) -> bool {
        !self.endpoint.as_str().contains(UNNAMED)
    }

    /// The endpoint in this region; the endpoint itself if the manifest names no region. `None` if the region cannot be
    /// part of a host.
    pub fn endpoint_in(&self, region: &str) -> Option<Url> {
        let text = self.endpoint.as_str();
        match text.contains(REGION) {
            false => Some(self.endpoint.clone()),
            true if is_dns_label(region) => text.replace(REGION, region).parse().ok(),
            true => None,
        }
    }

    /// Grant of exactly this target, without credential. No request can be sent to it while its endpoint contains
    /// [`REGION`] or [`UNNAMED`].
    pub fn as_grant(&self) -> TargetGrant {
        TargetGrant {
            name: self.name.clone(),
            endpoint: self.endpoint.clone(),
            rules: self.rules.clone(),
            credential: Credential::None,
            addresses: Vec::new(),
            ca_pem: None,
            fingerprints: Vec::new(),
            requests: RequestBudget::default(),
            proxy: None,
        }
    }
}

ccm_core::named_enum! {
    /// Kind of credential for a target. Its name is fixed in the manifest.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum AuthKind {
        /// Requests are sent without a credential.
        None = "none",
        /// `Authorization: Bearer …`.
        Bearer = "bearer",
        /// `Authorization: Basic …`.
        Basic = "basic",
        /// A vendor-specific header, named by the grant.
        Header = "header",
        /// AWS Signature Version 4, for the region and the service of the grant.
        #[serde(rename = "aws-sigv4")]
        AwsSigV4 = "aws-sigv4",
        /// `Authorization: Bearer …` with a token of the token endpoint that the grant names.
        #[serde(rename = "oauth2")]
        OAuth2 = "oauth2",
        /// `X-Auth-Token` with a token of the Keystone that the grant names.
        Keystone = "keystone",
    }
}

impl fmt::Display for AuthKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A configuration key that the module declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigKey {
    /// Name of the key.
    pub key: String,
    /// Purpose, shown to the operator who sets it.
    pub why: String,
    /// Whether the module needs the key to run.
    pub required: bool,
}

/// Limits that a module requests; the host's ceilings always apply. `None`: the host's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WantedLimits {
    /// Linear memory of one call in MiB, 1 to 1024.
    pub memory_mib: Option<u32>,
    /// Duration of one call in seconds, 1 to 300.
    pub call_seconds: Option<u32>,
}

/// Why a manifest is invalid.
#[derive(Debug, Error)]
pub enum ManifestError {
    /// The manifest is larger than [`MAX_MANIFEST`]; its size in bytes.
    #[error("the manifest has {0} bytes, at most {MAX_MANIFEST}")]
    TooLarge(usize),
    /// Not JSON of this form: the syntax is broken, or a value has the wrong type.
    #[error("the manifest cannot be read")]
    Json(#[source] serde_json::Error),
    /// Well-formed but invalid: every mistake, unknown keys included.
    #[error("the manifest has {} mistake(s): {}", .0.len(), .0.join("; "))]
    Mistakes(Vec<String>),
}

impl Manifest {
    /// Parses the bytes of the section.
    ///
    /// # Errors
    /// See [`ManifestError`]; mistakes are reported all at once.
    pub fn parse(json: &[u8]) -> Result<Manifest, ManifestError> {
        if json.len() > MAX_MANIFEST {
            return Err(ManifestError::TooLarge(json.len()));
        }
        let raw = serde_json::from_slice(json).map_err(ManifestError::Json)?;
        validation::check(raw).map_err(ManifestError::Mistakes)
    }

    /// Contract version that a manifest names, whatever else it contains: a later contract may have keys and values that
    /// this host does not know. `None` if it names no version.
    pub(crate) fn contract_of(json: &[u8]) -> Option<String> {
        #[derive(Deserialize)]
        struct Named {
            contract: String,
        }
        if json.len() > MAX_MANIFEST {
            return None;
        }
        let Named { contract } = serde_json::from_slice(json).ok()?;
        syntax::is_version(&contract).then_some(contract)
    }

    /// Intersection of requested and granted rights.
    ///
    /// # Errors
    /// Required but ungranted rights, line by line: such a module is not loaded. An optional target may be missing
    /// as a whole; a granted one must be granted with all its lines.
    pub fn narrow(&self, grants: Grants) -> Result<Granted, Missing> {
        grant_check::narrow(self, grants)
    }

    /// Grants of exactly the required rights, without credentials: the start of a shipped module's built-in grants,
    /// and of an operator's own grants. Optional targets are left out; see [`Target::as_grant`]. Never use it for an
    /// untrusted module.
    pub fn as_grants(&self) -> Grants {
        let required = self.targets.iter().filter(|target| target.required);
        Grants {
            targets: required.map(Target::as_grant).collect(),
            annotation_prefixes: self.annotation_prefixes.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
