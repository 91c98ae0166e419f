//! API objects parsed without the fields that no controller reads: images, managed fields and the rest make up four
//! fifths of a node that runs pods. They are skipped during parsing, so that they cost neither memory nor time to
//! build. Reads only.

mod managed_fields;
mod node;
mod service;

use std::borrow::Cow;
use std::collections::BTreeMap;

use ccm_core::well_known::LAST_APPLIED;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use prost::Message;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) use managed_fields::ManagedFields;
pub(crate) use node::WireNode;

/// An object that contains only the fields that controllers read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pruned<T>(pub(crate) T);

/// A pruned Node (cluster-scoped).
pub(crate) type PrunedNode = Pruned<Node>;
/// A pruned Service (namespaced).
pub(crate) type PrunedService = Pruned<Service>;

/// The metadata that is read, as JSON and as protobuf. The field numbers are those of
/// `k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto`.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "3")]
    namespace: Option<String>,
    #[prost(string, optional, tag = "5")]
    uid: Option<String>,
    #[prost(string, optional, tag = "6")]
    resource_version: Option<String>,
    #[prost(int64, optional, tag = "7")]
    generation: Option<i64>,
    #[prost(message, optional, tag = "8")]
    creation_timestamp: Option<Stamp>,
    #[prost(message, optional, tag = "9")]
    deletion_timestamp: Option<Stamp>,
    #[prost(btree_map = "string, string", tag = "11")]
    #[serde(default, deserialize_with = "or_empty")]
    labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    #[serde(default, deserialize_with = "or_empty")]
    annotations: BTreeMap<String, String>,
    #[prost(string, repeated, tag = "14")]
    #[serde(default, deserialize_with = "or_empty")]
    finalizers: Vec<String>,
}

/// A time; Kubernetes stores whole seconds. In protobuf, zero means none.
#[derive(Clone, Copy, PartialEq, Message)]
struct Stamp {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

impl Stamp {
    fn time(self) -> Option<Time> {
        let time = (self.seconds != 0).then(|| Timestamp::from_second(self.seconds).ok());
        time.flatten().map(Time)
    }
}

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.time().serialize(serializer)
    }
}

/// Kubernetes stores times up to the end of the year 9999, of which the last two days cannot be represented. They are
/// none, as in protobuf: an error would keep the whole list from being read.
impl<'de> Deserialize<'de> for Stamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Stamp, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let time = text.and_then(|text| text.parse::<Timestamp>().ok());
        Ok(Stamp {
            seconds: time.map_or(0, Timestamp::as_second),
        })
    }
}

/// Reads `null` as the default value.
fn or_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A text that is not empty. Protobuf has empty ones, which JSON leaves out.
fn text(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// A list that is not empty; JSON leaves out empty ones. Without the room for more that it got while it was read: these
/// lists are kept, and most have one element.
fn list<T>(mut list: Vec<T>) -> Option<Vec<T>> {
    list.shrink_to_fit();
    Some(list).filter(|list| !list.is_empty())
}

fn map(map: BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    Some(map).filter(|map| !map.is_empty())
}

impl From<Metadata> for ObjectMeta {
    fn from(mut metadata: Metadata) -> ObjectMeta {
        metadata.annotations.remove(LAST_APPLIED);
        ObjectMeta {
            name: text(metadata.name),
            namespace: text(metadata.namespace),
            uid: text(metadata.uid),
            generation: metadata.generation.filter(|generation| *generation != 0),
            resource_version: text(metadata.resource_version),
            creation_timestamp: metadata.creation_timestamp.and_then(Stamp::time),
            deletion_timestamp: metadata.deletion_timestamp.and_then(Stamp::time),
            labels: map(metadata.labels),
            annotations: map(metadata.annotations),
            finalizers: list(metadata.finalizers),
            ..ObjectMeta::default()
        }
    }
}

/// The same resource as `T`.
impl<T: Resource<DynamicType = ()>> Resource for Pruned<T> {
    type DynamicType = ();
    type Scope = T::Scope;

    fn kind(_: &()) -> Cow<'_, str> {
        T::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        T::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        T::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        T::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}
