//! The definition of the kind `Provider`, derived: its `spec` from the types that read it, its `status` from those that
//! write it. The checked-in file has to equal it; `CCM_BLESS=1` writes the file.
//!
//! kube's `CustomResource` is not used: it makes `spec` a field that every object must have, and the objects that only
//! record what a provider of the file serves have none.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use ccm_core::well_known::{PROVIDER_GROUP, PROVIDER_KIND, PROVIDER_PLURAL, PROVIDER_VERSION};
use ccm_delivery::record::status::ProviderStatus;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::raw::RawProvider;

const FILE: &str = "deploy/kustomize/base/crd.yaml";

/// The comment above the definition.
const HEAD: &str = "\
# The kind `Provider`: one object for each configured provider. Its status says which version of the module serves, which one
# is on its way, and which ones are not tried again; ccm makes the object itself where there is none. Its spec configures a
# provider, where ccm runs with --enable-provider-objects (deploy/docs/provider-objects.md). People read objects with
# `kubectl get ccmp`, and give an ORDER with `kubectl annotate --overwrite ccmp NAME ORDER`:
#
#   wasm-ccm.dev/approve=sha256:…           approves the wider requests of this digest.
#   wasm-ccm.dev/pin=sha256:…               only this digest may serve.
#   wasm-ccm.dev/pause=true                 no new version is tried, unless its value is `false` or equivalent.
#   wasm-ccm.dev/roll-back=true             return to the previous version. Removed when done.
#   wasm-ccm.dev/retry=sha256:…             this digest may be tried again. Removed when done.
#   wasm-ccm.dev/allow-changes=sha256:…     this digest may change many load balancers that the active version leaves alone.
#   wasm-ccm.dev/allow-downgrade=sha256:…   this digest may be older than versions that have served, but not than the minimum version.
#
# Without this definition ccm keeps the same in memory, and says so once.
#
# Derived from the types in runtime/ccm/src/config/raw.rs and runtime/delivery/src/record/status.rs: not edited by hand.
# `CCM_BLESS=1 cargo test -p ccm definition` writes it.
";

#[test]
fn the_definition_of_the_kind_is_what_the_code_reads_and_writes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(FILE);
    let text = format!("{HEAD}{}", serde_saphyr::to_string(&definition()).unwrap());
    if std::env::var_os("CCM_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap();
    // Compared as values, too: what the two mean is what counts.
    let means = |text: &str| serde_saphyr::from_str::<Value>(text).unwrap();
    assert_eq!(means(&there), definition(), "{FILE}: CCM_BLESS=1 writes it");
    assert_eq!(there, text, "{FILE}: CCM_BLESS=1 writes it");
}

/// Every order has a line in the comment, with the words of the page.
#[test]
fn the_comment_says_of_each_order_what_the_page_of_annotations_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = root.join("deploy/docs/reference/annotations.md");
    let page = std::fs::read_to_string(page).unwrap();
    let orders = page.lines().filter_map(|line| {
        let row = line.strip_prefix("| `")?.strip_suffix(" |")?;
        row.split_once("` | Set by a person on a Provider: ")
    });
    let mut count = 0;
    for (name, meaning) in orders {
        let begin = format!("#   {name}=");
        let mut lines = HEAD.lines();
        let line = lines.find(|line| line.starts_with(&begin)).unwrap();
        assert!(line.ends_with(&format!("  {meaning}")), "{line}: {meaning}");
        count += 1;
    }
    assert_eq!(count, HEAD.matches("#   wasm-ccm.dev/").count());
    assert!(count >= 7, "{count}");
}

/// Every list, map and text of a spec is bounded: otherwise the rules would cost too much, and an object could be huge.
#[test]
fn everything_in_a_spec_is_bounded() {
    fn look(schema: &Value, place: &str, found: &mut usize) {
        let kind = schema["type"].as_str().unwrap_or_default();
        let bound = match kind {
            "array" => "maxItems",
            "string" if schema.get("enum").is_none() => "maxLength",
            "object" if schema.get("additionalProperties").is_some() => "maxProperties",
            _ => "type",
        };
        assert!(schema.get(bound).is_some(), "{place}: no {bound}: {schema}");
        *found += 1;
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            look(schema, &format!("{place}.{name}"), found);
        }
        for inner in ["items", "additionalProperties"] {
            if schema.get(inner).is_some() {
                look(&schema[inner], &format!("{place}[]"), found);
            }
        }
    }
    let mut found = 0;
    look(&schema::<RawProvider>(), "spec", &mut found);
    assert!(found > 80, "{found}");
}

