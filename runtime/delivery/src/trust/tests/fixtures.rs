//! Test fixtures: an authority for identities, a transparency log, a time stamp authority, and artifacts that they
//! sign. All keys are generated anew in each run.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ccm_host::Digest;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType, SigningKey as _,
    date_time_ymd,
};
use serde_json::{Value, json};

use super::super::{Identity, Keyless, PublicKey, Roots, TrustPolicy};
use crate::artifact::{Artifact, SignatureEvidence};

pub(super) mod sign;
mod stamp;

pub(super) const SIGNER: &str =
    "https://forge.example/acme/provider/.github/workflows/release.yml@refs/tags/v1.2.3";
pub(super) const ISSUER: &str = "https://token.forge.example";
/// Noon of the day on which the signers' certificates are valid.
pub(super) const SIGNED_AT: i64 = 1_709_294_400;
/// The same time in the format of time stamps.
pub(super) const NOON: &str = "20240301120000Z";
pub(super) const MANIFEST: &str =
    "sha256:9f64a747e1b97f131fabb6b447296c9b6f0201e79fb3c5356e6c77e89b6a806a";

pub(super) fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_760_000_000)
}

pub(super) fn artifact(wasm: &[u8], evidence: Vec<SignatureEvidence>) -> Artifact {
    Artifact {
        manifest_digest: Some(MANIFEST.to_owned()),
        evidence,
        ..Artifact::new("oci://registry.example/provider", wasm.to_vec())
    }
}

pub(super) const WASM: &[u8] = b"\0asm\x0d\0\x01\0 a module of the tests";

/// A signing key, with its public key for a policy.
pub(super) fn key() -> (KeyPair, PublicKey) {
    let key = KeyPair::generate().unwrap();
    let public = public(&key);
    (key, public)
}

pub(super) fn public(key: &KeyPair) -> PublicKey {
    PublicKey::from_pem(&key.public_key_pem()).unwrap()
}

pub(super) fn trusting(key: &PublicKey) -> TrustPolicy {
    TrustPolicy {
        keys: vec![key.clone()],
        ..TrustPolicy::default()
    }
}

/// Trusts the usual signer by these roots.
pub(super) fn trusting_signer(roots: Arc<Roots>) -> TrustPolicy {
    TrustPolicy {
        keyless: vec![Keyless::new(Identity::exact(SIGNER), ISSUER, roots)],
        ..TrustPolicy::default()
    }
}

/// All trusted authorities and logs.
pub(super) struct World {
    authority: CertifiedIssuer<'static, KeyPair>,
    log: KeyPair,
    stamper: stamp::Stamper,
}

impl World {
    pub(super) fn new() -> World {
        World {
            authority: authority("identities"),
            log: KeyPair::generate().unwrap(),
            stamper: stamp::Stamper::new(),
        }
    }

    /// The roots that an operator would configure for it.
    pub(super) fn roots(&self, has_log: bool, has_stamps: bool) -> Arc<Roots> {
        let log = if has_log {
            self.log.public_key_pem()
        } else {
            String::new()
        };
        let stamps = if has_stamps {
            self.stamper.chain()
        } else {
            String::new()
        };
        Arc::new(Roots::from_pem(&self.authority.as_ref().pem(), &log, &stamps).unwrap())
    }

