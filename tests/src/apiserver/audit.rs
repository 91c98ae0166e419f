//! The audit log of a kube-apiserver, read as plain values: who asked for what, and how it was answered.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;
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

/// One request with its times and where it came from, for those who ask when.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When its head had arrived.
    pub received: Timestamp,
    /// When it was answered; of a watch: when it began to be.
    pub answered: Timestamp,
    /// The address of whoever sent it: clients that bind different ones can be told apart.
    pub source: Option<IpAddr>,
    /// What was asked.
    pub entry: AuditEntry,
}

/// Reads what was written after the first `read` bytes, and moves `read` on. The order is that in which the answers
/// were made.
pub(super) fn read_on(path: impl AsRef<Path>, read: &mut u64) -> Result<Vec<Arrival>> {
    let path = path.as_ref();
    let mut text = String::new();
    let mut file = File::open(path)
        .with_context(|| format!("cannot read the audit log {}", path.display()))?;
    file.seek(SeekFrom::Start(*read))?;
    file.read_to_string(&mut text)?;
    let mut arrivals = Vec::new();
    for line in lines(&text) {
        *read += u64::try_from(line.len())?;
        let event = event(line)?;
        arrivals.push(Arrival {
            received: event.received.parse()?,
            answered: event.stage_timestamp.parse()?,
            source: event.source_ips.first().and_then(|ip| ip.parse().ok()),
            entry: entry(event),
        });
    }
    Ok(arrivals)
}

/// Reads a log, and puts its entries into the order in which the requests came in: entries are written at the end
/// of a request, and two of them may pass each other. A last line that is still being written is left out.
pub(super) fn read(path: impl AsRef<Path>) -> Result<Vec<AuditEntry>> {
    let path = path.as_ref();
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the audit log {}", path.display()))?;
    let mut events = lines(&text).map(event).collect::<Result<Vec<_>>>()?;
    // RFC 3339 in UTC with six decimals: the order of the texts is the order of the times.
    events.sort_by(|one, other| one.received.cmp(&other.received));
    Ok(events.into_iter().map(entry).collect())
}

/// The lines that are complete.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
}

fn event(line: &str) -> Result<Event> {
    serde_json::from_str(line).with_context(|| format!("not an audit event: {line}"))
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
    stage_timestamp: String,
    #[serde(rename = "sourceIPs")]
    source_ips: Vec<String>,
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
