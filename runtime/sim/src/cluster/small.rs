//! Rules of the kinds that have few: Namespace, ConfigMap, Secret, Event and Lease.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::field_error::FieldError;
use super::metadata;
use super::names;

/// Labels a new namespace with its own name.
pub(super) fn default_namespace(namespace: &mut Value) {
    let name = metadata::text(namespace, "name").to_owned();
    if !name.is_empty() {
        namespace["metadata"]["labels"]["kubernetes.io/metadata.name"] = json!(name);
    }
}

/// A new namespace is active and has the namespace controller's finalizer.
pub(super) fn prepare_namespace(namespace: &mut Value, old: Option<&Value>, status: bool) {
    match old {
        None => {
            namespace["spec"] = json!({"finalizers": ["kubernetes"]});
            namespace["status"] = json!({"phase": "Active"});
        }
        Some(old) => {
            namespace["spec"] = old["spec"].clone();
            if !status {
                namespace["status"] = old["status"].clone();
            }
        }
    }
}

/// Maximum total size of the values of one ConfigMap or Secret, in bytes.
const DATA_LIMIT: usize = 1024 * 1024;

/// Keys must be valid file names and unique across both maps; the size is limited; immutable maps may not change.
pub(super) fn validate_config_map(map: &Value, old: Option<&Value>, _: bool) -> Vec<FieldError> {
    let mut errors = keys_and_immutability(map, old, &["data", "binaryData"]);
    let text = map["data"].as_object().into_iter().flatten();
    for key in text.map(|(key, _)| key) {
        if map["binaryData"].get(key).is_some() {
            errors.push(FieldError::invalid(
                format!("data[{key}]"),
                &key.as_str().into(),
                "duplicate of key present in binaryData",
            ));
        }
    }
    let text = strings(&map["data"]).map(str::len).sum::<usize>();
    let binary = strings(&map["binaryData"])
        .map(decoded_length)
        .sum::<usize>();
    if text + binary > DATA_LIMIT {
        errors.push(FieldError::too_long("[]", DATA_LIMIT));
    }
    errors
}

/// Decodes a Secret and moves `stringData` into `data`, as the server does on every write.
pub(super) fn typed_secret(object: Value) -> Result<Value, String> {
    let mut secret: Secret = serde_json::from_value(object).map_err(|error| error.to_string())?;
    if let Some(plain) = secret.string_data.take() {
        let data = secret.data.get_or_insert_default();
        data.extend(
            plain
                .into_iter()
                .map(|(key, text)| (key, ByteString(text.into_bytes()))),
        );
    }
    serde_json::to_value(secret).map_err(|error| error.to_string())
}

/// The type defaults to `Opaque`.
pub(super) fn default_secret(secret: &mut Value) {
    if secret.get("type").is_none() {
        secret["type"] = json!("Opaque");
    }
}

/// Keys must be valid file names; the size is limited; the type and immutable Secrets may not change.
pub(super) fn validate_secret(secret: &Value, old: Option<&Value>, _: bool) -> Vec<FieldError> {
    let mut errors = keys_and_immutability(secret, old, &["data"]);
    if strings(&secret["data"]).map(decoded_length).sum::<usize>() > DATA_LIMIT {
        errors.push(FieldError::too_long("data", DATA_LIMIT));
    }
    if let Some(old) = old
        && old["type"] != secret["type"]
    {
        errors.push(FieldError::invalid(
            "type",
            &secret["type"],
            "field is immutable",
        ));
    }
    errors
}

/// The duration must be positive, the number of transitions not negative.
pub(super) fn validate_lease(lease: &Value, _: Option<&Value>, _: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let number = |field: &str| lease["spec"].get(field).and_then(Value::as_i64);
    if let Some(seconds) = number("leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid(
            "spec.leaseDurationSeconds",
            &seconds.into(),
            "must be greater than 0",
        ));
    }
    if let Some(count) = number("leaseTransitions").filter(|count| *count < 0) {
        errors.push(FieldError::invalid(
            "spec.leaseTransitions",
            &count.into(),
            "must be greater than or equal to 0",
        ));
    }
    errors
}

