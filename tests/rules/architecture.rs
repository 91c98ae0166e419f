//! `ARCHITECTURE.md` is short and names only files that exist.

use std::collections::BTreeSet;

use crate::lists::{root, text};

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
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    let paths: BTreeSet<&str> = page
        .split(|letter| !is_part(letter))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| word.contains('/'))
        .filter(|word| {
            [".rs", ".md", ".wit", ".toml"]
                .iter()
                .any(|end| word.ends_with(end))
        })
        .collect();
    assert!(paths.len() > 40, "{paths:?}");
    let exists = |path: &&&str| {
        let (first, rest) = path.split_once('/').unwrap();
        let in_a_crate = root().join("runtime").join(first).join("src").join(rest);
        root().join(path).exists() || in_a_crate.exists()
    };
    let missing: Vec<_> = paths.iter().filter(|path| !exists(path)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
