use rcgen::{KeyPair, SigningKey as _};
use serde_json::json;

use super::super::{PublicKey, TrustPolicy};
use super::fixtures::sign::{self, IN_TOTO, SIGN, statement};
use super::fixtures::{
    MANIFEST, WASM, Wanted, World, artifact, evidence, key, payload, public, simple_signing,
    trusting, with,
};
use super::reason;
use crate::artifact::{Artifact, SignatureEvidence};

fn envelope(key: &KeyPair, kind: &str, statement: &serde_json::Value) -> SignatureEvidence {
    evidence(&sign::envelope(key, kind, statement))
}

#[test]
fn a13_signatures_of_a_key_hold_for_what_they_are_about_and_nothing_else() {
    let (signing, public) = key();
    let (stranger, _) = key();
    let manifest = MANIFEST.strip_prefix("sha256:").unwrap();
    let module = artifact(WASM, Vec::new()).digest.hex();
    let other = "ab".repeat(32);
    let simple = |key: &KeyPair, about: &str| {
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
    let attached = |key: &KeyPair, digest: &str| evidence(&sign::attached(key, digest));
    let file = |key: &KeyPair, wasm: &[u8]| evidence(&sign::file(key, wasm));
    let without_digest = {
        let mut bundle = sign::file(&signing, WASM);
        bundle["messageSignature"]
            .as_object_mut()
            .unwrap()
            .remove("messageDigest");
        bundle
    };
    let with_empty_digest = |wasm: &[u8]| {
        let bundle = sign::file(&signing, wasm);
        evidence(&with(&bundle, "/messageSignature/messageDigest", json!({})))
    };
    let replayed = {
        let mut bundle = sign::file(&signing, b"an older one");
        bundle["messageSignature"]["messageDigest"] =
            sign::file(&signing, WASM)["messageSignature"]["messageDigest"].take();
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
            "over the bytes, with an empty digest",
            with_empty_digest(WASM),
            "trusted",
        ),
        (
            "over other bytes, with an empty digest",
            with_empty_digest(b"an older one"),
            "WrongKey",
        ),
        (
            "over the bytes, by a stranger",
            file(&stranger, WASM),
            "WrongKey",
        ),
        (
            "over other bytes",
            file(&signing, b"an older one"),
            "OtherArtifact",
        ),
        (
            "over other bytes, said to be over these",
            evidence(&replayed),
            "WrongKey",
        ),
        (
            "attached to the manifest",
            attached(&signing, MANIFEST),
            "trusted",
        ),
        (
            "attached to the manifest, by a stranger",
            attached(&stranger, MANIFEST),
            "WrongKey",
        ),
        (
            "attached to another manifest",
            attached(&signing, &format!("sha256:{other}")),
            "OtherArtifact",
        ),
        ("older form", simple(&signing, MANIFEST), "trusted"),
        (
            "older form, by a stranger",
            simple(&stranger, MANIFEST),
            "WrongKey",
        ),
        (
            "older form, about another manifest",
            simple(&signing, &format!("sha256:{other}")),
            "OtherArtifact",
        ),
        (
            "older form, about the module",
            simple(&signing, &format!("sha256:{module}")),
            "OtherArtifact",
        ),
        (
            "older form, of another kind",
            renamed(payload(MANIFEST)),
            "OtherStatement",
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
            "OtherArtifact",
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
            "OtherStatement",
        ),
        (
            "envelope of another kind",
            envelope(&signing, "text/plain", &statement(SIGN, &[manifest])),
            "OtherStatement",
        ),
        (
            "no JSON",
            SignatureEvidence::Bundle(b"\xff\xfe".to_vec()),
            "Unreadable",
        ),
        (
            "deep JSON",
            SignatureEvidence::Bundle(vec![b'['; 100_000]),
            "Unreadable",
        ),
        ("empty", SignatureEvidence::Bundle(Vec::new()), "Unreadable"),
        (
            "empty signature",
            simple_signing(payload(MANIFEST), Vec::new()),
            "WrongKey",
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
    let attached = evidence(&sign::attached(&signing, MANIFEST));
    let file = evidence(&sign::file(&signing, WASM));
    let payload = payload(MANIFEST);
    let signature = signing.sign(&payload).unwrap();
    assert_eq!(reason(&trusting(&public), &of_file(file)), "trusted");
    assert_eq!(
        reason(&trusting(&public), &of_file(attached)),
        "OtherArtifact"
    );
    assert_eq!(
        reason(
            &trusting(&public),
            &of_file(simple_signing(payload, signature))
        ),
        "OtherArtifact"
    );
}

#[test]
fn keys_and_identities_are_told_apart() {
    let world = World::new();
    let (signing, public) = key();
    let by_key = artifact(WASM, vec![evidence(&sign::file(&signing, WASM))]);
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
            "KeyNotExpected",
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
            "CertificateNotExpected",
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
    let keys = kinds.map(|kind| KeyPair::generate_for(kind).unwrap());
    let policy = TrustPolicy {
        keys: keys.iter().map(public).collect(),
        ..TrustPolicy::default()
    };
    for key in &keys {
        for evidence in [
            evidence(&sign::file(key, WASM)),
            evidence(&sign::attached(key, MANIFEST)),
        ] {
            let vouched =
                policy.verify(&artifact(WASM, vec![evidence]), None, "1.0.0", super::now());
            assert_eq!(
                vouched.unwrap().to_string(),
                format!("signed with the key {}", public(key).fingerprint())
            );
        }
    }
}

#[test]
fn texts_that_are_no_public_key_are_refused_in_words() {
    let pair = KeyPair::generate().unwrap();
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
        let reported = PublicKey::from_pem(&text)
            .err()
            .map(|why| why.to_string())
            .unwrap_or_default();
        assert!(
            reported.contains(expected),
            "{reported:?} should contain {expected:?}"
        );
        // The text may be a secret, so no line of it is repeated.
        if let Some(secret) = text.lines().nth(1) {
            assert!(!reported.contains(secret), "{reported}");
        }
    }
}
