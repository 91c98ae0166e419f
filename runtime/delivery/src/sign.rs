//! Signs what is published, in the forms that cosign reads: a bundle beside a file, and an attachment to a manifest in
//! a registry. Verifies nothing, and sends nothing anywhere.

mod key;
mod sealed;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sigstore_verify::types::pae;

use crate::trust::Misread;

pub use key::SigningKey;

/// What both forms are.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// What a signature of an artifact says that it is; also the name of the statement for other tools.
const STATEMENT: &str = "https://sigstore.dev/cosign/sign/v1";
const STATEMENT_TYPE: &str = "application/vnd.in-toto+json";

/// A signature for a registry: the one layer of a manifest whose `subject` is the manifest that was signed, and whose
/// configuration is the empty one of OCI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// `artifactType` of the manifest.
    pub artifact_type: &'static str,
    /// Of its layer.
    pub layer_media_type: &'static str,
    /// The layer.
    pub layer: Vec<u8>,
    /// Of the manifest.
    pub annotations: BTreeMap<String, String>,
}

/// The text of the file `<module>.sigstore.json`, which `cosign verify-blob --bundle` accepts.
///
/// # Errors
/// When the key cannot be used.
pub fn file(key: &SigningKey, wasm: &[u8]) -> Result<Vec<u8>, Misread> {
    let (algorithm, digest) = key.digest(wasm);
    bundle(
        key,
        "messageSignature",
        &json!({
            "messageDigest": {"algorithm": algorithm, "digest": STANDARD.encode(digest)},
            "signature": STANDARD.encode(key.sign(wasm)?),
        }),
    )
}

/// What is attached to the manifest with this digest (`sha256:…`), so that `cosign verify` accepts it.
///
/// # Errors
/// When the digest is none, or the key cannot be used.
pub fn manifest(key: &SigningKey, manifest_digest: &str) -> Result<Attachment, Misread> {
    crate::trust::Pin::parse(manifest_digest)?;
    let hex = manifest_digest.trim_start_matches("sha256:");
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"digest": {"sha256": hex}}],
        "predicateType": STATEMENT,
        "predicate": {},
    })
    .to_string();
    let signature = key.sign(&pae(STATEMENT_TYPE, statement.as_bytes()))?;
    let envelope = json!({
        "payload": STANDARD.encode(&statement),
        "payloadType": STATEMENT_TYPE,
        "signatures": [{"sig": STANDARD.encode(signature)}],
    });
    let annotations = [
        ("dev.sigstore.bundle.content", "dsse-envelope"),
        ("dev.sigstore.bundle.predicateType", STATEMENT),
    ];
    Ok(Attachment {
        artifact_type: BUNDLE,
        layer_media_type: BUNDLE,
        layer: bundle(key, "dsseEnvelope", &envelope)?,
        annotations: annotations
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    })
}

fn bundle(key: &SigningKey, kind: &str, content: &Value) -> Result<Vec<u8>, Misread> {
    let bundle = json!({
        "mediaType": BUNDLE,
        "verificationMaterial": {"publicKey": {"hint": key.hint()}},
        kind: content,
    });
    serde_json::to_vec(&bundle).map_err(|why| Misread::new(why.to_string()))
}

#[cfg(test)]
mod tests;
