//! Forbidden answers of a registry: each is refused for its own reason, and no content of it is kept.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::{Method, header};
use serde_json::{Value, json};

use super::fake_registry::{
    AllAt, Asked, FakeRegistry, RegistryContent, cut, module, redirect, source_with, status,
    timeouts, unmeasured,
};
use crate::artifact::MODULE_BYTES;
use crate::source::oci::manifest::{INDEX, MANIFEST, MANIFEST_BYTES, WASM_LAYER};
use crate::source::{RefusedPart, Source as _, SourceErrorKind};

/// The reason of a refusal; anything else is a failure of the test.
async fn refusal(fake: &FakeRegistry) -> String {
    match fake.bring().await {
        Err(error) if matches!(error.kind, SourceErrorKind::Refused(_)) => error.why,
        Err(other) => panic!("{other}"),
        Ok(artifact) => panic!("brought {}", artifact.origin),
    }
}

fn descriptor(media_type: &str, size: usize) -> Value {
    json!({"mediaType": media_type, "size": size, "digest": format!("sha256:{}", "a".repeat(64))})
}

#[tokio::test]
async fn a7_an_artifact_that_is_no_module_is_refused_before_its_layers_are_asked_for() {
    type Make = fn(&mut RegistryContent);
    let cases: &[(&str, Make, &str)] = &[
        (
            "no layer",
            |s| drop(s.artifact("1", json!([]))),
            "the artifact has 0 layers",
        ),
        (
            "a thousand layers",
            |s| drop(s.artifact("1", Value::Array(vec![descriptor(WASM_LAYER, 8); 1000]))),
            "the artifact has 1000 layers; a module is exactly one",
        ),
        (
            "a container image's layer",
            |s| {
                drop(s.artifact(
                    "1",
                    json!([descriptor("application/vnd.oci.image.layer.v1.tar+gzip", 8)]),
                ))
            },
            "its layer is application/vnd.oci.image.layer.v1.tar+gzip, not application/wasm",
        ),
        (
            "a type that would disturb a terminal",
            |s| drop(s.artifact("1", json!([descriptor("\u{1b}[2J", 8)]))),
            "its layer is (an unreadable type)",
        ),
        (
            "a layer that is too large",
            |s| drop(s.artifact("1", json!([descriptor(WASM_LAYER, MODULE_BYTES + 1)]))),
            "its layer has 33554433 bytes",
        ),
        (
            "a layer of less than nothing",
            |s| {
                drop(s.artifact(
                    "1",
                    json!([{"mediaType": WASM_LAYER, "size": -1, "digest": "sha256:00"}]),
                ))
            },
            "the manifest cannot be read",
        ),
        (
            "another kind of digest",
            |s| {
                drop(s.artifact("1", json!([{"mediaType": WASM_LAYER, "size": 8, "digest": format!("sha512:{}", "a".repeat(128))}])))
            },
            "a digest that is no SHA-256",
        ),
        (
            "a digest that is a path",
            |s| {
                drop(s.artifact(
                    "1",
                    json!([{"mediaType": WASM_LAYER, "size": 8, "digest": "sha256:../../x"}]),
                ))
            },
            "a digest that is no SHA-256",
        ),
        (
            "a foreign configuration",
            |s| {
                let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST,
                    "config": descriptor("application/vnd.cncf.helm.config.v1+json", 2), "layers": [descriptor(WASM_LAYER, 8)]});
                s.manifest("1", MANIFEST, &manifest);
            },
            "its configuration is application/vnd.cncf.helm.config.v1+json",
        ),
        (
            "docker's manifest",
            |s| {
                let kind = "application/vnd.docker.distribution.manifest.v2+json";
                s.manifest(
                    "1",
                    kind,
                    &json!({"schemaVersion": 2, "mediaType": kind, "layers": []}),
                );
            },
            "what is there is application/vnd.docker.distribution.manifest.v2+json, no OCI artifact",
        ),
        (
            "a manifest that is an index, too",
            |s| {
                let both = json!({"schemaVersion": 2, "mediaType": MANIFEST, "layers": [], "manifests": []});
                s.manifest("1", MANIFEST, &both);
            },
            "the manifest is also an index",
        ),
        (
            "a manifest that is sent as an index",
            |s| {
                let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "layers": []});
                s.manifest("1", INDEX, &manifest);
            },
            "and was sent as application/vnd.oci.image.index.v1+json",
        ),
        (
            "an index of two modules",
            |s| {
                let one = json!({"mediaType": MANIFEST, "size": 8, "digest": format!("sha256:{}", "a".repeat(64)), "platform": {"architecture": "wasm", "os": "wasip2"}});
                s.index("1", json!([one, one]));
            },
            "the index has 2 entries, 2 of them for Wasm",
        ),
        (
            "an index of images",
            |s| {
                let image = |arch| json!({"mediaType": MANIFEST, "size": 8, "digest": format!("sha256:{}", "a".repeat(64)), "platform": {"architecture": arch, "os": "linux"}});
                s.index("1", json!([image("amd64"), image("arm64")]));
            },
            "the index has 2 entries, 0 of them for Wasm",
        ),
        (
            "an index of indices",
            |s| {
                let inner = s.index("inner", json!([descriptor(MANIFEST, 8)]));
                s.index(
                    "1",
                    json!([{"mediaType": INDEX, "size": 8, "digest": inner}]),
                );
            },
            "the entry of the index is application/vnd.oci.image.index.v1+json",
        ),
        (
            "no JSON",
            |s| {
                let digest = ccm_host::Digest::of(b"{").to_string();
                for name in ["1".to_owned(), digest] {
                    s.manifests.insert(name, (MANIFEST.to_owned(), "{".into()));
                }
            },
            "the manifest cannot be read (line 1, column 1)",
        ),
    ];
    for (name, make, expected) in cases {
        let mut content = RegistryContent::default();
        make(&mut content);
        let fake = FakeRegistry::honest(content).await;
        let why = refusal(&fake).await;
        assert!(why.contains(expected), "{name}: {why}");
        assert_eq!(fake.count(Asked::is_blob), 0, "{name}");
    }
}

