//! The manager's requests to the API server, with times, from the server's own log. Reads; judges nothing.

use std::path::Path;

use anyhow::{Context as _, Result};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// Only the requests of the users under test are recorded, so that filling the cluster costs no log.
pub(crate) const POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1",
  "kind": "Policy",
  "rules": [
    {"level": "Metadata", "users": ["system:serviceaccount:kube-system:ccm", "peer"], "verbs": ["watch"],
     "omitStages": ["RequestReceived", "ResponseComplete"]},
    {"level": "Metadata", "users": ["system:serviceaccount:kube-system:ccm", "peer"], "verbs": ["get", "list"],
     "omitStages": ["RequestReceived", "ResponseStarted"]},
    {"level": "Request", "users": ["system:serviceaccount:kube-system:ccm", "peer"],
     "omitStages": ["RequestReceived", "ResponseStarted"]},
    {"level": "None"}
  ]
}"#;

/// One request that the server answered.
pub(crate) struct Entry {
    pub(crate) verb: String,
    /// The resource with the subresource: `nodes/status`.
    pub(crate) resource: String,
    /// The object's name; for an Event the name of the object that it is about.
    pub(crate) name: String,
    pub(crate) code: u16,
    pub(crate) received: Timestamp,
    pub(crate) body: Value,
}

impl Entry {
    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    pub(crate) fn is_node_write(&self) -> bool {
        self.is_write() && self.resource.starts_with("nodes")
    }

    pub(crate) fn is_event(&self) -> bool {
        self.is_write() && self.resource == "events"
    }
}

/// All entries, in the order in which the requests came in. A line that is still being written is left out.
pub(crate) fn read(path: &Path) -> Result<Vec<Entry>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the audit log {}", path.display()))?;
    let lines = text.split_inclusive('\n');
    let mut entries = lines
        .filter(|line| line.ends_with('\n'))
        .map(|line| entry(line).with_context(|| format!("not an audit event: {line}")))
        .collect::<Result<Vec<_>>>()?;
    entries.sort_by_key(|entry| entry.received);
    Ok(entries)
}

fn entry(line: &str) -> Result<Entry> {
    let event: Event = serde_json::from_str(line)?;
    let mut resource = event.object_ref.resource;
    if !event.object_ref.subresource.is_empty() {
        resource = format!("{resource}/{}", event.object_ref.subresource);
    }
    let about = event.request_object["involvedObject"]["name"].as_str();
    let name = about.map_or(event.object_ref.name, str::to_owned);
    Ok(Entry {
        verb: event.verb,
        resource,
        name,
        code: event.response_status.code,
        received: event.request_received_timestamp.parse()?,
        body: event.request_object,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    request_received_timestamp: String,
    verb: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
    #[serde(default)]
    request_object: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}
