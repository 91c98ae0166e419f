//! The acts of a kubelet under `--cloud-provider=external` and of people on nodes. Asserts nothing.

use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::world::World;

impl World {
    /// Creates a node as a kubelet does, in one request: tainted, with its host name.
    pub(crate) async fn add_node(&self, name: &str, metadata: Value) -> Node {
        let hostname = json!([{"type": "Hostname", "address": name}]);
        let taints = json!([uninitialized(), other_taint()]);
        self.register(name, metadata, taints, hostname).await
    }

    /// Creates a node with these taints and addresses.
    pub(crate) async fn register(
        &self,
        name: &str,
        mut metadata: Value,
        taints: Value,
        addresses: Value,
    ) -> Node {
        metadata["name"] = json!(name);
        let node = json!({
            "metadata": metadata,
            "spec": {"taints": taints},
            "status": {"addresses": addresses},
        });
        let node = serde_json::from_value(node).unwrap();
        let params = PostParams::default();
        self.nodes.create(&params, &node).await.unwrap()
    }

    /// Patches a node, except its status.
    pub(crate) async fn change(&self, name: &str, patch: Value) {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.nodes.patch(name, &params, &patch).await.unwrap();
    }

    /// Deletes a node, as an autoscaler or a person does.
    pub(crate) async fn delete(&self, name: &str) {
        let params = DeleteParams::default();
        self.nodes.delete(name, &params).await.unwrap();
    }
}

/// Whether the node still waits for its cloud provider.
pub(crate) fn is_tainted(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let mut keys = taints.into_iter().flatten().map(|taint| taint.key.as_str());
    keys.any(|key| key == "node.cloudprovider.kubernetes.io/uninitialized")
}

/// The addresses of a node, as JSON.
pub(crate) fn addresses(node: &Node) -> Value {
    let status = node.status.as_ref();
    json!(status.and_then(|status| status.addresses.as_ref()))
}

/// The uid of an object that the API server has made.
pub(crate) fn uid(node: &Node) -> &str {
    node.metadata.uid.as_deref().unwrap()
}

/// The taint that a cloud provider removes.
pub(crate) fn uninitialized() -> Value {
    json!({
        "key": "node.cloudprovider.kubernetes.io/uninitialized",
        "value": "true",
        "effect": "NoSchedule",
    })
}

/// A taint that is not the provider's.
pub(crate) fn other_taint() -> Value {
    json!({"key": "example.com/drained", "effect": "NoSchedule"})
}
