//! Field managers of the status. Earlier versions wrote the status as updates, and an apply does not remove a field
//! that an update holds. So the first write to such an object is an update, too, the apply takes all fields, and the
//! entries of the other managers are removed.

use ccm_core::well_known::FIELD_MANAGER;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

/// The field manager that the API server records for writes before the first apply.
const BEFORE: &str = "before-first-apply";

/// The status that was written before the first apply; `None`: it is applied, or there is none.
pub(super) fn unapplied(object: &DynamicObject) -> Option<Value> {
    let status = object.data.get("status")?;
    (!entries(object).iter().any(is_applied)).then(|| status.clone())
}

/// The managed fields without the entries of earlier updates, once the status was applied. `None`: nothing has to be
/// removed.
pub(super) fn sole(object: &DynamicObject) -> Option<Value> {
    let all = entries(object);
    let is_left = |entry: &Value| {
        entry["operation"] == "Update"
            && entry["subresource"] == "status"
            && (entry["manager"] == FIELD_MANAGER || entry["manager"] == BEFORE)
    };
    let has_left = all.iter().any(is_left) && all.iter().any(is_applied);
    has_left.then(|| {
        all.iter()
            .filter(|entry| !is_left(entry))
            .cloned()
            .collect()
    })
}

/// The new value, with a null for each field that only the old one has: as a merge patch, it replaces the old value.
pub(super) fn replacing(new: Value, old: &Value) -> Value {
    let (new, old) = match (new, old) {
        (Value::Object(new), Value::Object(old)) => (new, old),
        (new, _) => return new,
    };
    let mut all: Map<String, Value> = old.keys().map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in new {
        let before = old.get(&key).unwrap_or(&Value::Null);
        let value = replacing(value, before);
        all.insert(key, value);
    }
    Value::Object(all)
}

fn is_applied(entry: &Value) -> bool {
    entry["manager"] == FIELD_MANAGER
        && entry["operation"] == "Apply"
        && entry["subresource"] == "status"
}

fn entries(object: &DynamicObject) -> Vec<Value> {
    let entries = object.metadata.managed_fields.iter().flatten();
    entries.map(|entry| json!(entry)).collect()
}
