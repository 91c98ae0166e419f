//! Interrupted, slow and stopped downloads, and mirrors.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use ccm_core::rollout::Release;
use futures::{StreamExt as _, stream};
use http::{Method, header};
use serde_json::Value;
use tokio::sync::Notify;

use super::fake_registry::{
    Asked, FakeRegistry, Panics, REPOSITORY, RegistryContent, cut, module, part, redirect, source,
    source_with, status, timeouts,
};
use crate::source::oci::manifest::{INDEX, MANIFEST};
use crate::source::oci::{Mirror, Timeouts};
use crate::source::{Source as _, SourceError, SourceErrorKind};

#[tokio::test]
async fn a_download_that_is_cut_goes_on_where_it_ended() {
    let bytes = Bytes::from(module(5000));
    let kept = bytes.clone();
    let fake = FakeRegistry::start(RegistryContent::with(&bytes).0, move |asked| {
        // A thousand bytes of each answer arrive.
        asked.is_blob().then(|| {
            let whole = part(&kept, asked.range.as_deref());
            let from = asked
                .range
                .as_ref()
                .map_or(0, |range| range[6..range.len() - 1].parse().unwrap());
            match kept.len() - from > 1000 {
                true => cut(whole, &kept[from..from + 1000]),
                false => whole,
            }
        })
    })
    .await;
    let artifact = fake.bring().await.unwrap();
    assert_eq!(*artifact.wasm, *bytes);
    let ranges: Vec<_> = fake
        .asked()
        .into_iter()
        .filter(Asked::is_blob)
        .map(|asked| asked.range)
        .collect();
    let expected = [
        None,
        Some("bytes=1000-"),
        Some("bytes=2000-"),
        Some("bytes=3000-"),
        Some("bytes=4000-"),
    ];
    assert_eq!(ranges, expected.map(|range| range.map(str::to_owned)));
}

#[tokio::test]
async fn a_registry_that_knows_no_parts_begins_anew_and_one_that_sends_another_part_is_not_believed()
 {
    let bytes = Bytes::from(module(5000));
    type Answer = fn(&Bytes) -> Response;
    let whole: Answer = |bytes| Response::new(Body::from(bytes.clone()));
    let other: Answer = |bytes| part(bytes, Some("bytes=10-"));
    for answer in [whole, other] {
        let kept = bytes.clone();
        let times = AtomicUsize::new(0);
        let fake = FakeRegistry::start(RegistryContent::with(&bytes).0, move |asked| {
            asked
                .is_blob()
                .then(|| match times.fetch_add(1, Ordering::SeqCst) {
                    0 => cut(Response::new(Body::empty()), &kept[..1000]),
                    1 => answer(&kept),
                    _ => part(&kept, asked.range.as_deref()),
                })
        })
        .await;
        assert_eq!(*fake.bring().await.unwrap().wasm, *bytes);
    }
}

#[tokio::test]
async fn a_registry_that_trickles_or_says_nothing_is_not_waited_for() {
    let hasty = Timeouts {
        silence: Duration::from_millis(200),
        small: Duration::from_millis(400),
        span: Duration::from_millis(100),
        ..timeouts()
    };
    let trickle = |_: &Asked| {
        let bytes = stream::repeat(0).then(|_: i32| async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Ok::<_, std::io::Error>(Bytes::from_static(b"\0"))
        });
        Response::new(Body::from_stream(bytes))
    };
    let silence = |_: &Asked| {
        Response::new(Body::from_stream(stream::pending::<
            Result<Bytes, std::io::Error>,
        >()))
    };
    type Lie = fn(&Asked) -> Response;
    let lies: [(&str, Lie); 2] = [("trickles", trickle), ("says nothing", silence)];
    for (name, lie) in lies {
        for place in ["/blobs/", "/manifests/sha256:"] {
            let fake =
                FakeRegistry::start(RegistryContent::with(&module(100_000)).0, move |asked| {
                    let is_lie = asked.method == Method::GET && asked.path.contains(place);
                    is_lie.then(|| lie(asked))
                })
                .await;
            let mut source = source_with(
                fake.settings(":1"),
                Arc::new(ccm_host::egress::SystemLookup),
                hasty,
            );
            let error = source.next().await.err().unwrap();
            assert_eq!(
                error.kind,
                SourceErrorKind::Unavailable,
                "{name}, {place}: {error}"
            );
        }
    }
}

