//! Signatures of a key in cosign's two forms: over a module's bytes, and over a statement about a manifest.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, SigningKey as _};
use serde_json::{Value, json};
use sigstore_verify::types::pae;

/// Predicate type of cosign's statements.
pub(in crate::trust) const SIGN: &str = "https://sigstore.dev/cosign/sign/v1";
pub(in crate::trust) const IN_TOTO: &str = "application/vnd.in-toto+json";

/// The bundle of a file, as written by `cosign sign-blob --bundle`.
pub(in crate::trust) fn file(key: &KeyPair, wasm: &[u8]) -> Value {
    let (name, algorithm) = if key.algorithm() == &rcgen::PKCS_ECDSA_P384_SHA384 {
        ("SHA2_384", &ring::digest::SHA384)
    } else {
        ("SHA2_256", &ring::digest::SHA256)
    };
    let digest = ring::digest::digest(algorithm, wasm);
    bundle(
        "messageSignature",
        &json!({
            "messageDigest": {"algorithm": name, "digest": STANDARD.encode(digest)},
            "signature": STANDARD.encode(key.sign(wasm).unwrap()),
        }),
    )
}

/// The bundle that `cosign sign` attaches to the manifest with this digest (`sha256:…`).
pub(in crate::trust) fn attached(key: &KeyPair, manifest: &str) -> Value {
    let digest = manifest.strip_prefix("sha256:").unwrap();
    envelope(key, IN_TOTO, &statement(SIGN, &[digest]))
}

/// An envelope over `statement`, in a bundle without log and time stamp.
pub(in crate::trust) fn envelope(key: &KeyPair, kind: &str, statement: &Value) -> Value {
    let statement = statement.to_string();
    let signature = key.sign(&pae(kind, statement.as_bytes())).unwrap();
    bundle(
        "dsseEnvelope",
        &json!({
            "payload": STANDARD.encode(&statement),
            "payloadType": kind,
            "signatures": [{"sig": STANDARD.encode(signature)}],
        }),
    )
}

/// A statement about subjects with these digests, in hexadecimal.
pub(in crate::trust) fn statement(kind: &str, digests: &[&str]) -> Value {
    let subjects: Vec<Value> = digests
        .iter()
        .map(|digest| json!({"digest": {"sha256": digest}}))
        .collect();
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": kind,
        "predicate": {},
    })
}

fn bundle(kind: &str, content: &Value) -> Value {
    json!({
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": "anything"}},
        kind: content,
    })
}
