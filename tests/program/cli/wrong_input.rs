//! Input that is not what a command expects: other files, references in another form, options of another command.

use tempfile::TempDir;

use super::{ccm, file, other_module, text};

#[test]
fn files_that_are_no_modules_are_refused_by_name_and_reason() {
    let folder = TempDir::new().unwrap();
    let whole = other_module();
    let core = [0, b'a', b's', b'm', 1, 0, 0, 0];
    let cases: &[(&str, &[u8], &str)] = &[
        ("text.wasm", b"hello, this is text", "not WebAssembly"),
        ("cut.wasm", &whole[..whole.len() / 2], "offset"),
        ("core.wasm", &core, "component"),
    ];
    for (name, bytes, reason) in cases {
        let path = file(&folder, name, bytes);
        for command in ["inspect", "check"] {
            let ran = ccm(&["provider", command, text(&path)]);
            assert_eq!(ran.code, 2, "{name}: {}{}", ran.out, ran.err);
            assert!(
                ran.out.contains(name) && ran.out.contains(reason),
                "{name}: {}",
                ran.out
            );
        }
    }
    let ran = ccm(&[
        "provider",
        "check",
        text(&folder.path().join("nothing.wasm")),
    ]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("nothing.wasm"), "{}", ran.err);
    // It is unclear which of the files is meant.
    let ran = ccm(&["provider", "check", text(folder.path())]);
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("there are several"), "{}", ran.out);
    let empty = file(&folder, "empty.wasm", b"");
    let ran = ccm(&["provider", "check", text(&empty)]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("it is empty"), "{}", ran.err);
}