#[tokio::test]
async fn a_wait_that_is_dropped_in_the_middle_of_a_download_loses_nothing() {
    let bytes = Bytes::from(module(5000));
    let (kept, reached, go) = (
        bytes.clone(),
        Arc::new(Notify::new()),
        Arc::new(Notify::new()),
    );
    let (reported, wanted) = (reached.clone(), go.clone());
    let fake = FakeRegistry::start(RegistryContent::with(&bytes).0, move |asked| {
        asked.is_blob().then(|| {
            let (reported, wanted, first, rest) = (
                reported.clone(),
                wanted.clone(),
                kept.slice(..1000),
                kept.slice(1000..),
            );
            let rest = stream::once(async move {
                reported.notify_one();
                wanted.notified().await;
                Ok::<_, std::io::Error>(rest)
            });
            let body = Body::from_stream(stream::iter([Ok(first)]).chain(rest));
            Response::builder()
                .header(header::CONTENT_LENGTH, kept.len())
                .body(body)
                .unwrap()
        })
    })
    .await;
    let mut source = fake.source(":1");
    tokio::select! {
        _ = source.next() => panic!("the download cannot have ended"),
        () = reached.notified() => {}
    }
    go.notify_one();
    assert_eq!(*source.next().await.unwrap().wasm, *bytes);
    assert_eq!(fake.count(Asked::is_blob), 1);
}

/// The text of a panic is in no record. One that differs each time, as with the number of a task, would be written as often.
#[tokio::test]
async fn a_panic_during_a_download_is_a_failure_of_the_host() {
    let fake = FakeRegistry::start(RegistryContent::with(&module(100)).0, |asked| {
        let away = || redirect("https://blobs.example.com/x");
        asked.is_blob().then(away)
    })
    .await;
    let mut source = source_with(fake.settings(":1"), Arc::new(Panics), timeouts());
    let failed = source.next().await;
    assert_eq!(failed.err(), Some(SourceError::panicked(source.place())));
}

#[tokio::test]
async fn mirrors_are_asked_in_their_order_and_the_registry_last() {
    let wasm = module(5000);
    let (content, digest) = RegistryContent::with(&wasm);
    let broken = FakeRegistry::start(RegistryContent::default(), |_| Some(status(500))).await;
    let empty = FakeRegistry::honest(RegistryContent::default()).await;
    let lying = FakeRegistry::start(content.clone(), |asked| {
        asked
            .is_blob()
            .then(|| Response::new(Body::from(vec![7; 5000])))
    })
    .await;
    let good = FakeRegistry::honest(content.clone()).await;
    let own = FakeRegistry::honest(content).await;

    let mut settings = own.settings(":1");
    let mirrors = [&broken, &empty, &lying, &good];
    settings.access.mirrors = mirrors
        .iter()
        .map(|mirror| Mirror::parse(&mirror.host).unwrap())
        .collect();
    let artifact = source(settings.clone()).next().await.unwrap();
    assert_eq!(*artifact.wasm, wasm);
    // The recorded origin names the registry, not a mirror: other replicas use it.
    assert_eq!(
        artifact.origin,
        format!("oci://{}/clouds/example@{digest}", own.host)
    );
    assert_eq!(lying.count(Asked::is_blob), 1);
    assert_eq!(good.count(Asked::is_blob), 1);
    assert_eq!(own.count(Asked::is_blob), 0);

    settings.access.mirrors.truncate(3);
    assert_eq!(*source(settings).next().await.unwrap().wasm, wasm);
    assert_eq!(own.count(Asked::is_blob), 1);
}

