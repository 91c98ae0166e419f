use super::super::sample::{
    MANIFEST, WASM, artifact, evidence, key, now, sign, simple_signing, trusting,
};
use super::super::{Distrust, MinimumVersion, Pin, Provenance, Refusal, TrustPolicy};
use super::{reason, told, verdict};
use crate::artifact::{Artifact, EVIDENCE_BYTES, Evidence, MOST_EVIDENCE};

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

fn in_place(artifact: Artifact) -> Artifact {
    Artifact {
        is_pinned: true,
        ..artifact
    }
}

#[test]
fn a13_nothing_is_trusted_unless_the_operator_said_so() {
    let (_, key) = key();
    let plain = || artifact(WASM, Vec::new());
    let module = plain().digest.to_string();
    let other = pinned(&format!("sha256:{}", "0".repeat(64)));
    let of_both = |policy: &TrustPolicy| TrustPolicy {
        keys: vec![key.clone()],
        ..policy.clone()
    };
    let table: [(&str, TrustPolicy, Artifact, Result<Provenance, &str>); 11] = [
        (
            "no setting",
            TrustPolicy::default(),
            plain(),
            Err("unsigned"),
        ),
        (
            "unsigned by setting",
            unsigned(),
            plain(),
            Ok(Provenance::Unsigned),
        ),
        (
            "unsigned, but a key is wanted",
            of_both(&unsigned()),
            plain(),
            Err("unsigned"),
        ),
        (
            "the module's digest",
            pinned(&module),
            plain(),
            Ok(Provenance::Pinned),
        ),
        (
            "the manifest's digest",
            pinned(MANIFEST),
            plain(),
            Ok(Provenance::Pinned),
        ),
        (
            "another digest",
            other.clone(),
            plain(),
            Err("other-digest"),
        ),
        (
            "another digest, though unsigned",
            TrustPolicy {
                allows_unsigned: true,
                ..other.clone()
            },
            plain(),
            Err("other-digest"),
        ),
        (
            "another digest, though pinned in place",
            other,
            in_place(plain()),
            Err("other-digest"),
        ),
        (
            "pinned in place",
            TrustPolicy::default(),
            in_place(plain()),
            Ok(Provenance::Pinned),
        ),
        (
            "pinned, but a key is wanted",
            of_both(&pinned(&module)),
            plain(),
            Err("unsigned"),
        ),
        (
            "pinned in place, but a key is wanted",
            trusting(&key),
            in_place(plain()),
            Err("unsigned"),
        ),
    ];
    for (name, policy, artifact, expected) in table {
        assert_eq!(verdict(&policy, &artifact), expected, "{name}");
    }
}

#[test]
fn bytes_that_are_not_those_of_the_artifacts_digest_are_refused() {
    let (key, public) = key();
    let mut swapped = artifact(WASM, vec![evidence(&sign::file(&key, WASM))]);
    assert_eq!(reason(&trusting(&public), &swapped), "trusted");
    swapped.wasm = b"\0asm\x0d\0\x01\0 something else".as_slice().into();
    assert_eq!(reason(&trusting(&public), &swapped), "other-digest");
    assert_eq!(
        reason(&pinned(&swapped.digest.to_string()), &swapped),
        "other-digest"
    );
}

#[test]
fn a14_an_older_signed_version_is_refused_by_its_own_reason() {
    let table = [
        ("1.2.3", "1.2.3", "trusted"),
        ("1.2.3", "1.2.4", "trusted"),
        ("1.2.3", "1.10.0", "trusted"),
        ("1.2.3", "1.2.3+build.7", "trusted"),
        ("1.2.3", "1.2.2", "too-old"),
        ("1.2.3", "1.2.3-rc.1", "too-old"),
        ("1.2.3-rc.1", "1.2.3-rc.2", "trusted"),
        ("1.2.3-rc.2", "1.2.3-rc.10", "trusted"),
        ("1.2.3", "0.99.99", "too-old"),
        ("1.2.3", "", "version-unreadable"),
        ("1.2.3", "v1.2.4", "version-unreadable"),
        ("1.2.3", "1.2", "version-unreadable"),
        ("1.2.3", "99999999999999999999.0.0", "version-unreadable"),
    ];
    let (key, public) = key();
    let artifact = artifact(WASM, vec![evidence(&sign::file(&key, WASM))]);
    for (minimum, version, expected) in table {
        let answer = from(minimum, trusting(&public)).verify(&artifact, version, now());
        let reason = answer.as_ref().map_or_else(Distrust::reason, |_| "trusted");
        assert_eq!(reason, expected, "{version} where {minimum} is the oldest");
    }
}

#[test]
fn too_old_is_said_only_of_what_holds_otherwise() {
    let (signing, public) = key();
    let policy = from("2.0.0", trusting(&public));
    let signed = artifact(WASM, vec![evidence(&sign::file(&signing, WASM))]);
    let told = policy.verify(&signed, "1.9.0", now()).unwrap_err();
    let fingerprint = public.fingerprint().to_owned();
    let Distrust::TooOld { provenance, .. } = &told else {
        panic!("{told:?}")
    };
    assert_eq!(*provenance, Provenance::Key { fingerprint });
    assert_eq!(
        told.to_string(),
        "version 1.9.0 is older than 2.0.0, the oldest that `trust.minimumVersion` allows"
    );
    let (stranger, _) = key();
    let forged = artifact(WASM, vec![evidence(&sign::file(&stranger, WASM))]);
    assert_eq!(
        policy.verify(&forged, "1.9.0", now()).unwrap_err().reason(),
        "wrong-key"
    );
    assert_eq!(
        from("2.0.0", unsigned())
            .verify(&forged, "1.9.0", now())
            .unwrap_err()
            .reason(),
        "too-old"
    );
}

#[test]
fn evidence_is_capped_in_size_and_number_and_the_first_that_holds_is_enough() {
    let (signing, public) = key();
    let good = || evidence(&sign::file(&signing, WASM));
    let junk = || Evidence::Bundle(b"{".to_vec());
    let large = || Evidence::Bundle(vec![b' '; EVIDENCE_BYTES + 1]);
    let with = |count: usize, last: Evidence| {
        let mut evidence: Vec<Evidence> = (0..count).map(|_| junk()).collect();
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
            "unreadable",
        ),
        (
            "good after too large",
            artifact(WASM, vec![large(), good()]),
            "trusted",
        ),
        ("too large", artifact(WASM, vec![large()]), "too-large"),
        (
            "too large in parts",
            artifact(
                WASM,
                vec![simple_signing(vec![b' '; EVIDENCE_BYTES], vec![0; 72])],
            ),
            "too-large",
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
        assert_eq!(told(&policy, &artifact(WASM, evidence)), expected);
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
    let Err(Distrust::Refused { reasons }) = policy.verify(&artifact, "1.0.0", now()) else {
        panic!("more than a second of work was done for it")
    };
    // Eight forged ones with four keys use up all the work that is done for one module.
    let reasons: Vec<_> = reasons.iter().map(Refusal::reason).collect();
    assert_eq!(
        reasons,
        [["wrong-key"; 8].as_slice(), &["too-large"]].concat()
    );
}
