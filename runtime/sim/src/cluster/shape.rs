//! Forms of objects in responses: full objects, metadata only, lists, and all of them without the fields that an
//! encoder omits. Changes the representation, never the meaning.

use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::refusal::Refusal;

/// The form of response that the client requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// The full object, in the request's version.
    Full,
    /// `PartialObjectMetadata`: type and metadata only.
    Metadata,
}

/// Maps of free strings, whose values are kept even if empty.
const STRING_MAPS: &[&str] = &[
    "labels",
    "annotations",
    "data",
    "binaryData",
    "selector",
    "capacity",
    "allocatable",
];
/// Strings that are encoded even if empty.
const KEPT_STRINGS: &[&str] = &["key", "effect", "type", "status", "address", "reason"];
/// Numbers and flags that are omitted if zero or false.
const OMITTED_ZEROS: &[&str] = &[
    "unschedulable",
    "publishNotReadyAddresses",
    "nodePort",
    "healthCheckNodePort",
    "generation",
    "count",
];

impl Shape {
    /// Parses an `Accept` header; the first supported type wins.
    pub(super) fn accepted(header: &str) -> Result<Self, Refusal> {
        if header.trim().is_empty() {
            return Ok(Self::Full);
        }
        for one in header.split(',') {
            let mut parts = one.split(';').map(str::trim);
            let json = matches!(
                parts.next(),
                Some("application/json" | "*/*" | "application/*")
            );
            let form = parts.find_map(|part| part.strip_prefix("as="));
            match form {
                None if json => return Ok(Self::Full),
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") if json => {
                    return Ok(Self::Metadata);
                }
                _ => {}
            }
        }
        Err(Refusal::not_acceptable())
    }

    /// Converts one stored object to a response.
    pub(super) fn object(self, kind: &Kind, kept: &Value) -> Value {
        match self {
            Self::Full => kind.present(kept),
            Self::Metadata => json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": kept.get("metadata").cloned().unwrap_or_default(),
            }),
        }
    }

    /// Converts stored objects to a list.
    pub(super) fn list<'a>(
        self,
        kind: &Kind,
        metadata: Value,
        objects: impl Iterator<Item = &'a Value>,
    ) -> Value {
        let items: Vec<Value> = objects
            .map(|object| {
                let mut item = self.object(kind, object);
                // Items of a typed list have no kind and apiVersion of their own.
                if self == Self::Full
                    && !kind.is_custom
                    && let Value::Object(fields) = &mut item
                {
                    fields.remove("kind");
                    fields.remove("apiVersion");
                }
                item
            })
            .collect();
        let (list_kind, version) = match self {
            Self::Full => (format!("{}List", kind.kind), kind.api_version()),
            Self::Metadata => (
                "PartialObjectMetadataList".into(),
                "meta.k8s.io/v1".to_owned(),
            ),
        };
        json!({"kind": list_kind, "apiVersion": version, "metadata": metadata, "items": items})
    }
}

/// Removes fields that an encoder with `omitempty` omits, and adds those it always writes.
pub(super) fn normalise(kind: &Kind, object: &mut Value) {
    if kind.is_custom {
        // Only the metadata of custom kinds is typed.
        if let Some(metadata) = object.get_mut("metadata") {
            compact(metadata);
        }
        return;
    }
    compact(object);
    add_missing(object, (kind.always)());
    for (list, always) in kind.always_each {
        if let Some(Value::Array(items)) = object.pointer_mut(list) {
            items
                .iter_mut()
                .for_each(|item| add_missing(item, always()));
        }
    }
}

fn compact(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(compact),
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(key, child)| {
                if !STRING_MAPS.contains(&key.as_str()) {
                    compact(child);
                }
            });
            fields.retain(|key, child| match child {
                Value::Null => false,
                Value::String(text) => !text.is_empty() || KEPT_STRINGS.contains(&key.as_str()),
                Value::Array(items) => !items.is_empty(),
                Value::Object(inner) => !inner.is_empty() || !STRING_MAPS.contains(&key.as_str()),
                Value::Bool(flag) => *flag || !OMITTED_ZEROS.contains(&key.as_str()),
                Value::Number(number) => {
                    number.as_i64() != Some(0) || !OMITTED_ZEROS.contains(&key.as_str())
                }
            });
        }
        _ => {}
    }
}

fn add_missing(object: &mut Value, always: Value) {
    let (Value::Object(object), Value::Object(always)) = (object, always) else {
        return;
    };
    for (key, value) in always {
        let slot = object.entry(key).or_insert_with(|| {
            if value.is_object() {
                Value::Object(Map::new())
            } else {
                value.clone()
            }
        });
        add_missing(slot, value);
    }
}
