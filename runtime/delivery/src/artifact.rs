//! A module as it was brought, with what speaks for it. Untrusted until `trust` has looked at it.

use std::sync::Arc;

use ccm_host::Digest;

/// The bytes of a module and what came with them.
#[derive(Clone)]
pub struct Artifact {
    /// The component, uncompressed. At most [`MODULE_BYTES`].
    pub wasm: Arc<[u8]>,
    /// The SHA-256 of `wasm`.
    pub digest: Digest,
    /// Where exactly these bytes can be had again; for messages, too.
    pub origin: String,
    /// `sha256:<hex>` of the manifest of the OCI artifact that carried it. What registries' signatures are about.
    pub manifest_digest: Option<String>,
    /// Whether the operator named these very bytes by a digest in the place they were brought from.
    pub is_pinned: bool,
    /// What claims to vouch for it.
    pub evidence: Vec<Evidence>,
}

/// Largest module, in bytes, whatever it comes from. The pre-scan's own limit is the same.
pub const MODULE_BYTES: usize = 32 << 20;
/// Largest piece of evidence, in bytes, and how many are looked at.
pub const EVIDENCE_BYTES: usize = 256 << 10;
/// See [`EVIDENCE_BYTES`].
pub const MOST_EVIDENCE: usize = 16;

/// A signature in one of the forms that are in use. About the module's digest or its OCI manifest's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// A Sigstore bundle in JSON (`application/vnd.dev.sigstore.bundle.v0.3+json`): over the module's bytes, or over a
    /// statement about the manifest's digest.
    Bundle(Vec<u8>),
    /// cosign's older form, from the tag `sha256-<hex>.sig`.
    SimpleSigning {
        /// The signed text: which manifest's digest it is about.
        payload: Vec<u8>,
        /// Of the payload; not in base64 any more.
        signature: Vec<u8>,
        /// PEM of the signer's certificate, for keyless signatures.
        certificate: Option<String>,
        /// PEM of those above it.
        chain: Option<String>,
        /// The transparency log's entry, in JSON (`dev.sigstore.cosign/bundle`).
        log_entry: Option<Vec<u8>>,
        /// The time stamp, in JSON (`dev.sigstore.cosign/rfc3161timestamp`).
        time_stamp: Option<Vec<u8>>,
    },
}
