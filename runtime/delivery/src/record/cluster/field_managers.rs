//! Who holds the fields of the status. Earlier versions wrote it as updates, and a field that an update holds is not removed
//! by an apply that leaves it out. So the first write to such an object is an update, too, the apply takes all fields, and
//! the other holders are dropped.

use ccm_core::well_known::FIELD_MANAGER;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

/// The API server's name for whoever wrote before the first apply.
const BEFORE: &str = "before-first-apply";

/// The status that was written before the first apply; `None`: it is applied, or there is none.
pub(super) fn unapplied(object: &DynamicObject) -> Option<Value> {
    let status = object.data.get("status")?;
    (!entries(object).iter().any(is_applied)).then(|| status.clone())
}

/// The holders of fields as they have to be once the status is applied, if they have to be changed.
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

/// The new value with a null for every field of the old one that it does not have: as a merge patch it replaces.
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
