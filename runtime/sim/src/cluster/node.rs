//! Rules of Node: defaults, immutable fields, validation.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::field_error::FieldError;
use super::names;

/// The taint that admission sets on every new node, until a node controller sees the node ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Fields that every Node has in responses.
pub(super) fn always() -> Value {
    json!({
        "spec": {},
        "status": {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": {
                "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
                "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "",
                "operatingSystem": "", "architecture": "",
            },
        },
    })
}

/// Fields that every condition of a Node has in responses.
pub(super) fn always_in_a_condition() -> Value {
    json!({"lastHeartbeatTime": null, "lastTransitionTime": null})
}

/// Sets podCIDR to the first of podCIDRs and vice versa; podCIDR wins where they differ. Allocatable defaults to
/// capacity.
pub(super) fn default(node: &mut Value) {
    let one = node.pointer("/spec/podCIDR").cloned();
    let many = node.pointer("/spec/podCIDRs/0").cloned();
    if let Some(spec) = node.get_mut("spec").and_then(Value::as_object_mut) {
        match (one, many) {
            (Some(one), many) if many.as_ref() != Some(&one) => {
                spec.insert("podCIDRs".into(), json!([one]));
            }
            (None, Some(first)) => {
                spec.insert("podCIDR".into(), first);
            }
            _ => {}
        }
    }
    if let Some(status) = node.get_mut("status").and_then(Value::as_object_mut)
        && !status.contains_key("allocatable")
        && let Some(capacity) = status.get("capacity").cloned()
    {
        status.insert("allocatable".into(), capacity);
    }
}

/// Writes of the status keep the spec, all others keep the status; a new node gets the not-ready taint.
pub(super) fn prepare(node: &mut Value, old: Option<&Value>, status: bool) {
    let Some(old) = old else {
        taint_not_ready(node);
        return;
    };
    let kept = if status { "spec" } else { "status" };
    if let Some(value) = old.get(kept) {
        node[kept] = value.clone();
    }
}

/// The field errors of a write.
pub(super) fn validate(node: &Value, old: Option<&Value>, status: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !status {
        errors.extend(taints(node));
        errors.extend(pod_cidrs(node));
    }
    if let Some(old) = old {
        errors.extend(addresses(node));
        errors.extend(immutable(node, old));
    }
    errors
}

fn taint_not_ready(node: &mut Value) {
    let taint = json!({"key": NOT_READY, "effect": "NoSchedule"});
    match node
        .pointer_mut("/spec/taints")
        .and_then(Value::as_array_mut)
    {
        Some(taints) => {
            let known = taints
                .iter()
                .any(|one| one["key"] == taint["key"] && one["effect"] == taint["effect"]);
            if !known {
                taints.push(taint);
            }
        }
        None => node["spec"]["taints"] = json!([taint]),
    }
}

/// Validates the taints. The paths say `metadata.taints`, as upstream's do.
fn taints(node: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (index, taint) in list(node, "/spec/taints").enumerate() {
        let path = format!("metadata.taints[{index}]");
        let text = |field: &str| taint.get(field).and_then(Value::as_str).unwrap_or_default();
        let (key, value, effect) = (text("key"), text("value"), text("effect"));
        for error in names::qualified_name_errors(key) {
            errors.push(FieldError::invalid(
                format!("{path}.key"),
                &key.into(),
                &error,
            ));
        }
        let wrong = names::label_value_errors(value);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(
                format!("{path}.value"),
                &value.into(),
                &wrong.join(";"),
            ));
        }
        if effect.is_empty() {
            errors.push(FieldError::required(format!("{path}.effect"), ""));
        } else if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            errors.push(FieldError::unsupported(
                format!("{path}.effect"),
                &effect.into(),
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
            ));
        }
        if seen.contains(&(key, effect)) {
            let error = FieldError::duplicate(path, taint);
            errors.push(error.because("taints must be unique by key and effect pair"));
        }
        seen.push((key, effect));
    }
    errors
}

fn pod_cidrs(node: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut families = Vec::new();
    for (index, cidr) in list(node, "/spec/podCIDRs").enumerate() {
        match family(cidr.as_str().unwrap_or_default()) {
            Some(v6) => families.push(v6),
            None => errors.push(FieldError::invalid(
                format!("spec.podCIDRs[{index}]"),
                cidr,
                "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            )),
        }
    }
    let both = families.contains(&true) && families.contains(&false);
    if errors.is_empty() && families.len() > 1 && (families.len() > 2 || !both) {
        errors.push(FieldError::invalid(
            "spec.podCIDRs",
            &node["spec"]["podCIDRs"],
            "may specify no more than one CIDR for each IP family",
        ));
    }
    errors
}

/// Whether a CIDR is IPv6; `None` if it is invalid.
fn family(cidr: &str) -> Option<bool> {
    let (address, length) = cidr.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let limit = if address.is_ipv6() { 128 } else { 32 };
    (length.parse::<u8>().ok()? <= limit).then_some(address.is_ipv6())
}

fn addresses(node: &Value) -> Vec<FieldError> {
    let all: Vec<&Value> = list(node, "/status/addresses").collect();
    all.iter()
        .enumerate()
        .filter(|(index, address)| all.iter().take(*index).any(|one| one == *address))
        .map(|(index, address)| {
            FieldError::duplicate(format!("status.addresses[{index}]"), address)
        })
        .collect()
}

/// podCIDRs and providerID may be set only once.
fn immutable(node: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let changed = |pointer: &str| {
        old.pointer(pointer)
            .is_some_and(|stored| node.pointer(pointer) != Some(stored))
    };
    if changed("/spec/podCIDRs") {
        errors.push(FieldError::forbidden(
            "spec.podCIDRs",
            "node updates may not change podCIDR except from \"\" to valid",
        ));
    }
    if changed("/spec/providerID") {
        errors.push(FieldError::forbidden(
            "spec.providerID",
            "node updates may not change providerID except from \"\" to valid",
        ));
    }
    errors
}

fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}
