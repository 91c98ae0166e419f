//! Validation of a Service against itself and its stored predecessor. Changes nothing.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::field_error::FieldError;
use super::metadata;
use super::names;
use super::service::{
    has_health_port, is_exposed, is_load_balancer, needs_cluster_ip, ports, spec,
};

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

/// The field errors of a write.
pub(super) fn validate(service: &Value, old: Option<&Value>, status: bool) -> Vec<FieldError> {
    if status {
        return ingress(service);
    }
    let mut errors = Vec::new();
    if let Some(old) = old {
        errors.extend(immutable(service, old));
    }
    let kind = spec(service, "type");
    if ports(service).is_empty() && kind != "ExternalName" && spec(service, "clusterIP") != "None" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    errors.extend(port_list(service));
    errors.extend(metadata::labels(
        "spec.selector",
        service.pointer("/spec/selector"),
    ));
    choice(
        &mut errors,
        service,
        "sessionAffinity",
        &["ClientIP", "None"],
    );
    choice(&mut errors, service, "type", TYPES);
    if kind == "ClusterIP" {
        for (index, port) in ports(service).iter().enumerate() {
            if port.get("nodePort").is_some() {
                errors.push(FieldError::forbidden(
                    format!("spec.ports[{index}].nodePort"),
                    "may not be used when `type` is 'ClusterIP'",
                ));
            }
        }
    }
    errors.extend(source_ranges(service));
    if kind != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if service["spec"].get(field).is_some() {
                errors.push(FieldError::forbidden(
                    format!("spec.{field}"),
                    "may only be used when `type` is 'LoadBalancer'",
                ));
            }
        }
    }
    if is_exposed(service) {
        choice(
            &mut errors,
            service,
            "externalTrafficPolicy",
            &["Cluster", "Local"],
        );
    }
    errors
}

/// The primary cluster IP and the load balancer class may be set only once.
fn immutable(service: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let both = |needs: fn(&Value) -> bool| needs(old) && needs(service);
    let changed = |field: &str| old["spec"].get(field) != service["spec"].get(field);
    if both(needs_cluster_ip) && changed("clusterIPs") && old["spec"].get("clusterIPs").is_some() {
        errors.push(FieldError::invalid(
            "spec.clusterIPs[0]",
            &service["spec"]["clusterIPs"],
            "may not change once set",
        ));
    }
    if both(is_load_balancer) && changed("loadBalancerClass") {
        errors.push(FieldError::invalid(
            "spec.loadBalancerClass",
            &service["spec"]["loadBalancerClass"],
            "may not change once set",
        ));
    }
    if both(has_health_port) && changed("healthCheckNodePort") {
        errors.push(FieldError::forbidden(
            "spec.healthCheckNodePort",
            "field is immutable",
        ));
    }
    errors
}

fn port_list(service: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let all = ports(service);
    for (index, port) in all.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let before = all.get(..index).unwrap_or_default();
        let name = port["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            if all.len() > 1 {
                errors.push(FieldError::required(format!("{path}.name"), ""));
            }
        } else {
            for error in names::label_errors(name) {
                errors.push(FieldError::invalid(
                    format!("{path}.name"),
                    &name.into(),
                    &error,
                ));
            }
            if before.iter().any(|one| one["name"] == name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), &name.into()));
            }
        }
        if !matches!(port["port"].as_i64(), Some(1..=65_535)) {
            errors.push(FieldError::invalid(
                format!("{path}.port"),
                &port["port"],
                "must be between 1 and 65535, inclusive",
            ));
        }
        if port["targetPort"].is_number()
            && !matches!(port["targetPort"].as_i64(), Some(1..=65_535))
        {
            errors.push(FieldError::invalid(
                format!("{path}.targetPort"),
                &port["targetPort"],
                "must be between 1 and 65535, inclusive",
            ));
        }
        let protocol = port["protocol"].as_str().unwrap_or_default();
        if !["SCTP", "TCP", "UDP"].contains(&protocol) {
            errors.push(FieldError::unsupported(
                format!("{path}.protocol"),
                &protocol.into(),
                &["SCTP", "TCP", "UDP"],
            ));
        }
        let twice = |field: &str| {
            port.get(field).is_some()
                && before
                    .iter()
                    .any(|one| one[field] == port[field] && one["protocol"] == port["protocol"])
        };
        if twice("nodePort") {
            errors.push(FieldError::duplicate(
                format!("{path}.nodePort"),
                &port["nodePort"],
            ));
        }
        if twice("port") {
            let key = json!({"protocol": protocol, "port": port["port"]});
            errors.push(FieldError::duplicate(path, &key));
        }
    }
    errors
}

