//! The Go programs that suites build come from several modules, and have most packages in common: those of Kubernetes
//! and of Go itself. Go's cache has each of them once as long as the modules agree on its version.

use std::collections::BTreeMap;

use crate::lists::{assert_none, root};

/// The modules that one run of all suites compiles.
const MODULES: &[&str] = &[
    "tests/cluster/apiserver/go.mod",
    "tests/cluster/helm/go.mod",
    "tests/documents/kubernetes/go.mod",
    "tests/registry/tools/go.mod",
];

/// The version that counts of each module that a `go.mod` requires: that of its replacement if it has one.
fn versions(module: &str) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for line in module.lines() {
        let words: Vec<&str> = line
            .trim_start_matches("require ")
            .split_whitespace()
            .collect();
        match words.as_slice() {
            [path, "=>", replacement, version] if path == replacement => {
                versions.insert((*path).to_owned(), (*version).to_owned());
            }
            [path, version, ..] if path.contains('.') && version.starts_with('v') => {
                let entry = versions.entry((*path).to_owned());
                entry.or_insert_with(|| (*version).to_owned());
            }
            _ => {}
        }
    }
    versions
}

#[test]
fn modules_that_are_compiled_in_one_run_agree_on_versions() {
    let mut seen: BTreeMap<String, (String, &str)> = BTreeMap::new();
    let mut problems = Vec::new();
    for file in MODULES {
        let required = versions(&std::fs::read_to_string(root().join(file)).unwrap());
        assert!(required.len() > 50, "{file}: {required:?}");
        for (path, version) in required {
            match seen.get(&path) {
                Some((other, first)) if *other != version => {
                    problems.push(format!("{path}: {version} in {file}, {other} in {first}"));
                }
                Some(_) => {}
                None => {
                    seen.insert(path, (version, file));
                }
            }
        }
    }
    assert_none(&problems);
}
