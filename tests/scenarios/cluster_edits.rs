//! Edits of the cluster by other clients: people and their tools create, change and delete nodes and Services. Knows no
//! controller and no cloud.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccm_sim::cluster::Cluster;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::load_balancers::key;
use crate::nodes;
use crate::script::Line;
use crate::services;
use crate::world::seconds;

/// The clients of people and their tools.
pub(crate) struct People {
    cluster: Cluster,
    /// The age that objects have when they are created now.
    age: Arc<Mutex<Duration>>,
}

/// The object that a script names.
enum Which {
    Node(String),
    Service(String, String),
}

/// `web` is a node; `service/web` and `service/shop/web` are Services.
fn which(name: &str) -> Which {
    match name.strip_prefix("service/").map(key) {
        None => Which::Node(name.to_owned()),
        Some(key) => {
            let (namespace, name) = key.split_once('/').unwrap_or_default();
            Which::Service(namespace.to_owned(), name.to_owned())
        }
    }
}

fn refused(error: impl ToString) -> String {
    error.to_string()
}

impl People {
    /// Clients of this cluster, which subtracts `age` from the creation time of objects.
    pub(crate) fn new(cluster: Cluster, age: Arc<Mutex<Duration>>) -> People {
        People { cluster, age }
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.cluster.client_as("somebody"))
    }

    fn services(&self, namespace: &str) -> Api<Service> {
        Api::namespaced(self.cluster.client_as("somebody"), namespace)
    }

    /// The line `node NAME …`. `now` is the wall clock's time.
    pub(crate) async fn create_node(&self, line: &Line, now: Timestamp) -> Result<(), String> {
        let mut node = json!({ "metadata": { "name": line.word(1)? }, "spec": {}, "status": {} });
        let mut age = Duration::ZERO;
        for (key, value) in line.pairs(2)? {
            match key {
                "created" => age = seconds(value.trim_start_matches('-'))?,
                _ => nodes::describe(&mut node, key, value, now)?,
            }
        }
        let node: Node = serde_json::from_value(node).map_err(refused)?;
        *self.age.lock().unwrap() = age;
        let made = self.nodes().create(&PostParams::default(), &node).await;
        *self.age.lock().unwrap() = Duration::ZERO;
        made.map(|_| ()).map_err(refused)
    }

    /// The line `service NAME …`; returns its UID and its key.
    pub(crate) async fn create_service(&self, line: &Line) -> Result<(String, String), String> {
        let key = key(line.word(1)?);
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let mut service = services::blank(namespace, name);
        services::describe(&mut service, line, 2)?;
        let status = service["status"].take();
        let service: Service = serde_json::from_value(service).map_err(refused)?;
        let api = self.services(namespace);
        let made = api.create(&PostParams::default(), &service).await;
        let uid = made.map_err(refused)?.metadata.uid;
        if !status.is_null() {
            let (params, patch) = (PatchParams::default(), json!({ "status": status }));
            let patched = api.patch_status(name, &params, &Patch::Merge(patch)).await;
            patched.map_err(refused)?;
        }
        Ok((uid.ok_or("the server gives out UIDs")?, key))
    }

    /// The line `change NAME …`.
    pub(crate) async fn change(&self, line: &Line, now: Timestamp) -> Result<(), String> {
        match which(line.word(1)?) {
            Which::Node(name) => {
                let api = self.nodes();
                let before = read(&api, &name).await?;
                let mut node = before.clone();
                for (key, value) in line.pairs(2)? {
                    nodes::describe(&mut node, key, value, now)?;
                }
                write(&api, &name, &before, &node).await
            }
            Which::Service(namespace, name) => {
                let api = self.services(&namespace);
                let before = read(&api, &name).await?;
                let mut service = before.clone();
                services::describe(&mut service, line, 2)?;
                write(&api, &name, &before, &service).await
            }
        }
    }

    /// The line `edit service/NAME status …`.
    pub(crate) async fn edit_status(&self, line: &Line) -> Result<(), String> {
        let Which::Service(namespace, name) = which(line.word(1)?) else {
            return Err("only the status of a Service can be edited".to_owned());
        };
        let api = self.services(&namespace);
        let mut service = read(&api, &name).await?;
        services::edit_status(&mut service, line)?;
        let status = json!({ "status": { "loadBalancer": service["status"]["loadBalancer"] } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(status));
        let patched = api.patch_status(&name, &params, &patch).await;
        patched.map(|_| ()).map_err(refused)
    }

    /// The line `delete NAME`.
    pub(crate) async fn delete(&self, name: &str) -> Result<(), String> {
        let params = DeleteParams::default();
        match which(name) {
            Which::Node(name) => self.nodes().delete(&name, &params).await.map(|_| ()),
            Which::Service(namespace, name) => {
                let api = self.services(&namespace);
                api.delete(&name, &params).await.map(|_| ())
            }
        }
        .map_err(refused)
    }

    /// The line `force service/NAME`: deletes it, and removes its finalizers.
    pub(crate) async fn force(&self, name: &str) -> Result<(), String> {
        self.delete(name).await?;
        let Which::Service(namespace, name) = which(name) else {
            return Ok(());
        };
        let api = self.services(&namespace);
        let patch = json!({ "metadata": { "finalizers": null } });
        let patch = api
            .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        match patch {
            // No finalizer kept it.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => other.map(|_| ()).map_err(refused),
        }
    }

    /// The line `show NAME`.
    pub(crate) async fn show(&self, name: &str) -> Result<Vec<String>, String> {
        match which(name) {
            Which::Node(name) => Ok(nodes::portrait(&read(&self.nodes(), &name).await?)),
            Which::Service(namespace, name) => {
                let found = self.services(&namespace).get_opt(&name).await;
                Ok(match found.map_err(refused)? {
                    None => vec!["| no such service".to_owned()],
                    Some(found) => {
                        services::portrait(&serde_json::to_value(found).map_err(refused)?)
                    }
                })
            }
        }
    }

    /// All nodes and all Services.
    pub(crate) async fn objects(&self) -> (Vec<Value>, Vec<Value>) {
        let services: Api<Service> = Api::all(self.cluster.client_as("somebody"));
        (all(self.nodes()).await, all(services).await)
    }
}

async fn read<K>(api: &Api<K>, name: &str) -> Result<Value, String>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let object = api.get(name).await.map_err(refused)?;
    serde_json::to_value(object).map_err(refused)
}

/// Sends the parts that changed, each as a whole.
async fn write<K>(api: &Api<K>, name: &str, before: &Value, after: &Value) -> Result<(), String>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let changed = |fields: &[&str]| -> Option<Patch<Value>> {
        let mut body = json!({});
        for field in fields
            .iter()
            .filter(|field| before[**field] != after[**field])
        {
            body[*field] = after[*field].clone();
        }
        (body != json!({})).then_some(Patch::Merge(body))
    };
    let params = PatchParams::default();
    if let Some(whole) = changed(&["metadata", "spec"]) {
        api.patch(name, &params, &whole).await.map_err(refused)?;
    }
    if let Some(status) = changed(&["status"]) {
        let patched = api.patch_status(name, &params, &status).await;
        patched.map_err(refused)?;
    }
    Ok(())
}

async fn all<K>(api: Api<K>) -> Vec<Value>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let listed = api.list(&ListParams::default()).await;
    let listed = listed.expect("the in-memory API server answers");
    let values = listed.into_iter().map(serde_json::to_value);
    values.collect::<Result<_, _>>().expect("objects are JSON")
}
