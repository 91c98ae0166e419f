//! Nodes, Services and configurations as the host passes them.

use std::collections::BTreeMap;

use crate::{Config, GrantedTarget};

/// A configuration with these values and the cluster name `kubernetes`.
pub fn config(values: &[(&str, &str)]) -> Config {
    Config {
        cluster_name: "kubernetes".to_owned(),
        cluster_cidrs: Vec::new(),
        values: values
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        targets: None,
        schemes: Vec::new(),
        extra: BTreeMap::new(),
    }
}

/// The configuration with these granted targets and no others, none of them in a region.
#[must_use]
pub fn granting(config: Config, targets: &[&str]) -> Config {
    let targets = targets.iter().map(|name| GrantedTarget {
        name: (*name).to_owned(),
        region: None,
    });
    Config {
        targets: Some(targets.collect()),
        ..config
    }
}

/// The node with its kubelet reporting ready.
#[must_use]
pub fn ready(mut node: crate::Node) -> crate::Node {
    node.ready = Some(true);
    node
}

/// The node as the host passes it to `routes.list`: without labels and annotations.
#[must_use]
pub fn listed(mut node: crate::Node) -> crate::Node {
    node.labels.clear();
    node.annotations.clear();
    node
}

/// A new node as the host passes it: not initialized, and its readiness not known.
pub fn node(name: &str, provider_id: Option<&str>) -> crate::Node {
    crate::Node {
        name: name.to_owned(),
        uid: format!("uid-of-{name}"),
        provider_id: provider_id.map(str::to_owned),
        labels: Vec::new(),
        annotations: Vec::new(),
        addresses: Vec::new(),
        pod_cidrs: Vec::new(),
        system_uuid: None,
        created: 0,
        ready: None,
        initialized: false,
        extra: Vec::new(),
    }
}

/// A new Service of type LoadBalancer as the host passes it, with TCP ports given as (port, node port).
pub fn service(name: &str, ports: &[(u16, u16)]) -> crate::load_balancer::Service {
    let ports = ports
        .iter()
        .map(|(port, node_port)| crate::load_balancer::ServicePort {
            name: None,
            protocol: crate::Protocol::Tcp,
            app_protocol: None,
            port: *port,
            node_port: Some(*node_port),
        });
    crate::load_balancer::Service {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-of-{name}"),
        annotations: Vec::new(),
        labels: Vec::new(),
        ports: ports.collect(),
        class: None,
        requested_ip: None,
        source_ranges: Vec::new(),
        external_traffic_policy: None,
        health_check_node_port: None,
        ip_families: Vec::new(),
        ip_family_policy: None,
        session_affinity_seconds: None,
        cluster_ips: Vec::new(),
        status: crate::LoadBalancerStatus {
            ingress: Vec::new(),
        },
        extra: Vec::new(),
    }
}
