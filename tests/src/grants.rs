//! The grants that an operator makes from a manifest's requests.

use serde_json::Value;

/// The rules of a manifest's target, as a grant has them: without the texts of `absence`, which only a manifest has.
pub fn rules(target: &Value) -> Vec<Value> {
    let rules = target["rules"].as_array().cloned().unwrap_or_default();
    let granted = rules.into_iter().map(|mut rule| {
        if let Some(rule) = rule.as_object_mut() {
            rule.remove("absence");
        }
        rule
    });
    granted.collect()
}
