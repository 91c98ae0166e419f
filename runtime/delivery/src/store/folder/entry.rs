//! JSON description stored beside a module: its origin and its evidence.

use ccm_host::Digest;
use serde::{Deserialize, Serialize};

use crate::artifact::{Artifact, MOST_EVIDENCE, SignatureEvidence};

/// Version of the file format. Files of another version are not read; the module is fetched again.
const VERSION: u32 = 1;

/// See the module's documentation.
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

    pub(super) fn from_json(json: &[u8]) -> Result<Self, String> {
        let entry: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if entry.version != VERSION || entry.evidence.len() > MOST_EVIDENCE {
            return Err("it has another form".to_owned());
        }
        Ok(entry)
    }

    pub(super) fn into_artifact(self, digest: Digest, wasm: bytes::Bytes) -> Artifact {
        Artifact {
            wasm,
            digest,
            origin: self.origin,
            manifest_digest: self.manifest_digest,
            is_pinned: false,
            evidence: self.evidence,
        }
    }
}
