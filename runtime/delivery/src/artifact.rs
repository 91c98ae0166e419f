//! A fetched module with its evidence. Untrusted until `trust` has verified it.

use bytes::Bytes;
use ccm_host::Digest;
/// Largest module, in bytes, from any source: the limit of the pre-scan.
pub use ccm_host::limits::MODULE_BYTES;
use serde::{Deserialize, Serialize};

/// The bytes of a module and the data delivered with them.
#[derive(Clone, PartialEq)]
pub struct Artifact {
    /// The component, uncompressed. At most [`MODULE_BYTES`]; clones share the bytes.
    pub wasm: Bytes,
    /// The SHA-256 of `wasm`.
    pub digest: Digest,
    /// Exact location from which these bytes can be fetched again; also used in messages.
    pub origin: String,
    /// `sha256:<hex>` of the OCI manifest that referenced the module. Signatures in registries are made over this
    /// digest.
    pub manifest_digest: Option<String>,
    /// Signatures, not verified yet.
    pub evidence: Vec<SignatureEvidence>,
    /// Why there may be more of them, for people: who did not answer.
    pub unanswered: Vec<String>,
}

impl Artifact {
    /// A module of this origin, without evidence.
    pub fn new(origin: impl Into<String>, wasm: impl Into<Bytes>) -> Artifact {
        let wasm = wasm.into();
        Artifact {
            digest: Digest::of(&wasm),
            wasm,
            origin: origin.into(),
            manifest_digest: None,
            evidence: Vec::new(),
            unanswered: Vec::new(),
        }
    }
}

/// Largest piece of evidence, in bytes.
pub const EVIDENCE_BYTES: usize = 256 << 10;
/// Maximum number of pieces of evidence that are examined.
pub const MOST_EVIDENCE: usize = 16;
/// Type of the statement in cosign's signatures. Other statements with a valid signature (a scan that found a
/// vulnerability, a bill of materials) do not release a module.
pub(crate) const SIGNATURE_STATEMENT: &str = "https://sigstore.dev/cosign/sign/v1";

/// A signature in one of the forms in use, made over the module's digest or the digest of its OCI manifest. Its JSON is a
/// part of the files of `store::folder`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum SignatureEvidence {
    /// A Sigstore bundle in JSON (`application/vnd.dev.sigstore.bundle.v0.3+json`): over the module's bytes, or over a
    /// statement about the manifest's digest.
    Bundle(#[serde(with = "base64_text")] Vec<u8>),
    /// cosign's older form, from the tag `sha256-<hex>.sig`.
    #[serde(rename_all = "camelCase")]
    SimpleSigning {
        /// The signed text, which names a manifest's digest.
        #[serde(with = "base64_text")]
        payload: Vec<u8>,
        /// Signature of the payload, decoded from base64.
        #[serde(with = "base64_text")]
        signature: Vec<u8>,
        /// PEM of the signer's certificate, for keyless signatures.
        certificate: Option<String>,
        /// PEM of the issuing certificates above it.
        chain: Option<String>,
        /// The transparency log's entry, in JSON (`dev.sigstore.cosign/bundle`).
        #[serde(default, with = "base64_text::option")]
        log_entry: Option<Vec<u8>>,
        /// The time stamp, in JSON (`dev.sigstore.cosign/rfc3161timestamp`).
        #[serde(default, with = "base64_text::option")]
        time_stamp: Option<Vec<u8>>,
    },
}

/// Bytes as base64 in JSON.
mod base64_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        STANDARD.encode(bytes).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map_err(D::Error::custom)
    }

    pub(super) mod option {
        use super::*;

        pub(in super::super) fn serialize<S: Serializer>(
            bytes: &Option<Vec<u8>>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            let text = bytes.as_ref().map(|bytes| STANDARD.encode(bytes));
            text.serialize(serializer)
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Vec<u8>>, D::Error> {
            let text = Option::<String>::deserialize(deserializer)?;
            let bytes = text.map(|text| STANDARD.decode(text)).transpose();
            bytes.map_err(D::Error::custom)
        }
    }
}
