//! An Event about a Provider, as core/v1 has it. Each is of its own: what happens to versions happens seldom.

use ccm_core::names::{PROVIDER_EVENTS, PROVIDER_GROUP, PROVIDER_KIND, PROVIDER_VERSION};
use ccm_core::rollout::Happening;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Events of objects without a namespace live here (client-go does the same).
pub(super) const NAMESPACE: &str = "default";
/// The longest name of an object; an Event's ends with a hexadecimal time of at most 17 characters.
const MOST_NAME: usize = 253 - 17;
/// Bytes of a message, as the API server takes them.
const MESSAGE_BYTES: usize = 1024;

/// The Event that says so.
pub(super) fn event(name: &str, uid: Option<&str>, happening: &Happening, now: Timestamp) -> Value {
    let prefix: String = name.chars().take(MOST_NAME).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": format!("{prefix}.{:x}", now.as_nanosecond()),
            "namespace": NAMESPACE,
        },
        "involvedObject": {
            "apiVersion": format!("{PROVIDER_GROUP}/{PROVIDER_VERSION}"),
            "kind": PROVIDER_KIND,
            "name": name,
            "uid": uid,
        },
        "type": happening.event_type.as_str(),
        "reason": happening.reason,
        "message": ccm_host::clean(&happening.message, MESSAGE_BYTES),
        "source": { "component": PROVIDER_EVENTS },
        "reportingComponent": PROVIDER_EVENTS,
        "count": 1,
        "firstTimestamp": now.to_string(),
        "lastTimestamp": now.to_string(),
    })
}
