//! Keys in every form that people have, and what is written with them. Whether cosign reads it is asked of cosign
//! itself, in the workspace's tests.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::{SigningKey, manifest};

/// Made by cosign 3.1.3 (`generate-key-pair`); it signs nothing anywhere.
const SEALED: &str = include_str!("tests/cosign.key");
const PUBLIC: &str = include_str!("tests/cosign.pub");

#[test]
fn a_key_that_cosign_sealed_is_opened_with_its_password() {
    let key = SigningKey::from_pem(SEALED, Some(b"correct horse")).unwrap();
    assert_eq!(key.public_pem(), PUBLIC);
}

#[test]
fn texts_that_are_no_private_key_are_refused_in_words() {
    let greedy = |name: &str, value: u64| {
        let begin = "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n";
        let mut sealed: serde_json::Value =
            serde_json::from_slice(&pem::parse(SEALED).unwrap().into_contents()).unwrap();
        sealed["kdf"]["params"][name] = value.into();
        let packed = pem::encode(&pem::Pem::new("X", sealed.to_string()));
        let body = packed
            .split_once("-----\r\n")
            .unwrap()
            .1
            .split_once("-----END")
            .unwrap()
            .0;
        format!("{begin}{body}-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n")
    };
    let rsa = "-----BEGIN PRIVATE KEY-----\nMFQCAQAwDQYJKoZIhvcNAQEBBQAEQDA+AgEAAgkAyVwbAAAAAAECAwEAAQ==\n-----END PRIVATE KEY-----\n";
    let ec = "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n";
    let pkcs8 =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let two = format!("{SEALED}{SEALED}");
    let table: [(&str, Option<&[u8]>, &str); 13] = [
        ("", None, "a private key is wanted in PEM"),
        ("cosign.key", None, "a private key is wanted in PEM"),
        (
            &two,
            Some(b"correct horse"),
            "a private key is wanted in PEM",
        ),
        (SEALED, None, "its password is wanted in COSIGN_PASSWORD"),
        (SEALED, Some(b""), "the password of the key is wrong"),
        (
            SEALED,
            Some(b"Correct horse"),
            "the password of the key is wrong",
        ),
        (
            &greedy("N", 1 << 40),
            Some(b"correct horse"),
            "more memory or time",
        ),
        (
            &greedy("N", 65_537),
            Some(b"correct horse"),
            "more memory or time",
        ),
        (
            &greedy("p", 1_000_000),
            Some(b"correct horse"),
            "more memory or time",
        ),
        (rsa, None, "the key cannot be used"),
        (ec, None, "openssl pkcs8 -topk8 -nocrypt"),
        (pkcs8, None, "cosign import-key-pair"),
        (PUBLIC, None, "this is a public key"),
    ];
    for (text, password, expected) in table {
        let told = SigningKey::from_pem(text, password)
            .err()
            .map(|why| why.to_string());
        assert!(
            told.as_ref().is_some_and(|told| told.contains(expected)),
            "{told:?} should contain {expected:?}"
        );
    }
}

#[test]
fn only_digests_are_signed_for_registries() {
    let key =
        SigningKey::from_pem(&rcgen::KeyPair::generate().unwrap().serialize_pem(), None).unwrap();
    assert!(manifest(&key, &format!("sha256:{}", "0".repeat(64))).is_ok());
    for text in ["", "latest", "sha256:00", "sha512:00"] {
        assert!(manifest(&key, text).is_err(), "{text:?}");
    }
}
