//! The manifests of the shipped providers and of the SDK's examples are written as the SDK's documentation advises, and
//! those of the providers with a `config.rs` declare the keys that are read; and every list of the shipped providers has
//! all of them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::lists::{assert_none, files, root, shipped, text};

/// What a manifest may not contain, and why. Both would still be read.
const OUTDATED: &[(&str, &str)] = &[
    ("\"memoryMib\"", "the spelling is memoryMiB"),
    ("\"version\"", "the SDK takes it from Cargo.toml"),
];

/// A tag of AWS that is spelled like a key.
const TAG: &str = "KubernetesCluster";

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

/// Cargo, clippy and operators read these lists, and leave out without a word what is missing.
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
        expected.extend([
            ("Cargo.toml", format!("\n    \"guests/{name}\",\n")),
            (".ci/run", format!(" -p guest-{name} ")),
            (
                "deploy/docs/README.md",
                format!("[{name}](../../guests/{name}/README.md)"),
            ),
            ("guests/embedded/Cargo.toml", format!("\n{name} = []\n")),
            ("guests/embedded/build.rs", format!("{name:?}")),
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

/// Looks at the providers with a `config.rs`. A provider is given only declared keys: one that it reads beyond them
/// cannot be set.
#[test]
fn manifests_declare_exactly_the_keys_that_are_read() {
    let mut configs = files(&["guests"], "rs");
    configs.retain(|file| file.ends_with("/src/config.rs"));
    assert!(configs.len() >= 4, "{configs:?}");
    for config in configs {
        let guest = config.strip_suffix("/src/config.rs").unwrap();
        // Some have a folder of further sources.
        let folder = format!("{guest}/src/config");
        let mut sources = match root().join(&folder).is_dir() {
            true => files(&[&folder], "rs"),
            false => Vec::new(),
        };
        sources.retain(|file| !file.ends_with("/tests.rs"));
        sources.push(config.clone());
        let read: BTreeSet<String> = sources.iter().flat_map(|file| keys(&text(file))).collect();
        let manifest: Value =
            serde_json::from_str(&text(&format!("{guest}/manifest.json"))).unwrap();
        let declared = manifest["config"].as_array().unwrap().iter();
        let declared: BTreeSet<String> = declared
            .map(|entry| entry["key"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(read, declared, "{guest}");
    }
}

/// The literals of a source that are spelled like keys, except words of a choice: `("word", …)` and `=> "word"`. Lines
/// that are comments do not count.
fn keys(source: &str) -> Vec<String> {
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let code = source.lines().filter(|line| !is_comment(line));
    let source = code.collect::<Vec<_>>().join("\n");
    let parts: Vec<&str> = source.split('"').collect();
    let mut keys = Vec::new();
    for pair in parts.chunks_exact(2) {
        let (before, literal) = (pair[0].trim_end(), pair[1]);
        let is_word = match before.strip_suffix('(') {
            Some(callee) => !callee.ends_with(|letter: char| letter.is_ascii_alphanumeric()),
            None => before.ends_with("=>"),
        };
        let is_key = literal.starts_with(|letter: char| letter.is_ascii_uppercase())
            && literal
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_key && !is_word && literal != TAG {
            keys.push(literal.to_owned());
        }
    }
    keys
}
