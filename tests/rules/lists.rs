//! The common parts of the lists of statements and of cases: tables of Markdown files whose last column names tests,
//! and the existing tests. Judges nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap().to_owned()
}

/// The names of the shipped providers, from the list in `embedded-guests`. Depending on that crate would compile them.
pub(crate) fn shipped() -> Vec<String> {
    let library = text("guests/embedded/src/lib.rs");
    let (_, list) = library
        .split_once("pub const SHIPPED: &[&str] = &[")
        .unwrap();
    let (list, _) = list.split_once("];").unwrap();
    list.split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// The text of a file, by its path from the root, or as [`files`] gives it.
pub(crate) fn text(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap()
}

/// One row of a table.
pub(crate) struct Row {
    pub(crate) id: String,
    /// The cells between the ID and the tests.
    pub(crate) cells: Vec<String>,
    /// The cell that names the tests, or begins with "Not".
    pub(crate) tests: String,
}

impl Row {
    pub(crate) fn is_covered(&self) -> bool {
        !self.tests.starts_with("Not ")
    }

    /// The texts in backticks of the last cell.
    pub(crate) fn named(&self) -> impl Iterator<Item = &str> {
        self.tests.split('`').skip(1).step_by(2)
    }
}

/// The rows of all tables of a file in `tests`, as far as their first cell is an ID. Each has four cells.
pub(crate) fn rows(file: &str, is_id: fn(&str) -> bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for line in text(&format!("tests/{file}")).lines() {
        let line = line.strip_prefix("| ").unwrap_or_default();
        let cells: Vec<&str> = line
            .trim_end_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        if let [id, between @ .., tests] = cells.as_slice()
            && is_id(id)
        {
            assert_eq!(between.len(), 2, "not four cells: {line}");
            rows.push(Row {
                id: (*id).to_owned(),
                cells: between.iter().map(|cell| (*cell).to_owned()).collect(),
                tests: (*tests).to_owned(),
            });
        }
    }
    rows
}

/// All Rust files below these folders.
pub(crate) fn sources(folders: &[&str]) -> Vec<String> {
    let read = |path: &String| std::fs::read_to_string(path).unwrap();
    files(folders, "rs").iter().map(read).collect()
}

/// The paths of all files below these folders whose names end like this. Build output is left out.
pub(crate) fn files(folders: &[&str], extension: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders: Vec<_> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            // Cargo's, and what cargo component generates.
            if path.ends_with("target") || path.ends_with("tests/guests/component/src/bindings.rs")
            {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == extension) {
                found.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    found
}

/// The test functions in `sources`, by name, with their text. A function ends at the brace below its first letter, as
/// rustfmt formats it.
pub(crate) fn functions(sources: &[String]) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for text in sources {
        let mut is_test = false;
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let bare = line.trim_start();
            if bare.starts_with("#[test]") || bare.starts_with("#[tokio::test") {
                is_test = true;
            } else if let Some((_, rest)) = bare.split_once("fn ")
                && is_test
            {
                let name = rest.split('(').next().unwrap().to_owned();
                let end = format!("{}}}", &line[..line.len() - bare.len()]);
                let body = lines.by_ref().take_while(|line| *line != end);
                let body: Vec<&str> = body.collect();
                found.entry(name).or_default().push_str(&body.join("\n"));
                is_test = false;
            }
        }
    }
    found
}

pub(crate) fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
