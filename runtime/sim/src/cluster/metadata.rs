//! Rules of `metadata` common to all kinds: defaults, immutable fields, validation. Never reads spec or status.

use serde_json::{Map, Value};

use super::field_error::FieldError;
use super::kinds::Kind;
use super::names::{self, NameRule};

/// Maximum total size of an object's annotations (keys and values), in bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// A string field of `metadata`; empty if absent.
pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The finalizers of an object.
pub(super) fn finalizers(object: &Value) -> Vec<String> {
    object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|one| one.as_str().map(str::to_owned))
        .collect()
}

/// Sets one field of `metadata`; `null` removes it.
pub(super) fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    let Some(root) = object.as_object_mut() else {
        return;
    };
    let metadata = root
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    let Some(metadata) = metadata.as_object_mut() else {
        return;
    };
    match value.into() {
        Value::Null => metadata.remove(field),
        value => metadata.insert(field.to_owned(), value),
    };
}

/// Copies one field of `metadata` from another object; removes it if absent there.
pub(super) fn copy(object: &mut Value, from: &Value, field: &str) {
    let value = from
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .cloned();
    set(object, field, value.unwrap_or(Value::Null));
}

/// Sets the fields that a client may never choose at creation.
pub(super) fn fill_for_create(object: &mut Value, uid: &str, now: &str) {
    set(object, "uid", uid);
    set(object, "creationTimestamp", now);
    for field in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "managedFields",
        "resourceVersion",
    ] {
        set(object, field, Value::Null);
    }
}

/// Keeps the fields that an update may not change, whatever the client sent.
pub(super) fn carry_for_update(object: &mut Value, old: &Value) {
    for field in ["generation", "creationTimestamp"] {
        copy(object, old, field);
    }
    if text(object, "uid").is_empty() {
        copy(object, old, "uid");
    }
    if !text(old, "deletionTimestamp").is_empty() {
        copy(object, old, "deletionTimestamp");
        copy(object, old, "deletionGracePeriodSeconds");
    }
    set(object, "managedFields", Value::Null);
    set(object, "selfLink", Value::Null);
}

/// Validation for creation and update of any object.
pub(super) fn validate(kind: &Kind, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = text(object, "name");
    if name.is_empty() {
        errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else {
        for error in names::name_errors(kind.name_rule, name) {
            errors.push(FieldError::invalid("metadata.name", &name.into(), &error));
        }
    }
    errors.extend(labels(
        "metadata.labels",
        object.pointer("/metadata/labels"),
    ));
    errors.extend(annotations(object));
    errors.extend(owner_references(object));
    let lenient = matches!(kind.name_rule, NameRule::PathSegment);
    for (index, finalizer) in finalizers(object).into_iter().enumerate() {
        let value = Value::from(finalizer.as_str());
        for error in names::qualified_name_errors(&finalizer) {
            errors.push(FieldError::invalid("metadata.finalizers", &value, &error));
        }
        let known = ["kubernetes", "orphan", "foregroundDeletion"].contains(&finalizer.as_str());
        if !finalizer.contains('/') && !known && !lenient {
            errors.push(FieldError::invalid(
                format!("metadata.finalizers[{index}]"),
                &value,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
    errors
}

/// Validation against the stored object.
pub(super) fn validate_update(object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !text(old, "deletionTimestamp").is_empty() {
        let known = finalizers(old);
        let mut extra: Vec<String> = finalizers(object);
        extra.retain(|one| !known.contains(one));
        extra.sort();
        if !extra.is_empty() {
            let quoted: Vec<String> = extra.iter().map(|one| format!("\"{one}\"")).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                quoted.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", &detail));
        }
    }
    for field in ["name", "namespace", "uid", "deletionTimestamp"] {
        let (new, stored) = (text(object, field), text(old, field));
        if new != stored {
            errors.push(FieldError::invalid(
                format!("metadata.{field}"),
                &new.into(),
                "field is immutable",
            ));
        }
    }
    errors
}

/// Validates a map of labels.
pub(super) fn labels(field: &str, labels: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        for error in names::qualified_name_errors(key) {
            errors.push(FieldError::invalid(field, &key.as_str().into(), &error));
        }
        for error in names::label_value_errors(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(field, value, &error));
        }
    }
    errors
}

fn annotations(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in object
        .pointer("/metadata/annotations")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        size += key.len() + value.as_str().unwrap_or_default().len();
        // Annotation keys follow the rule for label keys, except that case is ignored.
        for error in names::qualified_name_errors(&key.to_lowercase()) {
            errors.push(FieldError::invalid(
                "metadata.annotations",
                &key.as_str().into(),
                &error,
            ));
        }
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long(
            "metadata.annotations",
            ANNOTATIONS_LIMIT,
        ));
    }
    errors
}

fn owner_references(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let owners = object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    for owner in owners.into_iter().flatten() {
        for (field, detail) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if owner
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .is_empty()
            {
                // Without an index, as in upstream's messages.
                let path = format!("metadata.ownerReferences.{field}");
                errors.push(FieldError::invalid(path, &"".into(), detail));
            }
        }
    }
    errors
}
