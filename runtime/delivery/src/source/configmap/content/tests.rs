#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use ccm_host::Digest;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::{ModuleContent, NotFound, keys, module_in};
use crate::artifact::{EVIDENCE_BYTES, SignatureEvidence};

/// A ConfigMap as YAML has it.
fn map(object: Value) -> ConfigMap {
    serde_json::from_value(object).unwrap()
}

fn found(object: Value) -> ModuleContent {
    module_in(&map(object), "k").unwrap()
}

fn refused(object: Value) -> String {
    match module_in(&map(object), "k") {
        Err(NotFound::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    Digest::of(bytes).hex()
}

#[test]
fn the_file_is_found_in_either_map() {
    let whole = ModuleContent {
        bytes: b"\0asm!".to_vec(),
        evidence: Vec::new(),
    };
    for object in [
        json!({"binaryData": {"k": "AGFzbSE=", "other": "AA=="}}),
        json!({"data": {"k": "AGFzbSE="}}),
        json!({"data": {"k": "AGFz\n  bSE=\n"}}),
        json!({"data": {"k": "\u{0}asm!"}}),
        json!({"binaryData": {"k": "AGFzbSE="}, "data": {"k.sha256": hex(b"\0asm!")}}),
        json!({"binaryData": {"k.00": "AGFz", "k.01": "bSE="}, "data": {"k.sha256": format!("sha256:{}", hex(b"\0asm!"))}}),
        json!({"binaryData": {"k.00": "AGFz"}, "data": {"k.01": "bSE=", "k.sha256": format!("{}  k.wasm\n", hex(b"\0asm!").to_uppercase())}}),
        json!({"binaryData": {"k.00": "AGFzbSE="}, "data": {"k.sha256": hex(b"\0asm!")}}),
    ] {
        assert_eq!(found(object.clone()), whole, "{object}");
    }
}

#[test]
fn every_key_may_hold_a_module_or_a_part_of_one_but_those_of_what_stands_beside_it() {
    let object = map(json!({
        "binaryData": {"k": "AA==", "b.00": "AA==", "b.01": "AA==", "a.wasm": "AA=="},
        "data": {"b.sha256": "", "a.wasm.sigstore.json": "{}", "text.123": ""},
    }));
    let expected = ["k", "a.wasm", "b", "b.00", "b.01", "text.123"];
    assert_eq!(keys(&object, "k"), expected);
    assert_eq!(keys(&ConfigMap::default(), "k"), ["k"]);
}

#[test]
fn evidence_is_taken_as_it_stands() {
    for object in [
        json!({"binaryData": {"k": "AGFzbQ=="}, "data": {"k.sigstore.json": "{}"}}),
        json!({"binaryData": {"k": "AGFzbQ==", "k.sigstore.json": "e30="}}),
    ] {
        assert_eq!(
            found(object).evidence,
            [SignatureEvidence::Bundle(b"{}".to_vec())]
        );
    }
    let long = "x".repeat(EVIDENCE_BYTES + 1);
    let why = refused(json!({"binaryData": {"k": "AGFzbQ=="}, "data": {"k.sigstore.json": long}}));
    assert!(why.contains("k.sigstore.json has 262145 bytes"), "{why}");
}

#[test]
fn what_is_not_of_one_piece_is_refused_and_the_reason_names_the_key() {
    let digest = hex(b"\0asm!");
    for (object, reason) in [
        (
            json!({"binaryData": {"k": "AGFzbSE=", "k.00": "AGFz"}}),
            "the key k and the parts",
        ),
        (
            json!({"binaryData": {"k.00": "AGFz", "k.01": "bSE="}}),
            "needs the key k.sha256",
        ),
        (
            json!({"binaryData": {"k.00": "AGFz", "k.02": "bSE="}, "data": {"k.sha256": digest}}),
            "the part k.02, but not k.01",
        ),
        (
            json!({"binaryData": {"k.01": "bSE="}, "data": {"k.sha256": digest}}),
            "the part k.01, but not k.00",
        ),
        (
            json!({"binaryData": {"k.00": "AGFz", "k.99": "bSE="}, "data": {"k.sha256": digest}}),
            "the part k.99, but not k.01",
        ),
        (
            json!({"binaryData": {"k.00": "bSE=", "k.01": "AGFz"}, "data": {"k.sha256": digest}}),
            "not everything is changed yet",
        ),
        (
            json!({"binaryData": {"k.00": "AGFz"}, "data": {"k.sha256": digest}}),
            "not everything is changed yet",
        ),
        (
            json!({"binaryData": {"k": "AGFz"}, "data": {"k.sha256": digest}}),
            "not everything is changed yet",
        ),
        (
            json!({"binaryData": {"k": "AGFz"}, "data": {"k.sha256": "later"}}),
            "k.sha256 is not the SHA-256",
        ),
        (
            json!({"binaryData": {"k": "AGFz"}, "data": {"k.sha256": ""}}),
            "k.sha256 is not the SHA-256",
        ),
        (json!({"data": {"k": "no base64!"}}), "not base64"),
    ] {
        let why = refused(object.clone());
        assert!(why.contains(reason), "{object}: {why}");
    }
}

#[test]
fn what_is_missing_is_told_with_what_is_there() {
    let many: serde_json::Map<String, Value> =
        (0..20).map(|n| (format!("n{n:02}"), json!(""))).collect();
    for (object, reason) in [
        (json!({}), "it has no key k, and no other"),
        (
            json!({"data": {"a": ""}, "binaryData": {"b": ""}}),
            "it has no key k, but a, b",
        ),
        (json!({"data": many}), "n07 and 12 more"),
        (
            json!({"data": {"k.sha256": ""}}),
            "it has no key k, but k.sha256",
        ),
    ] {
        match module_in(&map(object), "k") {
            Err(NotFound::Absent(why)) => assert!(why.ends_with(reason), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}
