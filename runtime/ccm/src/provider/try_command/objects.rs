//! Nodes and Services that no cluster has: from the command line and from files, and changed by the manager's patches
//! as an API server would change them.

use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use ccm_core::node::object::PrunedNode;
use ccm_core::reconciliation::patch::{FinalizerChange, NodePatch, NodeStatusPatch, ServicePatch};
use ccm_core::service::{is_load_balancer, service_ref};
use ccm_core::well_known::{LOAD_BALANCER_FINALIZER, PROVIDED_NODE_IP, UNINITIALIZED_TAINT};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::yaml_error;

/// The first node port that an API server assigns to a Service.
const FIRST_NODE_PORT: i32 = 30_000;
/// Size limit of a Service in bytes: more than an API server accepts.
const MOST_BYTES: u64 = 2 << 20;

/// A node on the command line: `NAME[=PROVIDER_ID][,IP]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeArgument {
    /// `metadata.name`.
    pub(crate) name: String,
    /// `spec.providerID`.
    pub(crate) provider_id: Option<String>,
    /// The kubelet's `--node-ip`.
    pub(crate) ip: Option<IpAddr>,
}

impl NodeArgument {
    /// Parses the argument.
    ///
    /// # Errors
    /// There is no name, or what follows a comma is no IP address.
    pub(crate) fn parse(text: &str) -> Result<NodeArgument, String> {
        let (node, ip) = match text.rsplit_once(',') {
            Some((node, ip)) => match ip.parse::<IpAddr>() {
                Ok(ip) => (node, Some(ip)),
                Err(_) => return Err(format!("{ip:?} is no IP address")),
            },
            None => (text, None),
        };
        let (name, provider_id) = match node.split_once('=') {
            Some((name, id)) => (name, Some(id.to_owned()).filter(|id| !id.is_empty())),
            None => (node, None),
        };
        match name.is_empty() {
            true => Err(
                "expected NAME or NAME=PROVIDER_ID, and perhaps an IP address after a comma"
                    .to_owned(),
            ),
            false => Ok(NodeArgument {
                name: name.to_owned(),
                provider_id,
                ip,
            }),
        }
    }

