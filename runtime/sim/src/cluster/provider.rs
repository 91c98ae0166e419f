//! Our own kind Provider, as defined by the CustomResourceDefinition that users apply. Contains only generic behaviour
//! of custom kinds: nothing here knows what a provider is.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::field_error::FieldError;
use super::schema;

/// The CustomResourceDefinition that users apply.
const DEFINITION: &str = include_str!("../../../../deploy/kustomize/base/crd.yaml");
/// Path of the schema of its only version.
const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";

/// The schema of the kind. If the definition cannot be read, the schema is empty and every field is pruned, which the
/// table in `tests/api.rs` would show.
static OF_PROVIDER: LazyLock<Value> = LazyLock::new(|| {
    let definition: Value = serde_saphyr::from_str(DEFINITION).unwrap_or_default();
    definition.pointer(SCHEMA).cloned().unwrap_or_default()
});

/// Drops fields that the schema does not name. [`validate`] checks types, as upstream does.
pub(super) fn typed(mut object: Value) -> Result<Value, String> {
    let Some(fields) = object.as_object_mut() else {
        return Err("not an object".to_owned());
    };
    let type_and_metadata: Vec<(String, Value)> = ["apiVersion", "kind", "metadata"]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), fields.remove(key)?)))
        .collect();
    let (kind, version) = ("Provider", "wasm-ccm.dev/v1alpha1");
    for (key, value) in &type_and_metadata {
        match key.as_str() {
            "kind" if value != kind => return Err(format!("the kind is {value}")),
            "apiVersion" if value != version => return Err(format!("the version is {value}")),
            "metadata" if !value.is_object() => return Err("metadata is no object".to_owned()),
            _ => {}
        }
    }
    if type_and_metadata
        .iter()
        .filter(|(key, _)| key != "metadata")
        .count()
        < 2
    {
        return Err("Object 'Kind' is missing".to_owned());
    }
    schema::prune(&mut object, &OF_PROVIDER);
    if let Some(fields) = object.as_object_mut() {
        fields.extend(type_and_metadata);
    }
    Ok(object)
}

/// A new object has no status. Writes of the status change nothing else, and all others keep the status.
pub(super) fn prepare(object: &mut Value, old: Option<&Value>, status: bool) {
    let Some(old) = old else {
        object["metadata"]["generation"] = json!(1);
        set_status(object, None);
        return;
    };
    if status {
        let new_status = object.get("status").cloned();
        *object = old.clone();
        set_status(object, new_status);
    } else {
        set_status(object, old.get("status").cloned());
    }
}

/// Validates the object against the schema. Its rules in CEL are not evaluated.
pub(super) fn validate(object: &Value, _: Option<&Value>, _: bool) -> Vec<FieldError> {
    let mut errors = schema::check(object, &OF_PROVIDER);
    // A value that only violates a pattern does not keep the rules in CEL from being checked.
    let blocks = errors.iter().any(|error| !error.is_invalid());
    if blocks && OF_PROVIDER.get("x-kubernetes-validations").is_some() {
        errors.push(FieldError::invalid(
            "<nil>",
            &Value::Null,
            "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        ));
    }
    errors
}

/// Increases the generation if anything but metadata and status has changed.
pub(super) fn increase_generation(object: &mut Value, old: &Value) {
    let spec_and_metadata = |object: &Value| {
        let mut spec_and_metadata = object.clone();
        if let Some(fields) = spec_and_metadata.as_object_mut() {
            fields.retain(|key, _| !matches!(key.as_str(), "metadata" | "status"));
        }
        spec_and_metadata
    };
    if spec_and_metadata(object) != spec_and_metadata(old)
        && let Some(generation) = old.pointer("/metadata/generation").and_then(Value::as_u64)
    {
        object["metadata"]["generation"] = json!(generation + 1);
    }
}

fn set_status(object: &mut Value, status: Option<Value>) {
    if let Some(fields) = object.as_object_mut() {
        match status {
            Some(status) => fields.insert("status".to_owned(), status),
            None => fields.remove("status"),
        };
    }
}
