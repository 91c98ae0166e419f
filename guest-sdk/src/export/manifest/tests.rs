//! Which mistakes are found in a manifest at compile time, and how the version is inserted.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;

use super::*;

const TINY: &str = include_str!("../../../examples/tiny/manifest.json");
const BALANCER: &str = include_str!("../../../examples/balancer/manifest.json");
const SCHEMA: &str = include_str!("../../../wit/v0.2/manifest.schema.json");

fn checked(manifest: &str) -> Result<bool, &'static str> {
    check(manifest.as_bytes(), b"1.2.3").map_err(|mistake| mistake.what)
}

#[test]
fn the_examples_have_no_mistake() {
    for manifest in [TINY, BALANCER] {
        assert_eq!(checked(manifest), Ok(false));
    }
    let least = r#"{"contract": "0.2.0", "name": "a"}"#;
    assert_eq!(checked(least), Ok(false));
    let versioned = r#" {"contract": "0.2.0", "name": "a", "version": "1.2.3"} "#;
    assert_eq!(checked(versioned), Ok(true));
}

#[test]
fn each_mistake_is_found() {
    // Text in the manifest of `tiny`, its replacement, and the message.
    let table = [
        ("\"name\": \"tiny\",", "\"name\": \"tiny\"", "a comma"),
        ("\"name\": \"tiny\"", "\"name\": tiny", "in double quotes"),
        ("\"name\": \"tiny\"", "\"name\": \"tiny", "does not end"),
        ("\"name\": \"tiny\"", "\"name\": 7", "in double quotes"),
        ("\"name\": \"tiny\"", "\"name\" \"tiny\"", "a colon"),
        ("\"name\": \"tiny\"", "\"nam\": \"tiny\"", "unknown key"),
        ("\"name\": \"tiny\"", "\"why\": \"tiny\"", "unknown key"),
        (
            "\"name\": \"tiny\",",
            "\"name\": \"tiny\", \"name\": \"b\",",
            "twice",
        ),
        ("\"name\": \"tiny\",", "", "\"name\" is missing"),
        ("\"name\": \"api\",", "", "\"name\" is missing"),
        ("\"contract\": \"0.2.0\",", "", "\"contract\" is missing"),
        ("\"0.2.0\"", "\"0.3.0\"", "another version of the contract"),
        ("\"schemes\": [\"tiny\"]", "\"schemes\": \"tiny\"", "a list"),
        (
            "\"schemes\": [\"tiny\"]",
            "\"schemes\": [\"tiny\"",
            "a closing bracket",
        ),
        ("\"auth\": \"bearer\",", "", "\"auth\" is missing"),
        (
            "\"access\": \"read\"",
            "\"access\": \"Read\"",
            "read or write",
        ),
        (", \"access\": \"read\"", "", "\"access\" is missing"),
        ("\"/machines/{id}\"", "\"machines/{id}\"", "begins with /"),
        ("\"/machines/{id}\"", "\"/machines/**\"", "no wildcards"),
        ("\"methods\": [\"GET\"]", "\"methods\": \"GET\"", "a list"),
        (
            "\"memoryMiB\": 16",
            "\"memoryMiB\": \"16\"",
            "a whole number",
        ),
        ("\"memoryMiB\": 16", "\"memory\": 16", "unknown key"),
        ("\"limits\": {", "\"limits\": [", "an object"),
        (
            "\"description\"",
            "\"version\": \"1.2.4\", \"description\"",
            "not that of Cargo.toml",
        ),
    ];
    for (found, replaced, expected) in table {
        assert!(TINY.contains(found), "{found}");
        let what = checked(&TINY.replacen(found, replaced, 1)).unwrap_err();
        assert!(
            what.contains(expected),
            "{replaced}: {what:?} lacks {expected:?}"
        );
    }
    let rules = TINY.find("[{ \"methods\"").unwrap();
    let end = TINY[rules..].find(']').map(|at| rules + at).unwrap();
    let end = TINY[end + 1..].find(']').map(|at| end + 1 + at).unwrap();
    let without = format!("{}[]{}", &TINY[..rules], &TINY[end + 1..]);
    assert_eq!(checked(&without), Err("a target needs at least one rule"));
    let deep = format!("{{\"schemes\": {}", "[".repeat(100));
    assert!(checked(&deep).is_err());
    assert_eq!(
        checked(&format!("{TINY} x")),
        Err("nothing may follow its last brace")
    );
    let large = format!("{TINY}{}", " ".repeat(64 << 10));
    assert_eq!(checked(&large), Err("it has more than 64 KiB"));
    assert!(check(b"{\"name\": \"\xff\"}", b"1").is_err());
}

