//! We pull what others push; a client must have the password, and the registry the certificate.

use std::fs;
use std::process::Output;
use std::time::Duration;

use ccm_delivery::source::oci::{OciSettings, OciSource, RegistryAccess, RegistryCredentials};
use ccm_delivery::source::{Location, Source as _, SourceErrorKind};
use ccm_tests::registry::{PASSWORD, Registry, RegistryOptions, USER};
use serde_json::json;
use test_guests::Version;
use tokio::sync::watch;

use crate::wkg::wkg;

/// Settings with the right login and CA; a tag is checked often.
pub(crate) fn settings(registry: &Registry, reference: &str) -> OciSettings {
    let text = format!("oci://{}/{reference}", registry.host());
    let Location::Oci(place) = Location::parse(&text).unwrap() else {
        panic!("{text}")
    };
    OciSettings {
        place,
        credentials: watch::channel(Some(login(registry))).1,
        access: RegistryAccess {
            ca_pem: Some(registry.ca_pem().to_owned()),
            poll: Duration::from_millis(50),
            ..RegistryAccess::default()
        },
    }
}

fn login(registry: &Registry) -> RegistryCredentials {
    let text = registry.docker_config_json().unwrap();
    RegistryCredentials::parse_docker_config(&text).unwrap()
}

pub(crate) fn source(settings: OciSettings) -> OciSource {
    OciSource::new(settings.place.to_string(), settings).unwrap()
}

/// A module with bytes of its own for each version.
pub(crate) fn module(version: &'static str) -> Vec<u8> {
    test_guests::misbehaving(Version {
        version: Some(version),
        behaviour: None,
        is_wider: false,
    })
}

fn stdout_of(output: Output) -> Vec<u8> {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    output.stdout
}

#[tokio::test]
async fn what_wkg_pushes_we_pull() {
    let registry = Registry::start().await.unwrap();
    let wasm = module("0.1.0");
    fs::write(registry.folder().join("theirs.wasm"), &wasm).unwrap();
    let reference = format!("{}/clouds/theirs:1", registry.host());
    stdout_of(wkg(&registry, &["push", &reference, "theirs.wasm"]));
    let artifact = source(settings(&registry, "clouds/theirs:1"))
        .next()
        .await
        .unwrap();
    assert_eq!(*artifact.wasm, wasm);
}

#[tokio::test]
async fn what_crane_pushes_we_pull_by_its_tag_and_by_its_digest() {
    let registry = Registry::start().await.unwrap();
    let (one, two) = (module("0.1.0"), module("0.2.0"));
    let first = registry.push("clouds/theirs:1", &one).unwrap();
    let mut tag = source(settings(&registry, "clouds/theirs:1"));
    let artifact = tag.next().await.unwrap();
    assert_eq!(
        (&*artifact.wasm, artifact.manifest_digest.as_ref()),
        (&one[..], Some(&first))
    );

    // The tag moves; the pinned digest stays.
    let second = registry.push("clouds/theirs:1", &two).unwrap();
    let artifact = tag.next().await.unwrap();
    assert_eq!(
        (&*artifact.wasm, artifact.manifest_digest.as_ref()),
        (&two[..], Some(&second))
    );
    let pinned = source(settings(&registry, &format!("clouds/theirs:1@{first}")))
        .next()
        .await
        .unwrap();
    assert_eq!(*pinned.wasm, one);

    // A container image is no module.
    stdout_of(
        registry
            .crane([
                "append",
                "--new_layer",
                "ca.pem",
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
    assert!(matches!(error.kind, SourceErrorKind::Refused(_)), "{error}");
}

#[tokio::test]
async fn only_the_right_password_and_the_right_certificate_bring_anything() {
    let registry = Registry::start().await.unwrap();
    let right = settings(&registry, "clouds/theirs:1");
    registry.push("clouds/theirs:1", &module("0.1.0")).unwrap();

    let with = |credentials: Option<RegistryCredentials>| OciSettings {
        credentials: watch::channel(credentials).1,
        ..right.clone()
    };
    let wrong = json!({"auths": {registry.host(): {"username": USER, "password": "wrong-canary"}}})
        .to_string();
    let wrong = RegistryCredentials::parse_docker_config(&wrong).unwrap();
    for credentials in [None, Some(wrong)] {
        let error = source(with(credentials)).next().await.err().unwrap();
        assert_eq!(error.kind, SourceErrorKind::Denied, "{error}");
        assert!(!error.to_string().contains("wrong-canary"), "{error}");
    }

    let other = Registry::start().await.unwrap();
    for ca_pem in [None, Some(other.ca_pem().to_owned())] {
        let mut settings = right.clone();
        settings.access.ca_pem = ca_pem;
        let error = source(settings).next().await.err().unwrap();
        assert_eq!(error.kind, SourceErrorKind::Unavailable, "{error}");
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
    let mut allowed = settings(&registry, "clouds/theirs:1");
    allowed.access.plain_http = true;
    registry.push("clouds/theirs:1", &module("0.1.0")).unwrap();
    source(allowed.clone()).next().await.unwrap();
    let mut refused = allowed;
    refused.access.plain_http = false;
    let error = source(refused).next().await.err().unwrap();
    assert_eq!(error.kind, SourceErrorKind::Unavailable, "{error}");
}
