use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sigstore_verify::types::pae;

use super::super::sample::{
    MANIFEST, WASM, Wanted, World, artifact, evidence, key, payload, simple_signing, trusting,
};
use super::super::{PublicKey, TrustPolicy};
use super::reason;
use crate::artifact::{Artifact, Evidence};
use crate::sign::{self, SigningKey};

/// An envelope over `statement`, in a bundle without log and time stamp.
fn envelope(key: &SigningKey, kind: &str, statement: &Value) -> Evidence {
    let statement = statement.to_string();
    let signature = key.sign(&pae(kind, statement.as_bytes())).unwrap();
    evidence(&json!({
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": "anything"}},
        "dsseEnvelope": {
            "payload": STANDARD.encode(&statement),
            "payloadType": kind,
            "signatures": [{"sig": STANDARD.encode(signature)}],
        },
    }))
}

fn statement(kind: &str, digests: &[&str]) -> Value {
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

const SIGN: &str = "https://sigstore.dev/cosign/sign/v1";
const IN_TOTO: &str = "application/vnd.in-toto+json";

#[test]
fn b5_a13_signatures_of_a_key_hold_for_what_they_are_about_and_nothing_else() {
    let (signing, public) = key();
    let (stranger, _) = key();
    let manifest = MANIFEST.strip_prefix("sha256:").unwrap();
    let module = artifact(WASM, Vec::new()).digest.hex();
    let other = "ab".repeat(32);
    let simple = |key: &SigningKey, about: &str| {
        let payload = payload(about);
        let signature = key.sign(&payload).unwrap();
        simple_signing(payload, signature)
    };
    let renamed = |payload: Vec<u8>| {
        let text = String::from_utf8(payload)
            .unwrap()
            .replace("container image", "apology for an");
        let signature = signing.sign(text.as_bytes()).unwrap();
        simple_signing(text.into_bytes(), signature)
    };
    let attached = |key: &SigningKey, digest: &str| {
        Evidence::Bundle(sign::manifest(key, digest).unwrap().layer)
    };
    let file = |key: &SigningKey, wasm: &[u8]| Evidence::Bundle(sign::file(key, wasm).unwrap());
    let without_digest = {
        let mut bundle: Value =
            serde_json::from_slice(&sign::file(&signing, WASM).unwrap()).unwrap();
        bundle["messageSignature"]
            .as_object_mut()
            .unwrap()
            .remove("messageDigest");
        bundle
    };
    let replayed = {
        let mut bundle: Value =
            serde_json::from_slice(&sign::file(&signing, b"an older one").unwrap()).unwrap();
        bundle["messageSignature"]["messageDigest"] = serde_json::from_slice::<Value>(
            &sign::file(&signing, WASM).unwrap(),
        )
        .unwrap()["messageSignature"]["messageDigest"]
            .clone();
        bundle
    };
    let table = [
        ("over the bytes", file(&signing, WASM), "trusted"),
        (
            "over the bytes, without their digest",
            evidence(&without_digest),
            "trusted",
        ),
        (
            "over the bytes, by a stranger",
            file(&stranger, WASM),
            "wrong-key",
        ),
        (
            "over other bytes",
            file(&signing, b"an older one"),
            "other-artifact",
        ),
        (
            "over other bytes, said to be over these",
            evidence(&replayed),
            "wrong-key",
        ),
        (
            "attached to the manifest",
            attached(&signing, MANIFEST),
            "trusted",
        ),
        (
            "attached to the manifest, by a stranger",
            attached(&stranger, MANIFEST),
            "wrong-key",
        ),
        (
            "attached to another manifest",
            attached(&signing, &format!("sha256:{other}")),
            "other-artifact",
        ),
        ("older form", simple(&signing, MANIFEST), "trusted"),
        (
            "older form, by a stranger",
            simple(&stranger, MANIFEST),
            "wrong-key",
        ),
        (
            "older form, about another manifest",
            simple(&signing, &format!("sha256:{other}")),
            "other-artifact",
        ),
        (
            "older form, about the module",
            simple(&signing, &format!("sha256:{module}")),
            "other-artifact",
        ),
        (
            "older form, of another kind",
            renamed(payload(MANIFEST)),
            "other-statement",
        ),
        (
            "statement about the module",
            envelope(&signing, IN_TOTO, &statement(SIGN, &[&module])),
            "trusted",
        ),
        (
            "statement about several",
            envelope(&signing, IN_TOTO, &statement(SIGN, &[&other, manifest])),
            "trusted",
        ),
        (
            "statement about nothing",
            envelope(&signing, IN_TOTO, &statement(SIGN, &[])),
            "other-artifact",
        ),
        (
            "statement that a hole was found",
            envelope(
                &signing,
                IN_TOTO,
                &statement(
                    "https://cosign.sigstore.dev/attestation/vuln/v1",
                    &[manifest],
                ),
            ),
            "other-statement",
        ),
        (
            "envelope of another kind",
            envelope(&signing, "text/plain", &statement(SIGN, &[manifest])),
            "other-statement",
        ),
        (
            "no JSON",
            Evidence::Bundle(b"\xff\xfe".to_vec()),
            "unreadable",
        ),
        (
            "deep JSON",
            Evidence::Bundle(vec![b'['; 100_000]),
            "unreadable",
        ),
        ("empty", Evidence::Bundle(Vec::new()), "unreadable"),
        (
            "empty signature",
            simple_signing(payload(MANIFEST), Vec::new()),
            "wrong-key",
        ),
    ];
    for (name, evidence, expected) in table {
        assert_eq!(
            reason(&trusting(&public), &artifact(WASM, vec![evidence])),
            expected,
            "{name}"
        );
    }
}

#[test]
fn without_a_manifest_only_signatures_over_the_module_hold() {
    let (signing, public) = key();
    let of_file = |evidence| Artifact {
        manifest_digest: None,
        ..artifact(WASM, vec![evidence])
    };
    let attached = Evidence::Bundle(sign::manifest(&signing, MANIFEST).unwrap().layer);
    let file = Evidence::Bundle(sign::file(&signing, WASM).unwrap());
    let payload = payload(MANIFEST);
    let signature = signing.sign(&payload).unwrap();
    assert_eq!(reason(&trusting(&public), &of_file(file)), "trusted");
    assert_eq!(
        reason(&trusting(&public), &of_file(attached)),
        "other-artifact"
    );
    assert_eq!(
        reason(
            &trusting(&public),
            &of_file(simple_signing(payload, signature))
        ),
        "other-artifact"
    );
}

#[test]
fn keys_and_identities_are_told_apart() {
    let world = World::new();
    let (signing, public) = key();
    let by_key = artifact(
        WASM,
        vec![Evidence::Bundle(sign::file(&signing, WASM).unwrap())],
    );
    let by_identity = artifact(
        WASM,
        vec![evidence(
            &world.bundle(WASM, &world.signer(&Wanted::default())),
        )],
    );
    let keyless = world.policy(true, false);
    let both = TrustPolicy {
        keys: vec![public.clone()],
        ..keyless.clone()
    };
    let table = [
        ("key, keys wanted", trusting(&public), &by_key, "trusted"),
        (
            "key, identities wanted",
            keyless.clone(),
            &by_key,
            "key-not-expected",
        ),
        (
            "identity, identities wanted",
            keyless,
            &by_identity,
            "trusted",
        ),
        (
            "identity, keys wanted",
            trusting(&public),
            &by_identity,
            "certificate-not-expected",
        ),
        ("key, both wanted", both.clone(), &by_key, "trusted"),
        ("identity, both wanted", both, &by_identity, "trusted"),
    ];
    for (name, policy, artifact, expected) in table {
        assert_eq!(reason(&policy, artifact), expected, "{name}");
    }
}

#[test]
fn any_of_several_keys_is_enough_and_all_kinds_of_keys_work() {
    let kinds = [
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ED25519,
    ];
    let keys: Vec<SigningKey> = kinds
        .iter()
        .map(|kind| rcgen::KeyPair::generate_for(kind).unwrap().serialize_pem())
        .map(|pem| SigningKey::from_pem(&pem, None).unwrap())
        .collect();
    let policy = TrustPolicy {
        keys: keys.iter().map(|key| key.public_key().unwrap()).collect(),
        ..TrustPolicy::default()
    };
    for key in &keys {
        for evidence in [
            Evidence::Bundle(sign::file(key, WASM).unwrap()),
            Evidence::Bundle(sign::manifest(key, MANIFEST).unwrap().layer),
        ] {
            let vouched = policy.verify(&artifact(WASM, vec![evidence]), "1.0.0", super::now());
            assert_eq!(
                vouched.unwrap().to_string(),
                format!("signed with the key {}", key.fingerprint())
            );
        }
    }
}

#[test]
fn texts_that_are_no_public_key_are_refused_in_words() {
    let pair = rcgen::KeyPair::generate().unwrap();
    let curve = "-----BEGIN PUBLIC KEY-----\nMFYwEAYHKoZIzj0CAQYFK4EEAAoDQgAEs6zhaz1vkLBK5/cI2YX42ZsJ50c7Zmok\nsVMZAcqVvGPqEdAMqVTGh5m6mkBErNd7EL45mr9TaBMmrZ0IwVMd7g==\n-----END PUBLIC KEY-----\n";
    let table = [
        (String::new(), "a public key is wanted in PEM"),
        ("cosign.pub".to_owned(), "a public key is wanted in PEM"),
        (pair.serialize_pem(), "this is a private key"),
        (
            pair.public_key_pem() + &pair.public_key_pem(),
            "more than one key",
        ),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(),
            "this is a certificate",
        ),
        (
            "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n".to_owned(),
            "the key cannot be used",
        ),
        (curve.to_owned(), "the key cannot be used"),
        ("x".repeat(20_000), "too long"),
    ];
    for (text, expected) in table {
        let told = PublicKey::from_pem(&text)
            .err()
            .map(|why| why.to_string())
            .unwrap_or_default();
        assert!(
            told.contains(expected),
            "{told:?} should contain {expected:?}"
        );
        // Nothing of what could be a secret is repeated.
        if let Some(secret) = text.lines().nth(1) {
            assert!(!told.contains(secret), "{told}");
        }
    }
}
