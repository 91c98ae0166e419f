//! Filters the annotations that a provider wants to set on a Service: only under the prefixes granted by the operator,
//! and never keys that Kubernetes or this manager reads. Invalid ones are left out and reported.

use std::collections::{BTreeMap, BTreeSet};

use super::Facts;
use crate::cloud::load_balancer::AnnotationChange;
use crate::name_syntax;
use crate::node::answer_check::{self, quoted};

/// Maximum number of annotations in one answer; the rest is left out.
const MOST: usize = 16;
/// Maximum length of a value, in bytes.
const LONGEST: usize = 4096;

/// Returns the changes still to be written, and what was left out.
pub(super) fn granted(
    facts: &Facts,
    changes_requested: &[AnnotationChange],
) -> (BTreeMap<String, Option<String>>, Vec<String>) {
    let mut changes = BTreeMap::new();
    let mut faults = Vec::new();
    for (index, requested) in changes_requested.iter().enumerate() {
        if let Some(problem) = problem(facts, requested, index) {
            let key = quoted(&requested.key);
            faults.push(format!("annotation {key} left out: {problem}"));
        } else if facts.annotation(&requested.key) != requested.value.as_ref() {
            changes.insert(requested.key.clone(), requested.value.clone());
        }
    }
    (changes, faults)
}

/// Keys of the annotations that are written: those that pass the filter.
pub(super) fn keys(facts: &Facts, changes_requested: &[AnnotationChange]) -> BTreeSet<String> {
    let requested = changes_requested.iter().enumerate();
    let granted = requested.filter(|(index, one)| problem(facts, one, *index).is_none());
    granted.map(|(_, one)| one.key.clone()).collect()
}

fn problem(facts: &Facts, requested: &AnnotationChange, index: usize) -> Option<&'static str> {
    let key = requested.key.as_str();
    let value = requested.value.as_deref().unwrap_or_default();
    let prefixes = &facts.world.prefixes;
    if index >= MOST {
        Some("there are too many annotations")
    } else if !name_syntax::is_label_key(key) {
        Some("the key is not an annotation key")
    } else if answer_check::is_reserved(key) {
        Some("the key belongs to Kubernetes or to this manager")
    } else if !prefixes.iter().any(|prefix| key.starts_with(prefix)) {
        Some("the key is not under a prefix that was granted")
    } else if value.len() > LONGEST {
        Some("the value is too long")
    } else if value.chars().any(char::is_control) {
        Some("the value has control characters")
    } else {
        None
    }
}
