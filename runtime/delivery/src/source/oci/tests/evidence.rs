//! Evidence of an artifact, in each of the places where tools put it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::response::Response;
use ccm_core::rollout::Release;
use ccm_host::Digest;
use http::Method;
use serde_json::{Value, json};

use super::fake_registry::{Asked, FakeRegistry, RegistryContent, module, source, status};
use crate::artifact::{EVIDENCE_BYTES, MOST_EVIDENCE, SignatureEvidence};
use crate::source::Source as _;
use crate::source::oci::Mirror;
use crate::source::oci::evidence::{BUNDLE, merged};
use crate::source::oci::manifest::{EMPTY, INDEX, MANIFEST};

const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";

fn tag(digest: &str) -> String {
    digest.replace(':', "-")
}

/// Stores a bundle; returns its entry in an index.
fn bundle(content: &mut RegistryContent, text: &[u8]) -> Value {
    annotated(content, text, &json!({}))
}

/// Stores a bundle whose manifest has these annotations; returns its entry in an index, which has none.
fn annotated(content: &mut RegistryContent, text: &[u8], annotations: &Value) -> Value {
    let layer = content.blob(BUNDLE, text);
    let config = content.blob(EMPTY, b"{}");
    let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "artifactType": BUNDLE, "config": config, "layers": [layer], "annotations": annotations});
    let digest = content.manifest("unnamed", MANIFEST, &manifest);
    let size = content.manifests[&digest].1.len();
    json!({"mediaType": MANIFEST, "digest": digest, "size": size, "artifactType": BUNDLE})
}

fn sign(content: &mut RegistryContent, digest: &str, payload: &[u8], annotations: Value) {
    let mut layer = content.blob(SIMPLE_SIGNING, payload);
    layer["annotations"] = annotations;
    content.artifact(&format!("{}.sig", tag(digest)), json!([layer]));
}

fn signed(payload: &[u8]) -> SignatureEvidence {
    SignatureEvidence::SimpleSigning {
        payload: payload.to_vec(),
        signature: b"signature".to_vec(),
        certificate: Some("PEM".to_owned()),
        chain: None,
        log_entry: Some(b"{}".to_vec()),
        time_stamp: None,
    }
}

fn annotations() -> Value {
    json!({
        "dev.cosignproject.cosign/signature": "c2lnbmF0dXJl",
        "dev.sigstore.cosign/certificate": "PEM",
        "dev.sigstore.cosign/bundle": "{}",
    })
}

/// A registry whose list of referrers, if it has one, is the index under `referrers`.
async fn referring(content: RegistryContent) -> FakeRegistry {
    let listed = content.manifests.get("referrers").cloned();
    FakeRegistry::start(content, move |asked| {
        let (_, index) = listed
            .as_ref()
            .filter(|_| asked.path.contains("/referrers/"))?;
        let answer = Response::builder().header("content-type", INDEX);
        Some(answer.body(index.clone().into()).unwrap())
    })
    .await
}

#[tokio::test]
async fn signatures_are_found_under_the_tag_and_bundles_by_both_ways() {
    let wasm = module(100);
    for has_referrers in [true, false] {
        let (mut content, digest) = RegistryContent::with(&wasm);
        sign(&mut content, &digest, b"payload", annotations());
        let entry = bundle(&mut content, b"{\"bundle\":1}");
        let foreign = json!({"mediaType": MANIFEST, "digest": digest, "size": 5, "artifactType": "application/spdx+json"});
        let name = if has_referrers {
            "referrers".to_owned()
        } else {
            tag(&digest)
        };
        content.index(&name, json!([foreign, entry]));
        let fake = referring(content).await;
        let artifact = fake.bring().await.unwrap();
        let expected = [
            SignatureEvidence::Bundle(b"{\"bundle\":1}".to_vec()),
            signed(b"payload"),
        ];
        assert_eq!(artifact.evidence, expected);
    }
}

