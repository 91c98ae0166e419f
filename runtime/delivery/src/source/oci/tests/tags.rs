//! Tags that move and digests that do not, and how often they are polled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::response::Response;
use ccm_core::rollout::Release;
use futures::FutureExt as _;
use http::Method;
use http::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use serde_json::json;

use super::fake_registry::{Asked, FakeRegistry, RegistryContent, module, source, status};
use crate::source::oci::manifest::{MANIFEST, WASM_LAYER};
use crate::source::oci::registry::wanted_hold;
use crate::source::{Location, Source as _, SourceErrorKind};

fn release(origin: String, wasm: &[u8]) -> Release {
    Release {
        digest: ccm_host::Digest::of(wasm).to_string(),
        version: String::new(),
        origin,
    }
}

#[tokio::test]
async fn a_tag_brings_its_module_and_again_after_it_has_moved_and_nothing_in_between() {
    let (one, two) = (module(100), module(200));
    let (content, digest) = RegistryContent::with(&one);
    let fake = FakeRegistry::honest(content).await;
    let mut source = fake.source(":1");
    let artifact = source.next().await.unwrap();
    assert_eq!(*artifact.wasm, one);
    assert_eq!(
        artifact.origin,
        format!("oci://{}/clouds/example@{digest}", fake.host)
    );
    assert_eq!(artifact.manifest_digest, Some(digest.clone()));

    let tag = fake.content.clone();
    let moves = async {
        // Waits for some polls without a change.
        while fake.count(|asked| asked.is(Method::HEAD, "/manifests/1")) < 4 {
            tokio::task::yield_now().await;
        }
        assert_eq!(fake.count(Asked::is_blob), 1);
        tag.lock().unwrap().module("1", &two);
    };
    let (artifact, ()) = futures::join!(source.next(), moves);
    assert_eq!(*artifact.unwrap().wasm, two);

    // The earlier module can still be fetched by its digest, also if it came from where the repository was before.
    let origin = format!("oci://{}/clouds/example@{digest}", fake.host);
    let former = format!("oci://other.example/example@{digest}");
    for named in [&origin, &former] {
        let before = source.again(&release(named.clone(), &one)).await.unwrap();
        assert_eq!((&*before.wasm, &before.origin), (&*one, &origin), "{named}");
    }
    let unknown = format!("oci://other.example/example@sha256:{}", "0".repeat(64));
    for (release, expected) in [
        (
            release(origin, &two),
            "what its origin names is not that version",
        ),
        (release(unknown, &one), "answered 404"),
        (
            release("file:///x.wasm".to_owned(), &one),
            "was brought from elsewhere",
        ),
        (
            release(format!("oci://{}/clouds/example:1", fake.host), &one),
            "was brought from elsewhere",
        ),
    ] {
        let error = source.again(&release).await.err().unwrap();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a8_when_a_tag_moves_between_the_look_and_the_download_the_digest_wins() {
    let (one, two) = (module(100), module(200));
    let (mut content, _) = RegistryContent::with(&one);
    content.module("2", &two);
    let moved = content.manifests["2"].clone();
    let fake = FakeRegistry::start(content, move |asked| {
        // After the first poll, the tag refers to another manifest.
        let is_tag = asked.method == Method::GET && asked.path.ends_with("/manifests/1");
        is_tag.then(|| Response::new(Body::from(moved.1.clone())))
    })
    .await;
    assert_eq!(*fake.bring().await.unwrap().wasm, one);
}

#[tokio::test]
async fn a_registry_that_names_no_digest_is_asked_for_the_manifest_itself() {
    let wasm = module(100);
    let (content, digest) = RegistryContent::with(&wasm);
    let fake = FakeRegistry::start(content, |asked| {
        asked.is(Method::HEAD, "/manifests/1").then(|| status(200))
    })
    .await;
    assert_eq!(fake.bring().await.unwrap().manifest_digest, Some(digest));
}

#[tokio::test]
async fn a_digest_is_brought_once_and_its_place_pins_it() {
    let (wasm, before) = (module(100), module(200));
    let (mut content, digest) = RegistryContent::with(&wasm);
    let other = content.module("2", &before);
    let fake = FakeRegistry::honest(content).await;
    for name in [format!("@{digest}"), format!(":other@{digest}")] {
        let mut source = fake.source(&name);
        let artifact = source.next().await.unwrap();
        let pin = Location::parse(source.place()).unwrap().pin().unwrap();
        assert!(pin.names_manifest(&artifact));
        // Not so a version that another digest in the location named before.
        for (digest, wasm, is_pinned) in [(&digest, &wasm, true), (&other, &before, false)] {
            let origin = format!("oci://{}/clouds/example@{digest}", fake.host);
            let again = source.again(&release(origin, wasm)).await.unwrap();
            assert_eq!(pin.names_manifest(&again), is_pinned, "{digest}");
        }
        let named = |asked: &Asked| asked.method == Method::HEAD && !asked.path.contains("sha256-");
        assert_eq!(fake.count(named), 0, "the tags of signatures alone");
        assert!(source.next().now_or_never().is_none());
    }
}

#[tokio::test]
async fn an_index_leads_to_its_one_module_and_is_what_is_pinned() {
    let wasm = module(100);
    let (mut content, inner) = RegistryContent::with(&wasm);
    let size = content.manifests[&inner].1.len();
    let entry = json!({"mediaType": MANIFEST, "digest": inner, "size": size, "platform": {"architecture": "wasm", "os": "wasip2"}});
    let image = json!({"mediaType": MANIFEST, "digest": inner, "size": size, "platform": {"architecture": "amd64", "os": "linux"}});
    let statement = json!({"mediaType": MANIFEST, "digest": inner, "size": size, "annotations": {"vnd.docker.reference.type": "attestation-manifest"}});
    let outer = content.index("1", json!([image, entry, statement]));
    let fake = FakeRegistry::honest(content).await;
    let artifact = fake.bring().await.unwrap();
    assert_eq!(*artifact.wasm, wasm);
    assert_eq!(artifact.manifest_digest, Some(outer));
}

#[tokio::test]
async fn older_layouts_of_a_module_are_read() {
    for kind in [
        WASM_LAYER,
        "application/vnd.wasm.content.layer.v1+wasm",
        "application/vnd.module.wasm.content.layer.v1+wasm",
    ] {
        let mut content = RegistryContent::default();
        let layer = content.blob(kind, &module(100));
        content.artifact("1", json!([layer]));
        let fake = FakeRegistry::honest(content).await;
        assert_eq!(*fake.bring().await.unwrap().wasm, module(100), "{kind}");
    }
}

/// A registry that answers everything with the status in the second value; 200: honestly.
async fn answering(code: usize) -> (FakeRegistry, Arc<AtomicUsize>) {
    let (content, _) = RegistryContent::with(&module(100));
    let code = Arc::new(AtomicUsize::new(code));
    let now = code.clone();
    let lie = move |_: &Asked| match now.load(Ordering::SeqCst) {
        200 => None,
        code => Some(status(u16::try_from(code).unwrap())),
    };
    (FakeRegistry::start(content, lie).await, code)
}

#[tokio::test]
async fn an_error_is_told_once_until_it_changes_and_what_comes_after_it_is_brought() {
    let (fake, code) = answering(500).await;
    let mut source = fake.source(":1");
    assert_eq!(
        source.next().await.err().map(|error| error.kind),
        Some(SourceErrorKind::Unavailable)
    );

    let after = |code_then: usize| {
        let (fake, code) = (&fake, &code);
        async move {
            let before = fake.asked().len();
            while fake.asked().len() < before + 3 {
                tokio::task::yield_now().await;
            }
            code.store(code_then, Ordering::SeqCst);
        }
    };
    let (absent, ()) = futures::join!(source.next(), after(404));
    assert_eq!(
        absent.err().map(|error| error.kind),
        Some(SourceErrorKind::Absent)
    );
    let (artifact, ()) = futures::join!(source.next(), after(200));
    artifact.unwrap();
}

#[tokio::test]
async fn after_an_error_the_unchanged_module_is_offered_again_and_not_downloaded_again() {
    let (fake, code) = answering(200).await;
    let mut source = fake.source(":1");
    let first = source.next().await.unwrap();
    for (failure, is_withdrawn) in [(500, false), (404, true)] {
        code.store(failure, Ordering::SeqCst);
        let error = source.next().await.err().unwrap();
        assert_eq!(
            error.kind == SourceErrorKind::Absent,
            is_withdrawn,
            "{error}"
        );
        code.store(200, Ordering::SeqCst);
        let again = tokio::time::timeout(Duration::from_secs(60), source.next()).await;
        let again = again
            .expect("the error is over, which nobody hears")
            .unwrap();
        assert_eq!(again.digest, first.digest);
    }
    assert_eq!(fake.count(Asked::is_blob), 1);
    // Without another error nothing is repeated.
    let quiet = tokio::time::timeout(Duration::from_millis(200), source.next()).await;
    assert!(quiet.is_err());
}

#[tokio::test]
async fn what_never_will_be_a_module_is_not_downloaded_again_until_the_tag_moves() {
    let fake = FakeRegistry::honest(RegistryContent::with(b"no module").0).await;
    let mut source = fake.source(":1");
    let error = source.next().await.err().unwrap();
    assert!(matches!(error.kind, SourceErrorKind::Refused(_)), "{error}");
    let moves = async {
        while fake.count(|asked| asked.is(Method::HEAD, "/manifests/1")) < 4 {
            tokio::task::yield_now().await;
        }
        assert_eq!(fake.count(Asked::is_blob), 1);
        fake.content.lock().unwrap().module("1", &module(100));
    };
    let (artifact, ()) = futures::join!(source.next(), moves);
    artifact.unwrap();
}

#[tokio::test]
async fn a_registry_that_wants_to_be_left_alone_is() {
    // Also one whose clock is two hours behind.
    let sent = SystemTime::now() - Duration::from_secs(7200);
    let dates = [sent, sent + Duration::from_secs(2)].map(httpdate::fmt_http_date);
    for [sent, until] in [["", "2"].map(str::to_owned), dates] {
        is_left_alone_for_two_seconds(sent, until).await;
    }
}

#[test]
fn a_registry_is_left_alone_for_an_hour_at_most() {
    for (wanted, seconds) in [
        ("2", 2),
        ("7200", 3600),
        ("99999999999999999999999999", 3600),
        ("soon", 10),
    ] {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(wanted))]);
        assert_eq!(
            wanted_hold(&headers),
            Duration::from_secs(seconds),
            "{wanted}"
        );
    }
}

async fn is_left_alone_for_two_seconds(sent: String, until: String) {
    let is_busy = Arc::new(AtomicBool::new(true));
    let (content, _) = RegistryContent::with(&module(100));
    let busy = is_busy.clone();
    let fake = FakeRegistry::start(content, move |_| {
        let mut answer = Response::builder().status(429);
        if !sent.is_empty() {
            answer = answer.header("date", &sent);
        }
        let answer = answer.header("retry-after", &until);
        busy.swap(false, Ordering::SeqCst)
            .then(|| answer.body(Body::empty()).unwrap())
    })
    .await;
    let mut settings = fake.settings(":1");
    settings.access.poll = Duration::from_millis(1);
    let mut source = source(settings);
    assert_eq!(
        source.next().await.err().map(|error| error.kind),
        Some(SourceErrorKind::Unavailable)
    );
    let from = std::time::Instant::now();
    source.next().await.unwrap();
    // A lower bound only: the poll may be late, but not early.
    assert!(from.elapsed() > Duration::from_millis(1900));
}
