//! What we push, others pull, and the other way round; who asks has to have the password, and the registry the
//! certificate.

use std::fs;
use std::process::Output;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccm_delivery::push::{self, Parcel, Pushed};
use ccm_delivery::source::oci::{OciSettings, OciSource, RegistryCredentials};
use ccm_delivery::source::{Location, Source as _, SourceError};
use ccm_host::Digest;
use ccm_tests::registry::{PASSWORD, Registry, RegistryOptions, USER};
use serde_json::{Value, json};
use test_guests::Version;
use tokio::sync::watch;

use crate::wkg::wkg;

/// Settings with the right login and CA; a tag is looked at often.
pub(crate) fn settings(registry: &Registry, reference: &str) -> OciSettings {
    let text = format!("oci://{}/{reference}", registry.host());
    let Location::Oci(place) = Location::parse(&text).unwrap() else {
        panic!("{text}")
    };
    OciSettings {
        place,
        credentials: watch::channel(Some(login(registry))).1,
        ca_pem: Some(registry.ca_pem().to_owned()),
        mirrors: Vec::new(),
        poll: Duration::from_millis(50),
        addresses: Vec::new(),
        plain_http: false,
    }
}

fn login(registry: &Registry) -> RegistryCredentials {
    let text = registry.docker_config_json().unwrap();
    RegistryCredentials::parse_docker_config(&text).unwrap()
}

pub(crate) fn source(settings: OciSettings) -> OciSource {
    OciSource::new(settings.place.to_string(), settings).unwrap()
}

/// A module in its own bytes for each version.
pub(crate) fn module(version: &'static str) -> Vec<u8> {
    test_guests::misbehaving(Version {
        version: Some(version),
        behaviour: None,
        is_wider: false,
    })
}

pub(crate) async fn push(settings: &OciSettings, wasm: &[u8]) -> Pushed {
    let inspection = ccm_host::inspect("a test", wasm).unwrap();
    let parcel = Parcel {
        wasm: wasm.to_vec().into(),
        inspection: &inspection,
        created: None,
        author: Some("a test".to_owned()),
    };
    push::push(settings, &parcel, Arc::new(|_| ()))
        .await
        .unwrap()
}

fn said(output: Output) -> Vec<u8> {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    output.stdout
}

#[tokio::test]
async fn what_we_push_crane_pulls() {
    let registry = Registry::start().await.unwrap();
    let wasm = module("0.1.0");
    let settings = settings(&registry, "clouds/ours:1");
    let inspection = ccm_host::inspect("a test", &wasm).unwrap();
    let parcel = Parcel {
        wasm: wasm.clone().into(),
        inspection: &inspection,
        created: Some(1_767_323_045),
        author: None,
    };
    let told = Arc::new(Mutex::new(Vec::new()));
    let report = told.clone();
    let pushed = push::push(
        &settings,
        &parcel,
        Arc::new(move |progress| report.lock().unwrap().push(progress)),
    );
    let pushed = pushed.await.unwrap();
    let size = wasm.len() as u64;
    let last = told.lock().unwrap().last().copied().unwrap();
    assert_eq!((last.done, last.total), (size, size));

    // The same again is the same.
    let again = push::push(&settings, &parcel, Arc::new(|_| ()))
        .await
        .unwrap();
    assert_eq!(again, pushed);

    let reference = format!("{}/clouds/ours:1", registry.host());
    let digest = said(registry.crane(["digest", &reference]).unwrap());
    assert_eq!(
        String::from_utf8(digest).unwrap().trim(),
        pushed.manifest_digest
    );
    let manifest: Value =
        serde_json::from_slice(&said(registry.crane(["manifest", &reference]).unwrap())).unwrap();
    assert_eq!(
        manifest["config"]["mediaType"],
        "application/vnd.wasm.config.v0+json"
    );
    let layer = format!("{}/clouds/ours@{}", registry.host(), Digest::of(&wasm));
    assert_eq!(said(registry.crane(["blob", &layer]).unwrap()), wasm);
    said(
        registry
            .crane(["validate", "--remote", &reference])
            .unwrap_or_else(|error| panic!("{error:#}")),
    );

    let artifact = push::pull(&settings, &|_| ()).await.unwrap();
    assert_eq!(
        (&*artifact.wasm, artifact.manifest_digest),
        (&wasm[..], Some(pushed.manifest_digest))
    );
}

#[tokio::test]
async fn what_we_push_wkg_pulls() {
    let registry = Registry::start().await.unwrap();
    let wasm = module("0.1.0");
    push(&settings(&registry, "clouds/ours:1"), &wasm).await;
    let reference = format!("{}/clouds/ours:1", registry.host());
    said(wkg(
        &registry,
        &["pull", &reference, "--output", "pulled.wasm"],
    ));
    let pulled = fs::read(registry.folder().join("pulled.wasm")).unwrap();
    assert_eq!(pulled, wasm);
}

#[tokio::test]
async fn what_wkg_pushes_we_pull() {
    let registry = Registry::start().await.unwrap();
    let wasm = module("0.1.0");
    fs::write(registry.folder().join("theirs.wasm"), &wasm).unwrap();
    let reference = format!("{}/clouds/theirs:1", registry.host());
    said(wkg(&registry, &["push", &reference, "theirs.wasm"]));
    let artifact = source(settings(&registry, "clouds/theirs:1"))
        .next()
        .await
        .unwrap();
    assert_eq!(*artifact.wasm, wasm);
}

