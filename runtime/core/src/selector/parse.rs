//! Parser for selectors in the syntax of `kubectl --selector`.

use std::collections::BTreeSet;

use thiserror::Error;

use super::{Of, Requirement, Selector};
use crate::name_syntax::{self, MAX_PART};

/// Longest text in bytes: enough for more than a hundred labels, too short for a wrong file's contents.
const MOST_BYTES: usize = 16 * 1024;

/// Why a text is not a selector.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SelectorError {
    /// Longer than the limit.
    #[error("a selector has at most {MOST_BYTES} bytes")]
    TooLong,
    /// Two adjacent commas, or a comma at the beginning or end.
    #[error("a requirement is missing beside a comma")]
    Empty,
    /// `<` or `>`, which Kubernetes supports elsewhere.
    #[error(
        "{0:?}: `<` and `>` are not understood here; use `=`, `!=`, `in`, `notin`, `KEY` or `!KEY`"
    )]
    Comparison(String),
    /// The values of `in` or `notin` are not in parentheses.
    #[error("{0:?}: the values of `in` and `notin` stand in parentheses, such as `zone in (a,b)`")]
    Parentheses(String),
    /// Not a label key.
    #[error(
        "{0:?} is no label name: letters, digits, `-`, `_` and `.` with a letter or digit at both ends, at most {MAX_PART}, and before it perhaps a domain and `/`"
    )]
    Key(String),
    /// Not a label value.
    #[error(
        "{0:?} is no label value: letters, digits, `-`, `_` and `.` with a letter or digit at both ends, at most {MAX_PART}"
    )]
    Value(String),
    /// Not a known form of requirement, or surplus text.
    #[error(
        "{0:?} is no requirement; write `KEY=VALUE`, `KEY!=VALUE`, `KEY in (A,B)`, `KEY notin (A,B)`, `KEY` or `!KEY`"
    )]
    Requirement(String),
}

impl Selector {
    /// Parses `a=b,c!=d,e in (x,y),f notin (z),g,!h`. An empty text selects everything.
    ///
    /// # Errors
    /// The first problem found.
    pub fn parse(text: &str) -> Result<Selector, SelectorError> {
        if text.len() > MOST_BYTES {
            return Err(SelectorError::TooLong);
        }
        if text.trim().is_empty() {
            return Ok(Selector::default());
        }
        let requirements: Result<Vec<_>, _> = split(text).into_iter().map(requirement).collect();
        requirements.map(Selector)
    }
}

/// Splits at commas outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut is_inside) = (Vec::new(), 0, false);
    for (index, one) in text.char_indices() {
        match one {
            '(' => is_inside = true,
            ')' => is_inside = false,
            ',' if !is_inside => {
                parts.push(text.get(begin..index).unwrap_or_default());
                begin = index + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(begin..).unwrap_or_default());
    parts
}

fn requirement(text: &str) -> Result<Requirement, SelectorError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(SelectorError::Empty);
    }
    if text.contains(['<', '>']) {
        return Err(SelectorError::Comparison(short(text)));
    }
    let made = |name: &str, of: Of| {
        let key = key(name.trim())?;
        Ok(Requirement { key, of })
    };
    if let Some(name) = text.strip_prefix('!') {
        return made(name, Of::Absent);
    }
    if let Some((name, one)) = text.split_once("!=") {
        return made(name, Of::NotIn([value(one)?].into()));
    }
    if let Some((name, one)) = text.split_once('=') {
        let one = one.strip_prefix('=').unwrap_or(one);
        return made(name, Of::In([value(one)?].into()));
    }
    let Some((name, rest)) = text.split_once(|one: char| one.is_whitespace() || one == '(') else {
        return made(text, Of::Exists);
    };
    let rest = text.get(name.len()..).unwrap_or(rest).trim_start();
    // `in` is not a prefix of `notin`, so the order does not matter; `notin` first reads more clearly.
    for (word, is_in) in [("notin", false), ("in", true)] {
        if let Some(list) = rest.strip_prefix(word) {
            let values = values(list).ok_or_else(|| SelectorError::Parentheses(short(text)))?;
            let values: BTreeSet<String> = values.map(value).collect::<Result<_, _>>()?;
            return made(
                name,
                if is_in {
                    Of::In(values)
                } else {
                    Of::NotIn(values)
                },
            );
        }
    }
    Err(SelectorError::Requirement(short(text)))
}

/// The comma-separated values in parentheses. Empty parentheses are refused: they are more often a mistake than the
/// empty value.
fn values(list: &str) -> Option<impl Iterator<Item = &str>> {
    let inside = list.trim().strip_prefix('(')?.strip_suffix(')')?;
    (!inside.trim().is_empty() && !inside.contains(['(', ')'])).then(|| inside.split(','))
}

fn key(text: &str) -> Result<String, SelectorError> {
    match name_syntax::is_label_key(text) {
        true => Ok(text.to_owned()),
        false => Err(SelectorError::Key(short(text))),
    }
}

fn value(text: &str) -> Result<String, SelectorError> {
    let text = text.trim();
    match name_syntax::is_label_value(text) {
        true => Ok(text.to_owned()),
        false => Err(SelectorError::Value(short(text))),
    }
}

/// The start of the text, long enough to locate it.
fn short(text: &str) -> String {
    text.chars().take(80).collect()
}
