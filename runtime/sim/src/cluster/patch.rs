//! The supported patch types, each applied to an object in the request's version. Field ownership is not simulated, so
//! server-side apply is refused with 415, except for the status of custom kinds, which one manager applies as a whole.

use serde_json::Value;

use super::ask::Ask;
use super::kinds::Kind;
use super::refusal::Refusal;
use super::strategic;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
/// Maximum number of operations in a JSON patch, as upstream.
const OPERATIONS_LIMIT: usize = 10_000;

/// Refuses an unsupported type before the object is looked up, as upstream does.
pub(super) fn check_type(kind: &Kind, content_type: &str) -> Result<(), Refusal> {
    match content_type {
        STRATEGIC if kind.is_custom => Err(Refusal::unsupported_media(&[JSON, MERGE, APPLY])),
        APPLY if kind.is_custom => Ok(()),
        JSON | MERGE | STRATEGIC => Ok(()),
        _ => Err(Refusal::unsupported_patch()),
    }
}

/// Applies the patch and returns the new object.
pub(super) fn apply(ask: &Ask, mut object: Value, body: &[u8]) -> Result<Value, Refusal> {
    let unreadable =
        |error: serde_json::Error| Refusal::bad_request(format!("error decoding patch: {error}"));
    match ask.content_type.as_str() {
        JSON => {
            let patch: json_patch::Patch = serde_json::from_slice(body).map_err(unreadable)?;
            if patch.len() > OPERATIONS_LIMIT {
                return Err(Refusal::bad_request("too many operations in a JSON patch"));
            }
            json_patch::patch(&mut object, &patch).map_err(|_| Refusal::inapplicable_patch())?;
            Ok(object)
        }
        MERGE => {
            let patch: Value = serde_json::from_slice(body).map_err(unreadable)?;
            if !patch.is_object() {
                return Err(Refusal::bad_request("error decoding patch: not an object"));
            }
            json_patch::merge(&mut object, &patch);
            Ok(object)
        }
        APPLY if ask.status => {
            let patch: Value = serde_json::from_slice(body).map_err(unreadable)?;
            for field in ["resourceVersion", "uid"] {
                if let Some(expected) = patch.pointer(&format!("/metadata/{field}")) {
                    object["metadata"][field] = expected.clone();
                }
            }
            object["status"] = patch.get("status").cloned().unwrap_or_default();
            Ok(object)
        }
        APPLY => Err(Refusal::unsupported_patch()),
        _ => {
            let patch: Value = serde_json::from_slice(body).map_err(unreadable)?;
            strategic::apply(ask.kind, object, patch)
        }
    }
}