/// An image layout on disk, as other tools write it; the answer is its manifest's digest.
fn layout(folder: &std::path::Path, wasm: &[u8]) -> String {
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let keep = |media_type: &str, bytes: &[u8]| {
        let digest = Digest::of(bytes);
        fs::write(blobs.join(digest.hex()), bytes).unwrap();
        json!({"mediaType": media_type, "digest": digest.to_string(), "size": bytes.len()})
    };
    let layer = keep("application/wasm", wasm);
    let config = json!({"created": "2026-01-02T03:04:05Z", "architecture": "wasm", "os": "wasip2", "layerDigests": [layer["digest"]]});
    let config = keep(
        "application/vnd.wasm.config.v0+json",
        config.to_string().as_bytes(),
    );
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest =
        json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer]});
    let manifest = keep(kind, manifest.to_string().as_bytes());
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    fs::write(folder.join("index.json"), index.to_string()).unwrap();
    fs::write(
        folder.join("oci-layout"),
        r#"{"imageLayoutVersion":"1.0.0"}"#,
    )
    .unwrap();
    manifest["digest"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_crane_pushes_we_pull_by_its_tag_and_by_its_digest() {
    let registry = Registry::start().await.unwrap();
    let (one, two) = (module("0.1.0"), module("0.2.0"));
    let folder = registry.folder().join("layout");
    let first = layout(&folder, &one);
    let reference = format!("{}/clouds/theirs:1", registry.host());
    let crane_push = || said(registry.crane(["push", "layout", &reference]).unwrap());
    crane_push();
    let mut tag = source(settings(&registry, "clouds/theirs:1"));
    let artifact = tag.next().await.unwrap();
    assert_eq!(
        (&*artifact.wasm, artifact.manifest_digest.as_ref()),
        (&one[..], Some(&first))
    );
    assert!(!artifact.is_pinned);

    // The tag moves; what was pinned stays.
    fs::remove_dir_all(&folder).unwrap();
    let second = layout(&folder, &two);
    crane_push();
    let artifact = tag.next().await.unwrap();
    assert_eq!(
        (&*artifact.wasm, artifact.manifest_digest.as_ref()),
        (&two[..], Some(&second))
    );
    let pinned = source(settings(&registry, &format!("clouds/theirs:1@{first}")))
        .next()
        .await
        .unwrap();
    assert_eq!((&*pinned.wasm, pinned.is_pinned), (&one[..], true));

    // An image is no module.
    said(
        registry
            .crane([
                "append",
                "--new_layer",
                "layout/index.json",
                "--new_tag",
                &format!("{}/clouds/image:1", registry.host()),
            ])
            .unwrap(),
    );
    let error = source(settings(&registry, "clouds/image:1"))
        .next()
        .await
        .err()
        .unwrap();
    assert!(matches!(error, SourceError::Refused { .. }), "{error}");
}

#[tokio::test]
async fn only_the_right_password_and_the_right_certificate_bring_anything() {
    let registry = Registry::start().await.unwrap();
    let right = settings(&registry, "clouds/ours:1");
    let wasm = module("0.1.0");
    push(&right, &wasm).await;

    let with = |credentials: Option<RegistryCredentials>| OciSettings {
        credentials: watch::channel(credentials).1,
        ..right.clone()
    };
    let wrong = json!({"auths": {registry.host(): {"username": USER, "password": "wrong-canary"}}})
        .to_string();
    let wrong = RegistryCredentials::parse_docker_config(&wrong).unwrap();
    for credentials in [None, Some(wrong)] {
        let settings = with(credentials);
        let error = source(settings.clone()).next().await.err().unwrap();
        assert!(matches!(error, SourceError::Denied { .. }), "{error}");
        assert!(!error.to_string().contains("wrong-canary"), "{error}");
        let inspection = ccm_host::inspect("a test", &wasm).unwrap();
        let parcel = Parcel {
            wasm: wasm.clone().into(),
            inspection: &inspection,
            created: None,
            author: None,
        };
        let error = push::push(&settings, &parcel, Arc::new(|_| ()))
            .await
            .err()
            .unwrap();
        assert!(matches!(error, SourceError::Denied { .. }), "{error}");
    }

    let other = Registry::start().await.unwrap();
    for ca_pem in [None, Some(other.ca_pem().to_owned())] {
        let settings = OciSettings {
            ca_pem,
            ..right.clone()
        };
        let error = source(settings).next().await.err().unwrap();
        assert!(matches!(error, SourceError::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("certificate"), "{error}");
    }
    source(right).next().await.unwrap();
    assert!(!registry.log().contains(PASSWORD));
}

#[tokio::test]
async fn loopback_is_spoken_to_without_tls_only_when_that_is_allowed() {
    let options = RegistryOptions {
        tls: false,
        authentication: false,
    };
    let registry = Registry::start_with(options).await.unwrap();
    let allowed = OciSettings {
        plain_http: true,
        ..settings(&registry, "clouds/ours:1")
    };
    push(&allowed, &module("0.1.0")).await;
    source(allowed.clone()).next().await.unwrap();
    let refused = OciSettings {
        plain_http: false,
        ..allowed
    };
    let error = source(refused).next().await.err().unwrap();
    assert!(matches!(error, SourceError::Unavailable { .. }), "{error}");
}
