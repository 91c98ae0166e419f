//! Reads a [`PrunedNode`] from the JSON of a Node object. One unreadable node would keep the whole list from being read:
//! whatever Kubernetes stores is read.

use std::fmt;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::jiff::Timestamp;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use super::{Condition, Content, NodeConditionStatus, PrunedNode, StoredAddress};
use crate::cloud::instance::AddressType;
use crate::moment::StoredTime;
use crate::string_map::StringMap;
use crate::well_known::{LAST_APPLIED, NETWORK_UNAVAILABLE};

#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct Object {
    metadata: Option<Metadata>,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(serde::Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: Option<Box<str>>,
    uid: Option<Box<str>>,
    resource_version: Option<Box<str>>,
    creation_timestamp: Option<StoredTime>,
    deletion_timestamp: Option<StoredTime>,
    labels: Option<StringMap>,
    #[serde(deserialize_with = "annotations")]
    annotations: Option<StringMap>,
}

#[derive(serde::Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(rename = "providerID")]
    provider_id: Option<Box<str>>,
    #[serde(rename = "podCIDR")]
    pod_cidr: Option<String>,
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Option<Box<[String]>>,
    taints: Option<Vec<StoredTaint>>,
    unschedulable: Option<bool>,
}

#[derive(serde::Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct StoredTaint {
    key: String,
    value: Option<String>,
    effect: String,
    time_added: Option<StoredTime>,
}

#[derive(serde::Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    conditions: Option<Vec<StoredCondition>>,
    addresses: Option<Vec<TypedAddress>>,
    node_info: Option<NodeInfo>,
}

#[derive(serde::Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct StoredCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    last_transition_time: Option<StoredTime>,
    reason: Option<Box<str>>,
}

#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct TypedAddress {
    #[serde(rename = "type")]
    kind: String,
    address: Box<str>,
}

#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct NodeInfo {
    #[serde(rename = "systemUUID")]
    system_uuid: Option<Box<str>>,
}

/// Annotations without kubectl's copy of the object.
fn annotations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<StringMap>, D::Error> {
    let stored = Option::<StringMap>::deserialize(deserializer)?;
    Ok(stored.map(|all| match all.contains_key(LAST_APPLIED) {
        true => all.iter().filter(|(key, _)| *key != LAST_APPLIED).collect(),
        false => all,
    }))
}

fn instant(stored: Option<StoredTime>) -> Option<Timestamp> {
    stored?.time().map(|time| time.0)
}

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StringMap, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = StringMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StringMap, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry::<Box<str>, Box<str>>()? {
                    pairs.push(pair);
                }
                Ok(pairs.into_iter().collect())
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}

impl<'de> Deserialize<'de> for PrunedNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PrunedNode, D::Error> {
        let object = Object::deserialize(deserializer)?;
        let metadata = object.metadata.unwrap_or_default();
        let spec = object.spec.unwrap_or_default();
        let status = object.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default().into_iter();
        let pod_cidrs = spec.pod_cidrs.unwrap_or_default();
        let taints = spec.taints.unwrap_or_default().into_iter();
        let addresses = status.addresses.unwrap_or_default().into_iter();
        let mut content = Content {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            created: instant(metadata.creation_timestamp),
            is_being_deleted: metadata.deletion_timestamp.is_some(),
            is_unschedulable: spec.unschedulable == Some(true),
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            provider_id: spec.provider_id.unwrap_or_default(),
            only_pod_cidr: spec
                .pod_cidr
                .filter(|cidr| pod_cidrs.is_empty() && !cidr.is_empty()),
            pod_cidrs,
            taints: taints.map(Taint::from).collect(),
            addresses: addresses.map(StoredAddress::from).collect(),
            system_uuid: status
                .node_info
                .and_then(|info| info.system_uuid)
                .unwrap_or_default(),
            ready: None,
            network_unavailable: None,
        };
        // Kubelets write four others.
        for condition in conditions {
            let kept = match condition.kind.as_str() {
                "Ready" => &mut content.ready,
                NETWORK_UNAVAILABLE => &mut content.network_unavailable,
                _ => continue,
            };
            // Of two, the first counts.
            kept.get_or_insert_with(|| condition.into());
        }
        Ok(PrunedNode {
            resource_version: metadata.resource_version.unwrap_or_default(),
            content,
        })
    }
}

impl From<StoredTaint> for Taint {
    fn from(stored: StoredTaint) -> Taint {
        Taint {
            key: stored.key,
            value: stored.value.filter(|value| !value.is_empty()),
            effect: stored.effect,
            time_added: stored.time_added.and_then(StoredTime::time),
        }
    }
}

impl From<TypedAddress> for StoredAddress {
    fn from(stored: TypedAddress) -> StoredAddress {
        StoredAddress {
            address_type: AddressType::parse(&stored.kind),
            address: stored.address,
        }
    }
}

impl From<StoredCondition> for Condition {
    fn from(stored: StoredCondition) -> Condition {
        // The reason names the component that set NetworkUnavailable.
        let is_named = stored.kind == NETWORK_UNAVAILABLE;
        Condition {
            status: match stored.status.as_str() {
                "True" => NodeConditionStatus::True,
                "False" => NodeConditionStatus::False,
                _ => NodeConditionStatus::Unknown,
            },
            since: instant(stored.last_transition_time),
            reason: stored.reason.filter(|_| is_named).unwrap_or_default(),
        }
    }
}
