//! Modules made to harm the person who inspects them: nothing crashes, hangs, or reaches the terminal.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use tempfile::TempDir;

use super::component::{Component, component};
use super::{ProgramOutput, ccm, file, other_module, text};

const MANIFEST: &str =
    r#"{"contract":"0.1.0","name":"sample","version":"1","description":"","schemes":["sample"]}"#;

/// The output of each inspecting command about this module.
fn all(folder: &TempDir, bytes: &[u8]) -> Vec<(&'static str, ProgramOutput)> {
    let module = file(folder, "hostile.wasm", bytes);
    let good = file(folder, "good.wasm", &other_module());
    let target = folder.path().join("out.wasm");
    let (module, good, target) = (text(&module), text(&good), text(&target));
    [
        ("inspect", &["provider", "inspect", module][..]),
        ("check", &["provider", "check", module]),
        ("diff", &["provider", "diff", good, module]),
        ("pack", &["provider", "pack", module, "--to", target]),
    ]
    .into_iter()
    .map(|(name, arguments)| (name, ccm(arguments)))
    .collect()
}

fn assert_harmless(case: &str, command: &str, output: &ProgramOutput) {
    for text in [&output.out, &output.err] {
        let bad = text.chars().find(|character| {
            (character.is_control() && *character != '\n')
                || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        });
        assert_eq!(bad, None, "{case}: {command}: {text:?}");
        assert!(
            text.len() < 64 << 10,
            "{case}: {command}: {} bytes",
            text.len()
        );
    }
}

#[test]
fn names_and_texts_of_a_module_reach_no_terminal_as_commands() {
    let clear = "\u{1b}[2J\u{1b}]0;owned\u{7}";
    let turned = "\u{202e}cod.exe";
    let manifest = |rule: serde_json::Value| {
        json!({
            "contract": "0.1.0", "name": "x", "version": "1", "schemes": ["x"],
            "targets": [{ "name": "api", "endpoint": "https://a.example/", "auth": "none", "rules": [rule] }],
        })
        .to_string()
    };
    let in_value = manifest(json!({ "methods": [clear], "path": turned, "access": clear }));
    let in_key = manifest(json!({ "methods": ["GET"], "path": "/", "access": "read", clear: 1 }));
    let in_text = json!({ "contract": "0.1.0", "name": clear, "version": turned, "description": clear, turned: 1 }).to_string();
    let in_type = format!(r#"{{"contract":"0.1.0","name":["{}"]}}"#, "\\u001b[2J");
    let huge =
        json!({ "contract": "0.1.0", "name": "x".repeat(60 << 10), "version": "1" }).to_string();
    let import = format!("wasi:sockets/{}@0.2.0", "a".repeat(9000));
    for (case, manifests, imports) in [
        ("values", &[in_value.as_str()][..], &[][..]),
        ("keys", &[&in_key], &[]),
        ("texts", &[&in_text], &[]),
        ("types", &[&in_type], &[]),
        ("length", &[&huge], &[]),
        ("imports", &[MANIFEST], &[clear, turned, import.as_str()]),
    ] {
        let folder = TempDir::new().unwrap();
        let wasm = component(&Component {
            manifests,
            imports,
            ..Component::default()
        });
        for (command, output) in all(&folder, &wasm) {
            assert_eq!(
                output.code, 2,
                "{case}: {command}: {}{}",
                output.out, output.err
            );
            assert_harmless(case, command, &output);
        }
        let module = folder.path().join("hostile.wasm");
        let output = ccm(&["provider", "inspect", "-o", "json", text(&module)]);
        assert_eq!(output.code, 2, "{case}");
        serde_json::from_str::<serde_json::Value>(&output.out).unwrap();
        assert!(!output.out.contains('\u{1b}'), "{case}: {:?}", output.out);
    }
}

#[test]
fn files_that_are_cut_bent_or_far_too_large_are_refused() {
    let whole = component(&Component {
        manifests: &[MANIFEST],
        ..Component::default()
    });
    let packed = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let mut bent = whole.clone();
    bent.extend([9, 0xff, 0xff, 0xff, 0xff, 0x0f]);
    let small = packed(&whole);
    let large = MANIFEST.replace(
        r#""description":"""#,
        &format!(r#""description":"{}""#, " ".repeat(64 << 10)),
    );
    let mut cases: Vec<(String, Vec<u8>)> = vec![
        ("a section beyond the end".to_owned(), bent),
        ("half a gzip".to_owned(), small[..small.len() / 2].to_vec()),
        (
            "a gzip whose sum is wrong".to_owned(),
            [&small[..small.len() - 8], &[0; 8]].concat(),
        ),
        (
            "a zstd".to_owned(),
            [b"\x28\xb5\x2f\xfd".as_slice(), &whole].concat(),
        ),
        (
            "a bomb".to_owned(),
            packed(&[b"\0asm\x0d\0\x01\0", &[0; 40 << 20][..]].concat()),
        ),
        (
            "a bomb in a bomb".to_owned(),
            packed(&packed(&vec![0; 8 << 20])),
        ),
        ("a script".to_owned(), b"#!/bin/sh\nexit 0\n".to_vec()),
        (
            "compiled code".to_owned(),
            [b"\x7fELF".as_slice(), &[0; 4096]].concat(),
        ),
        (
            "a manifest beyond its size".to_owned(),
            component(&Component {
                manifests: &[&large],
                ..Component::default()
            }),
        ),
        (
            "two manifests".to_owned(),
            component(&Component {
                manifests: &[MANIFEST, MANIFEST],
                ..Component::default()
            }),
        ),
        (
            "33 MiB".to_owned(),
            [whole.as_slice(), &vec![0; 33 << 20]].concat(),
        ),
    ];
    // Cut before the end of its manifest, every file is either damaged or without a manifest.
    cases.extend(
        (1..whole.len())
            .step_by(7)
            .map(|end| (format!("cut at {end}"), whole[..end].to_vec())),
    );
    for (case, bytes) in cases {
        let folder = TempDir::new().unwrap();
        let module = file(&folder, "hostile.wasm", &bytes);
        let commands: Vec<(&str, ProgramOutput)> = match case.starts_with("cut") {
            true => vec![("inspect", ccm(&["provider", "inspect", text(&module)]))],
            false => all(&folder, &bytes),
        };
        for (command, output) in commands {
            assert_eq!(
                output.code, 2,
                "{case}: {command}: {}{}",
                output.out, output.err
            );
            assert!(
                output.out.contains("hostile.wasm"),
                "{case}: {command}: {}",
                output.out
            );
            assert_harmless(&case, command, &output);
            assert!(!folder.path().join("out.wasm").exists(), "{case}");
        }
    }
}
