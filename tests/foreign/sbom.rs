//! The bill of materials, before CycloneDX' own schema.

use std::collections::BTreeSet;

use release_artifacts::{Architecture, Binary, Module, Release};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::python::Client;

#[test]
fn the_bill_of_materials_is_one_for_others_and_lists_what_is_inside() {
    let folder = TempDir::new().unwrap();
    let module = |guest: &embedded_guests::EmbeddedGuest| {
        let path = folder.path().join(format!("{}.wasm", guest.name));
        std::fs::write(&path, guest.wasm).unwrap();
        Module {
            name: guest.name.to_owned(),
            package: format!("guest-{}", guest.name),
            path,
        }
    };
    let binary = |architecture| Binary {
        architecture,
        path: super::CCM.into(),
        modules: embedded_guests::ALL.iter().map(module).collect(),
    };
    let release = Release {
        checkout: super::checkout(),
        version: "1.2.3".to_owned(),
        revision: "0123456789abcdef0123456789abcdef01234567".to_owned(),
        created: 1_700_000_000,
        compression: 0,
        binaries: Vec::new(),
    };
    let mut documents: Vec<Value> = [Architecture::Amd64, Architecture::Arm64]
        .into_iter()
        .map(|architecture| {
            let sbom = release_artifacts::sbom(&release, &binary(architecture)).unwrap();
            serde_json::from_slice(&sbom).unwrap()
        })
        .collect();
    for document in &documents {
        complete(document);
    }
    // A component without type shows that the schema refuses something.
    documents.push(
        json!({"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [{"name": "x"}]}),
    );
    let mistakes = Client::install("sbom").drive(&json!(documents), &[]);
    assert_eq!(mistakes[..2], [Value::Null, Value::Null]);
    assert!(mistakes[2].is_string(), "{mistakes:?}");
}

/// Names are unique, all dependencies are named, and all external crates have a digest.
fn complete(document: &Value) {
    let components = document["components"].as_array().unwrap();
    let nested = components
        .iter()
        .flat_map(|one| one["components"].as_array())
        .flatten();
    let all: Vec<&Value> = components.iter().chain(nested).collect();
    let names: BTreeSet<&str> = all
        .iter()
        .map(|one| one["bom-ref"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), all.len());
    assert!(names.len() > 150, "{}", names.len());
    let root = document["metadata"]["component"]["bom-ref"]
        .as_str()
        .unwrap();
    for edge in document["dependencies"].as_array().unwrap() {
        let ends = edge["dependsOn"]
            .as_array()
            .unwrap()
            .iter()
            .chain([&edge["ref"]]);
        for end in ends.map(|end| end.as_str().unwrap()) {
            assert!(end == root || names.contains(end), "{end}");
        }
    }
    let named = |name: &str| all.iter().find(|one| one["name"] == name);
    for name in ["wasmtime", "rustls", "ring", "wit-bindgen", "ccm-core"] {
        assert!(named(name).is_some(), "{name} is missing");
    }
    // Images are built without the demo, and contain no tests.
    for name in ["ccm-sim", "proptest", "cc", "syn"] {
        assert!(named(name).is_none(), "{name} is not in the program");
    }
    for one in all.iter().filter(|one| one["purl"].is_string()) {
        assert!(one["hashes"][0]["content"].is_string(), "{one}");
        assert!(one["licenses"][0]["expression"].is_string(), "{one}");
    }
}