#[tokio::test]
async fn a_mirror_that_sends_a_manifest_under_another_type_keeps_nobody_from_having_it() {
    let wasm = module(100);
    // Without a type of its own, which the specification allows, a manifest is what its sender says.
    for names_its_type in [true, false] {
        let (mut content, mut digest) = RegistryContent::with(&wasm);
        if !names_its_type {
            let bytes = content.manifests[&digest].1.clone();
            let mut manifest: Value = serde_json::from_slice(&bytes).unwrap();
            manifest.as_object_mut().unwrap().remove("mediaType");
            digest = content.manifest("1", MANIFEST, &manifest);
        }
        let manifest = content.manifests[&digest].1.clone();
        let is_mistaken = Arc::new(AtomicBool::new(true));
        let mistaken = is_mistaken.clone();
        let mirror = FakeRegistry::start(content.clone(), move |asked| {
            let is_manifest =
                asked.method == Method::GET && asked.path.contains("/manifests/sha256:");
            let answer = Response::builder().header(header::CONTENT_TYPE, INDEX);
            (is_manifest && mistaken.load(Ordering::SeqCst))
                .then(|| answer.body(Body::from(manifest.clone())).unwrap())
        })
        .await;
        let own = FakeRegistry::honest(content).await;
        let mut settings = own.settings(":1");
        settings.access.mirrors = vec![Mirror::parse(&mirror.host).unwrap()];
        let artifact = source(settings).next().await;
        assert_eq!(artifact.map(|it| it.wasm), Ok(wasm.clone().into()));

        // Nor for ever, where a digest is fetched once.
        let mut source = mirror.source(&format!("@{digest}"));
        let error = source.next().await.err().unwrap();
        assert!(matches!(error.kind, SourceErrorKind::Refused(_)), "{error}");
        is_mistaken.store(false, Ordering::SeqCst);
        let artifact = tokio::time::timeout(Duration::from_secs(60), source.next()).await;
        assert_eq!(artifact.unwrap().map(|it| it.wasm), Ok(wasm.clone().into()));
    }
}

#[tokio::test]
async fn what_the_registry_lacks_is_not_gone_while_a_mirror_that_may_have_it_does_not_give_it() {
    let own = FakeRegistry::honest(RegistryContent::default()).await;
    let release = release_of(&own);
    for (code, is_gone) in [
        (500, false),
        (429, false),
        (404, true),
        (403, false),
        (400, false),
    ] {
        let mirror = FakeRegistry::start(RegistryContent::default(), move |_| Some(status(code)));
        let mirror = mirror.await;
        let mut settings = own.settings(":1");
        settings.access.mirrors = vec![Mirror::parse(&mirror.host).unwrap()];
        let mut source = source(settings);
        for error in [source.again(&release).await, source.next().await] {
            let error = error.err().unwrap();
            let found = error.kind == SourceErrorKind::Absent;
            assert_eq!(found, is_gone, "{code}: {error}");
            // Another login may end it.
            let is_denied = error.kind == SourceErrorKind::Denied;
            assert_eq!(is_denied, code == 403, "{code}: {error}");
            assert!(error.to_string().contains("answered 404"), "{error}");
        }
    }
}

/// A version that came from this registry.
fn release_of(fake: &FakeRegistry) -> Release {
    let origin = format!("oci://{}/{REPOSITORY}@sha256:{}", fake.host, "b".repeat(64));
    Release {
        digest: format!("sha256:{}", "a".repeat(64)),
        version: String::new(),
        origin,
    }
}

#[tokio::test]
async fn a_version_that_came_before_is_not_gone_because_it_is_refused_for_a_while() {
    let fake = FakeRegistry::start(RegistryContent::default(), |_| Some(status(400))).await;
    let mut source = fake.source(":1");
    let error = source.next().await.err().unwrap();
    assert!(matches!(error.kind, SourceErrorKind::Refused(_)), "{error}");
    let error = source.again(&release_of(&fake)).await.err().unwrap();
    assert_eq!(error.kind, SourceErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn a_mirror_may_keep_repositories_under_a_prefix() {
    let (content, _) = RegistryContent::with(&module(100));
    let mirror = FakeRegistry::honest(content).await;
    let own = FakeRegistry::honest(RegistryContent::default()).await;
    let mut settings = own.settings(":1");
    settings.access.mirrors =
        vec![Mirror::parse(&format!("{}/proxy/upstream", mirror.host)).unwrap()];
    source(settings).next().await.unwrap();
    let first = mirror.asked().remove(0);
    assert!(
        first.is(
            Method::HEAD,
            "/v2/proxy/upstream/clouds/example/manifests/1"
        ),
        "{first:?}"
    );
}

#[test]
fn mirrors_are_hosts_with_or_without_a_prefix() {
    let mirror = |host: &str, prefix: &str| {
        Some(Mirror {
            host: host.to_owned(),
            prefix: prefix.to_owned(),
        })
    };
    let cases = [
        ("mirror.example", mirror("mirror.example", "")),
        ("mirror.example:5000/", mirror("mirror.example:5000", "")),
        ("127.0.0.1:5000/a/b", mirror("127.0.0.1:5000", "a/b")),
        ("https://mirror.example", None),
        ("user@mirror.example", None),
        ("mirror.example/a:1", None),
        ("", None),
    ];
    for (text, expected) in cases {
        assert_eq!(Mirror::parse(text), expected, "{text}");
    }
}
