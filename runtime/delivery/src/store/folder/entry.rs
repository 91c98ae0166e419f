//! JSON description stored beside a module: its origin and its evidence.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ccm_host::Digest;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

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
    evidence: Vec<Kept>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Kept {
    Bundle(Bytes),
    #[serde(rename_all = "camelCase")]
    SimpleSigning {
        payload: Bytes,
        signature: Bytes,
        certificate: Option<String>,
        chain: Option<String>,
        log_entry: Option<Bytes>,
        time_stamp: Option<Bytes>,
    },
}

/// Bytes that are serialized as base64.
struct Bytes(Vec<u8>);

impl Entry {
    pub(super) fn of(artifact: &Artifact) -> Self {
        let evidence = artifact.evidence.iter().take(MOST_EVIDENCE).cloned();
        Self {
            version: VERSION,
            origin: artifact.origin.clone(),
            manifest_digest: artifact.manifest_digest.clone(),
            evidence: evidence.map(Kept::from).collect(),
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
            evidence: self
                .evidence
                .into_iter()
                .map(SignatureEvidence::from)
                .collect(),
        }
    }
}

impl From<SignatureEvidence> for Kept {
    fn from(evidence: SignatureEvidence) -> Self {
        match evidence {
            SignatureEvidence::Bundle(bundle) => Self::Bundle(Bytes(bundle)),
            SignatureEvidence::SimpleSigning {
                payload,
                signature,
                certificate,
                chain,
                log_entry,
                time_stamp,
            } => Self::SimpleSigning {
                payload: Bytes(payload),
                signature: Bytes(signature),
                certificate,
                chain,
                log_entry: log_entry.map(Bytes),
                time_stamp: time_stamp.map(Bytes),
            },
        }
    }
}

impl From<Kept> for SignatureEvidence {
    fn from(kept: Kept) -> Self {
        match kept {
            Kept::Bundle(bundle) => Self::Bundle(bundle.0),
            Kept::SimpleSigning {
                payload,
                signature,
                certificate,
                chain,
                log_entry,
                time_stamp,
            } => Self::SimpleSigning {
                payload: payload.0,
                signature: signature.0,
                certificate,
                chain,
                log_entry: log_entry.map(|bytes| bytes.0),
                time_stamp: time_stamp.map(|bytes| bytes.0),
            },
        }
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Bytes).map_err(de::Error::custom)
    }
}