#[tokio::test]
async fn a7_a_layer_that_is_not_what_its_manifest_names_is_refused() {
    let gzip = [&[0x1f, 0x8b, 8, 0][..], &[0; 60]].concat();
    let cases: &[(&str, Vec<u8>, &str)] = &[
        ("gzip", gzip, "its layer is packed with gzip"),
        (
            "zstd",
            b"\x28\xb5\x2f\xfd rest".to_vec(),
            "its layer is packed with zstd",
        ),
        ("text", b"hello".to_vec(), "its layer is no WebAssembly"),
        ("nothing", Vec::new(), "its layer is empty"),
    ];
    for (name, bytes, expected) in cases {
        let fake = FakeRegistry::honest(RegistryContent::with(bytes).0).await;
        let why = refusal(&fake).await;
        assert!(why.contains(expected), "{name}: {why}");
    }

    type Lie = fn() -> Response;
    let cases: &[(&str, Lie, &str)] = &[
        (
            "other bytes",
            || Response::new(Body::from(vec![7; 5000])),
            "whose digest is not what the manifest names",
        ),
        (
            "more, and says so",
            || Response::new(Body::from(vec![7; 5001])),
            "of another size than the 5000 bytes",
        ),
        (
            "less, and says so",
            || Response::new(Body::from(vec![7; 4999])),
            "of another size than the 5000 bytes",
        ),
        (
            "more, without a word",
            || unmeasured(&vec![7; 9_000_000]),
            "of another size than the 5000 bytes",
        ),
        (
            "less, without a word",
            || unmeasured(&[7; 4999]),
            "of another size than the 5000 bytes",
        ),
        (
            "packed on the way",
            || {
                Response::builder()
                    .header(header::CONTENT_ENCODING, "gzip")
                    .body(Body::from(vec![7; 5000]))
                    .unwrap()
            },
            "packs what was to be sent as it is",
        ),
        (
            "then redirects to the metadata service",
            || redirect("http://169.254.169.254/latest/meta-data"),
            "169.254.169.254 is not asked: link-local",
        ),
        (
            "to it in other words",
            || redirect("http://[::ffff:a9fe:a9fe]/"),
            "is not asked: link-local",
        ),
        (
            "to it as a number",
            || redirect("http://2852039166/"),
            "169.254.169.254 is not asked",
        ),
        (
            "to a private address",
            || redirect("http://10.0.0.1/"),
            "10.0.0.1 is not asked: a private address, which `addresses` in the configuration does not allow; \
             `registry.addresses: [10.0.0.1/32]` does",
        ),
        (
            "to another port of this machine",
            || redirect("http://127.0.0.1:1/"),
            "127.0.0.1:1 is not asked: a loopback address, which `addresses` in the configuration does not allow; \
             `registry.addresses: [127.0.0.0/8]` does",
        ),
        (
            "without TLS",
            || redirect("http://93.184.216.34/"),
            "http goes to loopback only",
        ),
        (
            "to a file",
            || redirect("file:///etc/passwd"),
            "is not asked",
        ),
        (
            "with a credential",
            || redirect("https://user:pass@93.184.216.34/"),
            "its address holds a credential",
        ),
        ("to nowhere", || redirect("http://"), "redirects to nowhere"),
        ("in a circle", || redirect("."), "redirects without end"),
    ];
    for (name, lie, expected) in cases {
        let lie = *lie;
        let fake = FakeRegistry::start(RegistryContent::with(&module(5000)).0, move |asked| {
            asked.path.contains("blobs").then(lie)
        })
        .await;
        let why = refusal(&fake).await;
        assert!(why.contains(expected), "{name}: {why}");
    }
}

