//! The subset of structural schemas that the project's definitions use: pruning, types, required fields, limits,
//! patterns and enumerations. Independent of any kind.

use k8s_openapi::jiff::Timestamp;
use regex::Regex;
use serde_json::Value;

use super::field_error::FieldError;

/// Drops fields that the schema does not name, and nulls that it does not allow.
pub(super) fn prune(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            let known = schema.get("properties");
            fields.retain(|key, child| {
                let Some(below) = known.and_then(|known| known.get(key)) else {
                    return false;
                };
                let keeps = !child.is_null() || below["nullable"] == true;
                if keeps {
                    prune(child, below);
                }
                keeps
            });
        }
        Value::Array(items) => {
            for item in items {
                prune(item, &schema["items"]);
            }
        }
        _ => {}
    }
}

/// Violations of the schema. Metadata is validated elsewhere.
pub(super) fn check(object: &Value, schema: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, below) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = object.get(key) {
            walk(value, below, key, &mut errors);
        }
    }
    errors
}

fn walk(value: &Value, schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let wanted = schema["type"].as_str().unwrap_or_default();
    if found != wanted && !(wanted == "number" && found == "integer") {
        errors.push(FieldError::wrong_type(path, found, wanted));
        return;
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        let allowed: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        errors.push(FieldError::unsupported(path, value, &allowed));
    }
    match value {
        Value::Object(fields) => {
            for key in schema["required"].as_array().into_iter().flatten() {
                let key = key.as_str().unwrap_or_default();
                if !fields.contains_key(key) {
                    errors.push(FieldError::required(format!("{path}.{key}"), ""));
                }
            }
            for (key, child) in fields {
                walk(
                    child,
                    &schema["properties"][key],
                    &format!("{path}.{key}"),
                    errors,
                );
            }
        }
        Value::Array(items) => check_list(items, schema, path, errors),
        Value::String(text) => check_text(text, schema, path, errors),
        Value::Number(number) => {
            let least = schema["minimum"].as_f64();
            if least.is_some_and(|least| number.as_f64().is_some_and(|number| number < least)) {
                let detail = format!(
                    "{path} in body should be greater than or equal to {}",
                    schema["minimum"]
                );
                errors.push(FieldError::invalid(path, value, &detail));
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn check_list(items: &[Value], schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(most) = limit(schema, "maxItems").filter(|most| items.len() > *most) {
        errors.push(FieldError::too_many(path, items.len(), most));
    }
    let keys = schema["x-kubernetes-list-map-keys"].as_array();
    let identity = |item: &Value| -> Vec<Value> {
        let keys = keys.into_iter().flatten().filter_map(Value::as_str);
        keys.map(|key| item[key].clone()).collect()
    };
    for (index, item) in items.iter().enumerate() {
        let path = format!("{path}[{index}]");
        walk(item, &schema["items"], &path, errors);
        let before = items.get(..index).unwrap_or_default();
        if keys.is_some() && before.iter().any(|other| identity(other) == identity(item)) {
            errors.push(FieldError::duplicate(path, item));
        }
    }
}

fn check_text(text: &str, schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let length = text.chars().count();
    if let Some(most) = limit(schema, "maxLength").filter(|most| length > *most) {
        errors.push(FieldError::too_long(path, most));
    }
    let mut invalid =
        |detail: String| errors.push(FieldError::invalid(path, &text.into(), &detail));
    if let Some(least) = limit(schema, "minLength").filter(|least| length < *least) {
        invalid(format!(
            "{path} in body should be at least {least} chars long"
        ));
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && !Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
    {
        invalid(format!("{path} in body should match '{pattern}'"));
    }
    if schema["format"] == "date-time" && text.parse::<Timestamp>().is_err() {
        errors.push(FieldError::wrong_type(path, text, "date-time"));
    }
}

fn limit(schema: &Value, name: &str) -> Option<usize> {
    schema[name]
        .as_u64()
        .and_then(|limit| usize::try_from(limit).ok())
}
