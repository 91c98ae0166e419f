//! The Go programs that suites build come from several modules, and have most packages in common: those of Kubernetes
//! and of Go itself. Go's cache has each of them once as long as the modules agree on its version. The lists of Kubernetes'
//! versions are those that the modules name.

use std::collections::{BTreeMap, BTreeSet};

use crate::lists::{assert_none, files, text};

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
        let required = versions(&text(file));
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

/// The text between the two, which has to exist.
fn between(file: &str, begin: &str, end: &str) -> String {
    let text = text(file);
    let (_, rest) = text
        .split_once(begin)
        .unwrap_or_else(|| panic!("{file} lacks {begin}"));
    rest.split(end).next().unwrap().to_owned()
}

#[test]
fn every_list_of_kubernetes_versions_has_those_that_the_suites_run_on() {
    let pinned = |module: &str| {
        let versions = versions(module);
        versions["k8s.io/kubernetes"]
            .trim_start_matches('v')
            .to_owned()
    };
    let minor = |version: &str| version.rsplit_once('.').unwrap().0.to_owned();
    // What `CCM_KUBERNETES` calls them: the name of the file, without its `v`.
    let mut others = BTreeMap::new();
    for path in files(&["tests/cluster/apiserver"], "mod") {
        let name = path.rsplit('/').next().unwrap().trim_end_matches(".mod");
        let module = text(&path);
        others.insert(name.trim_start_matches('v').to_owned(), pinned(&module));
    }
    let usual = others.remove("go").unwrap();
    let oldest = others["oldest"].clone();
    let all: BTreeSet<&String> = others.values().chain([&usual]).collect();

    let section = between("deploy/docs/versions.md", "\n## Kubernetes\n", "\n## ");
    let cells = section.lines().filter_map(|line| line.split('|').nth(1));
    let listed: BTreeSet<String> = cells
        .map(|cell| cell.trim().to_owned())
        .filter(|cell| {
            cell.split('.')
                .filter(|part| part.parse::<u32>().is_ok())
                .count()
                == 3
        })
        .collect();
    assert_eq!(listed.iter().collect::<BTreeSet<_>>(), all, "versions.md");

    let looped = between(".ci/full", "for version in ", ";");
    let looped: BTreeSet<&str> = looped.split_whitespace().collect();
    let named: BTreeSet<&str> = others.keys().map(String::as_str).collect();
    assert_eq!(looped, named, ".ci/full");

    let row = between("README.md", "| tested with | Kubernetes ", " (");
    let row: BTreeSet<String> = row
        .split([' ', ','])
        .filter(|word| word.contains('.'))
        .map(str::to_owned)
        .collect();
    let minors: BTreeSet<String> = all.iter().map(|version| minor(version)).collect();
    assert_eq!(row, minors, "README.md");

    let row = between("tests/README.md", "| `CCM_KUBERNETES` |", "\n");
    let mut expected = vec![
        (
            "tests/README.md",
            row.clone(),
            format!("`oldest` ({oldest})"),
        ),
        ("tests/README.md", row.clone(), format!("| {usual}; ")),
    ];
    let named = named.into_iter().filter(|name| *name != "oldest");
    expected.extend(named.map(|name| ("tests/README.md", row.clone(), format!("`{name}`"))));
    for (file, part) in [
        ("tests/src/kubernetes.rs", format!("\"v{usual}\"")),
        (
            "tests/documents/kubernetes/go.mod",
            format!("k8s.io/kubernetes v{usual} "),
        ),
        (
            "runtime/sim/src/cluster/discovery.rs",
            format!("\"gitVersion\": \"v{usual}\""),
        ),
        (
            "deploy/chart/Chart.yaml",
            format!("kubeVersion: \">={}.0-0\"", minor(&oldest)),
        ),
    ] {
        expected.push((file, text(file), part));
    }
    let missing = expected
        .iter()
        .filter(|(_, text, part)| !text.contains(part));
    let missing: Vec<String> = missing
        .map(|(file, _, part)| format!("{file}: {part}"))
        .collect();
    assert_none(&missing);
}
