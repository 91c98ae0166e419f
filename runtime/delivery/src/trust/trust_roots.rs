//! Trusted roots for identities and times: certificate authorities, transparency logs, time stamp authorities.
//! Configured by the operator, never fetched.

use std::fmt;

use ccm_host::clean;
use serde_json::{Value, json};
use sigstore_verify::crypto::{KeyAlgorithm, sha256};
use sigstore_verify::trust_root::TrustedRoot;
use sigstore_verify::types::bundle::TransparencyLogEntry;
use sigstore_verify::types::{DerCertificate, DerPublicKey, KindVersion, LogKeyId};
use sigstore_verify::{
    CertificateError, Error as Sigstore, TransparencyLogError, VerificationPolicy,
    VerificationResult, Verifier,
};

use super::evidence::Claim;
use super::{EvidenceRefusal, Misread, crypto_provider};

/// Longest text of one part, in bytes. Sigstore's own root has 7 KiB.
const TEXT_BYTES: usize = 256 << 10;

/// The trusted roots, and whether a log entry is required.
pub struct Roots {
    verifier: Verifier,
    /// Whether a log entry is required: set if the operator configured a log.
    has_logs: bool,
    /// Whether the certificates must be in a certificate log: set if one is configured.
    has_certificate_logs: bool,
    /// Canonical text of the trusted root, for comparison.
    json: String,
}

impl PartialEq for Roots {
    fn eq(&self, other: &Roots) -> bool {
        self.json == other.json
    }
}

impl Eq for Roots {}

/// The signer according to the certificate, and the signing time.
pub(super) struct SignedBy {
    pub(super) identity: String,
    pub(super) issuer: String,
    pub(super) at: jiff::Timestamp,
}

impl Roots {
    /// Parses PEM texts: the certificates of the authorities for identities, the public keys of transparency logs, and
    /// the certificates of one time stamp authority (signer first, root last). One of the latter two may be empty.
    ///
    /// # Errors
    /// What is missing or cannot be parsed.
    pub fn from_pem(authorities: &str, logs: &str, time_stamps: &str) -> Result<Roots, Misread> {
        let authorities = blocks(authorities, "CERTIFICATE", "authorities' certificates")?;
        let logs = blocks(logs, "PUBLIC KEY", "logs' keys")?;
        let time_stamps = blocks(time_stamps, "CERTIFICATE", "time stamps' certificates")?;
        if authorities.is_empty() {
            return Err(Misread::new(
                "at least one authority's certificate is wanted",
            ));
        }
        if logs.is_empty() && time_stamps.is_empty() {
            return Err(Misread::new(
                "a certificate for signing is valid for minutes: the key of a transparency log or the certificate of \
                 a time stamps' authority is needed to know that a signature was made in them",
            ));
        }
        crypto_provider::install();
        let logs: Vec<Value> = logs.iter().map(|key| log(key)).collect::<Result<_, _>>()?;
        let stampers: Vec<Value> = match time_stamps.as_slice() {
            [] => Vec::new(),
            certificates => vec![json!({"certChain": chain(certificates)})],
        };
        let root = json!({
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": logs,
            "certificateAuthorities": [{"uri": "", "certChain": chain(&authorities)}],
            "timestampAuthorities": stampers,
        });
        Self::from_trusted_root(&root.to_string())
    }

    /// Parses Sigstore's own form, `trusted_root.json`, as written by `cosign trusted-root create`.
    ///
    /// # Errors
    /// What is missing or cannot be parsed.
    pub fn from_trusted_root(json: &str) -> Result<Roots, Misread> {
        crypto_provider::install();
        if json.len() > TEXT_BYTES {
            return Err(Misread::new("the trusted root is too long"));
        }
        let root = TrustedRoot::from_json(json)
            .map_err(|why| Misread::new(format!("the trusted root cannot be read: {why}")))?;
        if root.certificate_authorities.is_empty() {
            return Err(Misread::new(
                "the trusted root names no certificate authority",
            ));
        }
        if root.tlogs.is_empty() && root.timestamp_authorities.is_empty() {
            return Err(Misread::new(
                "the trusted root names neither a log nor a time stamps' authority",
            ));
        }
        let verifier = Verifier::new(&root)
            .map_err(|why| Misread::new(format!("the trusted root cannot be used: {why}")))?;
        Ok(Roots {
            verifier,
            has_logs: !root.tlogs.is_empty(),
            has_certificate_logs: !root.ctlogs.is_empty(),
            json: serde_json::to_string(&root)
                .map_err(|why| Misread::new(format!("the trusted root cannot be used: {why}")))?,
        })
    }

