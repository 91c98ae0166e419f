//! Label selectors: their text, and whether labels match. The Kubernetes API and the vendor's have one language; which
//! keys are good ones, and whether numbers can be compared, each of them says itself.
//!
//! kube's `Expression` matches. It reads no text, and it has no `<` and `>`.

use std::collections::BTreeMap;

use kube::core::{Expression, SelectorExt as _};

/// What one part between commas asks of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// Of whether it is there, and of its text.
    Text(Expression),
    /// It is a number above this one.
    Above(String, i64),
    /// It is a number below this one.
    Below(String, i64),
}

impl Requirement {
    /// The label's key: any text.
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

    /// Whether it holds of these labels.
    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let number = |key: &String| labels.get(key)?.parse::<i64>().ok();
        match self {
            Self::Text(expression) => expression.matches(labels),
            Self::Above(key, bound) => number(key).is_some_and(|number| number > *bound),
            Self::Below(key, bound) => number(key).is_some_and(|number| number < *bound),
        }
    }
}

/// Reads `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1,j<2`; an empty text asks nothing.
///
/// # Errors
/// The first part that cannot be read.
pub(crate) fn parse(text: &str) -> Result<Vec<Requirement>, &str> {
    let parts = split(text).into_iter();
    parts
        .map(|part| requirement(part.trim()).ok_or(part))
        .collect()
}

/// At the commas that stand outside parentheses. Behind the last one nothing has to follow.
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
