//! Files that only tests use are named so, to distinguish them from the product.

use crate::lists::{files, root};

/// Modules that make files of `deploy` from the code's own tables, as tests.
const GENERATORS: [&str; 3] = [
    "runtime/ccm/src/builtin_grants.rs: listed",
    "runtime/ccm/src/config.rs: definition",
    "runtime/ccm/src/main.rs: reference",
];

#[test]
fn files_that_only_tests_use_are_named_tests_or_fixtures() {
    let begin = format!("{}/", root().display());
    let mut broken = Vec::new();
    for path in files(&["runtime", "guests", "guest-sdk"], "rs") {
        let file = path.strip_prefix(&begin).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let names = test_modules(&text);
        let wrong = names.filter(|name| !["tests", "fixtures"].contains(name));
        broken.extend(wrong.map(|name| format!("{file}: {name}")));
    }
    broken.retain(|one| !GENERATORS.contains(&one.as_str()));
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The names of the modules in files of their own that are compiled for tests alone.
fn test_modules(text: &str) -> impl Iterator<Item = &str> {
    let after = text.split("#[cfg(test)]\n").skip(1);
    after.filter_map(|after| {
        let item = after.lines().next()?.trim();
        let name = item.strip_suffix(';')?.rsplit_once("mod ")?.1;
        item.contains("mod ").then_some(name)
    })
}

#[test]
fn a_module_for_tests_is_found() {
    let text = "#[cfg(test)]\npub(crate) mod sample;\nmod other;\n#[cfg(test)]\nmod tests {\n}\n#[cfg(test)]\nuse a;\n";
    assert_eq!(test_modules(text).collect::<Vec<_>>(), ["sample"]);
}
