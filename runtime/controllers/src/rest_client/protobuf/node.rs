//! The fields of a Node that controllers read, in protobuf and as the JSON that
//! [`PrunedNode`](ccm_core::node::object::PrunedNode) is read from. Field numbers are those of
//! `k8s.io/api/core/v1/generated.proto` and `k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto`; all other fields are
//! skipped. Texts are parts of the answer, not copies. A kubelet can store texts that are not UTF-8: as in the API server's
//! JSON, U+FFFD takes the place of each byte that is not.

use std::borrow::Cow;
use std::iter::repeat_n;

use bytes::Bytes;
use k8s_openapi::jiff::Timestamp;
use prost::Message;
use serde::{Serialize, Serializer};

/// A Node.
#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct Node {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
    #[prost(message, optional, tag = "2")]
    spec: Option<Spec>,
    #[prost(message, optional, tag = "3")]
    status: Option<Status>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    #[serde(serialize_with = "text")]
    uid: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    #[serde(serialize_with = "text")]
    resource_version: Bytes,
    #[prost(message, optional, tag = "8")]
    creation_timestamp: Option<Time>,
    #[prost(message, optional, tag = "9")]
    #[serde(skip_serializing_if = "Option::is_none")]
    deletion_timestamp: Option<Time>,
    #[prost(message, repeated, tag = "11")]
    #[serde(serialize_with = "map")]
    labels: Vec<Pair>,
    #[prost(message, repeated, tag = "12")]
    #[serde(serialize_with = "map")]
    annotations: Vec<Pair>,
}

/// An element of a map, which has this form.
#[derive(Clone, PartialEq, Message)]
struct Pair {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// A time; Kubernetes stores whole seconds. Zero means none.
#[derive(Clone, Copy, PartialEq, Message)]
struct Time {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

#[derive(Clone, PartialEq, Message, Serialize)]
struct Spec {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(rename = "podCIDR", serialize_with = "text")]
    pod_cidr: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(rename = "providerID", serialize_with = "text")]
    provider_id: Bytes,
    #[prost(bool, tag = "4")]
    unschedulable: bool,
    #[prost(message, repeated, tag = "5")]
    taints: Vec<Taint>,
    #[prost(bytes = "bytes", repeated, tag = "7")]
    #[serde(rename = "podCIDRs", serialize_with = "texts")]
    pod_cidrs: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct Taint {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text")]
    value: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(serialize_with = "text")]
    effect: Bytes,
    #[prost(message, optional, tag = "4")]
    time_added: Option<Time>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[prost(message, repeated, tag = "4")]
    conditions: Vec<Condition>,
    #[prost(message, repeated, tag = "5")]
    addresses: Vec<Address>,
    #[prost(message, optional, tag = "7")]
    node_info: Option<NodeInfo>,
}

/// A condition without its message.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(rename = "type", serialize_with = "text")]
    kind: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text")]
    status: Bytes,
    #[prost(message, optional, tag = "4")]
    last_transition_time: Option<Time>,
    #[prost(bytes = "bytes", tag = "5")]
    #[serde(serialize_with = "text")]
    reason: Bytes,
}

#[derive(Clone, PartialEq, Message, Serialize)]
struct Address {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(rename = "type", serialize_with = "text")]
    kind: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text")]
    address: Bytes,
}

#[derive(Clone, PartialEq, Message, Serialize)]
struct NodeInfo {
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(rename = "systemUUID", serialize_with = "text")]
    system_uuid: Bytes,
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match Timestamp::from_second(self.seconds) {
            _ if self.seconds == 0 => serializer.serialize_none(),
            Ok(time) => time.serialize(serializer),
            Err(_) => serializer.serialize_str("out of range"),
        }
    }
}

/// One U+FFFD for each byte that is not UTF-8, as Go's encoder has it; not one for each incomplete character.
fn read(text: &Bytes) -> Cow<'_, str> {
    match std::str::from_utf8(text) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let chars = text.utf8_chunks().flat_map(|chunk| {
                let replaced = repeat_n(char::REPLACEMENT_CHARACTER, chunk.invalid().len());
                chunk.valid().chars().chain(replaced)
            });
            Cow::Owned(chars.collect())
        }
    }
}

fn text<S: Serializer>(text: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&read(text))
}

fn texts<S: Serializer>(texts: &[Bytes], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(texts.iter().map(read))
}

fn map<S: Serializer>(pairs: &[Pair], serializer: S) -> Result<S::Ok, S::Error> {
    let pairs = pairs.iter();
    serializer.collect_map(pairs.map(|pair| (read(&pair.key), read(&pair.value))))
}
