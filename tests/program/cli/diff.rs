//! `ccm provider diff`: like a plan, and its exit code says whether a person must look at the difference.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::component::{Component, component};
use super::{ccm, file, text};

/// A manifest with these rules for its one target.
fn manifest(version: &str, rules: &[&str]) -> Value {
    let rules: Vec<Value> = rules
        .iter()
        .map(|rule| {
            let (method, path) = rule.split_once(' ').unwrap();
            let access = if method == "GET" { "read" } else { "write" };
            json!({ "methods": [method], "path": path, "access": access })
        })
        .collect();
    json!({
        "contract": "0.1.0", "name": "nimbus", "version": version, "schemes": ["nimbus"],
        "targets": [{ "name": "api", "endpoint": "https://api.example.com/v1", "auth": "bearer", "rules": rules }],
    })
}

fn module(folder: &TempDir, manifest: &Value) -> String {
    let version = manifest["version"].as_str().unwrap();
    let wasm = component(&Component {
        manifests: &[&manifest.to_string()],
        ..Component::default()
    });
    text(&file(folder, &format!("{version}.wasm"), &wasm)).to_owned()
}

#[test]
fn only_what_asks_for_more_needs_somebody() {
    let folder = TempDir::new().unwrap();
    let old = module(
        &folder,
        &manifest("1.0.0", &["GET /servers", "GET /locations"]),
    );
    let same = module(
        &folder,
        &manifest("1.0.1", &["GET /servers", "GET /locations"]),
    );
    let less = module(&folder, &manifest("1.1.0", &["GET /servers"]));
    let more = module(
        &folder,
        &manifest("2.0.0", &["GET /servers", "DELETE /servers/{id}"]),
    );
    for (new, code, verdict, lines) in [
        (&old, 0, "It asks for the same.", &[][..]),
        (
            &same,
            0,
            "It asks for the same.",
            &["version  1.0.0 -> 1.0.1"],
        ),
        (
            &less,
            0,
            "It asks for nothing more.",
            &["- https GET api.example.com/v1/locations"],
        ),
        (
            &more,
            2,
            "It asks for more",
            &[
                "+ https DELETE api.example.com/v1/servers/{id}",
                "- https GET api.example.com/v1/locations",
            ],
        ),
    ] {
        let output = ccm(&["provider", "diff", &old, new]);
        assert_eq!(output.code, code, "{}{}", output.out, output.err);
        assert!(output.out.contains(verdict), "{new}: {}", output.out);
        for line in lines {
            assert!(output.out.contains(line), "{line}: {}", output.out);
        }
        let output = ccm(&["provider", "diff", "-o", "json", &old, new]);
        assert_eq!(output.code, code);
        let json: Value = serde_json::from_str(&output.out).unwrap();
        assert_eq!(json["wider"], code == 2);
        assert_eq!(json["old"]["version"], "1.0.0");
    }
}

#[test]
fn what_cannot_be_compared_is_no_narrower_version() {
    let folder = TempDir::new().unwrap();
    let old = module(&folder, &manifest("1.0.0", &["GET /servers"]));
    let broken = file(&folder, "broken.wasm", b"\0asm\x0d\0\x01\0\x07");
    let broken = text(&broken);
    for (from, to) in [(old.as_str(), broken), (broken, old.as_str())] {
        let output = ccm(&["provider", "diff", from, to]);
        assert_eq!(output.code, 2, "{}{}", output.out, output.err);
        let expected = format!("{broken}: no\n");
        assert!(output.out.starts_with(&expected), "{}", output.out);
    }
    let output = ccm(&["provider", "diff", "/nowhere.wasm", &old]);
    assert_eq!(output.code, 1);
    assert!(output.err.contains("/nowhere.wasm"), "{}", output.err);
}
