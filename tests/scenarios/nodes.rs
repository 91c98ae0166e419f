//! Nodes, as scripts describe them and as transcripts and comparisons show them. Knows no controller.

use ccm_core::well_known;
use ipnet::IpNet;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::disturbed_client::{OTHER_CLIENT, is_of_other_client};
use crate::pod_network_laws::pod_cidrs;
use crate::routes::Route;

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Applies a script's `key=value` to a node. `now` is the wall clock's time.
pub(crate) fn describe(
    node: &mut Value,
    key: &str,
    value: &str,
    now: Timestamp,
) -> Result<(), String> {
    let push = |list: &mut Value, item: Value| match list.as_array_mut() {
        Some(list) => list.push(item),
        None => *list = json!([item]),
    };
    let halves = || {
        value
            .split_once(':')
            .ok_or_else(|| format!("{key} wants A:B"))
    };
    match key {
        "taint" if value == "shutdown" => push(
            &mut node["spec"]["taints"],
            json!({ "key": well_known::SHUTDOWN_TAINT, "effect": "NoSchedule" }),
        ),
        "taint" => {
            let taint = if value == "uninitialized" {
                UNINITIALIZED
            } else {
                value
            };
            push(
                &mut node["spec"]["taints"],
                json!({ "key": taint, "value": "true", "effect": "NoSchedule" }),
            );
        }
        "pod-cidr" => {
            push(&mut node["spec"]["podCIDRs"], json!(value));
            node["spec"]["podCIDR"] = node["spec"]["podCIDRs"][0].clone();
        }
        "condition" => {
            let (kind, rest) = halves()?;
            let (status, reason) = rest.split_once(':').ok_or("TYPE:STATUS:REASON")?;
            // The controllers' own message, so that the writer cannot be told apart.
            let message = match reason {
                "RouteCreated" => "RouteController created a route",
                "NoRouteCreated" => "RouteController failed to create a route",
                _ => "somebody says so",
            };
            let conditions = &mut node["status"]["conditions"];
            if let Some(list) = conditions.as_array_mut() {
                list.retain(|one| one["type"] != kind);
            }
            push(
                conditions,
                json!({
                    "type": kind, "status": status, "reason": reason, "message": message,
                    "lastTransitionTime": now.to_string(), "lastHeartbeatTime": now.to_string(),
                }),
            );
        }
        "only-addr" => {
            let (kind, address) = halves()?;
            node["status"]["addresses"] = json!([{ "type": kind, "address": address }]);
        }
        "provider-id" => node["spec"]["providerID"] = json!(value),
        "addr" => {
            let (kind, address) = halves()?;
            push(
                &mut node["status"]["addresses"],
                json!({ "type": kind, "address": address }),
            );
        }
        "label" | "annotation" => {
            let (name, value) = halves()?;
            // `+60s` is a date.
            let value = match value
                .strip_prefix('+')
                .and_then(|one| one.strip_suffix('s'))
            {
                Some(seconds) => {
                    let seconds = seconds.parse().map_err(|_| format!("no time: {value}"))?;
                    let date = now.checked_add(SignedDuration::from_secs(seconds));
                    date.map_err(|error| error.to_string())?.to_string()
                }
                None => value.to_owned(),
            };
            node["metadata"][format!("{key}s")][name] = json!(value);
        }
        "ready" => {
            let conditions = &mut node["status"]["conditions"];
            if let Some(list) = conditions.as_array_mut() {
                list.retain(|one| one["type"] != "Ready");
            }
            push(
                conditions,
                json!({ "type": "Ready", "status": value, "lastTransitionTime": now.to_string() }),
            );
        }
        other => return Err(format!("a node has no {other:?}")),
    }
    Ok(())
}

/// A node in the transcript: one line for each fact that a controller may write.
pub(crate) fn portrait(node: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut lines = vec![format!(
        "| providerID {}",
        text(&node["spec"]["providerID"])
    )];
    for taint in list(&node["spec"]["taints"]) {
        lines.push(format!(
            "| taint {} {}",
            text(&taint["key"]),
            text(&taint["effect"])
        ));
    }
    for one in list(&node["status"]["addresses"]) {
        lines.push(format!(
            "| address {} {}",
            text(&one["type"]),
            text(&one["address"])
        ));
    }
    for one in list(&node["spec"]["podCIDRs"]) {
        lines.push(format!("| pod CIDR {}", text(&one)));
    }
    for one in list(&node["status"]["conditions"]) {
        if one["type"] == well_known::NETWORK_UNAVAILABLE {
            lines.push(format!(
                "| {} {} {}",
                well_known::NETWORK_UNAVAILABLE,
                text(&one["status"]),
                text(&one["reason"])
            ));
        }
    }
    for (key, value) in node["metadata"]["labels"].as_object().into_iter().flatten() {
        lines.push(format!("| label {key}={}", text(value)));
    }
    lines
}

/// All parts of a node that must be the same whatever went wrong on the way: without the values that the server chooses
/// in every run, and without another client's deliberate writes.
pub fn essence(node: &Value) -> Value {
    let mut node = node.clone();
    if let Some(metadata) = node["metadata"].as_object_mut() {
        for given_out in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
        ] {
            metadata.remove(given_out);
        }
        if let Some(annotations) = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
        {
            annotations.retain(|key, _| !key.starts_with(OTHER_CLIENT));
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    let conditions = node["status"].get_mut("conditions");
    for one in conditions
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        one["lastTransitionTime"] = Value::Null;
        one["lastHeartbeatTime"] = Value::Null;
    }
    // Which block is free depends on earlier nodes; a law says that no two nodes have the same.
    let blocks = node["spec"].get_mut("podCIDRs");
    for one in blocks.and_then(Value::as_array_mut).into_iter().flatten() {
        let length = one.as_str().and_then(|one| one.split('/').nth(1));
        *one = json!(format!("a block of /{}", length.unwrap_or_default()));
    }
    if let Some(one) = node["spec"].get_mut("podCIDR") {
        *one = Value::Null;
    }
    if let Some(taints) = node["spec"].get_mut("taints").and_then(Value::as_array_mut) {
        taints.retain(|taint| !is_of_other_client(&taint["key"]));
        for taint in taints.iter_mut().filter_map(Value::as_object_mut) {
            taint.remove("timeAdded");
        }
    }
    node
}

/// The existing routes, sorted; a route to a node's pods is shown as that, because `essence` does not show whose block
/// it is.
pub(crate) fn routes(nodes: &[Value], routes: &[Route]) -> Vec<String> {
    let blocks: Vec<(String, IpNet)> = nodes
        .iter()
        .flat_map(|node| {
            let name = node["metadata"]["name"].as_str().unwrap_or_default();
            let blocks = pod_cidrs(node).into_iter().enumerate();
            blocks.map(move |(index, block)| (format!("pods {index} of {name}"), block))
        })
        .collect();
    let lines = routes.iter().map(|route| {
        let block = blocks.iter().find(|(_, block)| *block == route.destination);
        let destination = match block {
            Some((pods, _)) => pods.clone(),
            None => route.destination.to_string(),
        };
        route.line(&destination)
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}