/// cosign's own index under a tag has no annotations, so there only the manifests tell what they hold.
#[tokio::test]
async fn attestations_push_no_signature_out() {
    for has_referrers in [true, false] {
        let (mut content, digest) = RegistryContent::with(&module(100));
        let attestations = std::iter::repeat_n("https://slsa.dev/provenance/v1", 40);
        let kinds = std::iter::once("https://sigstore.dev/cosign/sign/v1").chain(attestations);
        let entries: Vec<_> = kinds
            .enumerate()
            .map(|(number, kind)| {
                let annotations = json!({"dev.sigstore.bundle.predicateType": kind});
                let text = number.to_string();
                let mut entry = annotated(&mut content, text.as_bytes(), &annotations);
                if has_referrers {
                    entry["annotations"] = annotations;
                }
                entry
            })
            .collect();
        let name = if has_referrers {
            "referrers".to_owned()
        } else {
            tag(&digest)
        };
        content.index(&name, json!(entries));
        let fake = referring(content).await;
        assert_eq!(
            fake.bring().await.unwrap().evidence,
            [SignatureEvidence::Bundle(b"0".to_vec())]
        );
    }
}

#[tokio::test]
async fn all_pages_of_the_referrers_are_read_at_the_registry_and_nowhere_else() {
    let path = "/v2/clouds/example/referrers/second";
    let elsewhere = format!("https://elsewhere.example{path}");
    for (next, expected) in [
        (path, vec!["second", "first"]),
        (elsewhere.as_str(), vec!["first"]),
    ] {
        let (mut content, _) = RegistryContent::with(&module(100));
        for name in ["first", "second"] {
            let entry = bundle(&mut content, name.as_bytes());
            content.index(name, json!([entry]));
        }
        let pages = content.manifests.clone();
        let link = format!("<{next}>; rel=\"next\"");
        let fake = FakeRegistry::start(content, move |asked| {
            if !asked.path.contains("/referrers/") {
                return None;
            }
            let answer = Response::builder().header("content-type", INDEX);
            let (name, answer) = match asked.path.ends_with("/second") {
                true => ("second", answer),
                false => ("first", answer.header("link", &link)),
            };
            Some(answer.body(pages[name].1.clone().into()).unwrap())
        })
        .await;
        let bundles = expected.iter().map(|text| text.as_bytes().to_vec());
        let expected: Vec<_> = bundles.map(SignatureEvidence::Bundle).collect();
        assert_eq!(fake.bring().await.unwrap().evidence, expected, "{next}");
    }
}

#[tokio::test]
async fn a_signature_that_comes_after_its_artifact_brings_it_again_without_another_download() {
    let wasm = module(100);
    let (content, digest) = RegistryContent::with(&wasm);
    let fake = FakeRegistry::honest(content).await;
    let mut source = fake.source(":1");
    assert!(source.next().await.unwrap().evidence.is_empty());
    let signs = async {
        while fake.count(|asked| asked.is(Method::HEAD, "/manifests/1")) < 3 {
            tokio::task::yield_now().await;
        }
        sign(
            &mut fake.content.lock().unwrap(),
            &digest,
            b"payload",
            annotations(),
        );
    };
    let (artifact, ()) = futures::join!(source.next(), signs);
    let artifact = artifact.unwrap();
    assert_eq!(artifact.evidence, [signed(b"payload")]);

    // As long as the version is not trusted, it is asked for again and again.
    sign(
        &mut fake.content.lock().unwrap(),
        &digest,
        b"later",
        annotations(),
    );
    let release = Release {
        digest: artifact.digest.to_string(),
        version: String::new(),
        origin: artifact.origin.clone(),
    };
    let again = source.again(&release).await.unwrap();
    assert_eq!(
        (&again.wasm, again.digest),
        (&artifact.wasm, artifact.digest)
    );
    assert_eq!(again.evidence, [signed(b"later")]);
    let layer = format!("/blobs/{}", artifact.digest);
    assert_eq!(fake.count(|asked| asked.path.ends_with(&layer)), 1);
}