    /// Verifies everything except the identity and the issuer.
    pub(super) fn verify(&self, claim: &Claim) -> Result<SignedBy, EvidenceRefusal> {
        let entries = &claim.bundle().verification_material.tlog_entries;
        if self.has_logs && entries.is_empty() {
            return Err(EvidenceRefusal::Log("it has no entry of a log".to_owned()));
        }
        let mut policy = VerificationPolicy::any_identity();
        if !self.has_certificate_logs {
            policy = policy.skip_sct();
        }
        // Older forms have only a promise signed by the log, which replaces a missing proof. In either case the library
        // verifies each promise and that its entry is about this signature.
        let is_promised = |entry: &TransparencyLogEntry| {
            // Second-generation logs make no promises, so nothing verifies one there.
            entry.kind_version != KindVersion::HashedRekordV002
                && entry.inclusion_promise.is_some()
                && entry.integrated_time.is_some()
        };
        let has_proofs = entries.iter().all(|entry| entry.inclusion_proof.is_some());
        if !self.has_logs || (!has_proofs && entries.iter().all(is_promised)) {
            policy = policy.skip_tlog_unsafe();
        }
        let verify = |policy: &VerificationPolicy| {
            crypto_provider::with_message(claim.message().clone(), || {
                self.verifier.verify(claim.signed(), claim.bundle(), policy)
            })
        };
        let result = verify(&policy).map_err(|error| match error {
            // The library reports an expired certificate only as an invalid chain.
            Sigstore::Certificate(CertificateError::ChainInvalid(_)) => {
                match verify(&policy.clone().skip_certificate_chain()) {
                    Ok(unchained) => expired(&unchained),
                    // The authentic signing time was checked before: the certificate is not valid at that time.
                    Err(Sigstore::TransparencyLog(TransparencyLogError::IntegratedTime(why))) => {
                        Some(EvidenceRefusal::Expired(clean(&why, 200)))
                    }
                    Err(_) => None,
                }
                .unwrap_or_else(|| EvidenceRefusal::from(error))
            }
            other => EvidenceRefusal::from(other),
        })?;
        let identity = result
            .identity()
            .map(|identity| identity.as_str().to_owned());
        let issuer = result.issuer().map(str::to_owned);
        match (identity, issuer, result.verified_timestamps().iter().max()) {
            (Some(identity), Some(issuer), Some(at)) => Ok(SignedBy {
                identity,
                issuer,
                at: *at,
            }),
            (None, ..) => Err(EvidenceRefusal::unreadable(
                "its certificate names no identity",
            )),
            (_, None, _) => Err(EvidenceRefusal::unreadable(
                "its certificate names no issuer",
            )),
            (.., None) => Err(EvidenceRefusal::NoSigningTime),
        }
    }
}

/// Refusal of a certificate that was not valid at one of the signing times; `None` if it was.
fn expired(unchained: &VerificationResult) -> Option<EvidenceRefusal> {
    let certificate = unchained.certificate()?;
    let valid = certificate.not_before..=certificate.not_after;
    let mut times = unchained.verified_timestamps().iter();
    let at = times.find(|at| !valid.contains(at))?;
    Some(EvidenceRefusal::Expired(format!(
        "it was made at {at}, and the certificate is for {} to {}",
        certificate.not_before, certificate.not_after
    )))
}

/// Omits certificates and keys: they are public, but useless in a log line.
impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Roots")
            .field("has_logs", &self.has_logs)
            .finish_non_exhaustive()
    }
}

/// The contents of all blocks of a PEM text, which must be of one kind.
fn blocks(text: &str, kind: &str, what: &str) -> Result<Vec<Vec<u8>>, Misread> {
    if text.len() > TEXT_BYTES {
        return Err(Misread::new(format!("{what}: the text is too long")));
    }
    let blocks =
        pem::parse_many(text).map_err(|_| Misread::new(format!("{what}: this is not PEM")))?;
    if blocks.is_empty() && !text.trim().is_empty() {
        return Err(Misread::new(format!("{what}: this is not PEM")));
    }
    if blocks.iter().any(|block| block.tag() != kind) {
        return Err(Misread::new(format!(
            "{what}: only blocks of the kind {kind} are wanted"
        )));
    }
    Ok(blocks.into_iter().map(pem::Pem::into_contents).collect())
}

/// A log's key, identified by the digest of its DER form.
fn log(der: &[u8]) -> Result<Value, Misread> {
    let key = DerPublicKey::new(der.to_vec());
    let details = match KeyAlgorithm::from_spki(&key) {
        Ok(KeyAlgorithm::EcdsaP256) => "PKIX_ECDSA_P256_SHA_256",
        Ok(KeyAlgorithm::EcdsaP384) => "PKIX_ECDSA_P384_SHA_384",
        Ok(KeyAlgorithm::Ed25519) => "PKIX_ED25519",
        _ => {
            return Err(Misread::new(
                "logs' keys: ECDSA on P-256 or P-384 and Ed25519 are supported",
            ));
        }
    };
    let name = LogKeyId::new(sha256(der).as_bytes().to_vec());
    Ok(json!({
        "baseUrl": "",
        "hashAlgorithm": "SHA2_256",
        "publicKey": {"rawBytes": key.to_base64(), "keyDetails": details},
        "logId": {"keyId": name.to_base64()},
    }))
}

fn chain(certificates: &[Vec<u8>]) -> Value {
    let entries: Vec<Value> = certificates
        .iter()
        .map(|der| json!({"rawBytes": DerCertificate::new(der.clone()).to_base64()}))
        .collect();
    json!({"certificates": entries})
}
