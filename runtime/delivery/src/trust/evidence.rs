//! Parses evidence into claims: the artifact it refers to, the signed bytes and the signature. Verifies nothing except
//! that the claim refers to the given artifact.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ccm_host::clean;
use serde::Deserialize;
use serde_json::{Value, json};
use sigstore_verify::types::bundle::{MessageSignature, VerificationMaterialContent};
use sigstore_verify::types::{
    Artifact as Signed, Bundle, HashAlgorithm, MediaType, Sha256Hash, SignatureContent,
    VerificationMaterial,
};

use material::{certificates, entries, stamps};

use super::EvidenceRefusal;
use crate::artifact::{Artifact, SIGNATURE_STATEMENT, SignatureEvidence};

mod material;

/// Type of the payload in cosign's older signatures.
const SIGNATURE_PAYLOAD: &str = "cosign container image signature";
const STATEMENT_TYPE: &str = "application/vnd.in-toto+json";

/// Maximum number of log entries, time stamps and certificates in one bundle. One of each is usual.
const MOST_PARTS: usize = 8;

/// One signature, which refers to the artifact it was read for.
pub(super) struct Claim {
    bundle: Bundle,
    message: Bytes,
    /// Digest of a statement's subject; `None` if the message itself is signed.
    subject: Option<Sha256Hash>,
}

impl Claim {
    /// Parses one piece of evidence and checks that it refers to the artifact.
    pub(super) fn read(
        evidence: &SignatureEvidence,
        artifact: &Artifact,
    ) -> Result<Claim, EvidenceRefusal> {
        match evidence {
            SignatureEvidence::Bundle(json) => Self::from_bundle(json, artifact),
            SignatureEvidence::SimpleSigning {
                payload,
                signature,
                certificate,
                chain,
                log_entry,
                time_stamp,
            } => {
                check_payload(payload, artifact)?;
                let certificates = certificates(certificate.as_deref(), chain.as_deref())?;
                let material = VerificationMaterial::new(certificates)
                    .with_tlog_entries(entries(log_entry.as_deref())?)
                    .with_timestamp_verification_data(stamps(time_stamp.as_deref())?);
                // Version 0.2 allows both a chain and a missing inclusion proof, as in cosign's older form.
                let bundle = Bundle::new(
                    MediaType::Bundle0_2,
                    material,
                    SignatureContent::MessageSignature(MessageSignature::new(
                        signature.clone().into(),
                    )),
                );
                Ok(Claim {
                    bundle,
                    message: Bytes::copy_from_slice(payload),
                    subject: None,
                })
            }
        }
    }

    fn from_bundle(json: &[u8], artifact: &Artifact) -> Result<Claim, EvidenceRefusal> {
        let bundle = read_bundle(json)?;
        check_parts(&bundle)?;
        let (message, subject) = match &bundle.content {
            SignatureContent::MessageSignature(signed) => {
                let about = signed
                    .message_digest
                    .as_ref()
                    .filter(|about| about.algorithm == HashAlgorithm::Sha2256);
                if let Some(about) = about
                    && about.digest.as_bytes() != artifact.digest.as_bytes()
                {
                    return Err(other_artifact(&format!("sha256:{}", about.digest.to_hex())));
                }
                (artifact.wasm.clone(), None)
            }
            SignatureContent::DsseEnvelope(envelope) => {
                if envelope.payload_type != STATEMENT_TYPE {
                    return Err(other_statement(&envelope.payload_type));
                }
                let subject = check_statement(envelope.payload.as_bytes(), artifact)?;
                (envelope.pae().into(), Some(subject))
            }
            _ => {
                return Err(EvidenceRefusal::unreadable(
                    "it has no signature that we know",
                ));
            }
        };
        Ok(Claim {
            bundle,
            message,
            subject,
        })
    }

    /// The bytes that were signed.
    pub(super) fn message(&self) -> &Bytes {
        &self.message
    }

    /// The signature over them.
    pub(super) fn signature(&self) -> &[u8] {
        match &self.bundle.content {
            SignatureContent::MessageSignature(signed) => signed.signature.as_bytes(),
            SignatureContent::DsseEnvelope(envelope) => envelope.signature.sig.as_bytes(),
            _ => &[],
        }
    }

