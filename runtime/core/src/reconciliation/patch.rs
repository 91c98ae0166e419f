//! Writes to the cluster as typed patches that serialise to JSON. Each contains only fields that this manager owns.
//! Sends nothing.
//!
//! All are strategic merge patches. The UID is always included: the API server refuses the patch when the object was
//! deleted and recreated under the same name.

mod pod_network;
mod service;

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::Taint;
use serde_json::{Map, Value, json};

use crate::cloud::instance::Address;

pub use pod_network::{NetworkConditionPatch, PodCidrsPatch};
pub use service::{FinalizerChange, ServicePatch};

/// A patch of `nodes/<name>/status`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeStatusPatch {
    /// `metadata.uid` of the node.
    pub uid: String,
    /// The complete new list, in order.
    pub addresses: Vec<Address>,
}

impl NodeStatusPatch {
    /// The patch body. The API merges `status.addresses` by `type`, which would drop one of two addresses of a type and
    /// never remove any; the `$patch: replace` element replaces the whole list (NODE-058; unlike upstream also when the
    /// stored list is empty, EDGE-033).
    pub fn to_json(&self) -> Value {
        let mut addresses: Vec<Value> = self
            .addresses
            .iter()
            .map(|one| json!({ "type": one.address_type.as_str(), "address": one.address }))
            .collect();
        addresses.push(json!({ "$patch": "replace" }));
        json!({ "metadata": { "uid": self.uid }, "status": { "addresses": addresses } })
    }
}

/// A patch of `nodes/<name>`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodePatch {
    /// `metadata.uid` of the node.
    pub uid: String,
    /// `metadata.resourceVersion` of the only version that the patch is valid for; `None`: it is valid for any, or
    /// `taints` names it.
    pub resource_version: Option<String>,
    /// `spec.providerID`, only if the node has none.
    pub provider_id: Option<String>,
    /// Labels to set; all others stay.
    pub labels: BTreeMap<String, String>,
    /// The new taints, if they change.
    pub taints: Option<Taints>,
}

/// `spec.taints` is an atomic list, so a change writes all of it. The patch is therefore valid for one version of the
/// object only, and a taint that another client adds meanwhile is not lost (EDGE-012).
#[derive(Debug, Clone, PartialEq)]
pub struct Taints {
    /// `metadata.resourceVersion` of the object that `taints` is based on.
    pub resource_version: String,
    /// The complete new list, in the old order.
    pub taints: Vec<Taint>,
    /// The change, for log lines.
    pub change: TaintChange,
}

/// The change of taints, by the last part of their key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaintChange {
    /// A taint was added.
    Added(&'static str),
    /// All taints with this key were removed.
    Removed(&'static str),
}

impl fmt::Display for TaintChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaintChange::Added(key) => write!(f, "+taint({key})"),
            TaintChange::Removed(key) => write!(f, "-taint({key})"),
        }
    }
}

impl fmt::Display for NodePatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(provider_id) = &self.provider_id {
            write!(f, " providerID={provider_id}")?;
        }
        if !self.labels.is_empty() {
            write!(f, " labels({})", self.labels.len())?;
        }
        match &self.taints {
            Some(taints) => write!(f, " {} taints({})", taints.change, taints.taints.len()),
            None => Ok(()),
        }
    }
}

impl NodePatch {
    /// The patch body, for the API server.
    pub fn to_json(&self) -> Value {
        let mut metadata = Map::new();
        metadata.insert("uid".to_owned(), json!(self.uid));
        if let Some(version) = &self.resource_version {
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
        if !self.labels.is_empty() {
            metadata.insert("labels".to_owned(), json!(self.labels));
        }
        let mut spec = Map::new();
        if let Some(provider_id) = &self.provider_id {
            spec.insert("providerID".to_owned(), json!(provider_id));
        }
        if let Some(taints) = &self.taints {
            metadata.insert("resourceVersion".to_owned(), json!(taints.resource_version));
            spec.insert("taints".to_owned(), json!(taints.taints));
        }
        let mut body = Map::new();
        body.insert("metadata".to_owned(), Value::Object(metadata));
        if !spec.is_empty() {
            body.insert("spec".to_owned(), Value::Object(spec));
        }
        Value::Object(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::instance::AddressType;

    #[test]
    fn node_058_addresses_are_replaced_as_a_whole() {
        let patch = NodeStatusPatch {
            uid: "u1".to_owned(),
            addresses: vec![Address {
                address_type: AddressType::InternalIp,
                address: "10.0.0.2".to_owned(),
            }],
        };
        let expected = json!({
            "metadata": { "uid": "u1" },
            "status": { "addresses": [
                { "type": "InternalIP", "address": "10.0.0.2" },
                { "$patch": "replace" }
            ] }
        });
        assert_eq!(patch.to_json(), expected);
    }

    #[test]
    fn node_040_provider_id_labels_and_taints_go_into_one_patch_for_one_version() {
        let patch = NodePatch {
            uid: "u1".to_owned(),
            resource_version: None,
            provider_id: Some("sim://42".to_owned()),
            labels: [("a".to_owned(), "b".to_owned())].into(),
            taints: Some(Taints {
                resource_version: "7".to_owned(),
                taints: Vec::new(),
                change: TaintChange::Removed("uninitialized"),
            }),
        };
        let expected = json!({
            "metadata": { "uid": "u1", "resourceVersion": "7", "labels": { "a": "b" } },
            "spec": { "providerID": "sim://42", "taints": [] }
        });
        assert_eq!(patch.to_json(), expected);
    }

    #[test]
    fn a_patch_of_labels_alone_names_nothing_else() {
        let patch = NodePatch {
            uid: "u1".to_owned(),
            labels: [("a".to_owned(), "b".to_owned())].into(),
            ..NodePatch::default()
        };
        assert_eq!(
            patch.to_json(),
            json!({ "metadata": { "uid": "u1", "labels": { "a": "b" } } })
        );
    }
}
