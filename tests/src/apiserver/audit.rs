//! The audit log of a kube-apiserver, read as plain values: who asked for what, and how it was answered.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

/// One request that the server answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditEntry {
    /// The name of the user who asked.
    pub user: String,
    /// The verb as RBAC knows it: get, list, watch, create, update, patch, delete, deletecollection.
    pub verb: String,
    /// The API group; empty for the core group, and for requests that are not about a resource.
    pub group: String,
    /// The resource's plural name; empty for requests that are not about a resource.
    pub resource: String,
    /// The subresource, such as `status`; empty for the object itself.
    pub subresource: String,
    /// The namespace; empty for what has none.
    pub namespace: String,
    /// The object's name; empty for collections, and for creations that leave the name to the server.
    pub name: String,
    /// The path and query that were asked for.
    pub uri: String,
    /// The HTTP status of the answer.
    pub code: u16,
    /// The body, for writes that had a JSON body.
    pub body: Option<Value>,
}

/// Reads a log, and puts its entries into the order in which the requests came in: entries are written at the end
/// of a request, and two of them may pass each other. A last line that is still being written is left out.
pub(super) fn read(path: impl AsRef<Path>) -> Result<Vec<AuditEntry>> {
    let path = path.as_ref();
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the audit log {}", path.display()))?;
    let mut events = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| {
            serde_json::from_str(line).with_context(|| format!("not an audit event: {line}"))
        })
        .collect::<Result<Vec<Event>>>()?;
    // RFC 3339 in UTC with six decimals: the order of the texts is the order of the times.
    events.sort_by(|one, other| one.received.cmp(&other.received));
    Ok(events.into_iter().map(entry).collect())
}

fn entry(event: Event) -> AuditEntry {
    AuditEntry {
        user: event.user.username,
        verb: event.verb,
        group: event.object_ref.api_group,
        resource: event.object_ref.resource,
        subresource: event.object_ref.subresource,
        namespace: event.object_ref.namespace,
        name: event.object_ref.name,
        uri: event.request_uri,
        code: event.response_status.code,
        body: event.request_object,
    }
}

/// The part of `audit.k8s.io/v1` Event that is of use here. Absent fields are empty.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Event {
    #[serde(rename = "requestReceivedTimestamp")]
    received: String,
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    user: User,
    object_ref: ObjectRef,
    response_status: ResponseStatus,
    request_object: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct User {
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}