/// Fields that every Event has in responses.
pub(super) fn event_always() -> Value {
    json!({
        "involvedObject": {}, "source": {}, "firstTimestamp": null, "lastTimestamp": null,
        "eventTime": null, "reportingComponent": "", "reportingInstance": "",
    })
}

/// Validation common to both Event versions.
pub(super) fn validate_event(event: &Value, _: Option<&Value>, _: bool) -> Vec<FieldError> {
    event_rules(event, "reportingComponent")
}

/// The stricter validation of events.k8s.io.
pub(super) fn validate_new_event(event: &Value, old: Option<&Value>, _: bool) -> Vec<FieldError> {
    let mut errors = event_rules(event, "reportingController");
    let Some(old) = old else {
        if text(event, "eventTime").is_empty() {
            errors.push(FieldError::required("eventTime", ""));
        }
        let kind = text(event, "type");
        if !["Normal", "Warning"].contains(&kind) {
            let detail = format!("has invalid value: {kind}");
            errors.push(FieldError::invalid("type", &"".into(), &detail));
        }
        for field in ["firstTimestamp", "lastTimestamp"] {
            if !text(event, field).is_empty() {
                errors.push(FieldError::invalid(field, &"".into(), "needs to be unset"));
            }
        }
        return errors;
    };
    let fixed = [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ];
    for (kept, shown) in fixed {
        if event.get(kept) != old.get(kept) {
            let value = event.get(kept).cloned().unwrap_or_default();
            errors.push(FieldError::invalid(shown, &value, "field is immutable"));
        }
    }
    errors
}

fn event_rules(event: &Value, controller: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let namespace = metadata::text(event, "namespace");
    let involved = event
        .pointer("/involvedObject/namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let mismatch = || {
        FieldError::invalid(
            "involvedObject.namespace",
            &involved.into(),
            "does not match event.namespace",
        )
    };
    if text(event, "eventTime").is_empty() {
        let fits = involved == namespace || (involved.is_empty() && namespace == "default");
        if !fits {
            errors.push(mismatch());
        }
        return errors;
    }
    if involved.is_empty() && !["default", "kube-system"].contains(&namespace) {
        errors.push(mismatch());
    }
    let reporter = text(event, "reportingComponent");
    if reporter.is_empty() {
        errors.push(FieldError::required(controller, ""));
    }
    for error in names::qualified_name_errors(reporter) {
        errors.push(FieldError::invalid(controller, &reporter.into(), &error));
    }
    for (field, limit) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
        let value = text(event, field);
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
        }
        if value.len() > limit {
            let detail = format!("can have at most {limit} characters");
            errors.push(FieldError::invalid(field, &"".into(), &detail));
        }
    }
    if text(event, "message").len() > 1024 {
        let detail = "can have at most 1024 characters";
        errors.push(FieldError::invalid("message", &"".into(), detail));
    }
    errors
}

fn keys_and_immutability(object: &Value, old: Option<&Value>, maps: &[&str]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for map in maps {
        for key in object
            .get(*map)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(key, _)| key)
        {
            for error in names::config_key_errors(key) {
                errors.push(FieldError::invalid(
                    format!("{map}[{key}]"),
                    &key.as_str().into(),
                    &error,
                ));
            }
        }
    }
    if let Some(old) = old.filter(|old| old["immutable"] == true) {
        let detail = "field is immutable when `immutable` is set";
        if object["immutable"] != true {
            errors.push(FieldError::forbidden("immutable", detail));
        }
        for map in maps {
            if object.get(*map) != old.get(*map) {
                errors.push(FieldError::forbidden(*map, detail));
            }
        }
    }
    errors
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn strings(map: &Value) -> impl Iterator<Item = &str> {
    let values = map.as_object().into_iter().flatten();
    values.filter_map(|(_, value)| value.as_str())
}

/// The decoded length of base64, in bytes.
fn decoded_length(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}
