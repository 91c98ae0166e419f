//! The Node object as the controllers read it: without the images, managed fields and the rest that make up four fifths
//! of a node that runs pods, and in a form that takes little memory, because all nodes are kept. Read-only.

mod read;

use std::fmt;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::jiff::Timestamp;

use crate::cloud::instance::{Address, AddressType};
use crate::string_map::StringMap;
use crate::well_known::{SHUTDOWN_TAINT, UNINITIALIZED_TAINT};

/// Identifies one Node object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRef {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

impl fmt::Display for NodeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node/{}", self.name)
    }
}

/// The fields of a Node object that controllers read. It is read from the object's JSON; missing fields and `null` are
/// read as empty.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PrunedNode {
    resource_version: Box<str>,
    content: Content,
}

/// Everything but the resource version, which each report of a kubelet changes.
#[derive(Debug, Clone, PartialEq, Default)]
struct Content {
    name: Box<str>,
    uid: Box<str>,
    created: Option<Timestamp>,
    is_being_deleted: bool,
    is_unschedulable: bool,
    labels: StringMap,
    annotations: StringMap,
    provider_id: Box<str>,
    only_pod_cidr: Option<String>,
    pod_cidrs: Box<[String]>,
    taints: Box<[Taint]>,
    ready: Option<Condition>,
    network_unavailable: Option<Condition>,
    addresses: Box<[StoredAddress]>,
    system_uuid: Box<str>,
}

/// A condition of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Its status.
    pub status: NodeConditionStatus,
    /// `lastTransitionTime`.
    pub since: Option<Timestamp>,
    /// `reason`, empty if absent. That of `Ready` is not read: it is not used, and every node has one.
    pub reason: Box<str>,
}

/// The status of a condition. The API server stores any text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeConditionStatus {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`, or anything else.
    Unknown,
}

/// An element of `status.addresses`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StoredAddress {
    /// Its type; `None` for one that the API does not define.
    pub address_type: Option<AddressType>,
    /// The address, as it is stored.
    pub address: Box<str>,
}

impl StoredAddress {
    /// The address as an IP, if it is one, with IPv4-mapped IPv6 converted to IPv4.
    pub fn canonical_ip(&self) -> Option<IpAddr> {
        self.address
            .parse()
            .ok()
            .map(|ip: IpAddr| ip.to_canonical())
    }

    /// Whether it is `address`, in the same spelling.
    pub fn is(&self, address: &Address) -> bool {
        self.address_type == Some(address.address_type) && *self.address == *address.address
    }

    /// The address; `None` for a type that the API does not define.
    pub fn read(&self) -> Option<Address> {
        Some(Address {
            address_type: self.address_type?,
            address: self.address.to_string(),
        })
    }
}

impl PrunedNode {
    /// `metadata.name`, empty if absent.
    pub fn name(&self) -> &str {
        &self.content.name
    }

    /// `metadata.uid`, empty if absent.
    pub fn uid(&self) -> &str {
        &self.content.uid
    }

    /// `metadata.resourceVersion`, empty if absent.
    pub fn resource_version(&self) -> &str {
        &self.resource_version
    }

    /// The node's name and UID.
    pub fn node_ref(&self) -> NodeRef {
        NodeRef {
            name: self.name().to_owned(),
            uid: self.uid().to_owned(),
        }
    }

    /// `metadata.creationTimestamp`.
    pub fn created(&self) -> Option<Timestamp> {
        self.content.created
    }

    /// Whether the node was deleted and waits for its finalizers: it has a `metadata.deletionTimestamp`.
    pub fn is_being_deleted(&self) -> bool {
        self.content.is_being_deleted
    }

    /// `metadata.labels`.
    pub fn labels(&self) -> &StringMap {
        &self.content.labels
    }

    /// `metadata.annotations`, without kubectl's copy of the object.
    pub fn annotations(&self) -> &StringMap {
        &self.content.annotations
    }

    /// `spec.providerID`, if set and not empty.
    pub fn provider_id(&self) -> Option<&str> {
        Some(&*self.content.provider_id).filter(|id| !id.is_empty())
    }

    /// `spec.podCIDR`, if set and not empty, of a node without `spec.podCIDRs`. Otherwise it is the first of them.
    pub fn only_pod_cidr(&self) -> Option<&String> {
        self.content.only_pod_cidr.as_ref()
    }

    /// `spec.podCIDRs`, verbatim. Routes are made for these alone (ROUTE-021).
    pub fn pod_cidrs(&self) -> &[String] {
        &self.content.pod_cidrs
    }

    /// `spec.taints`.
    pub fn taints(&self) -> &[Taint] {
        &self.content.taints
    }

    /// Whether a taint has this key, whatever its value and effect.
    pub fn has_taint(&self, key: &str) -> bool {
        self.content.taints.iter().any(|taint| taint.key == key)
    }

    /// Whether the node is unschedulable (`kubectl cordon`).
    pub fn is_unschedulable(&self) -> bool {
        self.content.is_unschedulable
    }

    /// `status.addresses`.
    pub fn addresses(&self) -> &[StoredAddress] {
        &self.content.addresses
    }

    /// The condition `Ready`, if the node has one.
    pub fn ready_condition(&self) -> Option<&Condition> {
        self.content.ready.as_ref()
    }

    /// The condition `NetworkUnavailable`, if the node has one.
    pub fn network_unavailable(&self) -> Option<&Condition> {
        self.content.network_unavailable.as_ref()
    }

    /// `status.nodeInfo.systemUUID`, if set and not empty.
    pub fn system_uuid(&self) -> Option<&str> {
        Some(&*self.content.system_uuid).filter(|uuid| !uuid.is_empty())
    }

    /// Whether the node waits for initialisation: any taint with the key counts, whatever its value and effect
    /// (NODE-011).
    pub fn is_uninitialized(&self) -> bool {
        self.has_taint(UNINITIALIZED_TAINT)
    }

    /// Whether the condition `Ready` is `True`.
    pub fn is_ready(&self) -> bool {
        let status = self.content.ready.as_ref().map(|ready| ready.status);
        status == Some(NodeConditionStatus::True)
    }

    /// Whether a pass of the node lifecycle controller can find anything to do about the node: it is not Ready, or
    /// tainted as a machine that is off (LIFE-002, LIFE-005).
    pub fn is_unready_or_shut_down(&self) -> bool {
        !self.is_ready() || self.has_taint(SHUTDOWN_TAINT)
    }

    /// Whether more than the resource version differs from that of `other`.
    pub fn differs_from(&self, other: &PrunedNode) -> bool {
        self.content != other.content
    }
}

#[cfg(test)]
mod tests;