/// Some registries limit how many manifests are read.
#[tokio::test]
async fn the_tags_of_evidence_are_read_once_until_they_move() {
    let (mut content, digest) = RegistryContent::with(&module(100));
    sign(&mut content, &digest, b"payload", annotations());
    let entry = bundle(&mut content, b"bundle");
    content.index(&tag(&digest), json!([entry]));
    let fake = FakeRegistry::honest(content).await;
    let mut source = fake.source(":1");
    source.next().await.unwrap();
    let reads = || {
        fake.count(|asked| asked.method == Method::GET && asked.path.contains("/manifests/sha256-"))
    };
    let signs = async {
        while fake.count(|asked| asked.is(Method::HEAD, "/manifests/1")) < 5 {
            tokio::task::yield_now().await;
        }
        assert_eq!(reads(), 2);
        sign(
            &mut fake.content.lock().unwrap(),
            &digest,
            b"later",
            annotations(),
        );
    };
    let (artifact, ()) = futures::join!(source.next(), signs);
    let bundle = SignatureEvidence::Bundle(b"bundle".to_vec());
    assert_eq!(artifact.unwrap().evidence, [bundle, signed(b"later")]);
    assert_eq!(reads(), 3);
}

#[tokio::test]
async fn evidence_that_cannot_be_read_is_left_out_and_there_is_a_limit_to_it() {
    let (mut content, digest) = RegistryContent::with(&module(100));
    let mut layers = Vec::new();
    // Evidence that is not base64, too large, of another size than declared, or missing.
    let mut no_base64 = content.blob(SIMPLE_SIGNING, b"1");
    no_base64["annotations"] = json!({"dev.cosignproject.cosign/signature": "%"});
    let mut large = content.blob(SIMPLE_SIGNING, &vec![b'x'; EVIDENCE_BYTES + 1]);
    large["annotations"] = annotations();
    let mut small_by_its_word = large.clone();
    small_by_its_word["size"] = json!(1);
    let mut missing = content.blob(SIMPLE_SIGNING, b"gone");
    missing["annotations"] = annotations();
    content.blobs.remove(missing["digest"].as_str().unwrap());
    layers.extend([no_base64, large, small_by_its_word, missing]);
    content.artifact(&format!("{}.sig", tag(&digest)), json!(layers));
    let fake = FakeRegistry::honest(content.clone()).await;
    assert!(fake.bring().await.unwrap().evidence.is_empty());
    let bundles: Vec<_> = (0..40)
        .map(|number| bundle(&mut content, format!("{number}").as_bytes()))
        .collect();
    content.index(&tag(&digest), json!(bundles));
    let fake = FakeRegistry::honest(content).await;
    let found = fake.bring().await.unwrap().evidence;
    // The latest pieces are used.
    let expected: Vec<_> = (24..40)
        .rev()
        .map(|number| SignatureEvidence::Bundle(format!("{number}").into_bytes()))
        .collect();
    assert_eq!(found.len(), MOST_EVIDENCE);
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_registry_that_does_not_know_the_question_has_no_evidence_and_one_that_is_ill_may_have_some()
 {
    for (code, is_answer) in [
        (400, true),
        (403, true),
        (404, true),
        (405, true),
        (501, true),
        (500, false),
        (502, false),
    ] {
        let fake = FakeRegistry::start(
            RegistryContent::with(&module(100)).0,
            move |asked: &Asked| is_for_evidence(asked).then(|| status(code)),
        )
        .await;
        let artifact = fake.bring().await.unwrap();
        assert!(artifact.evidence.is_empty());
        let expected = match is_answer {
            true => Vec::new(),
            false => vec![format!("{} answered {code}", fake.host)],
        };
        assert_eq!(artifact.unanswered, expected);
    }
}

fn is_for_evidence(asked: &Asked) -> bool {
    asked.path.contains("/referrers/") || asked.path.contains("/manifests/sha256-")
}

#[tokio::test]
async fn a_module_is_not_kept_back_nor_downloaded_again_while_its_signatures_cannot_be_read() {
    let (mut content, digest) = RegistryContent::with(&module(100));
    sign(&mut content, &digest, b"payload", annotations());
    let is_ill = Arc::new(AtomicBool::new(true));
    let ill = is_ill.clone();
    let fake = FakeRegistry::start(content, move |asked| {
        (is_for_evidence(asked) && ill.load(Ordering::SeqCst)).then(|| status(500))
    })
    .await;
    let mut source = fake.source(":1");
    let artifact = source.next().await.unwrap();
    assert!(artifact.evidence.is_empty() && !artifact.unanswered.is_empty());
    is_ill.store(false, Ordering::SeqCst);
    let artifact = source.next().await.unwrap();
    assert_eq!(artifact.evidence, [signed(b"payload")]);
    assert!(artifact.unanswered.is_empty());

    // What was read stays until the registry answers again.
    let signs = async {
        is_ill.store(true, Ordering::SeqCst);
        let before = fake.count(is_for_evidence);
        while fake.count(is_for_evidence) < before + 4 {
            tokio::task::yield_now().await;
        }
        sign(
            &mut fake.content.lock().unwrap(),
            &digest,
            b"later",
            annotations(),
        );
        is_ill.store(false, Ordering::SeqCst);
    };
    let (artifact, ()) = futures::join!(source.next(), signs);
    assert_eq!(artifact.unwrap().evidence, [signed(b"later")]);
    let layer = format!("/blobs/{}", Digest::of(&module(100)));
    assert_eq!(fake.count(|asked| asked.path.ends_with(&layer)), 1);
}

#[tokio::test]
async fn signatures_at_the_registry_behind_a_mirror_are_read_when_those_of_the_mirror_do_not_suffice()
 {
    let (mut content, digest) = RegistryContent::with(&module(100));
    let mut behind = content.clone();
    sign(&mut behind, &digest, b"behind", annotations());
    // As many as are examined.
    let layers = (0..MOST_EVIDENCE).map(|number| {
        let mut layer = content.blob(SIMPLE_SIGNING, number.to_string().as_bytes());
        layer["annotations"] = annotations();
        layer
    });
    let layers: Vec<_> = layers.collect();
    content.artifact(&format!("{}.sig", tag(&digest)), json!(layers));
    let mirror = FakeRegistry::honest(content).await;
    let is_ill = Arc::new(AtomicBool::new(false));
    let ill = is_ill.clone();
    let own = FakeRegistry::start(behind, move |asked| {
        (is_for_evidence(asked) && ill.load(Ordering::SeqCst)).then(|| status(500))
    })
    .await;
    let mut settings = own.settings(":1");
    settings.access.mirrors = vec![Mirror::parse(&mirror.host).unwrap()];
    let mut source = source(settings);
    let artifact = source.next().await.unwrap();
    assert_eq!(artifact.evidence.len(), MOST_EVIDENCE);
    assert_eq!(own.count(is_for_evidence), 0);

    let release = Release {
        digest: artifact.digest.to_string(),
        version: String::new(),
        origin: artifact.origin.clone(),
    };
    let again = source.again(&release).await.unwrap();
    assert_eq!(again.evidence.len(), MOST_EVIDENCE);
    assert!(again.evidence.contains(&signed(b"behind")));
    assert!(again.unanswered.is_empty());
    is_ill.store(true, Ordering::SeqCst);
    let again = source.again(&release).await.unwrap();
    assert_eq!(again.evidence, artifact.evidence);
    assert_eq!(again.unanswered, [format!("{} answered 500", own.host)]);
}

#[test]
fn a_signature_that_several_registries_have_is_examined_once() {
    let [one, two, three] = [&b"1"[..], b"2", b"3"].map(signed);
    let found = [
        vec![one.clone(), two.clone()],
        vec![two.clone(), three.clone()],
    ];
    assert_eq!(merged(&found), [one, two, three]);
}

#[tokio::test]
async fn signatures_that_were_read_count_though_others_cannot_be() {
    let (mut content, digest) = RegistryContent::with(&module(100));
    sign(&mut content, &digest, b"payload", annotations());
    let fake = FakeRegistry::start(content, |asked| {
        asked.path.contains("/referrers/").then(|| status(500))
    })
    .await;
    let artifact = fake.bring().await.unwrap();
    assert_eq!(artifact.evidence, [signed(b"payload")]);
    assert!(!artifact.unanswered.is_empty());
}
