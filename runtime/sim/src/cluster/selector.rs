//! Label selectors and field selectors: parsing and matching. It never reads the store.

use serde_json::Value;

use super::kinds::Kind;
use super::names;
use super::refusal::Refusal;

/// Which objects a list, a watch or a collection delete is about.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    labels: Vec<LabelRule>,
    fields: Vec<FieldRule>,
}

#[derive(Clone, Debug)]
struct LabelRule {
    key: String,
    test: LabelTest,
}

#[derive(Clone, Debug)]
enum LabelTest {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

#[derive(Clone, Debug)]
struct FieldRule {
    path: String,
    value: String,
    equal: bool,
}

impl Selector {
    /// Reads both selectors of a request; empty strings select everything.
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

    /// Whether an object, in its kept form, is selected.
    pub(super) fn matches(&self, object: &Value) -> bool {
        self.labels.iter().all(|rule| rule.matches(object))
            && self.fields.iter().all(|rule| rule.matches(object))
    }
}

impl LabelRule {
    fn matches(&self, object: &Value) -> bool {
        let value = object
            .pointer("/metadata/labels")
            .and_then(|labels| labels.get(&self.key))
            .and_then(Value::as_str);
        let number = value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            LabelTest::Exists => value.is_some(),
            LabelTest::Absent => value.is_none(),
            LabelTest::In(allowed) => value.is_some_and(|value| allowed.iter().any(|a| a == value)),
            LabelTest::NotIn(banned) => {
                !value.is_some_and(|value| banned.iter().any(|b| b == value))
            }
            LabelTest::Above(bound) => number.is_some_and(|number| number > *bound),
            LabelTest::Below(bound) => number.is_some_and(|number| number < *bound),
        }
    }
}

impl FieldRule {
    fn matches(&self, object: &Value) -> bool {
        let pointer = format!("/{}", self.path.replace('.', "/"));
        let value = match object.pointer(&pointer) {
            None if self.path == "spec.unschedulable" => "false".to_owned(),
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            // Events select by the component of their source under the name of the source.
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

fn parse_labels(text: &str) -> Result<Vec<LabelRule>, Refusal> {
    split_terms(text)
        .into_iter()
        .map(|term| {
            let rule = parse_label(term.trim()).ok_or_else(|| {
                Refusal::bad_request(format!("unable to parse requirement: {term}"))
            })?;
            match names::qualified_name_errors(&rule.key).first() {
                Some(error) => Err(Refusal::bad_request(format!(
                    "unable to parse requirement: <nil>: Invalid value: \"{}\": {error}",
                    rule.key
                ))),
                None => Ok(rule),
            }
        })
        .collect()
}

/// Splits at commas that stand outside parentheses.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut depth) = (0, 0_i32);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                terms.extend(text.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.extend(text.get(start..).filter(|rest| !rest.trim().is_empty()));
    terms
}

fn parse_label(term: &str) -> Option<LabelRule> {
    let rule = |key: &str, test: LabelTest| LabelRule {
        key: key.trim().to_owned(),
        test,
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some(key) = term.strip_prefix('!') {
        return Some(rule(key, LabelTest::Absent));
    }
    if let Some(inner) = term.strip_suffix(')') {
        let (head, values) = inner.split_once('(')?;
        let values = values
            .split(',')
            .map(|value| value.trim().to_owned())
            .collect();
        let mut words = head.split_whitespace();
        return match (words.next()?, words.next()?, words.next()) {
            (key, "in", None) => Some(rule(key, LabelTest::In(values))),
            (key, "notin", None) => Some(rule(key, LabelTest::NotIn(values))),
            _ => None,
        };
    }
    if let Some((key, value)) = term.split_once("!=") {
        return Some(rule(key, LabelTest::NotIn(one(value))));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Some(rule(key, LabelTest::In(one(value))));
    }
    if let Some((key, bound)) = term.split_once('>') {
        return Some(rule(key, LabelTest::Above(bound.trim().parse().ok()?)));
    }
    if let Some((key, bound)) = term.split_once('<') {
        return Some(rule(key, LabelTest::Below(bound.trim().parse().ok()?)));
    }
    (!term.contains(char::is_whitespace)).then(|| rule(term, LabelTest::Exists))
}
