//! Finds the writer of a node's pod CIDRs in its managed fields. Reads metadata; decides nothing.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::well_known::FIELD_MANAGER;

/// Field managers of kube-controller-manager: its own name, and the binaries of distributions that contain it. A field
/// manager is named after the binary, unless the binary says otherwise.
const KUBE_CONTROLLER_MANAGERS: [&str; 3] = ["kube-controller-manager", "k3s", "kubelite"];
/// Field managers that write a person's values, or those that the node was started with: they allocate nothing.
const NO_ALLOCATORS: [&str; 3] = ["kubectl", "kubelet", "kubeadm"];
/// Name of a writer without a recorded field manager.
const UNNAMED: &str = "an unnamed client";

/// The answer to the question who wrote a node's pod CIDRs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterAnswer {
    /// The writer of the pod CIDRs.
    pub writer: Writer,
    /// When the node was created, by the API server's clock.
    pub created: Option<Timestamp>,
}

/// The writer of a node's pod CIDRs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Writer {
    /// No writer: the node has no pod CIDRs.
    None,
    /// This manager, or an earlier leader of it.
    Ours,
    /// A person, or the node itself.
    NoAllocator,
    /// Another allocator: the name of its field manager.
    Allocator(String),
}

impl WriterAnswer {
    /// Reads the metadata of a node. Without a recorded field manager, `has_pod_cidrs` decides between an unnamed
    /// client and [`Writer::None`].
    pub fn read(metadata: &ObjectMeta, has_pod_cidrs: bool) -> WriterAnswer {
        let entries = metadata.managed_fields.iter().flatten();
        let managers = entries.filter(|entry| has_written_pod_cidrs(entry));
        let managers = managers.map(|entry| entry.manager.as_deref().unwrap_or(UNNAMED));
        let writers = managers.map(Writer::named);
        // Another allocator's write outweighs one of the same fields by this manager or a person.
        let found = writers.max_by_key(Writer::weight);
        let otherwise = || match has_pod_cidrs {
            true => Writer::Allocator(UNNAMED.to_owned()),
            false => Writer::None,
        };
        WriterAnswer {
            writer: found.unwrap_or_else(otherwise),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        }
    }
}

impl Writer {
    fn named(manager: &str) -> Writer {
        let is_of = |name: &str| {
            let rest = manager.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        if manager == FIELD_MANAGER {
            Writer::Ours
        } else if NO_ALLOCATORS.into_iter().any(is_of) {
            Writer::NoAllocator
        } else {
            Writer::Allocator(manager.to_owned())
        }
    }

    fn weight(&self) -> u8 {
        match self {
            Writer::None => 0,
            Writer::NoAllocator => 1,
            Writer::Ours => 2,
            Writer::Allocator(_) => 3,
        }
    }
}

/// Whether this field manager is one of kube-controller-manager's.
pub(super) fn is_kube_controller_manager(manager: &str) -> bool {
    KUBE_CONTROLLER_MANAGERS.contains(&manager)
}

fn has_written_pod_cidrs(entry: &ManagedFieldsEntry) -> bool {
    let fields = entry
        .fields_v1
        .as_ref()
        .map_or(&Value::Null, |fields| &fields.0);
    let spec = fields.get("f:spec");
    spec.is_some_and(|spec| spec.get("f:podCIDR").is_some() || spec.get("f:podCIDRs").is_some())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    fn metadata(managers: &[(&str, Value)]) -> ObjectMeta {
        let entries: Vec<Value> = managers
            .iter()
            .map(|(manager, fields)| json!({ "manager": manager, "fieldsV1": fields }))
            .collect();
        serde_json::from_value(json!({ "managedFields": entries })).unwrap()
    }

    #[test]
    fn the_managed_fields_say_who_wrote_the_pod_cidrs() {
        let pods = json!({ "f:spec": { "f:podCIDR": {}, "f:podCIDRs": { ".": {}, "v:\"10.0.0.0/24\"": {} } } });
        let other = json!({ "f:spec": { "f:taints": {} }, "f:status": { "f:podCIDR": {} } });
        let allocator = |name: &str| Writer::Allocator(name.to_owned());
        let kcm = "kube-controller-manager";
        let rows = [
            (vec![], false, Writer::None),
            (vec![], true, allocator(UNNAMED)),
            (vec![("kubelet", other.clone())], false, Writer::None),
            (
                vec![(kcm, other.clone()), ("ccm", pods.clone())],
                true,
                Writer::Ours,
            ),
            (
                vec![("ccm", other.clone()), (kcm, pods.clone())],
                true,
                allocator(kcm),
            ),
            (
                vec![("ccm", pods.clone()), (kcm, pods.clone())],
                true,
                allocator(kcm),
            ),
            (
                vec![("kubectl-edit", pods.clone())],
                true,
                Writer::NoAllocator,
            ),
            (vec![("kubelet", pods.clone())], true, Writer::NoAllocator),
            (
                vec![("kubelite", pods.clone())],
                true,
                allocator("kubelite"),
            ),
            (vec![("k3s", pods)], true, allocator("k3s")),
        ];
        for (managers, has_pod_cidrs, expected) in rows {
            let read = WriterAnswer::read(&metadata(&managers), has_pod_cidrs);
            assert_eq!(read.writer, expected, "{managers:?}");
        }
        for odd in [
            json!(null),
            json!([]),
            json!({ "f:spec": 5 }),
            json!("f:spec"),
        ] {
            let read = WriterAnswer::read(&metadata(&[("a", odd)]), false);
            assert_eq!(read.writer, Writer::None);
        }
    }
}
