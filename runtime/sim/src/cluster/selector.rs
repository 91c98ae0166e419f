//! Label selectors, with the API server's rules for keys, and field selectors of a request. Never reads the store.

use serde_json::Value;

use super::kinds::Kind;
use super::names;
use super::refusal::Refusal;
use crate::label_selector::{self, Requirement};

/// Selects the objects of a list, a watch or a collection delete.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<FieldRule>,
}

#[derive(Clone, Debug)]
struct FieldRule {
    path: String,
    value: String,
    equal: bool,
}

impl Selector {
    /// Parses both selectors of a request; empty strings select everything.
    pub(super) fn parse(kind: &Kind, labels: &str, fields: &str) -> Result<Self, Refusal> {
        Ok(Self {
            labels: parse_labels(labels)?,
            fields: parse_fields(kind, fields)?,
        })
    }

    /// Whether everything is selected.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object in its stored form is selected.
    pub(super) fn matches(&self, object: &Value) -> bool {
        self.labels_match(object) && self.fields.iter().all(|rule| rule.matches(object))
    }

    fn labels_match(&self, object: &Value) -> bool {
        if self.labels.is_empty() {
            return true;
        }
        let labels = object
            .pointer("/metadata/labels")
            .and_then(Value::as_object);
        let labels = labels.into_iter().flatten();
        let labels = labels
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        self.labels.iter().all(|rule| rule.matches(&labels))
    }
}

impl FieldRule {
    fn matches(&self, object: &Value) -> bool {
        let pointer = format!("/{}", self.path.replace('.', "/"));
        let value = match object.pointer(&pointer) {
            None if self.path == "spec.unschedulable" => "false".to_owned(),
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            // For Events, the selector `source` matches the component of the source.
            Some(Value::Object(source)) => source
                .get("component")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            Some(other) => other.to_string(),
        };
        (value == self.value) == self.equal
    }
}

fn parse_fields(kind: &Kind, text: &str) -> Result<Vec<FieldRule>, Refusal> {
    let mut rules = Vec::new();
    for term in text.split(',').filter(|term| !term.is_empty()) {
        let (path, value, equal) = if let Some((path, value)) = term.split_once("!=") {
            (path, value, false)
        } else if let Some((path, value)) = term.split_once("==") {
            (path, value, true)
        } else if let Some((path, value)) = term.split_once('=') {
            (path, value, true)
        } else {
            return Err(Refusal::bad_request(format!(
                "invalid selector: '{text}'; can't understand '{term}'"
            )));
        };
        let known = path == "metadata.name"
            || (path == "metadata.namespace" && kind.namespaced)
            || kind.selectable.contains(&path);
        if !known {
            return Err(Refusal::bad_request(format!(
                "field label not supported: {path}"
            )));
        }
        rules.push(FieldRule {
            path: path.into(),
            value: value.into(),
            equal,
        });
    }
    Ok(rules)
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>, Refusal> {
    let rules = label_selector::parse(text)
        .map_err(|part| Refusal::bad_request(format!("unable to parse requirement: {part}")))?;
    for rule in &rules {
        let key = rule.key();
        if let Some(error) = names::qualified_name_errors(key).first() {
            return Err(Refusal::bad_request(format!(
                "unable to parse requirement: <nil>: Invalid value: \"{key}\": {error}"
            )));
        }
    }
    Ok(rules)
}
