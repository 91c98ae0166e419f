//! What an operator grants of what a manifest requests.

use serde_json::Value;

/// The rules of a manifest's target, as they stand in a grant: without the texts of `absence`, which are the manifest's
/// alone.
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
