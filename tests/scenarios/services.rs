//! Services, as scripts describe them and as transcripts and comparisons show them. Knows no controller.

use ccm_core::cloud::load_balancer::LoadBalancerStatus;
use serde_json::{Value, json};

use crate::disturbed_client::{OTHER_CLIENT, is_of_other_client};
use crate::load_balancer_answers;
use crate::script::Line;

/// A new Service without spec and status.
pub(crate) fn blank(namespace: &str, name: &str) -> Value {
    json!({
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "type": "LoadBalancer" },
    })
}

/// Puts the words `key=value` of a script, from the one at `from` on, into a Service.
pub(crate) fn describe(service: &mut Value, line: &Line, from: usize) -> Result<(), String> {
    let mut has_ports = false;
    for (key, value) in line.pairs(from)? {
        match key {
            "type" => {
                service["spec"]["type"] = json!(value);
                if value == "ClusterIP" {
                    without_node_ports(service);
                }
            }
            "class" => service["spec"]["loadBalancerClass"] = json!(value),
            "ip" => service["spec"]["loadBalancerIP"] = json!(value),
            "policy" => service["spec"]["externalTrafficPolicy"] = json!(value),
            "range" => push(
                &mut service["spec"]["loadBalancerSourceRanges"],
                json!(value),
            ),
            "port" => {
                if !std::mem::replace(&mut has_ports, true) {
                    service["spec"]["ports"] = json!([]);
                }
                push(&mut service["spec"]["ports"], port(value)?);
            }
            "label" | "annotation" => {
                let (name, value) = halves(key, value)?;
                service["metadata"][format!("{key}s")][name] = json!(value);
            }
            // A merge patch removes what is null.
            "no-annotation" => service["metadata"]["annotations"][value] = Value::Null,
            "finalizer" => push(&mut service["metadata"]["finalizers"], json!(value)),
            "no-finalizer" => retain(&mut service["metadata"]["finalizers"], |one| one != value),
            "condition" => {
                let (kind, status) = halves(key, value)?;
                let condition = json!({
                    "type": kind, "status": status, "reason": "Said", "message": "by hand",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                });
                push(&mut service["status"]["conditions"], condition);
            }
            other => return Err(format!("a Service has no {other:?}")),
        }
    }
    Ok(())
}

/// Writes a status by hand into a Service: the words of `balancer … answers`.
pub(crate) fn edit_status(service: &mut Value, line: &Line) -> Result<(), String> {
    let LoadBalancerStatus { ingress } = load_balancer_answers::status(line)?;
    let ingress: Vec<Value> = ingress
        .iter()
        .map(|one| match (&one.ip, &one.hostname) {
            (Some(ip), _) => json!({ "ip": ip }),
            (None, name) => json!({ "hostname": name }),
        })
        .collect();
    service["status"]["loadBalancer"] = json!({ "ingress": ingress });
    Ok(())
}

fn halves<'a>(key: &str, value: &'a str) -> Result<(&'a str, &'a str), String> {
    let halves = value.split_once(':');
    halves.ok_or_else(|| format!("{key} wants A:B"))
}

fn push(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(list) => list.push(item),
        None => *list = json!([item]),
    }
}

fn retain(list: &mut Value, is_kept: impl Fn(&Value) -> bool) {
    if let Some(list) = list.as_array_mut() {
        list.retain(is_kept);
    }
}

/// A port of a script: `80:30080`, `80:30080/UDP`.
fn port(text: &str) -> Result<Value, String> {
    let (numbers, protocol) = text.split_once('/').unwrap_or((text, "TCP"));
    let (port, node_port) = numbers.split_once(':').ok_or("a port is PORT:NODEPORT")?;
    let number = |text: &str| -> Result<u16, String> {
        text.parse().map_err(|_| format!("{text:?} is no port"))
    };
    Ok(json!({
        "name": format!("p{port}"), "protocol": protocol,
        "port": number(port)?, "nodePort": number(node_port)?,
    }))
}

fn without_node_ports(service: &mut Value) {
    let ports = service["spec"]["ports"].as_array_mut();
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        port.remove("nodePort");
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The key `NAMESPACE/NAME`.
pub(crate) fn key_of(service: &Value) -> String {
    let metadata = &service["metadata"];
    format!(
        "{}/{}",
        text(&metadata["namespace"]),
        text(&metadata["name"])
    )
}

/// A Service in the transcript: one line for each fact that a controller may write.
pub(crate) fn portrait(service: &Value) -> Vec<String> {
    let (metadata, spec) = (&service["metadata"], &service["spec"]);
    let class = spec["loadBalancerClass"].as_str();
    let class = class.map(|class| format!(" class {class}"));
    let mut lines = vec![format!(
        "| type {}{}{}",
        text(&spec["type"]),
        class.unwrap_or_default(),
        if metadata["deletionTimestamp"].is_string() {
            " going"
        } else {
            ""
        }
    )];
    for one in list(&metadata["finalizers"]) {
        lines.push(format!("| finalizer {}", text(one)));
    }
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        lines.push(format!("| annotation {key}={}", text(value)));
    }
    for one in list(&service["status"]["loadBalancer"]["ingress"]) {
        let place = one["ip"].as_str().or(one["hostname"].as_str());
        let mut line = format!("| ingress {}", place.unwrap_or("-"));
        if let Some(mode) = one["ipMode"].as_str() {
            line.push_str(&format!(" {mode}"));
        }
        for port in list(&one["ports"]) {
            line.push_str(&format!(" {}:{}", port["port"], text(&port["error"])));
        }
        lines.push(line);
    }
    for one in list(&service["status"]["conditions"]) {
        lines.push(format!(
            "| condition {}={} {}",
            text(&one["type"]),
            text(&one["status"]),
            text(&one["reason"])
        ));
    }
    lines
}

/// All parts of a Service that must be the same whatever went wrong on the way, as in `nodes::essence`.
pub(crate) fn essence(service: &Value) -> Value {
    let mut service = service.clone();
    if let Some(metadata) = service["metadata"].as_object_mut() {
        for given_out in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
            "generation",
        ] {
            metadata.remove(given_out);
        }
        if let Some(at) = metadata.get_mut("deletionTimestamp") {
            *at = Value::Null;
        }
    }
    // Which address is free depends on earlier Services.
    for given_out in ["clusterIP", "clusterIPs"] {
        service["spec"]
            .as_object_mut()
            .map(|spec| spec.remove(given_out));
    }
    let annotations = service["metadata"].get_mut("annotations");
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !key.starts_with(OTHER_CLIENT));
        if annotations.is_empty() {
            drop(
                service["metadata"]
                    .as_object_mut()
                    .map(|one| one.remove("annotations")),
            );
        }
    }
    if let Some(conditions) = service["status"].get_mut("conditions") {
        // A condition with the reason `Deleted` is only written where there was a condition before.
        retain(conditions, |one| {
            !is_of_other_client(&one["type"]) && one["reason"] != "Deleted"
        });
        for one in conditions.as_array_mut().into_iter().flatten() {
            one["lastTransitionTime"] = Value::Null;
            drop(
                one.as_object_mut()
                    .map(|one| one.remove("observedGeneration")),
            );
        }
        if conditions.as_array().is_some_and(Vec::is_empty) {
            drop(
                service["status"]
                    .as_object_mut()
                    .map(|one| one.remove("conditions")),
            );
        }
    }
    service
}
