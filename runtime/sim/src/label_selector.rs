//! Label selectors: parsing and matching. The Kubernetes API and Hetzner's share one syntax; each decides by itself
//! which keys are valid and whether numbers can be compared.
//!
//! kube's `Expression` does the matching. It cannot parse, and has no `<` and `>`.

use std::collections::BTreeMap;

use kube::core::{Expression, SelectorExt as _};

/// One comma-separated requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// On the label's presence or text.
    Text(Expression),
    /// The label is a number above this one.
    Above(String, i64),
    /// The label is a number below this one.
    Below(String, i64),
}

impl Requirement {
    /// The label's key, not validated.
    pub(crate) fn key(&self) -> &str {
        match self {
            Self::Text(
                Expression::In(key, _)
                | Expression::NotIn(key, _)
                | Expression::Equal(key, _)
                | Expression::NotEqual(key, _)
                | Expression::Exists(key)
                | Expression::DoesNotExist(key),
            )
            | Self::Above(key, _)
            | Self::Below(key, _) => key,
        }
    }

    /// Whether these labels meet the requirement.
    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let number = |key: &String| labels.get(key)?.parse::<i64>().ok();
        match self {
            Self::Text(expression) => expression.matches(labels),
            Self::Above(key, bound) => number(key).is_some_and(|number| number > *bound),
            Self::Below(key, bound) => number(key).is_some_and(|number| number < *bound),
        }
    }
}

/// Parses `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1,j<2`; an empty text has no requirements.
///
/// # Errors The first part that cannot be parsed.
pub(crate) fn parse(text: &str) -> Result<Vec<Requirement>, &str> {
    let parts = split(text).into_iter();
    parts
        .map(|part| requirement(part.trim()).ok_or(part))
        .collect()
}

/// Splits at commas outside parentheses. A trailing comma is allowed.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_i32);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.extend(text.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..).filter(|rest| !rest.trim().is_empty()));
    parts
}

fn requirement(part: &str) -> Option<Requirement> {
    let trimmed = |text: &str| text.trim().to_owned();
    if let Some(key) = part.strip_prefix('!') {
        return Some(Requirement::Text(Expression::DoesNotExist(trimmed(key))));
    }
    if let Some(inner) = part.strip_suffix(')') {
        let (head, values) = inner.split_once('(')?;
        let values = values.split(',').map(trimmed).collect();
        let mut words = head.split_whitespace();
        let expression = match (words.next()?, words.next()?, words.next()) {
            (key, "in", None) => Expression::In(key.to_owned(), values),
            (key, "notin", None) => Expression::NotIn(key.to_owned(), values),
            _ => return None,
        };
        return Some(Requirement::Text(expression));
    }
    if let Some((key, value)) = part.split_once("!=") {
        let expression = Expression::NotEqual(trimmed(key), trimmed(value));
        return Some(Requirement::Text(expression));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        let expression = Expression::Equal(trimmed(key), trimmed(value));
        return Some(Requirement::Text(expression));
    }
    if let Some((key, bound)) = part.split_once('>') {
        return Some(Requirement::Above(trimmed(key), bound.trim().parse().ok()?));
    }
    if let Some((key, bound)) = part.split_once('<') {
        return Some(Requirement::Below(trimmed(key), bound.trim().parse().ok()?));
    }
    let exists = || Requirement::Text(Expression::Exists(part.to_owned()));
    (!part.contains(char::is_whitespace)).then(exists)
}