    /// The roots in Sigstore's own form, of which the same log is also one of certificates.
    pub(super) fn roots_with_certificate_log(&self) -> Arc<Roots> {
        let key = stamp::der_of(&self.log.public_key_pem());
        let log = json!({
            "baseUrl": "",
            "hashAlgorithm": "SHA2_256",
            "publicKey": {
                "rawBytes": STANDARD.encode(&key),
                "keyDetails": "PKIX_ECDSA_P256_SHA_256",
            },
            "logId": {"keyId": STANDARD.encode(Digest::of(&key).as_bytes())},
        });
        let certificate = stamp::der_of(&self.authority.as_ref().pem());
        let chain = json!({"certificates": [{"rawBytes": STANDARD.encode(certificate)}]});
        let root = json!({
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log],
            "ctlogs": [log],
            "certificateAuthorities": [{"uri": "", "certChain": chain}],
        });
        Arc::new(Roots::from_trusted_root(&root.to_string()).unwrap())
    }

    pub(super) fn policy(&self, has_log: bool, has_stamps: bool) -> TrustPolicy {
        trusting_signer(self.roots(has_log, has_stamps))
    }

    /// A certificate valid for some hours.
    pub(super) fn signer(&self, wanted: &Wanted) -> Signer {
        let pair = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.not_before = date_time_ymd(2024, 3, wanted.day);
        params.not_after = date_time_ymd(2024, 3, wanted.day + 1);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![wanted.usage.clone()];
        params.subject_alt_names = vec![SanType::URI(wanted.identity.try_into().unwrap())];
        let issuer = stamp::tlv(0x0c, &[wanted.issuer.as_bytes()]);
        params.custom_extensions = vec![CustomExtension::from_oid_content(
            &[1, 3, 6, 1, 4, 1, 57264, 1, 8],
            issuer,
        )];
        let certificate = params.signed_by(&pair, &self.authority).unwrap();
        Signer {
            certificate: certificate.der().to_vec(),
            pem: certificate.pem(),
            key: pair,
        }
    }

    /// The log's entry about `signature` over `message`, as its server would return it: with a promise and a proof.
    pub(super) fn entry(&self, message: &[u8], signature: &[u8], signer: &Signer) -> Value {
        let body = json!({
            "apiVersion": "0.0.1",
            "kind": "hashedrekord",
            "spec": {
                "data": {"hash": {"algorithm": "sha256", "value": Digest::of(message).hex()}},
                "signature": {
                    "content": STANDARD.encode(signature),
                    "publicKey": {"content": STANDARD.encode(&signer.pem)},
                },
            },
        });
        self.logged("hashedrekord", &body, SIGNED_AT)
    }

    /// The log's entry about an envelope.
    pub(super) fn envelope_entry(
        &self,
        payload: &[u8],
        signature: &[u8],
        signer: &Signer,
    ) -> Value {
        let body = json!({
            "apiVersion": "0.0.1",
            "kind": "dsse",
            "spec": {
                "envelopeHash": {"algorithm": "sha256", "value": Digest::of(b"not looked at").hex()},
                "payloadHash": {"algorithm": "sha256", "value": Digest::of(payload).hex()},
                "signatures": [{
                    "signature": STANDARD.encode(signature),
                    "verifier": STANDARD.encode(&signer.pem),
                }],
            },
        });
        self.logged("dsse", &body, SIGNED_AT)
    }

    pub(super) fn logged(&self, kind: &str, body: &Value, time: i64) -> Value {
        let body = body.to_string().into_bytes();
        let name = Digest::of(&stamp::der_of(&self.log.public_key_pem()));
        let promised = format!(
            r#"{{"body":"{}","integratedTime":{time},"logID":"{}","logIndex":7}}"#,
            STANDARD.encode(&body),
            name.hex(),
        );
        // A tree with two leaves: an unrelated one, and this one.
        let stranger = *Digest::of(b"\0stranger").as_bytes();
        let leaf = *Digest::of(&[b"\0".as_slice(), &body].concat()).as_bytes();
        let root = Digest::of(&[b"\x01".as_slice(), &stranger, &leaf].concat());
        let head = format!("log.example\n2\n{}\n", STANDARD.encode(root.as_bytes()));
        let sealed = [
            &name.as_bytes()[..4],
            &self.log.sign(head.as_bytes()).unwrap(),
        ]
        .concat();
        json!({
            "logIndex": "7",
            "logId": {"keyId": STANDARD.encode(name.as_bytes())},
            "kindVersion": {"kind": kind, "version": "0.0.1"},
            "integratedTime": time.to_string(),
            "inclusionPromise": {
                "signedEntryTimestamp": STANDARD.encode(self.log.sign(promised.as_bytes()).unwrap()),
            },
            "inclusionProof": {
                "logIndex": "1",
                "rootHash": STANDARD.encode(root.as_bytes()),
                "treeSize": "2",
                "hashes": [STANDARD.encode(stranger)],
                "checkpoint": {
                    "envelope": format!("{head}\n— log.example {}\n", STANDARD.encode(sealed)),
                },
            },
            "canonicalizedBody": STANDARD.encode(&body),
        })
    }

    /// A time stamp over `signature`.
    pub(super) fn stamp(&self, signature: &[u8], time: &str) -> Value {
        json!({"signedTimestamp": STANDARD.encode(self.stamper.stamp(signature, time))})
    }

    /// A complete keyless signature over a module's bytes, with the log's entry.
    pub(super) fn bundle(&self, wasm: &[u8], signer: &Signer) -> Value {
        let signature = signer.key.sign(wasm).unwrap();
        let entry = self.entry(wasm, &signature, signer);
        signer.bundle(wasm, &signature, &json!([entry]), &json!([]))
    }
}

/// Content of a certificate.
pub(super) struct Wanted {
    pub(super) identity: &'static str,
    pub(super) issuer: &'static str,
    /// Day of March 2024.
    pub(super) day: u8,
    pub(super) usage: ExtendedKeyUsagePurpose,
}

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted {
            identity: SIGNER,
            issuer: ISSUER,
            day: 1,
            usage: ExtendedKeyUsagePurpose::CodeSigning,
        }
    }
}

pub(super) struct Signer {
    pub(super) certificate: Vec<u8>,
    pub(super) pem: String,
    pub(super) key: KeyPair,
}

impl Signer {
    pub(super) fn bundle(
        &self,
        wasm: &[u8],
        signature: &[u8],
        entries: &Value,
        stamps: &Value,
    ) -> Value {
        json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": STANDARD.encode(&self.certificate)},
                "tlogEntries": entries,
                "timestampVerificationData": {"rfc3161Timestamps": stamps},
            },
            "messageSignature": {
                "messageDigest": {
                    "algorithm": "SHA2_256",
                    "digest": STANDARD.encode(Digest::of(wasm).as_bytes()),
                },
                "signature": STANDARD.encode(signature),
            },
        })
    }
}

/// `bundle` with another value at `path`.
pub(super) fn with(bundle: &Value, path: &str, value: Value) -> Value {
    let mut changed = bundle.clone();
    *changed.pointer_mut(path).unwrap() = value;
    changed
}

pub(super) fn evidence(bundle: &Value) -> SignatureEvidence {
    SignatureEvidence::Bundle(bundle.to_string().into_bytes())
}

/// cosign's older payload about a manifest.
pub(super) fn payload(manifest: &str) -> Vec<u8> {
    json!({
        "critical": {
            "identity": {"docker-reference": ""},
            "image": {"docker-manifest-digest": manifest},
            "type": "cosign container image signature",
        },
        "optional": null,
    })
    .to_string()
    .into_bytes()
}

pub(super) fn simple_signing(payload: Vec<u8>, signature: Vec<u8>) -> SignatureEvidence {
    SignatureEvidence::SimpleSigning {
        payload,
        signature,
        certificate: None,
        chain: None,
        log_entry: None,
        time_stamp: None,
    }
}

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.not_before = date_time_ymd(2023, 1, 1);
    params.not_after = date_time_ymd(2033, 1, 1);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}
