use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{ExtendedKeyUsagePurpose, SigningKey as _};
use serde_json::{Value, json};

use super::super::{Identity, Keyless, Provenance, Roots, TrustPolicy};
use super::fixtures::{
    ISSUER, NOON, SIGNED_AT, SIGNER, WASM, Wanted, World, artifact, evidence, trusting_signer, with,
};
use super::{reason, verdict};

fn trusting(world: &World, identity: Identity, issuer: &str) -> TrustPolicy {
    TrustPolicy {
        keyless: vec![Keyless::new(identity, issuer, world.roots(true, true))],
        ..TrustPolicy::default()
    }
}

const MATERIAL: &str = "/verificationMaterial";
const ENTRIES: &str = "/verificationMaterial/tlogEntries";
const STAMPS: &str = "/verificationMaterial/timestampVerificationData/rfc3161Timestamps";

#[test]
fn a_signature_of_a_named_identity_is_told_with_its_time() {
    let world = World::new();
    let bundle = world.bundle(WASM, &world.signer(&Wanted::default()));
    let vouched = verdict(
        &world.policy(true, false),
        &artifact(WASM, vec![evidence(&bundle)]),
    );
    let expected = Provenance::Keyless {
        identity: SIGNER.to_owned(),
        issuer: ISSUER.to_owned(),
        signed_at: SIGNED_AT,
    };
    assert_eq!(vouched.as_ref(), Ok(&expected));
    assert_eq!(
        expected.to_string(),
        format!("signed by {SIGNER} (known to {ISSUER})")
    );
}

