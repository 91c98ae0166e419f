//! Defaults of a Service, fields kept by the subresources, and the consequences of a changed type. Validation is in
//! `service_rules`; cluster-wide unique addresses and ports come from `service_ports`.

use serde_json::{Value, json};

/// A string field of `spec`; empty if absent.
pub(super) fn spec<'a>(service: &'a Value, field: &str) -> &'a str {
    service
        .get("spec")
        .and_then(|spec| spec.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The ports of a Service.
pub(super) fn ports(service: &Value) -> &[Value] {
    service
        .pointer("/spec/ports")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Whether the type uses node ports.
pub(super) fn has_node_ports(service: &Value) -> bool {
    match spec(service, "type") {
        "NodePort" => true,
        "LoadBalancer" => {
            service.pointer("/spec/allocateLoadBalancerNodePorts") != Some(&json!(false))
        }
        _ => false,
    }
}

/// Whether load balancers probe a separate health check port on every node.
pub(super) fn has_health_port(service: &Value) -> bool {
    spec(service, "type") == "LoadBalancer" && spec(service, "externalTrafficPolicy") == "Local"
}

/// Sets the defaults that upstream's decoding sets.
pub(super) fn default(service: &mut Value) {
    if !service["spec"].is_object() {
        service["spec"] = json!({});
    }
    let fill = |service: &mut Value, field: &str, value: Value| {
        if service["spec"].get(field).is_none() {
            service["spec"][field] = value;
        }
    };
    fill(service, "type", json!("ClusterIP"));
    fill(service, "sessionAffinity", json!("None"));
    if spec(service, "sessionAffinity") == "ClientIP" {
        let config = json!({"clientIP": {"timeoutSeconds": 10_800}});
        fill(service, "sessionAffinityConfig", config);
    }
    let kind = spec(service, "type").to_owned();
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        fill(service, "externalTrafficPolicy", json!("Cluster"));
    }
    if kind != "ExternalName" {
        fill(service, "internalTrafficPolicy", json!("Cluster"));
    }
    if kind == "LoadBalancer" {
        fill(service, "allocateLoadBalancerNodePorts", json!(true));
        each(service, "/status/loadBalancer/ingress", |ingress| {
            if ingress.get("ip").is_some() && ingress.get("ipMode").is_none() {
                ingress["ipMode"] = json!("VIP");
            }
        });
    }
    each(service, "/spec/ports", |port| {
        if port.get("protocol").is_none() {
            port["protocol"] = json!("TCP");
        }
        if matches!(port.get("targetPort"), None | Some(Value::Null)) || port["targetPort"] == 0 {
            port["targetPort"] = port["port"].clone();
        }
    });
}

/// Writes of the status keep the spec, all others keep the status; a changed type drops fields of the old one.
pub(super) fn prepare(service: &mut Value, old: Option<&Value>, status: bool) {
    let Some(old) = old else {
        service["status"] = json!({"loadBalancer": {}});
        return;
    };
    if status {
        service["spec"] = old["spec"].clone();
        return;
    }
    service["status"] = old["status"].clone();
    let became = |field: &str, needs: fn(&Value) -> bool, service: &Value| {
        needs(old) && !needs(service) && old["spec"].get(field) == service["spec"].get(field)
    };
    let mut dropped: Vec<&str> = Vec::new();
    let external = |one: &Value| spec(one, "type") == "ExternalName";
    if !external(old) && external(service) && became("clusterIP", needs_cluster_ip, service) {
        dropped.extend(["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]);
    }
    if became("healthCheckNodePort", has_health_port, service) {
        dropped.push("healthCheckNodePort");
    }
    for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        if became(field, is_load_balancer, service) {
            dropped.push(field);
        }
    }
    if became("externalTrafficPolicy", is_exposed, service) {
        dropped.push("externalTrafficPolicy");
    }
    let free_ports =
        has_node_ports(old) && !has_node_ports(service) && same_node_ports(old, service);
    if let Some(fields) = service["spec"].as_object_mut() {
        for field in dropped {
            fields.remove(field);
        }
    }
    if free_ports {
        each(service, "/spec/ports", |port| {
            port.as_object_mut().map(|port| port.remove("nodePort"));
        });
    }
    if external(service)
        && let Some(fields) = service["spec"].as_object_mut()
    {
        fields.remove("internalTrafficPolicy");
    }
    if !is_load_balancer(service) {
        service["status"]["loadBalancer"] = json!({});
    }
}

/// Whether the type has a cluster IP, including `None`.
pub(super) fn needs_cluster_ip(service: &Value) -> bool {
    spec(service, "type") != "ExternalName"
}

/// Whether the type is LoadBalancer.
pub(super) fn is_load_balancer(service: &Value) -> bool {
    spec(service, "type") == "LoadBalancer"
}

/// Whether it is reachable from outside the cluster.
pub(super) fn is_exposed(service: &Value) -> bool {
    matches!(spec(service, "type"), "LoadBalancer" | "NodePort")
        || service.pointer("/spec/externalIPs").is_some()
}

fn same_node_ports(old: &Value, new: &Value) -> bool {
    let all = |service: &Value| -> Vec<Value> {
        ports(service)
            .iter()
            .map(|port| port["nodePort"].clone())
            .collect()
    };
    all(old) == all(new)
}

fn each(object: &mut Value, pointer: &str, change: impl Fn(&mut Value)) {
    if let Some(Value::Array(items)) = object.pointer_mut(pointer) {
        items.iter_mut().for_each(change);
    }
}
