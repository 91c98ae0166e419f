//! Derives versions of a module from its bytes: another version number, one more requested rule, one broken function.
//! Each has the same length, so that no preceding size field must change.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "only tests make such versions"
)]

use serde_json::{Value, json};
use wasmparser::{ExternalKind, Parser, Payload};

/// The module with another version in its manifest.
///
/// # Panics
/// It is not a module with a manifest, or the manifest lacks the space.
#[must_use]
pub fn numbered(wasm: &[u8], version: &str) -> Vec<u8> {
    with_manifest(wasm, |manifest| manifest["version"] = json!(version))
}

/// The module with an additional requested rule for its first target.
///
/// # Panics
/// As [`numbered`].
#[must_use]
pub fn wider(wasm: &[u8], rule: &Value) -> Vec<u8> {
    with_manifest(wasm, |manifest| {
        let rules = manifest["targets"][0]["rules"].as_array_mut();
        rules.unwrap().push(rule.clone());
    })
}

/// The module with a changed manifest, written as compact JSON and padded with spaces.
fn with_manifest(wasm: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut sections = Parser::new(0).parse_all(wasm).filter_map(|payload| {
        let Payload::CustomSection(section) = payload.unwrap() else {
            return None;
        };
        let end = section.data_offset() + section.data().len();
        (section.name() == "ccm:manifest").then_some(section.data_offset()..end)
    });
    let place = sections.next().unwrap();
    let mut manifest: Value = serde_json::from_slice(&wasm[place.clone()]).unwrap();
    change(&mut manifest);
    let mut text = manifest.to_string().into_bytes();
    assert!(text.len() <= place.len(), "there is no room for more");
    text.resize(place.len(), b' ');
    let mut wasm = wasm.to_vec();
    wasm[place].copy_from_slice(&text);
    wasm
}

/// The module with this exported function trapping, for example `ccm:provider/instances@0.1.0#find`.
///
/// # Panics
/// None of its core modules exports it.
#[must_use]
pub fn trapping(wasm: &[u8], export: &str) -> Vec<u8> {
    let body = body_of(wasm, export);
    let mut wasm = wasm.to_vec();
    // No locals, `unreachable`, then `nop`s up to the final `end`.
    let (first, last) = (body.start, body.end - 1);
    wasm[body].fill(0x01);
    wasm[first] = 0x00;
    wasm[first + 1] = 0x00;
    wasm[last] = 0x0b;
    wasm
}

/// The byte range of an exported function's body, in the core module that exports it.
fn body_of(wasm: &[u8], export: &str) -> std::ops::Range<usize> {
    let (mut imported, mut wanted, mut seen) = (0, None, 0);
    for payload in Parser::new(0).parse_all(wasm) {
        match payload.unwrap() {
            Payload::Version { .. } => (imported, wanted, seen) = (0, None, 0),
            Payload::ImportSection(section) => {
                let imports = section.into_imports();
                let is_function = |import: &wasmparser::Import<'_>| {
                    matches!(import.ty, wasmparser::TypeRef::Func(_))
                };
                imported = imports.map(Result::unwrap).filter(is_function).count();
            }
            Payload::ExportSection(section) => {
                let mut exports = section.into_iter().map(Result::unwrap);
                let found =
                    exports.find(|one| one.name == export && one.kind == ExternalKind::Func);
                wanted = found.map(|one| one.index as usize - imported);
            }
            Payload::CodeSectionEntry(body) => {
                if wanted == Some(seen) {
                    return body.range();
                }
                seen += 1;
            }
            _ => {}
        }
    }
    panic!("no core module exports {export}");
}