    /// A node that has just joined, as a kubelet with `--cloud-provider=external` writes it: without `--node-ip` it has no
    /// IP address.
    pub(crate) fn object(&self) -> Value {
        let mut addresses = vec![json!({ "type": "Hostname", "address": self.name })];
        let mut annotations = json!({});
        if let Some(ip) = self.ip {
            addresses.push(json!({ "type": "InternalIP", "address": ip.to_string() }));
            annotations = json!({ PROVIDED_NODE_IP: ip.to_string() });
        }
        json!({
            "metadata": {
                "name": self.name,
                "uid": Uuid::new_v4().to_string(),
                "resourceVersion": "1",
                "creationTimestamp": Timestamp::now().to_string(),
                "labels": { "kubernetes.io/hostname": self.name },
                "annotations": annotations,
            },
            "spec": {
                "providerID": self.provider_id,
                "taints": [{ "key": UNINITIALIZED_TAINT, "value": "true", "effect": "NoSchedule" }],
            },
            "status": {
                "addresses": addresses,
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        })
    }
}

/// The node of this object, as the controllers read it.
pub(crate) fn pruned(object: &Value) -> PrunedNode {
    // Every value has the type that the API gives it.
    PrunedNode::deserialize(object).unwrap_or_default()
}

/// Reads one Service and fills in the API server's defaults.
///
/// # Errors
/// It cannot be read, or is no Service of type LoadBalancer.
pub(crate) fn read_service(path: &Path) -> anyhow::Result<Service> {
    let shown = path.display();
    let size = std::fs::metadata(path).map(|found| found.len());
    let size = size.with_context(|| format!("cannot read {shown}"))?;
    ensure!(size <= MOST_BYTES, "{shown} is larger than any Service");
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let object = serde_saphyr::from_str::<Value>(&text)
        .map_err(|error| anyhow::Error::msg(yaml_error::describe(&error)))
        .with_context(|| format!("{shown} is not valid YAML"))?;
    if object["kind"] != "Service" {
        bail!("{shown} is no Service: its kind is {}", object["kind"]);
    }
    let service: Service = serde_json::from_value(object)
        .with_context(|| format!("{shown} is not a valid Service"))?;
    ensure!(
        is_load_balancer(&service),
        "{shown} is not of type LoadBalancer: no provider is asked about it"
    );
    ensure!(
        service.metadata.name.is_some(),
        "{shown} has no metadata.name"
    );
    Ok(completed(service))
}

/// Sets the fields that the API server sets, unless they are set.
pub(crate) fn completed(mut service: Service) -> Service {
    let metadata = &mut service.metadata;
    metadata
        .namespace
        .get_or_insert_with(|| "default".to_owned());
    metadata
        .uid
        .get_or_insert_with(|| Uuid::new_v4().to_string());
    metadata
        .resource_version
        .get_or_insert_with(|| "1".to_owned());
    let spec = service.spec.get_or_insert_default();
    spec.external_traffic_policy
        .get_or_insert_with(|| "Cluster".to_owned());
    let has_node_ports = spec.allocate_load_balancer_node_ports.unwrap_or(true);
    for (at, port) in spec.ports.iter_mut().flatten().enumerate() {
        port.protocol.get_or_insert_with(|| "TCP".to_owned());
        if has_node_ports && port.node_port.is_none() {
            port.node_port = i32::try_from(at).ok().map(|at| FIRST_NODE_PORT + at);
        }
    }
    service
}

/// Applies a patch of the node's status.
pub(super) fn apply_status(node: &mut Value, patch: &NodeStatusPatch) {
    let stored = patch.addresses.iter();
    let stored: Vec<Value> = stored
        .map(|one| json!({ "type": one.address_type.as_str(), "address": one.address }))
        .collect();
    node["status"]["addresses"] = Value::Array(stored);
}

/// Applies a patch of the node.
pub(super) fn apply_patch(node: &mut Value, patch: &NodePatch) {
    for (key, value) in &patch.labels {
        node["metadata"]["labels"][key] = json!(value);
    }
    if let Some(provider_id) = &patch.provider_id {
        node["spec"]["providerID"] = json!(provider_id);
    }
    if let Some(taints) = &patch.taints {
        node["spec"]["taints"] = json!(taints.taints);
    }
}

/// Applies a patch of the Service's status.
///
/// # Errors
/// An API server would refuse the patch.
pub(super) fn with_service_patch(
    mut service: Service,
    patch: &ServicePatch,
) -> serde_json::Result<Service> {
    let finalizers = service.metadata.finalizers.get_or_insert_default();
    match &patch.finalizer {
        Some(FinalizerChange::Add(_)) => finalizers.push(LOAD_BALANCER_FINALIZER.to_owned()),
        Some(FinalizerChange::Remove(_)) => finalizers.retain(|one| one != LOAD_BALANCER_FINALIZER),
        None => {}
    }
    let annotations = service.metadata.annotations.get_or_insert_default();
    for (key, value) in &patch.annotations {
        match value {
            Some(value) => annotations.insert(key.clone(), value.clone()),
            None => annotations.remove(key),
        };
    }
    let body = patch.to_json();
    let status = service.status.get_or_insert_default();
    if patch.status.is_some() {
        let status_json = body["status"]["loadBalancer"].clone();
        status.load_balancer = Some(serde_json::from_value(status_json)?);
    }
    let new: Vec<Value> = match &body["status"]["conditions"] {
        Value::Array(conditions) => conditions.clone(),
        _ => Vec::new(),
    };
    let conditions = status.conditions.get_or_insert_default();
    for condition in new {
        let condition: k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition =
            serde_json::from_value(condition)?;
        conditions.retain(|one| one.type_ != condition.type_);
        conditions.push(condition);
    }
    Ok(service)
}

/// The name of a Service in reports, as in the manager's log.
pub(super) fn named(service: &Service) -> String {
    service_ref(service).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_node_has_a_name_and_perhaps_a_provider_id_and_an_address() {
        for (text, expected) in [
            ("a=acme://m-1", Some(("a", Some("acme://m-1"), None))),
            (
                "a=acme:///zone/m=1",
                Some(("a", Some("acme:///zone/m=1"), None)),
            ),
            ("a", Some(("a", None, None))),
            ("a=", Some(("a", None, None))),
            ("a,192.0.2.7", Some(("a", None, Some("192.0.2.7")))),
            (
                "a=acme://m,1,2001:db8::7",
                Some(("a", Some("acme://m,1"), Some("2001:db8::7"))),
            ),
            ("a=acme://m,1", None),
            ("a,", None),
            (",192.0.2.7", None),
            ("=acme://m-1", None),
            ("", None),
        ] {
            let parsed = NodeArgument::parse(text).ok();
            let expected = expected.map(|(name, id, ip)| NodeArgument {
                name: name.to_owned(),
                provider_id: id.map(str::to_owned),
                ip: ip.map(|ip: &str| ip.parse().unwrap()),
            });
            assert_eq!(parsed, expected, "{text:?}");
        }
    }

    #[test]
    fn only_an_address_of_the_command_line_is_an_address_of_the_node() {
        for (text, addresses, provided) in [
            ("a", &["a"][..], None),
            ("a,192.0.2.7", &["a", "192.0.2.7"], Some("192.0.2.7")),
        ] {
            let node = pruned(&NodeArgument::parse(text).unwrap().object());
            let seen = ccm_core::node::cloud_node::cloud_node(&node);
            let of_node: Vec<&str> = seen
                .addresses
                .iter()
                .map(|one| one.address.as_str())
                .collect();
            assert_eq!(of_node, addresses, "{text}");
            let of_node = seen.annotations.get(PROVIDED_NODE_IP);
            assert_eq!(of_node, provided, "{text}");
        }
    }

    #[test]
    fn a_service_gets_what_an_api_server_sets() {
        let written = json!({
            "metadata": { "name": "web" },
            "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }, { "port": 443, "nodePort": 31000 }] },
        });
        let service = completed(serde_json::from_value(written).unwrap());
        assert_eq!(named(&service), "service/default/web");
        assert!(service.metadata.uid.is_some());
        let ports = service.spec.unwrap().ports.unwrap();
        let ports: Vec<_> = ports.iter().map(|port| port.node_port).collect();
        assert_eq!(ports, [Some(30_000), Some(31_000)]);
    }

    #[test]
    fn patches_change_objects_as_an_api_server_does() {
        let mut patch = ServicePatch::new("u");
        patch.finalizer = Some(FinalizerChange::Add(Vec::new()));
        patch.annotations = [("a".to_owned(), Some("b".to_owned()))].into();
        patch.status = Some(ccm_core::cloud::load_balancer::LoadBalancerStatus {
            ingress: vec![ccm_core::cloud::load_balancer::Ingress {
                ip: Some("192.0.2.1".to_owned()),
                ..Default::default()
            }],
        });
        let service = with_service_patch(Service::default(), &patch).unwrap();
        let value = json!(service);
        assert_eq!(
            value["status"]["loadBalancer"]["ingress"][0]["ip"],
            "192.0.2.1"
        );
        assert_eq!(value["metadata"]["annotations"]["a"], "b");
        assert!(ccm_core::service::has_finalizer(&service));
        patch.finalizer = Some(FinalizerChange::Remove(Vec::new()));
        let service = with_service_patch(service, &patch).unwrap();
        assert!(!ccm_core::service::has_finalizer(&service));
    }
}