#[test]
fn a13_each_thing_that_is_wrong_with_a_keyless_signature_has_its_reason() {
    let world = World::new();
    let stranger = World::new();
    let signer = world.signer(&Wanted::default());
    let good = world.bundle(WASM, &signer);
    let signature = signer.key.sign(WASM).unwrap();
    let of_day = |day| {
        world.signer(&Wanted {
            day,
            ..Wanted::default()
        })
    };
    let for_servers = world.signer(&Wanted {
        usage: ExtendedKeyUsagePurpose::ServerAuth,
        ..Wanted::default()
    });
    let entry =
        |message: &[u8], signature: &[u8]| json!([world.entry(message, signature, &signer)]);
    let mut moved = entry(WASM, &signature);
    moved[0]["integratedTime"] = json!((SIGNED_AT + 60).to_string());
    let mut unproven = entry(WASM, &signature);
    unproven[0]["inclusionProof"]["hashes"] = json!([STANDARD.encode([7; 32])]);
    let mut unknown_promise = entry(WASM, &signature);
    unknown_promise[0]["inclusionPromise"]["signedEntryTimestamp"] =
        json!(STANDARD.encode([0; 70]));
    let mut only_proven = entry(WASM, &signature);
    only_proven[0]
        .as_object_mut()
        .unwrap()
        .remove("inclusionPromise");
    let mut only_promised = entry(WASM, &signature);
    only_promised[0]
        .as_object_mut()
        .unwrap()
        .remove("inclusionProof");
    let other_signature = signer.key.sign(b"something else").unwrap();
    let replayed = world.bundle(b"something else", &signer);
    let stamped = |time: &str| json!([world.stamp(&signature, time)]);
    let bundle = |entries: &Value, stamps: &Value| signer.bundle(WASM, &signature, entries, stamps);
    let none = json!([]);
    let logged = entry(WASM, &signature);

    let table: Vec<(&str, bool, bool, Value, &str)> = vec![
        ("with a log", true, false, good.clone(), "trusted"),
        (
            "promised by the log, not proven",
            true,
            false,
            bundle(&only_promised, &none),
            "trusted",
        ),
        (
            "with time stamps",
            false,
            true,
            bundle(&none, &stamped(NOON)),
            "trusted",
        ),
        (
            "with both",
            true,
            true,
            bundle(&logged, &stamped(NOON)),
            "trusted",
        ),
        (
            "proven by the log, and time stamped",
            true,
            true,
            bundle(&only_proven, &stamped(NOON)),
            "trusted",
        ),
        (
            "with a log that is not asked for, and a time stamp",
            false,
            true,
            bundle(&only_proven, &stamped(NOON)),
            "trusted",
        ),
        (
            "by nobody's authority",
            true,
            false,
            stranger.bundle(WASM, &stranger.signer(&Wanted::default())),
            "Log",
        ),
        (
            "by nobody's authority, known to the log",
            true,
            false,
            world.bundle(WASM, &stranger.signer(&Wanted::default())),
            "UnknownAuthority",
        ),
        (
            "with a certificate for servers",
            true,
            false,
            world.bundle(WASM, &for_servers),
            "UnknownAuthority",
        ),
        (
            "with a certificate that had expired",
            true,
            false,
            world.bundle(WASM, &of_day(27)),
            "Expired",
        ),
        (
            "neither logged nor stamped",
            false,
            true,
            bundle(&none, &none),
            "NoSigningTime",
        ),
        (
            "stamped, where a log is wanted",
            true,
            true,
            bundle(&none, &stamped(NOON)),
            "Log",
        ),
        (
            "logged, where stamps are wanted",
            false,
            true,
            bundle(&only_proven, &none),
            "NoSigningTime",
        ),
        (
            "logged without a time",
            true,
            false,
            bundle(&only_proven, &none),
            "NoSigningTime",
        ),
        (
            "stamped a day late",
            false,
            true,
            bundle(&none, &stamped("20240303120000Z")),
            "Expired",
        ),
        (
            "stamped a day early",
            false,
            true,
            bundle(&none, &stamped("20240228120000Z")),
            "Expired",
        ),
        (
            "logged in time, stamped late",
            true,
            true,
            bundle(&logged, &stamped("20240303120000Z")),
            "Expired",
        ),
        (
            "stamped by a stranger",
            false,
            true,
            bundle(&none, &json!([stranger.stamp(&signature, NOON)])),
            "TimeStamp",
        ),
        (
            "another signature stamped",
            false,
            true,
            bundle(&none, &json!([world.stamp(&other_signature, NOON)])),
            "TimeStamp",
        ),
        (
            "logged by a stranger",
            true,
            false,
            bundle(&json!([stranger.entry(WASM, &signature, &signer)]), &none),
            "Log",
        ),
        (
            "the logged time is changed",
            true,
            false,
            bundle(&moved, &none),
            "Log",
        ),
        (
            "the log's promise is changed",
            true,
            false,
            bundle(&unknown_promise, &none),
            "Log",
        ),
        (
            "the log's proof is changed",
            true,
            false,
            bundle(&unproven, &none),
            "Log",
        ),
        (
            "another module's entry",
            true,
            false,
            bundle(&entry(b"something else", &other_signature), &none),
            "OtherArtifact",
        ),
        (
            "another signature's entry",
            true,
            false,
            bundle(&entry(WASM, &other_signature), &none),
            "Log",
        ),
        (
            "another module's bundle",
            true,
            false,
            replayed.clone(),
            "OtherArtifact",
        ),
        (
            "another module's bundle, said to be of this one",
            true,
            false,
            with(
                &replayed,
                "/messageSignature/messageDigest",
                good["messageSignature"]["messageDigest"].clone(),
            ),
            "BadSignature",
        ),
        (
            "nothing signed",
            true,
            false,
            with(&good, "/messageSignature/signature", json!("")),
            "BadSignature",
        ),
        (
            "no certificate",
            true,
            false,
            with(&good, MATERIAL, json!({"publicKey": {"hint": ""}})),
            "KeyNotExpected",
        ),
        (
            "no certificate inside",
            true,
            false,
            with(
                &good,
                MATERIAL,
                json!({"certificate": {"rawBytes": "AAAA"}}),
            ),
            "Log",
        ),
        (
            "too many entries",
            true,
            false,
            with(&good, ENTRIES, json!(vec![logged[0].clone(); 9])),
            "Unreadable",
        ),
        (
            "too many stamps",
            true,
            true,
            with(&good, STAMPS, json!(vec![world.stamp(&signature, NOON); 9])),
            "Unreadable",
        ),
        (
            "a stamp that is none",
            false,
            true,
            with(&good, STAMPS, json!([{"signedTimestamp": "MAA="}])),
            "TimeStamp",
        ),
    ];
    for (name, has_log, has_stamps, bundle, expected) in table {
        let policy = world.policy(has_log, has_stamps);
        let artifact = artifact(WASM, vec![evidence(&bundle)]);
        assert_eq!(
            reason(&policy, &artifact),
            expected,
            "{name}: {}",
            super::verdict_text(&policy, &artifact)
        );
    }
}

#[test]
fn a13_the_identity_and_its_issuer_have_to_be_the_named_ones() {
    let world = World::new();
    let bundle = evidence(&world.bundle(WASM, &world.signer(&Wanted::default())));
    let artifact = artifact(WASM, vec![bundle]);
    let pattern = |text: &str| Identity::pattern(text).unwrap();
    let table = [
        (Identity::exact(SIGNER), ISSUER, "trusted"),
        (
            Identity::exact(&SIGNER[..SIGNER.len() - 1]),
            ISSUER,
            "WrongIdentity",
        ),
        (
            Identity::exact(SIGNER.to_uppercase()),
            ISSUER,
            "WrongIdentity",
        ),
        (Identity::exact(""), ISSUER, "WrongIdentity"),
        (
            Identity::exact(SIGNER),
            "https://token.forge.example/",
            "WrongIssuer",
        ),
        (Identity::exact(SIGNER), "", "WrongIssuer"),
        (
            pattern(r"https://forge\.example/acme/provider/.*@refs/tags/v\d+\.\d+\.\d+"),
            ISSUER,
            "trusted",
        ),
        (
            pattern(r"https://forge\.example/acme/provider"),
            ISSUER,
            "WrongIdentity",
        ),
        (pattern(r"/acme/provider/.*"), ISSUER, "WrongIdentity"),
        (
            pattern(r"https://evil\.example/|nobody"),
            ISSUER,
            "WrongIdentity",
        ),
        (pattern(r"nobody|.*refs/tags/v1\.2\.3"), ISSUER, "trusted"),
        (pattern(""), ISSUER, "WrongIdentity"),
    ];
    for (identity, issuer, expected) in table {
        let name = format!("{identity:?} of {issuer}");
        assert_eq!(
            reason(&trusting(&world, identity, issuer), &artifact),
            expected,
            "{name}"
        );
    }
}

