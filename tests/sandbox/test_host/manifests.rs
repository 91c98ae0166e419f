//! Manifests with a mistake that authors make, for the real host and for the `TestHost`.

use ccm_guest::testing::{TestHost, status};
use ccm_host::manifest::Manifest;
use ccm_tests::harness::Test;

pub(crate) const TESTS: &[Test] = &[("manifests::are_refused_alike", are_refused_alike)];

const MANIFEST: &str = r#"{
    "contract": "0.2.0", "name": "test", "version": "1", "schemes": ["test"],
    "targets": [{
        "name": "api", "endpoint": "https://api.test.example/v2", "auth": "bearer", "why": "a test",
        "rules": [{ "methods": ["GET"], "path": "/things/{id}", "access": "read" }]
    }],
    "limits": { "memoryMiB": 16, "callSeconds": 60 }
}"#;

fn are_refused_alike() {
    Manifest::parse(MANIFEST.as_bytes()).unwrap();
    drop(TestHost::new(MANIFEST, |_| status(200)));
    // Text in the manifest, and its replacement.
    let table = [
        ("\"GET\"", "\"PATCH\""),
        ("\"GET\"", "\"GET\", \"DELETE\""),
        ("/things/{id}", "/things?x=1"),
        ("/things/{id}", "/things/"),
        ("/things/{id}", "/things/a b"),
        ("\"memoryMiB\": 16", "\"memoryMiB\": 4096"),
        ("\"callSeconds\": 60", "\"callSeconds\": 0"),
        ("[\"test\"]", "[\"test://\"]"),
        ("\"bearer\"", "\"token\""),
        ("https://api.test.example/v2", "api.test.example/v2"),
        ("https://api.test.example/v2", "http://api.test.example/v2"),
    ];
    for (found, replaced) in table {
        let manifest = MANIFEST.replacen(found, replaced, 1);
        let real = Manifest::parse(manifest.as_bytes()).unwrap_err();
        let refused = std::panic::catch_unwind(|| drop(TestHost::new(&manifest, |_| status(200))));
        let panic = refused.expect_err(replaced);
        let text = panic.downcast_ref::<String>();
        assert_eq!(text, Some(&real.to_string()), "{replaced}");
    }
    // To this host, http is permitted.
    let local = MANIFEST.replacen("https://api.test.example", "http://127.0.0.1:8080", 1);
    Manifest::parse(local.as_bytes()).unwrap();
    drop(TestHost::new(&local, |_| status(200)));
}
