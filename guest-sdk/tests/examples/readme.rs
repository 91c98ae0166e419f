//! The README's provider is the one in `examples/`, which compiles.

#[test]
fn the_provider_in_the_readme_is_the_example() {
    let readme = include_str!("../../README.md");
    let example = include_str!("../../examples/tiny/main.rs");
    let code = example.split_once("\n\n").map(|(_, code)| code);
    assert!(
        code.is_some_and(|code| readme.contains(code)),
        "copy examples/tiny/main.rs into README.md"
    );
    assert!(
        readme.contains(include_str!("../../examples/tiny/manifest.json")),
        "copy examples/tiny/manifest.json into README.md"
    );
}