#[tokio::test]
async fn what_bars_the_way_to_a_layer_is_no_fault_of_the_layer() {
    type Answer = fn() -> Response;
    let cases: [(Answer, RefusedPart); 7] = [
        (|| status(400), RefusedPart::Way),
        (|| status(405), RefusedPart::Way),
        (|| status(501), RefusedPart::Way),
        (|| redirect("http://10.0.0.1/"), RefusedPart::Way),
        (|| redirect("http://"), RefusedPart::Way),
        (|| redirect("."), RefusedPart::Way),
        (
            || Response::new(Body::from(vec![7; 5000])),
            RefusedPart::Content,
        ),
    ];
    for (at, (answer, expected)) in cases.into_iter().enumerate() {
        let fake = FakeRegistry::start(RegistryContent::with(&module(5000)).0, move |asked| {
            asked.path.contains("blobs").then(answer)
        })
        .await;
        let error = fake.bring().await.err().unwrap();
        assert_eq!(error.kind, SourceErrorKind::Refused(expected), "case {at}");
    }
}

#[tokio::test]
async fn a6_a_manifest_that_is_too_long_is_not_read_to_its_end() {
    let manifest =
        |asked: &Asked| asked.method == Method::GET && asked.path.contains("/manifests/sha256:");
    let measured = FakeRegistry::start(RegistryContent::with(&module(100)).0, move |asked| {
        manifest(asked).then(|| Response::new(Body::from(vec![b' '; MANIFEST_BYTES + 1])))
    });
    let endless = FakeRegistry::start(RegistryContent::with(&module(100)).0, move |asked| {
        let blanks = futures::stream::repeat_with(|| {
            Ok::<_, std::io::Error>(bytes::Bytes::from_static(&[b' '; 4096]))
        });
        manifest(asked).then(|| Response::new(Body::from_stream(blanks)))
    });
    for fake in [measured.await, endless.await] {
        let why = refusal(&fake).await;
        assert!(
            why.contains("answers with more than 4194304 bytes"),
            "{why}"
        );
        assert_eq!(fake.count(Asked::is_blob), 0);
    }
}

#[tokio::test]
async fn a_manifest_with_another_digest_than_was_asked_for_is_refused() {
    let other =
        serde_json::to_vec(&json!({"schemaVersion": 2, "mediaType": MANIFEST, "layers": []}))
            .unwrap();
    let fake = FakeRegistry::start(RegistryContent::with(&module(100)).0, move |asked| {
        let is_wanted = asked.method == Method::GET && asked.path.contains("/manifests/sha256:");
        is_wanted.then(|| Response::new(Body::from(other.clone())))
    })
    .await;
    let why = refusal(&fake).await;
    assert!(
        why.contains("sent a manifest whose digest is not what was asked for"),
        "{why}"
    );
}

#[tokio::test]
async fn a_name_that_leads_to_a_forbidden_address_is_not_dialled() {
    let cases = [
        ("169.254.169.254", "link-local", None),
        ("10.1.2.3", "a private address", Some("[10.1.2.3/32]")),
        ("127.0.0.1", "a loopback address", Some("[127.0.0.0/8]")),
        ("::1", "a loopback address", Some("[\"::1/128\"]")),
        ("fd00:ec2::254", "a metadata service", None),
    ];
    for (address, expected, range) in cases {
        let fake = FakeRegistry::start(RegistryContent::with(&module(100)).0, |asked| {
            asked
                .is_blob()
                .then(|| redirect("https://blobs.example.com/x"))
        })
        .await;
        let address: IpAddr = address.parse().unwrap();
        let mut source = source_with(fake.settings(":1"), Arc::new(AllAt(address)), timeouts());
        let error = source.next().await.err().unwrap();
        assert!(matches!(error.kind, SourceErrorKind::Refused(_)), "{error}");
        let why = error.why;
        assert!(
            why.contains("blobs.example.com is not asked") && why.contains(expected),
            "{why}"
        );
        // The text names the setting, if a setting could allow the address.
        let setting = range.map(|range| format!("; `registry.addresses: {range}` does"));
        match setting {
            Some(setting) => assert!(why.ends_with(&setting), "{why}"),
            None => assert!(!why.contains("registry.addresses"), "{why}"),
        }
    }
}

#[tokio::test]
async fn a_cut_that_never_ends_is_given_up() {
    let bytes = module(5000);
    let fake = FakeRegistry::start(RegistryContent::with(&bytes).0, move |asked| {
        asked
            .is_blob()
            .then(|| cut(Response::new(Body::empty()), &[]))
    })
    .await;
    let error = fake.bring().await.err().unwrap();
    assert_eq!(error.kind, SourceErrorKind::Unavailable, "{error}");
    assert_eq!(fake.count(Asked::is_blob), 4);
}