#[test]
fn the_contract_is_that_of_the_sdk_or_an_earlier_patch_of_it() {
    let table = [
        ("0.2.0", "0.2.0", true),
        ("0.2.9", "0.2.10", true),
        ("0.2.10", "0.2.9", false),
        ("0.1.9", "0.2.9", false),
        ("0.20.1", "0.2.9", false),
        ("0.2.1-rc1", "0.2.9", false),
        ("0.2.", "0.2.9", false),
        ("0.2", "0.2.9", false),
        ("", "0.2.9", false),
        ("1.4.0", "1.4.2", true),
        ("1.5.0", "1.4.2", false),
    ];
    for (stated, own, expected) in table {
        let fits = fits(stated.as_bytes(), own.as_bytes());
        assert_eq!(fits, expected, "{stated:?} with the SDK for {own}");
    }
}

#[test]
fn a_mistake_is_shown_with_its_line() {
    let wrong = TINY.replace("\"/machines/{id}\"", "\"machines\"");
    let panic = std::panic::catch_unwind(|| checked_length(wrong.as_bytes(), "1.2.3"));
    let panic = panic.unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    let expected = "the manifest: a path begins with /: \"machines\", \"access\": \"read\" }]";
    assert_eq!(text, expected);
}

#[test]
fn the_version_is_put_in_once() {
    const LENGTH: usize = checked_length(TINY.as_bytes(), "1.2.3");
    let bytes: [u8; LENGTH] = with_version(TINY.as_bytes(), "1.2.3");
    let mut with: Value = serde_json::from_slice(&bytes).unwrap();
    let version = with.as_object_mut().unwrap().remove("version");
    assert_eq!(version, Some(Value::from("1.2.3")));
    assert_eq!(with, serde_json::from_str::<Value>(TINY).unwrap());

    const WHOLE: &str = r#" {"contract": "0.2.0", "name": "a", "version": "1.2.3"}"#;
    const SAME: usize = checked_length(WHOLE.as_bytes(), "1.2.3");
    let same: [u8; SAME] = with_version(WHOLE.as_bytes(), "1.2.3");
    assert_eq!(same, WHOLE.as_bytes());
}

#[test]
fn the_keys_are_those_of_the_schema() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let of = |object: &Value| -> Vec<String> {
        let mut keys: Vec<_> = object["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        keys.sort();
        keys
    };
    let ours = |place: Place| -> Vec<String> {
        let keys = place.keys().unwrap().iter().map(|key| key.0.to_owned());
        // The former spelling `memoryMib` is read, and not documented.
        let mut keys: Vec<_> = keys.filter(|key| key != "memoryMib").collect();
        keys.sort();
        keys
    };
    let part = |name: &str| &schema["$defs"][name];
    assert_eq!(ours(Place::Root), of(&schema));
    assert_eq!(ours(Place::Target), of(part("target")));
    assert_eq!(ours(Place::Rule), of(part("rule")));
    assert_eq!(ours(Place::Absence), of(part("absence")));
    assert_eq!(ours(Place::ConfigKey), of(part("configKey")));
    assert_eq!(ours(Place::Limits), of(&schema["properties"]["limits"]));
}