    /// Whether it contains a signer's certificate.
    pub(super) fn has_certificate(&self) -> bool {
        self.bundle.signing_certificate().is_some()
    }

    /// The bundle in the Sigstore library's form.
    pub(super) fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// The subject that the Sigstore library verifies.
    pub(super) fn signed(&self) -> Signed<'_> {
        match self.subject {
            Some(digest) => Signed::from_digest(digest),
            None => Signed::from_blob(&self.message),
        }
    }
}

/// For Ed25519, which signs the bytes themselves, cosign writes `{}` as their digest: treated as none.
fn read_bundle(json: &[u8]) -> Result<Bundle, EvidenceRefusal> {
    let mut bundle: Value = serde_json::from_slice(json).map_err(EvidenceRefusal::unreadable)?;
    if let Some(Value::Object(signed)) = bundle.get_mut("messageSignature")
        && signed.get("messageDigest") == Some(&json!({}))
    {
        signed.remove("messageDigest");
    }
    Bundle::from_json(&bundle.to_string()).map_err(EvidenceRefusal::unreadable)
}

fn check_parts(bundle: &Bundle) -> Result<(), EvidenceRefusal> {
    let material = &bundle.verification_material;
    let certificates = match &material.content {
        VerificationMaterialContent::X509CertificateChain { certificates } => certificates.len(),
        _ => 1,
    };
    let stamps = material
        .timestamp_verification_data
        .rfc3161_timestamps
        .len();
    if certificates.max(stamps).max(material.tlog_entries.len()) > MOST_PARTS {
        return Err(EvidenceRefusal::unreadable(
            "it has too many certificates, log entries or time stamps",
        ));
    }
    Ok(())
}

fn other_artifact(about: &str) -> EvidenceRefusal {
    EvidenceRefusal::OtherArtifact {
        about: clean(about, 100),
    }
}

fn other_statement(kind: &str) -> EvidenceRefusal {
    EvidenceRefusal::OtherStatement {
        kind: clean(kind, 100),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    predicate_type: String,
    #[serde(default)]
    subject: Vec<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    #[serde(default)]
    digest: SubjectDigest,
}

#[derive(Deserialize, Default)]
struct SubjectDigest {
    #[serde(default)]
    sha256: String,
}

/// Checks that a signature statement refers to the artifact's manifest or to the module itself.
fn check_statement(payload: &[u8], artifact: &Artifact) -> Result<Sha256Hash, EvidenceRefusal> {
    let statement: Statement =
        serde_json::from_slice(payload).map_err(EvidenceRefusal::unreadable)?;
    if statement.predicate_type != SIGNATURE_STATEMENT {
        return Err(other_statement(&statement.predicate_type));
    }
    let module = artifact.digest.hex();
    let manifest = artifact
        .manifest_digest
        .as_ref()
        .and_then(|digest| digest.strip_prefix("sha256:"));
    let mut subjects = statement
        .subject
        .iter()
        .map(|subject| subject.digest.sha256.as_str());
    match subjects.find(|subject| *subject == module || Some(*subject) == manifest) {
        Some(subject) => Sha256Hash::from_hex(subject).map_err(EvidenceRefusal::unreadable),
        None => Err(other_artifact(match statement.subject.first() {
            Some(first) => &first.digest.sha256,
            None => "nothing",
        })),
    }
}

#[derive(Deserialize)]
struct Payload {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    image: Image,
    r#type: String,
}

#[derive(Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

/// Checks that cosign's older payload refers to the artifact's manifest.
fn check_payload(payload: &[u8], artifact: &Artifact) -> Result<(), EvidenceRefusal> {
    let Payload { critical } =
        serde_json::from_slice(payload).map_err(EvidenceRefusal::unreadable)?;
    if critical.r#type != SIGNATURE_PAYLOAD {
        return Err(other_statement(&critical.r#type));
    }
    if artifact.manifest_digest.as_ref() != Some(&critical.image.digest) {
        return Err(other_artifact(&critical.image.digest));
    }
    Ok(())
}

/// Decodes base64 of the evidence.
fn decoded(text: &str) -> Result<Vec<u8>, EvidenceRefusal> {
    STANDARD.decode(text).map_err(EvidenceRefusal::unreadable)
}
