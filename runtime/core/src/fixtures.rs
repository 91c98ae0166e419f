//! Builders of Nodes and Services for tests. The test kit has the same file as `ccm_fixtures::kubernetes`: it depends on
//! this crate, whose own tests therefore cannot use it.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::marker::PhantomData;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// An object of the kind `K` that is being described.
#[must_use]
pub struct ObjectBuilder<K> {
    object: Value,
    kind: PhantomData<K>,
}

/// A Node that has only a name.
pub fn node(name: &str) -> ObjectBuilder<Node> {
    ObjectBuilder::new(json!({ "metadata": { "name": name } }))
}

/// A Service of type LoadBalancer without ports.
pub fn service(name: &str) -> ObjectBuilder<Service> {
    let spec = json!({ "type": "LoadBalancer" });
    ObjectBuilder::new(json!({ "metadata": { "name": name }, "spec": spec }))
}

impl<K> ObjectBuilder<K> {
    fn new(object: Value) -> ObjectBuilder<K> {
        let kind = PhantomData;
        ObjectBuilder { object, kind }
    }

    /// Sets `metadata.uid`.
    pub fn uid(self, uid: &str) -> Self {
        self.with(|object| object["metadata"]["uid"] = json!(uid))
    }

    /// Sets `metadata.resourceVersion`.
    pub fn resource_version(self, version: &str) -> Self {
        self.with(|object| object["metadata"]["resourceVersion"] = json!(version))
    }

    /// Adds a label.
    pub fn label(self, key: &str, value: &str) -> Self {
        self.with(|object| object["metadata"]["labels"][key] = json!(value))
    }

    /// Adds an annotation.
    pub fn annotation(self, key: &str, value: &str) -> Self {
        self.with(|object| object["metadata"]["annotations"][key] = json!(value))
    }

    /// Changes what no other method does.
    pub fn with(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.object);
        self
    }

    fn push(self, parent: &str, list: &str, item: Value) -> Self {
        self.with(|object| match &mut object[parent][list] {
            Value::Array(items) => items.push(item),
            list => *list = json!([item]),
        })
    }

    /// The object as JSON.
    pub fn json(self) -> Value {
        self.object
    }

    /// The object, in any type that reads its JSON.
    pub fn build<T: DeserializeOwned>(self) -> T {
        serde_json::from_value(self.object).unwrap()
    }
}

impl ObjectBuilder<Node> {
    /// Sets `spec.providerID`.
    pub fn provider_id(self, provider_id: &str) -> Self {
        self.with(|node| node["spec"]["providerID"] = json!(provider_id))
    }

    /// Sets `spec.podCIDR` and `spec.podCIDRs`, unless there are none.
    pub fn pod_cidrs(self, cidrs: &[&str]) -> Self {
        match cidrs.first() {
            None => self,
            Some(first) => self.with(|node| {
                node["spec"]["podCIDR"] = json!(first);
                node["spec"]["podCIDRs"] = json!(cidrs);
            }),
        }
    }

    /// Adds the taint with which a kubelet registers a Node under `--cloud-provider=external`.
    pub fn uninitialized(self) -> Self {
        let key = "node.cloudprovider.kubernetes.io/uninitialized";
        let taint = json!({ "key": key, "value": "true", "effect": "NoSchedule" });
        self.push("spec", "taints", taint)
    }

    /// Adds an address of this type.
    pub fn address(self, kind: &str, address: &str) -> Self {
        let address = json!({ "type": kind, "address": address });
        self.push("status", "addresses", address)
    }

    /// Adds the condition Ready, which is true.
    pub fn ready(self) -> Self {
        let condition = json!({ "type": "Ready", "status": "True" });
        self.push("status", "conditions", condition)
    }
}

impl ObjectBuilder<Service> {
    /// Adds the TCP port `p{port}`; the API server chooses its node port.
    pub fn port(self, port: u16) -> Self {
        let port = json!({ "name": format!("p{port}"), "port": port, "protocol": "TCP" });
        self.push("spec", "ports", port)
    }
}
