//! The schemas that authors use, one for each version of the contract, and the README agree with the reader.

use std::collections::BTreeSet;

use super::*;

const README: &str = include_str!("../../../../../wit/README.md");

/// The schema of each version, and a manifest of this version with every key.
fn versions() -> Vec<(Value, Value)> {
    let of = |contract: Contract| {
        let mut manifest = with("/contract", json!(contract.version()));
        let rule = &mut manifest["targets"][0]["rules"][0];
        rule["methods"] = json!(["POST"]);
        rule["query"] = json!({ "Version": ["1"] });
        rule["form"] = json!({ "Action": ["DescribeInstances"] });
        let schema = match contract {
            Contract::V0_1 => include_str!("../../../../../wit/v0.1/manifest.schema.json"),
            Contract::V0_2 => {
                rule["absence"] = json!([{ "status": 400, "contains": "NotFound" }]);
                include_str!("../../../../../wit/v0.2/manifest.schema.json")
            }
        };
        (serde_json::from_str(schema).unwrap(), manifest)
    };
    Contract::ALL.map(of).into()
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn the_example_of_the_readme_is_read() {
    let example = README.split("```json\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    parse(&serde_json::from_str(example).unwrap()).unwrap();
}

#[test]
fn each_schema_has_the_keys_that_the_reader_takes_and_requires_those_that_it_requires() {
    for (schema, manifest) in versions() {
        parse(&manifest).unwrap();
        for (place, part) in [
            ("", ""),
            ("/targets/0", "/$defs/target"),
            ("/targets/0/rules/0", "/$defs/rule"),
            ("/targets/0/rules/0/absence/0", "/$defs/absence"),
            ("/config/0", "/$defs/configKey"),
            ("/limits", "/properties/limits"),
        ] {
            let (Some(written), Some(part)) = (manifest.pointer(place), schema.pointer(part))
            else {
                // Both or none: 0.1 has no proofs of absence.
                assert_eq!(manifest.pointer(place), schema.pointer(part), "{place}");
                continue;
            };
            assert_eq!(keys(written), keys(&part["properties"]), "{place}");
            assert_eq!(part["additionalProperties"], json!(false), "{place}");
            let mut more = manifest.clone();
            more.pointer_mut(place).unwrap()["surprise"] = json!(1);
            assert!(parse(&more).is_err(), "{place}");
            let required = part.get("required").cloned().unwrap_or_else(|| json!([]));
            for key in keys(written) {
                let mut without = manifest.clone();
                let fields = without.pointer_mut(place).unwrap().as_object_mut();
                fields.unwrap().remove(&key);
                let is_required = required.as_array().unwrap().contains(&json!(key));
                let read = parse(&without);
                assert_eq!(read.is_err(), is_required, "{place}/{key}: {read:?}");
            }
        }
    }
}

#[test]
fn every_kind_of_credential_is_in_each_schema_and_in_the_readme() {
    for (schema, mut manifest) in versions() {
        assert_eq!(
            schema["$defs"]["target"]["properties"]["auth"]["enum"],
            json!(AuthKind::ALL)
        );
        for kind in AuthKind::ALL {
            assert_eq!(json!(kind), kind.as_str());
            assert!(README.contains(&format!("| `{kind}` |")), "{kind}");
            manifest["targets"][0]["auth"] = json!(kind);
            assert_eq!(parse(&manifest).unwrap().targets[0].auth, kind);
        }
    }
}
