//! Kubernetes label selectors, which define the nodes that a provider may own. Parses them, matches labels, and decides
//! whether two selectors could match the same object. Knows no objects.
//!
//! kube's `Selector` cannot replace this one: it does not parse text and proves nothing about overlaps, and this crate
//! has no client.
//!
//! `<` and `>`, which Kubernetes supports for node affinity, are refused: people cannot easily see whether two such
//! requirements overlap.

mod parse;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::string_map::StringMap;

pub use parse::SelectorError;

/// Requirements that all have to hold. Without any, everything matches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selector(Vec<Requirement>);

/// A requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    of: Of,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Of {
    /// The label exists with one of these values.
    In(BTreeSet<String>),
    /// The label is absent or has none of these values.
    NotIn(BTreeSet<String>),
    /// The label exists.
    Exists,
    /// The label is absent.
    Absent,
}

/// All requirements on one label combined.
#[derive(Default)]
struct Together<'a> {
    /// The allowed values, if restricted.
    allowed: Option<BTreeSet<&'a str>>,
    refused: BTreeSet<&'a str>,
    is_there: bool,
    is_absent: bool,
}

impl Selector {
    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &StringMap) -> bool {
        let holds = |one: &Requirement| {
            let value = labels.get(&one.key);
            match &one.of {
                Of::In(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
                Of::NotIn(values) => {
                    value.is_none_or(|value| !values.iter().any(|one| one == value))
                }
                Of::Exists => value.is_some(),
                Of::Absent => value.is_none(),
            }
        };
        self.0.iter().all(holds)
    }

    /// Whether an object could exist that both selectors match. `false` is a proof: some label would need two
    /// contradicting states.
    pub fn may_overlap(&self, other: &Selector) -> bool {
        let mut labels: BTreeMap<&str, Together<'_>> = BTreeMap::new();
        for one in self.0.iter().chain(&other.0) {
            labels.entry(&one.key).or_default().add(&one.of);
        }
        labels.values().all(Together::is_possible)
    }
}

impl<'a> Together<'a> {
    fn add(&mut self, of: &'a Of) {
        match of {
            Of::In(values) => {
                self.is_there = true;
                let values = values.iter().map(String::as_str);
                self.allowed = Some(match self.allowed.take() {
                    Some(before) => values.filter(|value| before.contains(value)).collect(),
                    None => values.collect(),
                });
            }
            Of::NotIn(values) => self.refused.extend(values.iter().map(String::as_str)),
            Of::Exists => self.is_there = true,
            Of::Absent => self.is_absent = true,
        }
    }

    /// Whether any state of the label fulfils all requirements. Unrestricted labels have more values than can be
    /// refused.
    fn is_possible(&self) -> bool {
        let has_value = self
            .allowed
            .as_ref()
            .is_none_or(|allowed| allowed.difference(&self.refused).next().is_some());
        has_value && !(self.is_there && self.is_absent)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, one) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            one.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let list = |values: &BTreeSet<String>| {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            values.join(",")
        };
        match &self.of {
            Of::In(values) if values.len() == 1 => write!(f, "{key}={}", list(values)),
            Of::In(values) => write!(f, "{key} in ({})", list(values)),
            Of::NotIn(values) if values.len() == 1 => write!(f, "{key}!={}", list(values)),
            Of::NotIn(values) => write!(f, "{key} notin ({})", list(values)),
            Of::Exists => write!(f, "{key}"),
            Of::Absent => write!(f, "!{key}"),
        }
    }
}

#[cfg(test)]
mod tests;
