//! `conformance.md` names a test for every statement that is covered; here it is checked that each of these
//! tests exists, and that no statement stands there twice. Whether a test is good, its name cannot tell.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn tests_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The rows of all tables: statement ID, and the cell that names its tests.
fn rows() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(tests_folder().join("conformance.md")).unwrap();
    text.lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let id = *cells.first()?;
            let (prefix, number) = id.split_once('-')?;
            let is_id = prefix.bytes().all(|byte| byte.is_ascii_uppercase())
                && number.bytes().all(|byte| byte.is_ascii_digit());
            is_id.then(|| (id.to_owned(), (*cells.last().unwrap()).to_owned()))
        })
        .collect()
}

/// The texts in backticks of a cell.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Every line that begins a function, in all Rust files of the repository's runtime and tests.
fn functions() -> BTreeSet<String> {
    let root = tests_folder().parent().unwrap().to_owned();
    let mut found = BTreeSet::new();
    let mut folders = vec![root.join("runtime"), root.join("tests")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let mut is_test = false;
                for line in text.lines().map(str::trim) {
                    if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                        is_test = true;
                    } else if let Some((_, rest)) = line.split_once("fn ")
                        && is_test
                    {
                        found.insert(rest.split('(').next().unwrap().to_owned());
                        is_test = false;
                    }
                }
            }
        }
    }
    found
}

#[test]
fn every_test_that_conformance_md_names_exists() {
    let (rows, functions) = (rows(), functions());
    assert!(rows.len() > 50, "only {} statements were read", rows.len());
    let mut missing = Vec::new();
    for (id, cell) in &rows {
        let mut tests = quoted(cell).peekable();
        if tests.peek().is_none() && !cell.starts_with("Not ") {
            missing.push(format!(
                "{id} names no test and does not say \"Not …\": {cell}"
            ));
        }
        for test in tests {
            let exists = match test.strip_suffix(".txt") {
                Some(_) => tests_folder().join("scenarios").join(test).exists(),
                None => functions.contains(test),
            };
            if !exists {
                missing.push(format!("{id} names {test}, which does not exist"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn no_statement_stands_in_conformance_md_twice() {
    let mut seen = BTreeSet::new();
    for (id, _) in rows() {
        assert!(seen.insert(id.clone()), "{id} has two rows");
    }
}

#[test]
fn every_departure_has_its_reason_in_the_architecture() {
    let conformance = std::fs::read_to_string(tests_folder().join("conformance.md")).unwrap();
    let architecture = std::fs::read_to_string(tests_folder().join("../ARCHITECTURE.md")).unwrap();
    let departures = architecture.split("## Departures").nth(1).unwrap();
    let missing: Vec<_> = conformance
        .lines()
        .filter(|line| line.contains("Ours differs") && line.starts_with("| "))
        .filter_map(|line| line.split('|').nth(1))
        .map(str::trim)
        .filter(|id| !departures.contains(id))
        .collect();
    assert!(missing.is_empty(), "no row for {missing:?}");
}
