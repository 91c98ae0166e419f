//! Keyless signatures in both forms of registries, with logs of both generations, and long after signing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ccm_host::Digest;
use rcgen::SigningKey as _;
use serde_json::{Value, json};
use sigstore_verify::types::pae;

use super::fixtures::{
    MANIFEST, NOON, SIGNED_AT, WASM, Wanted, World, artifact, evidence, payload, with,
};
use super::{outcome, reason};
use crate::artifact::SignatureEvidence;

#[test]
fn g14_the_time_of_signing_counts_and_not_the_clock() {
    let world = World::new();
    let bundle = evidence(&world.bundle(WASM, &world.signer(&Wanted::default())));
    let artifact = artifact(WASM, vec![bundle]);
    let policy = world.policy(true, false);
    let at = |seconds: i64| {
        std::time::UNIX_EPOCH + std::time::Duration::from_secs(u64::try_from(seconds).unwrap())
    };
    let year = 366 * 86_400;
    // The certificate ended twelve hours after it had been used.
    let table = [
        ("the same minute", SIGNED_AT, "trusted"),
        ("ten years later", SIGNED_AT + 10 * year, "trusted"),
        ("a hundred years later", SIGNED_AT + 100 * year, "trusted"),
        (
            "the log's clock is a little ahead",
            SIGNED_AT - 299,
            "trusted",
        ),
        ("our clock fell back", SIGNED_AT - 86_400, "FutureTime"),
        ("our clock was never set", 0, "FutureTime"),
    ];
    for (name, now, expected) in table {
        let answer = policy.verify(&artifact, None, "1.0.0", at(now));
        assert_eq!(outcome(&answer), expected, "{name}");
    }
}

#[test]
fn registries_carry_keyless_signatures_in_both_forms() {
    let world = World::new();
    let signer = world.signer(&Wanted::default());

    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"digest": {"sha256": MANIFEST.strip_prefix("sha256:").unwrap()}}],
        "predicateType": "https://sigstore.dev/cosign/sign/v1",
        "predicate": {},
    })
    .to_string();
    let signature = signer
        .key
        .sign(&pae("application/vnd.in-toto+json", statement.as_bytes()))
        .unwrap();
    let entry = world.envelope_entry(statement.as_bytes(), &signature, &signer);
    let mut bundle = signer.bundle(WASM, &signature, &json!([entry]), &json!([]));
    bundle.as_object_mut().unwrap().remove("messageSignature");
    bundle["dsseEnvelope"] = json!({
        "payload": STANDARD.encode(&statement),
        "payloadType": "application/vnd.in-toto+json",
        "signatures": [{"sig": STANDARD.encode(&signature)}],
    });
    assert_eq!(
        reason(
            &world.policy(true, false),
            &artifact(WASM, vec![evidence(&bundle)])
        ),
        "trusted"
    );

    let payload = payload(MANIFEST);
    let signature = signer.key.sign(&payload).unwrap();
    let entry = world.entry(&payload, &signature, &signer);
    let log_id = STANDARD
        .decode(entry["logId"]["keyId"].as_str().unwrap())
        .unwrap();
    let log_entry = json!({
        "SignedEntryTimestamp": entry["inclusionPromise"]["signedEntryTimestamp"],
        "Payload": {
            "body": entry["canonicalizedBody"],
            "integratedTime": SIGNED_AT,
            "logIndex": 7,
            "logID": hex::encode(log_id),
        },
    });
    let stamp = json!({"SignedRFC3161Timestamp": world.stamp(&signature, NOON)["signedTimestamp"]});
    let older =
        |log_entry: Option<&Value>, stamp: Option<&Value>| SignatureEvidence::SimpleSigning {
            payload: payload.clone(),
            signature: signature.clone(),
            certificate: Some(signer.pem.clone()),
            chain: None,
            log_entry: log_entry.map(|entry| entry.to_string().into_bytes()),
            time_stamp: stamp.map(|stamp| stamp.to_string().into_bytes()),
        };
    let late = json!({"SignedRFC3161Timestamp": world.stamp(&signature, "20240401120000Z")["signedTimestamp"]});
    let moved = with(&log_entry, "/Payload/integratedTime", json!(SIGNED_AT + 1));
    let table = [
        (
            "logged",
            true,
            false,
            older(Some(&log_entry), None),
            "trusted",
        ),
        ("stamped", false, true, older(None, Some(&stamp)), "trusted"),
        (
            "both",
            true,
            true,
            older(Some(&log_entry), Some(&stamp)),
            "trusted",
        ),
        ("neither", false, true, older(None, None), "NoSigningTime"),
        (
            "stamped late",
            false,
            true,
            older(None, Some(&late)),
            "Expired",
        ),
        (
            "logged at another time",
            true,
            false,
            older(Some(&moved), None),
            "Log",
        ),
        (
            "the entry is no JSON",
            true,
            false,
            older(Some(&json!("x")), None),
            "Unreadable",
        ),
    ];
    for (name, has_log, has_stamps, evidence, expected) in table {
        let artifact = artifact(WASM, vec![evidence]);
        assert_eq!(
            reason(&world.policy(has_log, has_stamps), &artifact),
            expected,
            "{name}"
        );
    }
}

#[test]
fn a_log_of_the_second_generation_cannot_promise() {
    let world = World::new();
    let signer = world.signer(&Wanted::default());
    let signature = signer.key.sign(WASM).unwrap();
    let mut entry = world.entry(WASM, &signature, &signer);
    entry["kindVersion"]["version"] = json!("0.0.2");
    entry["inclusionPromise"]["signedEntryTimestamp"] = json!(STANDARD.encode([0; 70]));
    entry.as_object_mut().unwrap().remove("inclusionProof");
    let body = json!({
        "apiVersion": "0.0.2",
        "kind": "hashedrekord",
        "spec": {"hashedRekordV002": {
            "data": {"algorithm": "SHA2_256", "digest": STANDARD.encode(Digest::of(WASM).as_bytes())},
            "signature": {
                "content": STANDARD.encode(&signature),
                "verifier": {
                    "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                    "x509Certificate": {"rawBytes": STANDARD.encode(&signer.certificate)},
                },
            },
        }},
    });
    entry["canonicalizedBody"] = json!(STANDARD.encode(body.to_string()));
    let stamps = json!([world.stamp(&signature, NOON)]);
    let bundle = signer.bundle(WASM, &signature, &json!([entry]), &stamps);
    let artifact = artifact(WASM, vec![evidence(&bundle)]);
    assert_eq!(reason(&world.policy(false, true), &artifact), "trusted");
    assert_eq!(reason(&world.policy(true, true), &artifact), "Log");
}
