//! JSON description stored beside a module: its origin and its evidence.

use ccm_host::Digest;
use serde::{Deserialize, Serialize};

use crate::artifact::{Artifact, MOST_EVIDENCE, SignatureEvidence};

/// Version of the file format, which changes with every field, also of [`SignatureEvidence`]: unknown ones are refused.
/// Files of another version are not read, and the module is fetched again. They stay until then: the program of that
/// version may come back while the source is away.
const VERSION: u32 = 1;

/// All that is read of a description before its version is known.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// Why a description is not used.
pub(super) enum Unusable {
    /// Another version of the program wrote it, in this version of the format.
    OtherVersion(u32),
    /// It is damaged, for this reason.
    Damaged(String),
}

/// The description of one stored module.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Entry {
    version: u32,
    origin: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest_digest: Option<String>,
    evidence: Vec<SignatureEvidence>,
}

impl Entry {
    pub(super) fn of(artifact: &Artifact) -> Self {
        let evidence = artifact.evidence.iter().take(MOST_EVIDENCE).cloned();
        Self {
            version: VERSION,
            origin: artifact.origin.clone(),
            manifest_digest: artifact.manifest_digest.clone(),
            evidence: evidence.collect(),
        }
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        // Strings and lists of strings: serialization cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(super) fn from_json(json: &[u8]) -> Result<Self, Unusable> {
        let damaged = |error: serde_json::Error| Unusable::Damaged(error.to_string());
        let versioned: Versioned = serde_json::from_slice(json).map_err(damaged)?;
        if versioned.version != VERSION {
            return Err(Unusable::OtherVersion(versioned.version));
        }
        let entry: Self = serde_json::from_slice(json).map_err(damaged)?;
        if entry.evidence.len() > MOST_EVIDENCE {
            return Err(Unusable::Damaged("it has too much evidence".to_owned()));
        }
        Ok(entry)
    }

    pub(super) fn into_artifact(self, digest: Digest, wasm: bytes::Bytes) -> Artifact {
        Artifact {
            wasm,
            digest,
            origin: self.origin,
            manifest_digest: self.manifest_digest,
            evidence: self.evidence,
            unanswered: Vec::new(),
        }
    }
}
