//! One word, one idea: no two types of the product that one file could import have the same name. Reads declarations;
//! types that only a module and its parent see do not count.

use std::collections::{BTreeMap, BTreeSet};

use crate::lists::{files, root};

/// Names that several types may have, and why.
const ALLOWED: [(&str, &str); 9] = [
    ("Claim", "a provider's claim of Nodes, and that of Services"),
    ("EnsureRequest", "contract 0.1 mirrors it"),
    (
        "Facts",
        "each controller has its own, by the name of its module",
    ),
    ("Memory", "as Facts"),
    ("Metrics", "each crate registers its own"),
    (
        "Owner",
        "of a Node, of a Service, and of a load balancer in an answer",
    ),
    ("Pass", "as Facts"),
    ("RetainedState", "as Facts"),
    ("UpdateRequest", "contract 0.1 mirrors it"),
];

const CRATES: [&str; 9] = [
    "ccm",
    "controllers",
    "core",
    "delivery",
    "host",
    "metrics",
    "proxy",
    "serving",
    "watch",
];

struct Declared {
    in_crate: &'static str,
    file: String,
    /// Whether other crates see it.
    is_public: bool,
}

#[test]
fn types_that_one_file_could_import_have_different_names() {
    let dependencies: BTreeMap<&str, BTreeSet<&str>> = CRATES
        .iter()
        .map(|name| (*name, dependencies(name)))
        .collect();
    let sees = |from: &Declared, to: &Declared| {
        from.in_crate == to.in_crate
            || to.is_public && dependencies[from.in_crate].contains(to.in_crate)
    };
    let third = |one: &Declared, other: &Declared| {
        one.is_public
            && other.is_public
            && CRATES.iter().any(|name| {
                let all = &dependencies[name];
                all.contains(one.in_crate) && all.contains(other.in_crate)
            })
    };
    let mut broken = Vec::new();
    for (name, declared) in types() {
        let collides = |one: &Declared, other: &Declared| {
            sees(one, other) || sees(other, one) || third(one, other)
        };
        let pairs = declared.iter().enumerate().flat_map(|(at, one)| {
            let others = declared[at + 1..].iter();
            others.map(move |other| (one, other))
        });
        let found: Vec<_> = pairs
            .filter(|(one, other)| collides(one, other))
            .map(|(one, other)| format!("{} and {}", one.file, other.file))
            .collect();
        let is_allowed = ALLOWED.iter().any(|(allowed, _)| *allowed == name);
        match (found.is_empty(), is_allowed) {
            (false, false) => broken.push(format!("{name}: {}", found.join("; "))),
            (true, true) => broken.push(format!("{name} is allowed and there is one")),
            _ => {}
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Our crates that a crate of the runtime depends on.
fn dependencies(name: &str) -> BTreeSet<&'static str> {
    let manifest = root().join("runtime").join(name).join("Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    let section = manifest.split("[dependencies]\n").nth(1).unwrap();
    let section = section.split("\n[").next().unwrap();
    let is_named = |other: &&&str| section.contains(&format!("ccm-{other}"));
    CRATES.iter().filter(is_named).copied().collect()
}

/// All types of the product by their name.
fn types() -> BTreeMap<String, Vec<Declared>> {
    let mut found: BTreeMap<String, Vec<Declared>> = BTreeMap::new();
    for in_crate in CRATES {
        let folder = format!("runtime/{in_crate}/src");
        let begin = format!("{}/", root().display());
        for path in files(&[&folder], "rs") {
            let file = path.strip_prefix(&begin).unwrap();
            let is_test =
                |part: &str| ["tests", "tests.rs", "fixtures", "fixtures.rs"].contains(&part);
            if file.split('/').any(is_test) {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for (name, is_public) in declarations(&text) {
                found.entry(name.to_owned()).or_default().push(Declared {
                    in_crate,
                    file: file.to_owned(),
                    is_public,
                });
            }
        }
    }
    found
}

/// The types that a file declares for the crate or for others, and whether for others.
fn declarations(text: &str) -> Vec<(&str, bool)> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let declared = code.lines().filter_map(|line| {
        let line = line.trim_start();
        let (rest, is_public) = match line.strip_prefix("pub(crate) ") {
            Some(rest) => (rest, false),
            None => (line.strip_prefix("pub ")?, true),
        };
        let kinds = ["struct ", "enum ", "trait ", "type "];
        let rest = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
        Some((&rest[..end.unwrap_or(rest.len())], is_public))
    });
    declared.collect()
}

#[test]
fn declarations_are_found() {
    let text = "pub struct A<T>(T);\npub(crate) enum B {\n}\npub(super) struct C;\nstruct D;\n    pub type E = A;\n#[cfg(test)]\nmod tests {\n    pub struct F;\n}\n";
    assert_eq!(declarations(text), [("A", true), ("B", false), ("E", true)]);
}
