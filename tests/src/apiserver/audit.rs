//! Reads the audit log of a kube-apiserver as plain values: the requests and their responses.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// One request with a response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditEntry {
    /// `user.username`.
    pub user: String,
    /// The verb as RBAC knows it: get, list, watch, create, update, patch, delete, deletecollection.
    pub verb: String,
    /// The API group; empty for the core group, and for requests that are not about a resource.
    pub group: String,
    /// The resource's plural name; empty for requests that are not about a resource.
    pub resource: String,
    /// The subresource, such as `status`; empty for the object itself.
    pub subresource: String,
    /// The namespace; empty for cluster-scoped requests.
    pub namespace: String,
    /// The object's name; empty for collections, and for creations with a server-generated name.
    pub name: String,
    /// Path and query of the request.
    pub uri: String,
    /// The HTTP status of the response.
    pub code: u16,
    /// The body, for writes that had a JSON body.
    pub body: Option<Value>,
}

/// One request with its times and source.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When the request's head had arrived.
    pub received: Timestamp,
    /// When it was answered; for a watch: when the response began.
    pub answered: Timestamp,
    /// The sender's address: clients that bind different addresses can be distinguished.
    pub source: Option<IpAddr>,
    /// The request as recorded, with its response code.
    pub entry: AuditEntry,
}

/// Reads the complete lines after the first `read` bytes, and advances `read`. Entries are in response order.
pub(super) fn read_on(path: impl AsRef<Path>, read: &mut u64) -> Result<Vec<Arrival>> {
    let path = path.as_ref();
    let mut text = Vec::new();
    let mut file = File::open(path)
        .with_context(|| format!("cannot read the audit log {}", path.display()))?;
    file.seek(SeekFrom::Start(*read))?;
    file.read_to_end(&mut text)?;
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

/// Reads a log and sorts its entries by arrival: entries are written at the end of a request, so their order can
/// differ. Omits a last line that is still being written.
pub(super) fn read(path: impl AsRef<Path>) -> Result<Vec<AuditEntry>> {
    let path = path.as_ref();
    let text =
        fs::read(path).with_context(|| format!("cannot read the audit log {}", path.display()))?;
    let mut events = lines(&text).map(event).collect::<Result<Vec<_>>>()?;
    // RFC 3339 in UTC with six decimals: text order is time order.
    events.sort_by(|one, other| one.received.cmp(&other.received));
    Ok(events.into_iter().map(entry).collect())
}

/// Cuts off a last line without a newline. A server that is killed while it writes an event leaves such a line, and the
/// next server would append its first event to it.
pub(super) fn cut_torn_line(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let text =
        fs::read(path).with_context(|| format!("cannot read the audit log {}", path.display()))?;
    let whole = text.iter().rposition(|&byte| byte == b'\n');
    let whole = u64::try_from(whole.map_or(0, |newline| newline + 1))?;
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(whole)
        .with_context(|| format!("cannot shorten the audit log {}", path.display()))
}

/// The lines that end with a newline: the last one may still be being written, and end within a character.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
        .filter(|line| line.ends_with(b"\n"))
}

fn event(line: &[u8]) -> Result<Event> {
    serde_json::from_slice(line)
        .with_context(|| format!("not an audit event: {}", String::from_utf8_lossy(line)))
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

/// The required fields of an `audit.k8s.io/v1` Event. Absent fields are empty.
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