/// Whoever has the authority's key, but not that of the log, cannot certify an identity unseen.
#[test]
fn where_a_log_of_certificates_is_trusted_a_certificate_has_to_be_in_it() {
    let world = World::new();
    let bundle = evidence(&world.bundle(WASM, &world.signer(&Wanted::default())));
    let artifact = artifact(WASM, vec![bundle]);
    assert_eq!(reason(&world.policy(true, false), &artifact), "trusted");
    let policy = trusting_signer(world.roots_with_certificate_log());
    assert_eq!(reason(&policy, &artifact), "UnknownAuthority");
}

#[test]
fn of_several_identities_the_nearest_says_what_is_missing() {
    let world = World::new();
    let stranger = World::new();
    let bundle = evidence(&world.bundle(WASM, &world.signer(&Wanted::default())));
    let artifact = artifact(WASM, vec![bundle]);
    let near = Keyless::new(Identity::exact(SIGNER), "another", world.roots(true, false));
    let far = Keyless::new(Identity::exact(SIGNER), ISSUER, stranger.roots(true, false));
    let right = Keyless::new(Identity::exact(SIGNER), ISSUER, world.roots(true, false));
    let policy = |keyless: &[&Keyless]| TrustPolicy {
        keyless: keyless.iter().map(|one| (*one).clone()).collect(),
        ..TrustPolicy::default()
    };
    assert_eq!(reason(&policy(&[&near, &far]), &artifact), "WrongIssuer");
    assert_eq!(reason(&policy(&[&far, &near]), &artifact), "WrongIssuer");
    assert_eq!(
        reason(&policy(&[&far, &near, &right]), &artifact),
        "trusted"
    );
}

#[test]
fn roots_that_could_never_hold_are_refused_in_words() {
    let world = World::new();
    let certificate = world.signer(&Wanted::default()).pem;
    let key = rcgen::KeyPair::generate().unwrap().public_key_pem();
    let table = [
        (
            ("", key.as_str(), ""),
            "at least one authority's certificate",
        ),
        ((certificate.as_str(), "", ""), "valid for minutes"),
        (
            (key.as_str(), key.as_str(), ""),
            "only blocks of the kind CERTIFICATE",
        ),
        (
            (certificate.as_str(), certificate.as_str(), ""),
            "only blocks of the kind PUBLIC KEY",
        ),
        (("cosign.crt", key.as_str(), ""), "this is not PEM"),
        (
            (
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                key.as_str(),
                "",
            ),
            "cannot be used",
        ),
    ];
    for ((authorities, logs, stamps), expected) in table {
        let reported = Roots::from_pem(authorities, logs, stamps)
            .unwrap_err()
            .to_string();
        assert!(
            reported.contains(expected),
            "{reported:?} should contain {expected:?}"
        );
    }
    for (json, expected) in [
        ("{", "cannot be read"),
        (
            r#"{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}"#,
            "no certificate authority",
        ),
    ] {
        let reported = Roots::from_trusted_root(json).unwrap_err().to_string();
        assert!(
            reported.contains(expected),
            "{reported:?} should contain {expected:?}"
        );
    }
    assert!(Identity::pattern("(").is_err());
    assert!(Identity::pattern("a)|(b").is_err());
    assert!(Identity::pattern(r"(\w{1000}){1000}").is_err());
}

#[test]
fn the_public_instances_root_can_be_used() {
    let public = sigstore_verify::trust_root::SIGSTORE_PRODUCTION_TRUSTED_ROOT;
    let policy = TrustPolicy {
        keyless: vec![Keyless::new(
            Identity::exact(SIGNER),
            ISSUER,
            Roots::from_trusted_root(public).unwrap().into(),
        )],
        ..TrustPolicy::default()
    };
    let world = World::new();
    let bundle = evidence(&world.bundle(WASM, &world.signer(&Wanted::default())));
    assert_eq!(reason(&policy, &artifact(WASM, vec![bundle])), "Log");
}
