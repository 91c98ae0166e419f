//! Who holds the fields of the status. Versions before server-side apply wrote it as an update; the fields of an update are
//! not removed by an apply that leaves them out. So the update's entry becomes an apply's, once.

use ccm_core::well_known::FIELD_MANAGER;
use kube::api::DynamicObject;
use serde_json::{Value, json};

/// The managed fields as they have to be, if they have to be changed.
pub(super) fn to_be_moved(object: &DynamicObject) -> Option<Value> {
    let mut owners = json!(object.metadata.managed_fields.as_ref()?);
    let entries = owners.as_array_mut()?;
    let is_ours = |entry: &Value, operation: &str| {
        entry["manager"] == FIELD_MANAGER
            && entry["operation"] == operation
            && entry["subresource"] == "status"
    };
    if entries.iter().any(|entry| is_ours(entry, "Apply")) {
        return None;
    }
    let entry = entries.iter_mut().find(|entry| is_ours(entry, "Update"))?;
    entry["operation"] = json!("Apply");
    Some(owners)
}