fn definition() -> Value {
    let column = |name: &str, kind: &str, path: &str, priority: u8| {
        let mut column = json!({"name": name, "type": kind, "jsonPath": path});
        if priority > 0 {
            column["priority"] = json!(priority);
        }
        column
    };
    let ready = r#".status.conditions[?(@.type=="Ready")].status"#;
    let mut status = schema::<ProviderStatus>();
    // Another client may have written a part of it, or an earlier version.
    status.as_object_mut().unwrap().remove("required");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{PROVIDER_PLURAL}.{PROVIDER_GROUP}"),
            // Flux and Argo CD would delete it, and every object with it, after the policy that refuses this to kubectl.
            "annotations": {
                "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
                "kustomize.toolkit.fluxcd.io/prune": "disabled",
            },
        },
        "spec": {
            "group": PROVIDER_GROUP,
            "scope": "Cluster",
            "names": {
                "kind": PROVIDER_KIND,
                "listKind": format!("{PROVIDER_KIND}List"),
                "singular": "provider",
                "plural": PROVIDER_PLURAL,
                // Other projects have `providers`, too: this name is never ambiguous.
                "shortNames": ["ccmp"],
                "categories": ["ccm"],
            },
            "versions": [{
                "name": PROVIDER_VERSION,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    column("Version", "string", ".status.active.version", 0),
                    column("Ready", "string", ready, 0),
                    column("State", "string", ".status.state", 0),
                    column("Candidate", "string", ".status.trial.version", 0),
                    column("Age", "date", ".metadata.creationTimestamp", 0),
                    column("Digest", "string", ".status.shortDigest", 1),
                    column("Source", "string", ".status.observedSource", 1),
                    column("Trouble", "string", ".status.trouble", 1),
                ],
                "schema": {"openAPIV3Schema": {
                    "description": "A provider: its configuration, where objects configure providers, and which version of its module serves.",
                    "type": "object",
                    "properties": {"spec": schema::<RawProvider>(), "status": status},
                    "x-kubernetes-validations": [
                        {
                            "rule": "!has(self.spec) || (self.metadata.name.size() <= 63 && !self.metadata.name.contains('.'))",
                            "message": "metadata.name: the name of a provider is lower-case letters, digits and dashes, at most 63",
                        },
                        {
                            "rule": "!has(self.spec) || self.metadata.name != 'external'",
                            "message": "metadata.name: external is what the kubelet calls every cloud-controller-manager",
                        },
                    ],
                }},
            }],
        },
    })
}

/// The schema of a type, in the form that the API server demands.
fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = schema.to_value();
    structural(&mut schema);
    schema
}

fn structural(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    for list in ["anyOf", "allOf"] {
        let Some(Value::Array(branches)) = fields.remove(list) else {
            continue;
        };
        let is_null = |branch: &Value| branch["type"] == "null" || branch["enum"] == json!([null]);
        for branch in branches.into_iter().filter(|branch| !is_null(branch)) {
            merge(fields, branch);
        }
    }
    if let Some(Value::Array(branches)) = fields.remove("oneOf") {
        alternatives(fields, branches);
    }
    for key in ["title", "default", "nullable", "$schema", "components"] {
        fields.remove(key);
    }
    if fields.get("additionalProperties") == Some(&json!(false)) {
        fields.remove("additionalProperties");
    }
    if fields.get("type") == Some(&json!("integer")) {
        fields.insert("format".to_owned(), json!("int64"));
        fields.entry("minimum").or_insert(json!(0));
    }
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(structural);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(inner) {
            structural(inner);
        }
    }
}

/// Adds the fields of `other` that are not there yet.
fn merge(fields: &mut Map<String, Value>, other: Value) {
    let Value::Object(other) = other else {
        return;
    };
    for (key, value) in other {
        fields.entry(key).or_insert(value);
    }
}

/// An enum with values: an object with exactly one of the keys, for which the API server requires one schema and a
/// rule.
fn alternatives(fields: &mut Map<String, Value>, branches: Vec<Value>) {
    let mut properties = Map::new();
    for branch in branches {
        let described = branch["description"].clone();
        let Some(Value::Object(inner)) = branch.get("properties").cloned() else {
            continue;
        };
        for (name, mut value) in inner {
            if value.get("description").is_none() && described.is_string() {
                value["description"] = described.clone();
            }
            properties.insert(name, value);
        }
    }
    let names: Vec<&str> = properties.keys().map(String::as_str).collect();
    let held = names.iter().map(|name| format!("has(self.{name})"));
    let held = held.collect::<Vec<_>>().join(", ");
    let rule = json!({
        "rule": format!("[{held}].filter(is, is).size() == 1"),
        "message": format!("exactly one of {}", names.join(", ")),
    });
    fields.insert("type".to_owned(), json!("object"));
    fields.insert("properties".to_owned(), Value::Object(properties));
    let rules = fields
        .entry("x-kubernetes-validations")
        .or_insert(json!([]));
    if let Some(rules) = rules.as_array_mut() {
        rules.insert(0, rule);
    }
}
