//! The README's provider is the one in `examples/tiny`. `tests/package.rs` builds it as a reader would.

#[test]
fn the_provider_in_the_readme_is_the_example() {
    let readme = include_str!("../../README.md");
    let example = include_str!("../../examples/tiny/main.rs");
    let (_, code) = example.split_once("\n\n").unwrap();
    let code = code.replace("examples/tiny/manifest.json", "manifest.json");
    assert!(
        readme.contains(&code),
        "copy examples/tiny/main.rs into README.md"
    );
    assert!(
        readme.contains(include_str!("../../examples/tiny/manifest.json")),
        "copy examples/tiny/manifest.json into README.md"
    );
}
