//! The manifests of the shipped providers and of the SDK's examples are written as the SDK's documentation advises.

use crate::lists::{assert_none, files};

/// What a manifest may not contain, and why. Both would still be read.
const OUTDATED: &[(&str, &str)] = &[
    ("\"memoryMib\"", "the spelling is memoryMiB"),
    ("\"version\"", "the SDK takes it from Cargo.toml"),
];

#[test]
fn manifests_are_written_as_the_sdk_advises() {
    let mut manifests = files(&["guests", "guest-sdk/examples"], "json");
    manifests.retain(|file| file.ends_with("/manifest.json"));
    assert!(manifests.len() >= 8, "{manifests:?}");
    let mut problems = Vec::new();
    for file in manifests {
        let manifest = std::fs::read_to_string(&file).unwrap();
        for (key, why) in OUTDATED {
            if manifest.contains(key) {
                problems.push(format!("{file}: {key}: {why}"));
            }
        }
    }
    assert_none(&problems);
}
