//! The manifests of the shipped providers and of the SDK's examples are written as the SDK's documentation advises; and
//! every list of the shipped providers has all of them.

use std::collections::BTreeSet;

use crate::lists::{assert_none, files, root, shipped};

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

/// Cargo and clippy read these lists, and leave out without a word what is missing.
#[test]
fn every_list_of_the_shipped_providers_has_all_of_them() {
    let shipped = shipped();
    let quoted: Vec<String> = shipped.iter().map(|name| format!("{name:?}")).collect();
    let all = quoted.join(", ");
    let mut expected = vec![
        ("runtime/ccm/Cargo.toml", format!("\nproviders = [{all}]\n")),
        (
            "runtime/ccm/Cargo.toml",
            format!("\nembedded-guests = {{ workspace = true, features = [{all}] }}\n"),
        ),
    ];
    for name in &shipped {
        let variant = name.to_uppercase();
        expected.extend([
            ("Cargo.toml", format!("\n    \"guests/{name}\",\n")),
            (".ci/run", format!(" -p guest-{name} ")),
            ("guests/embedded/Cargo.toml", format!("\n{name} = []\n")),
            (
                "guests/embedded/build.rs",
                format!("\n        {variant:?},\n"),
            ),
            (
                "runtime/ccm/Cargo.toml",
                format!("\n{name} = [\"embedded-guests/{name}\"]\n"),
            ),
            (
                "runtime/ccm/src/builtin_grants/profile.rs",
                format!("    guest: {name:?},\n"),
            ),
        ]);
    }
    let text = |file: &str| std::fs::read_to_string(root().join(file)).unwrap();
    let missing = expected
        .iter()
        .filter(|(file, part)| !text(file).contains(part));
    let missing: Vec<String> = missing
        .map(|(file, part)| format!("{file}: {}", part.trim()))
        .collect();
    assert_none(&missing);

    let guests = root().join("guests");
    let folders = std::fs::read_dir(&guests).unwrap().flatten();
    let folders = folders.filter(|folder| folder.path().join("manifest.json").exists());
    let folders: BTreeSet<String> = folders
        .map(|folder| folder.file_name().into_string().unwrap())
        .collect();
    assert_eq!(folders, BTreeSet::from_iter(shipped));
}
