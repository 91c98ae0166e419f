//! The envelopes of Kubernetes' protobuf, and their JSON. Field numbers are those of
//! `k8s.io/apimachinery/pkg/{runtime,apis/meta/v1}/generated.proto`; unused fields are left out, and skipped.

use bytes::{Buf as _, Bytes};
use prost::Message;
use serde::Serialize;
use thiserror::Error;

use super::node::Node;

/// The first bytes of every object.
const MAGIC: &[u8] = b"k8s\0";

/// Why an answer cannot be read.
#[derive(Debug, Error)]
pub(super) enum Unreadable {
    /// Its bytes are no protobuf message of this type.
    #[error("it is no message of the expected form")]
    Message(#[from] prost::DecodeError),
    /// It does not begin with [`MAGIC`].
    #[error("an object without its first four bytes")]
    NoMagic,
    /// Its kind is none that was asked for; the text is the kind.
    #[error("an object of the kind {0:?}")]
    Kind(String),
    /// An event has this many bytes.
    #[error("an event of {0} bytes")]
    TooLong(usize),
    /// It cannot be written as JSON.
    #[error("it has no JSON")]
    Json(#[from] serde_json::Error),
}

#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(message, optional, tag = "1")]
    types: Option<TypeMeta>,
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

#[derive(Clone, PartialEq, Message)]
struct WatchEvent {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(message, optional, tag = "2")]
    object: Option<RawExtension>,
}

#[derive(Clone, PartialEq, Message)]
struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

#[derive(Clone, PartialEq, Message, Serialize)]
struct NodeList {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(message, repeated, tag = "2")]
    items: Vec<Node>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[prost(string, tag = "2")]
    resource_version: String,
    #[prost(string, tag = "3")]
    r#continue: String,
    #[prost(int64, optional, tag = "4")]
    remaining_item_count: Option<i64>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
struct Status {
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "String::is_empty")]
    status: String,
    #[prost(string, tag = "3")]
    message: String,
    #[prost(string, tag = "4")]
    reason: String,
    #[prost(message, optional, tag = "5")]
    details: Option<StatusDetails>,
    #[prost(int32, tag = "6")]
    code: i32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusDetails {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    group: String,
    #[prost(string, tag = "3")]
    kind: String,
    #[prost(message, repeated, tag = "4")]
    causes: Vec<StatusCause>,
    #[prost(int32, tag = "5")]
    retry_after_seconds: i32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
struct StatusCause {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(string, tag = "3")]
    field: String,
}

/// An object with its kind, which protobuf holds beside it.
#[derive(Serialize)]
struct Typed<T> {
    #[serde(flatten)]
    types: TypeMeta,
    #[serde(flatten)]
    object: T,
}

/// More than the JSON of most nodes needs, in bytes.
const ONE_NODE: usize = 4096;

/// Appends the JSON of an object, a list or a `Status`.
pub(super) fn object(mut bytes: Bytes, json: &mut Vec<u8>) -> Result<(), Unreadable> {
    if !bytes.starts_with(MAGIC) {
        return Err(Unreadable::NoMagic);
    }
    bytes.advance(MAGIC.len());
    let Unknown { types, raw } = Unknown::decode(bytes)?;
    let types = types.unwrap_or_default();
    match types.kind.as_str() {
        "Node" => write::<Node>(types, raw, json),
        "NodeList" => write::<NodeList>(types, raw, json),
        "Status" => write::<Status>(types, raw, json),
        kind => Err(Unreadable::Kind(kind.to_owned())),
    }
}

fn write<T: Message + Default + Serialize>(
    types: TypeMeta,
    raw: Bytes,
    json: &mut Vec<u8>,
) -> Result<(), Unreadable> {
    let object = T::decode(raw)?;
    Ok(serde_json::to_writer(json, &Typed { types, object })?)
}

/// Appends a line with the JSON of an event.
pub(super) fn event(bytes: Bytes, json: &mut Vec<u8>) -> Result<(), Unreadable> {
    let WatchEvent { kind, object: raw } = WatchEvent::decode(bytes)?;
    json.reserve(ONE_NODE);
    json.extend_from_slice(b"{\"type\":");
    serde_json::to_writer(&mut *json, &kind)?;
    json.extend_from_slice(b",\"object\":");
    object(raw.unwrap_or_default().raw, json)?;
    json.extend_from_slice(b"}\n");
    Ok(())
}
