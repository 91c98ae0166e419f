use super::fixtures::{
    MANIFEST, WASM, artifact, evidence, key, now, sign, simple_signing, trusting,
};
use ccm_core::rollout::Endorsement;

use super::super::{
    Distrust, EvidenceRefusal, Highest, MinimumVersion, Pin, Provenance, TrustPolicy,
};
use super::{outcome, reason, variant, verdict_text};
use crate::artifact::{Artifact, EVIDENCE_BYTES, MOST_EVIDENCE, SignatureEvidence};

fn pinned(digest: &str) -> TrustPolicy {
    TrustPolicy {
        digest: Some(Pin::parse(digest).unwrap()),
        ..TrustPolicy::default()
    }
}

fn from(version: &str, policy: TrustPolicy) -> TrustPolicy {
    TrustPolicy {
        minimum_version: Some(MinimumVersion::parse(version).unwrap()),
        ..policy
    }
}

fn unsigned() -> TrustPolicy {
    TrustPolicy {
        allows_unsigned: true,
        ..TrustPolicy::default()
    }
}

#[test]
fn a13_nothing_is_trusted_unless_the_operator_said_so() {
    let (_, key) = key();
    let plain = artifact(WASM, Vec::new());
    let module = plain.digest.to_string();
    let zeros = format!("sha256:{}", "0".repeat(64));
    let other = pinned(&zeros);
    // What the location of the source pins.
    let [in_place, of_module, elsewhere] =
        [MANIFEST, module.as_str(), zeros.as_str()].map(|pin| Pin::parse(pin).ok());
    let of_both = |policy: &TrustPolicy| TrustPolicy {
        keys: vec![key.clone()],
        ..policy.clone()
    };
    let table: [(_, _, &Option<Pin>, Result<_, &str>); 13] = [
        ("no setting", TrustPolicy::default(), &None, Err("Unsigned")),
        (
            "unsigned by setting",
            unsigned(),
            &None,
            Ok(Provenance::Unsigned),
        ),
        (
            "unsigned, but a key is wanted",
            of_both(&unsigned()),
            &None,
            Err("SignatureMissing"),
        ),
        (
            "the module's digest",
            pinned(&module),
            &None,
            Ok(Provenance::Pinned),
        ),
        (
            "the manifest's digest",
            pinned(MANIFEST),
            &None,
            Ok(Provenance::Pinned),
        ),
        ("another digest", other.clone(), &None, Err("OtherDigest")),
        (
            "another digest, though unsigned",
            TrustPolicy {
                allows_unsigned: true,
                ..other.clone()
            },
            &None,
            Err("OtherDigest"),
        ),
        (
            "another digest, though pinned in place",
            other,
            &in_place,
            Err("OtherDigest"),
        ),
        (
            "pinned in place",
            TrustPolicy::default(),
            &in_place,
            Ok(Provenance::Pinned),
        ),
        (
            "pinned, but a key is wanted",
            of_both(&pinned(&module)),
            &None,
            Err("SignatureMissing"),
        ),
        (
            "pinned in place, but a key is wanted",
            trusting(&key),
            &in_place,
            Err("SignatureMissing"),
        ),
        (
            "the module's digest in place of its manifest's",
            TrustPolicy::default(),
            &of_module,
            Err("Unsigned"),
        ),
        (
            "another one pinned in place",
            TrustPolicy::default(),
            &elsewhere,
            Err("Unsigned"),
        ),
    ];
    for (name, policy, location_pin, expected) in table {
        let expected = expected.map_err(str::to_owned);
        let found = policy.verify(&plain, location_pin.as_ref(), "1.2.3", now());
        let found = found.map_err(|distrust| variant(&distrust));
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn bytes_that_are_not_those_of_the_artifacts_digest_are_refused() {
    let (key, public) = key();
    let mut swapped = artifact(WASM, vec![evidence(&sign::file(&key, WASM))]);
    assert_eq!(reason(&trusting(&public), &swapped), "trusted");
    swapped.wasm = b"\0asm\x0d\0\x01\0 something else".as_slice().into();
    assert_eq!(reason(&trusting(&public), &swapped), "OtherDigest");
    assert_eq!(
        reason(&pinned(&swapped.digest.to_string()), &swapped),
        "OtherDigest"
    );
}

#[test]
fn a14_an_older_signed_version_is_refused_by_its_own_reason() {
    let table = [
        ("1.2.3", "1.2.3", "trusted"),
        ("1.2.3", "1.2.4", "trusted"),
        ("1.2.3", "1.10.0", "trusted"),
        ("1.2.3", "1.2.3+build.7", "trusted"),
        ("1.2.3", "1.2.2", "TooOld"),
        ("1.2.3", "1.2.3-rc.1", "TooOld"),
        ("1.2.3-rc.1", "1.2.3-rc.2", "trusted"),
        ("1.2.3-rc.2", "1.2.3-rc.10", "trusted"),
        ("1.2.3", "0.99.99", "TooOld"),
        ("1.2.3", "", "VersionUnreadable"),
        ("1.2.3", "v1.2.4", "VersionUnreadable"),
        ("1.2.3", "1.2", "VersionUnreadable"),
        ("1.2.3", "99999999999999999999.0.0", "VersionUnreadable"),
    ];
    let (key, public) = key();
    let artifact = artifact(WASM, vec![evidence(&sign::file(&key, WASM))]);
    for (minimum, version, expected) in table {
        let answer = from(minimum, trusting(&public)).verify(&artifact, None, version, now());
        assert_eq!(
            outcome(&answer),
            expected,
            "{version} where {minimum} is the oldest"
        );
    }
}

#[test]
fn too_old_is_said_only_of_what_holds_otherwise() {
    let (signing, public) = key();
    let policy = from("2.0.0", trusting(&public));
    let signed = artifact(WASM, vec![evidence(&sign::file(&signing, WASM))]);
    let reported = policy.verify(&signed, None, "1.9.0", now()).unwrap_err();
    assert_eq!(
        reported.to_string(),
        "version 1.9.0 is older than 2.0.0, the oldest that `trust.minimumVersion` allows"
    );
    let (stranger, _) = key();
    let forged = artifact(WASM, vec![evidence(&sign::file(&stranger, WASM))]);
    assert_eq!(
        outcome(&policy.verify(&forged, None, "1.9.0", now())),
        "WrongKey"
    );
    let policy = from("2.0.0", unsigned());
    assert_eq!(
        outcome(&policy.verify(&forged, None, "1.9.0", now())),
        "TooOld"
    );
}

/// Highest version so far, version that follows, its endorsement, and the highest version once it serves. `Err`: it may
/// not serve.
type Step = (
    Option<&'static str>,
    &'static str,
    Endorsement,
    Result<Option<&'static str>, &'static str>,
);

#[test]
fn a_signature_brings_nothing_older_than_what_has_served_unless_somebody_names_it() {
    use Endorsement::{Ordered, Recorded, Unendorsed};
    let steps: &[Step] = &[
        (None, "1.0.0", Unendorsed, Ok(Some("1.0.0"))),
        (Some("1.0.0"), "1.1.0", Unendorsed, Ok(Some("1.1.0"))),
        (Some("1.1.0"), "1.0.0", Unendorsed, Err("Downgrade")),
        (Some("1.1.0"), "1.1.0-rc.1", Unendorsed, Err("Downgrade")),
        (Some("1.10.0"), "1.9.0", Unendorsed, Err("Downgrade")),
        // Other bytes of the same version, and another build of it.
        (Some("1.1.0"), "1.1.0", Unendorsed, Ok(Some("1.1.0"))),
        (Some("1.1.0"), "1.1.0+2", Unendorsed, Ok(Some("1.1.0+2"))),
        // A text that is not a version cannot be compared.
        (Some("1.1.0"), "newest", Unendorsed, Err("Downgrade")),
        (None, "newest", Unendorsed, Ok(None)),
        (Some("newest"), "1.0.0", Unendorsed, Ok(Some("1.0.0"))),
        // An endorsed version becomes the highest. The recorded active version may serve, and does not lower the
        // highest.
        (Some("1.1.0"), "1.0.0", Ordered, Ok(Some("1.0.0"))),
        (Some("1.1.0"), "newest", Ordered, Ok(Some("1.1.0"))),
        (Some("1.1.0"), "1.0.0", Recorded, Ok(Some("1.1.0"))),
        (Some("1.1.0"), "1.2.0", Recorded, Ok(Some("1.2.0"))),
    ];
    let (signing, public) = key();
    let signed = artifact(WASM, vec![evidence(&sign::file(&signing, WASM))]);
    let followed = |policy: &TrustPolicy, location_pin, highest, version, word| {
        let highest = Highest::read(highest);
        let provenance = policy.verify(&signed, location_pin, version, now());
        let is_pinned = policy.pins(&signed, location_pin);
        let followed = policy.follow(&highest, is_pinned, version, &provenance.unwrap(), word);
        followed
            .map(|highest| highest.write())
            .map_err(|distrust| variant(&distrust))
    };
    let policy = trusting(&public);
    for (highest, version, word, expected) in steps {
        let expected = expected
            .map(|version| version.map(str::to_owned))
            .map_err(str::to_owned);
        let found = followed(&policy, None, *highest, version, *word);
        assert_eq!(found, expected, "{version} by {word:?} after {highest:?}");
    }
    // Bytes that are pinned by the operator may be older.
    let named = TrustPolicy {
        digest: Some(Pin::parse(&signed.digest.to_string()).unwrap()),
        ..trusting(&public)
    };
    let in_place = Pin::parse(MANIFEST).unwrap();
    for (policy, location_pin) in [(&named, None), (&policy, Some(&in_place))] {
        let found = followed(policy, location_pin, Some("1.1.0"), "1.0.0", Unendorsed);
        assert_eq!(found, Ok(Some("1.0.0".to_owned())));
    }
    // The version of an unsigned module proves nothing: it is not compared, and does not become the highest.
    for version in ["1.0.0", "999.0.0"] {
        let found = followed(&unsigned(), None, Some("1.1.0"), version, Unendorsed);
        assert_eq!(found, Ok(Some("1.1.0".to_owned())));
    }
    let distrust = Highest::read(Some("1.1.0"))
        .followed_by("1.0.0", Unendorsed)
        .unwrap_err();
    assert_eq!(
        distrust.to_string(),
        "version 1.0.0 is not 1.1.0 or higher, which has served: whoever offers it may want back what was mended \
         since. If it is meant, set wasm-ccm.dev/allow-downgrade to its digest"
    );
}

#[test]
fn evidence_is_capped_in_size_and_number_and_the_first_that_holds_is_enough() {
    let (signing, public) = key();
    let good = || evidence(&sign::file(&signing, WASM));
    let junk = || SignatureEvidence::Bundle(b"{".to_vec());
    let large = || SignatureEvidence::Bundle(vec![b' '; EVIDENCE_BYTES + 1]);
    let with = |count: usize, last: SignatureEvidence| {
        let mut evidence: Vec<SignatureEvidence> = (0..count).map(|_| junk()).collect();
        evidence.push(last);
        artifact(WASM, evidence)
    };
    let table = [
        ("good", artifact(WASM, vec![good()]), "trusted"),
        (
            "the same one sixteen times",
            artifact(WASM, (0..MOST_EVIDENCE).map(|_| good()).collect()),
            "trusted",
        ),
        (
            "good after junk",
            with(MOST_EVIDENCE - 1, good()),
            "trusted",
        ),
        (
            "good after too much junk",
            with(MOST_EVIDENCE, good()),
            "Unreadable",
        ),
        (
            "good after too large",
            artifact(WASM, vec![large(), good()]),
            "trusted",
        ),
        ("too large", artifact(WASM, vec![large()]), "TooLarge"),
        (
            "too large in parts",
            artifact(
                WASM,
                vec![simple_signing(vec![b' '; EVIDENCE_BYTES], vec![0; 72])],
            ),
            "TooLarge",
        ),
    ];
    for (name, artifact, expected) in table {
        assert_eq!(reason(&trusting(&public), &artifact), expected, "{name}");
    }
}

#[test]
fn what_is_refused_is_told_in_words_that_say_what_to_do() {
    let (signing, public) = key();
    let bundle = |wasm: &[u8]| evidence(&sign::file(&signing, wasm));
    let table = [
        (
            TrustPolicy::default(),
            Vec::new(),
            "nobody vouches for it: add `trust` with a digest, keys or keyless identities to the provider's \
             configuration, or `unsigned: true` to run whatever is there"
                .to_owned(),
        ),
        (
            trusting(&public),
            Vec::new(),
            "it is not signed, and the configuration wants it to be: sign it (`cosign sign`, `cosign sign-blob`) \
             with a key or identity that `trust` names"
                .to_owned(),
        ),
        (
            trusting(&key().1),
            vec![bundle(WASM), bundle(b"another")],
            format!(
                "all its 2 signatures are refused: 1: none of the keys in `trust.keys` made it for these bytes; 2: \
                 it is about {}, not about this module",
                ccm_host::Digest::of(b"another")
            ),
        ),
        (
            trusting(&public),
            vec![bundle(WASM)],
            format!("signed with the key {}", public.fingerprint()),
        ),
    ];
    for (policy, evidence, expected) in table {
        assert_eq!(verdict_text(&policy, &artifact(WASM, evidence)), expected);
    }
}

/// A failure is never an absence; and nobody waits for a signature where none is needed.
#[test]
fn an_answer_that_is_missing_counts_only_where_a_signature_is_missing() {
    let (signing, public) = key();
    let good = || vec![evidence(&sign::file(&signing, WASM))];
    let module = artifact(WASM, Vec::new()).digest.to_string();
    let table = [
        ("signed", trusting(&public), good(), "trusted"),
        ("not signed", trusting(&public), Vec::new(), "Unanswered"),
        ("by another", trusting(&key().1), good(), "Unanswered"),
        ("pinned", pinned(&module), Vec::new(), "trusted"),
        ("none needed", unsigned(), Vec::new(), "trusted"),
        ("no setting", TrustPolicy::default(), good(), "Unsigned"),
    ];
    for (name, policy, evidence, expected) in table {
        let artifact = Artifact {
            unanswered: vec!["one.test answered 500".to_owned()],
            ..artifact(WASM, evidence)
        };
        assert_eq!(reason(&policy, &artifact), expected, "{name}");
        let is_told = verdict_text(&policy, &artifact).contains("one.test answered 500; without");
        assert_eq!(is_told, expected == "Unanswered", "{name}");
    }
}

#[test]
fn a_pin_is_a_whole_digest() {
    let zeros = "0".repeat(64);
    let table = [
        (format!("sha256:{zeros}"), true),
        (zeros.clone(), false),
        (format!("sha512:{zeros}"), false),
        (format!("sha256:{}", &zeros[1..]), false),
        (format!("sha256:{zeros}0"), false),
        (format!("sha256:{}A", &zeros[1..]), false),
        (format!("sha256:sha256:{}", &zeros[7..]), false),
        (String::new(), false),
    ];
    for (text, is_pin) in table {
        assert_eq!(Pin::parse(&text).is_ok(), is_pin, "{text:?}");
    }
}

#[test]
fn signatures_over_the_largest_modules_are_tried_only_so_often() {
    let wasm = vec![0; crate::artifact::MODULE_BYTES];
    let (signing, public) = key();
    let policy = TrustPolicy {
        keys: vec![key().1, key().1, key().1, public],
        ..TrustPolicy::default()
    };
    let stranger = key().0;
    let mut signatures = vec![evidence(&sign::file(&stranger, &wasm)); 8];
    signatures.push(evidence(&sign::file(&signing, &wasm)));
    let artifact = artifact(&wasm, signatures);
    let Err(Distrust::Refused { reasons }) = policy.verify(&artifact, None, "1.0.0", now()) else {
        panic!("more than a second of work was done for it")
    };
    // Eight forged signatures and four keys use up the limit of work for one module.
    let mut expected = vec![EvidenceRefusal::WrongKey; 8];
    expected.push(EvidenceRefusal::TooMuchWork);
    assert_eq!(reasons, expected);
}
