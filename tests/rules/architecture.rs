//! `ARCHITECTURE.md` is short and names only files that exist, as do the pages about tests and hostile cases.

use std::collections::BTreeSet;

use crate::lists::{assert_none, files, root, text};

/// The page must be readable in ten minutes.
const MOST_WORDS: usize = 2500;

fn page() -> String {
    text("ARCHITECTURE.md")
}

#[test]
fn the_architecture_is_read_in_ten_minutes() {
    let words = page().split_whitespace().count();
    assert!(words <= MOST_WORDS, "{words} words");
}

#[test]
fn every_path_of_the_architecture_exists() {
    let page = page();
    let mut paths = paths(&page);
    paths.retain(|path| path.contains('/'));
    assert!(paths.len() > 40, "{paths:?}");
    let missing: Vec<_> = paths.iter().filter(|path| !exists(path)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Pages about tests name files by their path from the page's folder or from `tests`, or by the name alone.
#[test]
fn every_file_that_the_pages_about_tests_and_hostile_cases_name_exists() {
    let mut pages = files(&["tests"], "md");
    pages.retain(|page| page.ends_with("/README.md"));
    pages.extend(["tests/hostile.md", "deploy/docs/safety.md"].map(str::to_owned));
    let mut missing = Vec::new();
    for page in pages {
        let (folder, _) = page.rsplit_once('/').unwrap();
        let below = files(&[folder], "rs");
        for path in paths(&text(&page)) {
            let is_below = below.iter().any(|file| file.ends_with(&format!("/{path}")));
            let mut folders = [folder, "tests"].into_iter();
            let is_in_one = folders.any(|folder| root().join(folder).join(path).exists());
            if !is_below && !is_in_one && !exists(path) {
                missing.push(format!("{page}: {path}"));
            }
        }
    }
    assert_none(&missing);
}

/// The words of a page that are spelled like paths of files.
fn paths(page: &str) -> BTreeSet<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    page.split(|letter| !is_part(letter))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| {
            [".rs", ".md", ".wit", ".toml"]
                .iter()
                .any(|end| word.ends_with(end))
        })
        .collect()
}

/// Whether there is such a file, by its path from the root, or from the crate's sources, such as `core/lib.rs`.
fn exists(path: &str) -> bool {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let in_a_crate = root().join("runtime").join(first).join("src").join(rest);
    root().join(path).exists() || in_a_crate.exists()
}
