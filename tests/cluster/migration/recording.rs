//! The recorded effects of the real Go manager, and the state of a world in a form that can be compared with them. The
//! recording has no code of that manager: only its requests for changes, and the state after them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kube::api::{ListParams, Patch, PatchParams};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::estate::{Variant, services};
use crate::world::{World, root};

/// The domain of our own marks.
const OUR_DOMAIN: &str = "wasm-ccm.dev/";

/// The recording of one variant.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Recording {
    /// The Go manager's version.
    pub(super) manager: String,
    /// Its requests that changed something at the cloud, in order.
    pub(super) requests: Vec<Value>,
    /// The state that it left, as [`state`] describes it.
    pub(super) left: Value,
    /// The requests that it makes to the cloud at each later start, although nothing has changed, sorted.
    pub(super) restart: Vec<String>,
    /// The state after this manager's further work, which the Go manager then left as it was.
    pub(super) worked: Value,
}

fn path(variant: Variant) -> PathBuf {
    let folder = root().join("tests/cluster/migration");
    folder.join(format!("left_by_go_{}.json", variant.name()))
}

impl Recording {
    pub(super) fn read(variant: Variant) -> Recording {
        let path = path(variant);
        let text = std::fs::read_to_string(&path).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    pub(super) fn write(&self, variant: Variant) {
        let text = serde_json::to_string_pretty(self).unwrap();
        std::fs::write(path(variant), text + "\n").unwrap();
    }

    /// Brings a prepared world into the state that the Go manager left.
    pub(super) async fn replay(&self, world: &World) {
        let uids = Uids::of(world).await;
        for request in &self.requests {
            let request = uids.put_in(request);
            let text = |key: &str| request[key].as_str().unwrap();
            world
                .ask_cloud(text("method"), text("path"), Some(&request["body"]))
                .await;
        }
        for (name, node) in self.left["nodes"].as_object().unwrap() {
            let patch = json!({
                "metadata": {"labels": node["labels"]},
                "spec": {"providerID": node["providerID"], "taints": node["taints"]},
            });
            world.change(name, patch).await;
            let status = json!({"status": {
                "addresses": node["addresses"], "conditions": node["conditions"],
            }});
            let (params, patch) = (PatchParams::default(), Patch::Merge(status));
            world
                .nodes
                .patch_status(name, &params, &patch)
                .await
                .unwrap();
        }
        let api = services(world).await;
        for (name, service) in self.left["services"].as_object().unwrap() {
            let patch = json!({
                "metadata": {"finalizers": service["finalizers"]},
                "status": {"loadBalancer": {"ingress": service["ingress"]}},
            });
            let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
            api.patch_status(name, &params, &patch).await.unwrap();
        }
    }
}

/// Names in place of the Services' UIDs, which differ each time. The name of a load balancer contains a part of the
/// UID.
pub(super) struct Uids(Vec<(String, String)>);

impl Uids {
    pub(super) async fn of(world: &World) -> Uids {
        let found = services(world).await.list(&ListParams::default()).await;
        let mut pairs = Vec::new();
        for service in found.unwrap() {
            let name = service.metadata.name.unwrap();
            let uid = service.metadata.uid.unwrap();
            let short: String = uid.chars().filter(|one| *one != '-').take(31).collect();
            pairs.push((uid, format!("UID({name})")));
            pairs.push((short, format!("SHORT({name})")));
        }
        Uids(pairs)
    }

    pub(super) fn put_in(&self, value: &Value) -> Value {
        let mut text = value.to_string();
        for (uid, name) in &self.0 {
            text = text.replace(name, uid);
        }
        serde_json::from_str(&text).unwrap()
    }

    pub(super) fn take_out(&self, value: &Value) -> Value {
        let mut text = value.to_string();
        for (uid, name) in &self.0 {
            text = text.replace(uid, name);
        }
        serde_json::from_str(&text).unwrap()
    }
}

/// The visible state of a world: nodes, Services, load balancers and routes, without our own marks.
pub(super) async fn state(world: &World) -> Value {
    let mut nodes = BTreeMap::new();
    for node in world.nodes.list(&ListParams::default()).await.unwrap() {
        let node = json!(node);
        let (spec, status) = (&node["spec"], &node["status"]);
        let conditions = status["conditions"].as_array().unwrap().iter();
        let conditions: Vec<Value> = conditions
            .map(|one| {
                json!({"type": one["type"], "status": one["status"], "reason": one["reason"]})
            })
            .collect();
        let shown = json!({
            "labels": without_ours(&node["metadata"]["labels"]),
            "providerID": spec["providerID"],
            "podCIDRs": spec["podCIDRs"],
            "taints": spec["taints"],
            "addresses": status["addresses"],
            "conditions": conditions,
        });
        nodes.insert(node["metadata"]["name"].as_str().unwrap().to_owned(), shown);
    }
    let mut all = BTreeMap::new();
    for service in services(world)
        .await
        .list(&ListParams::default())
        .await
        .unwrap()
    {
        let service = json!(service);
        let metadata = &service["metadata"];
        if metadata["name"] == "kubernetes" {
            continue;
        }
        let conditions = service["status"]["conditions"].as_array();
        let conditions = conditions.into_iter().flatten();
        let conditions: Vec<&Value> = conditions
            .filter(|one| !one["type"].as_str().unwrap().starts_with(OUR_DOMAIN))
            .collect();
        let shown = json!({
            "annotations": without_ours(&metadata["annotations"]),
            "finalizers": metadata["finalizers"],
            "ports": service["spec"]["ports"],
            "ingress": service["status"]["loadBalancer"]["ingress"],
            "conditions": conditions,
        });
        all.insert(metadata["name"].as_str().unwrap().to_owned(), shown);
    }
    let balancers = world.cloud.load_balancers().into_iter();
    let balancers: Vec<Value> = balancers.map(timeless).collect();
    let routes: Vec<_> = match world.cloud.network(1) {
        Some(network) => network["routes"].as_array().unwrap().clone(),
        None => Vec::new(),
    };
    let mut routes: Vec<String> = routes.iter().map(Value::to_string).collect();
    routes.sort();
    let certificates = world.ask_cloud("GET", "/certificates", None).await;
    let certificates = certificates["certificates"].as_array().unwrap().iter();
    let certificates: Vec<Value> = certificates
        .map(|one| json!({"id": one["id"], "name": one["name"], "labels": one["labels"]}))
        .collect();
    let state = json!({
        "nodes": nodes, "services": all, "loadBalancers": balancers, "routes": routes,
        "certificates": certificates,
    });
    Uids::of(world).await.take_out(&state)
}

fn without_ours(marks: &Value) -> Value {
    let marks = marks.as_object().into_iter().flatten();
    let others = marks.filter(|(key, _)| !key.starts_with(OUR_DOMAIN));
    let others: Map<String, Value> = others
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    Value::Object(others)
}

/// A load balancer without times, and with sorted targets and services.
fn timeless(mut balancer: Value) -> Value {
    let object = balancer.as_object_mut().unwrap();
    object.remove("created");
    for key in ["targets", "services"] {
        let list = object.get_mut(key).and_then(Value::as_array_mut).unwrap();
        list.sort_by_key(ToString::to_string);
    }
    // The simulator chooses the prices and limits of a type.
    let size = object["load_balancer_type"]["name"].clone();
    object.insert("load_balancer_type".to_owned(), size);
    object.remove("location");
    balancer
}