fn source_ranges(service: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let ranges = service
        .pointer("/spec/loadBalancerSourceRanges")
        .and_then(Value::as_array);
    // The path starts with a capital letter, as in upstream's messages.
    let path = "spec.LoadBalancerSourceRanges";
    if ranges.is_some() && !is_load_balancer(service) {
        let detail = "may only be used when `type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden(path, detail));
    }
    for (index, range) in ranges.into_iter().flatten().enumerate() {
        let text = range.as_str().unwrap_or_default().trim();
        let valid = text.split_once('/').is_some_and(|(address, length)| {
            let address = address.parse::<IpAddr>();
            let limit = if address.as_ref().is_ok_and(IpAddr::is_ipv6) {
                128
            } else {
                32
            };
            address.is_ok() && length.parse::<u8>().is_ok_and(|length| length <= limit)
        });
        if !valid {
            errors.push(FieldError::invalid(
                format!("{path}[{index}]"),
                range,
                "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            ));
        }
    }
    errors
}

fn ingress(service: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = "status.loadBalancer.ingress";
    let list = service
        .pointer("/status/loadBalancer/ingress")
        .and_then(Value::as_array);
    if list.is_some_and(|list| !list.is_empty()) && !is_load_balancer(service) {
        let detail = "may only be used when `spec.type` is 'LoadBalancer'";
        return vec![FieldError::forbidden(path, detail)];
    }
    for (index, one) in list.into_iter().flatten().enumerate() {
        let text = |field: &str| one.get(field).and_then(Value::as_str).unwrap_or_default();
        let (ip, mode, hostname) = (text("ip"), text("ipMode"), text("hostname"));
        if !ip.is_empty() && ip.parse::<IpAddr>().is_err() {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.push(FieldError::invalid(
                format!("{path}[{index}].ip"),
                &ip.into(),
                detail,
            ));
        }
        let mode_path = format!("{path}[{index}].ipMode");
        if !mode.is_empty() && ip.is_empty() {
            let detail = "may not be specified when `ip` is not set";
            errors.push(FieldError::forbidden(mode_path, detail));
        } else if !mode.is_empty() && !["Proxy", "VIP"].contains(&mode) {
            errors.push(FieldError::unsupported(
                mode_path,
                &mode.into(),
                &["Proxy", "VIP"],
            ));
        }
        let host_path = format!("{path}[{index}].hostname");
        if !hostname.is_empty() {
            for error in names::subdomain_errors(hostname) {
                errors.push(FieldError::invalid(
                    host_path.clone(),
                    &hostname.into(),
                    &error,
                ));
            }
            if hostname.parse::<IpAddr>().is_ok() {
                let detail = "must be a DNS name, not an IP address";
                errors.push(FieldError::invalid(host_path, &hostname.into(), detail));
            }
        }
    }
    errors
}

fn choice(errors: &mut Vec<FieldError>, service: &Value, field: &str, allowed: &[&str]) {
    let value = spec(service, field);
    if !allowed.contains(&value) {
        errors.push(FieldError::unsupported(
            format!("spec.{field}"),
            &value.into(),
            allowed,
        ));
    }
}
