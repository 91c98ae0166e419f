//! The parts of a Service's wanted state that differ for a classic load balancer. Pure.

use std::collections::BTreeMap;

use ccm_guest::load_balancer::Service;

use super::fields::truth;
use super::names::{self, get};

/// The protocols of a port, for clients and to the nodes.
pub(super) fn protocols(
    protocol: &str,
    is_tls: bool,
    backend: Option<&str>,
) -> Result<(&'static str, &'static str), String> {
    match (protocol, is_tls, backend) {
        ("TCP", false, Some("http")) => Ok(("HTTP", "HTTP")),
        ("TCP", false, _) => Ok(("TCP", "TCP")),
        ("TCP", true, None | Some("tcp")) => Ok(("SSL", "TCP")),
        ("TCP", true, Some("ssl")) => Ok(("SSL", "SSL")),
        ("TCP", true, Some("http")) => Ok(("HTTPS", "HTTP")),
        ("TCP", true, Some("https")) => Ok(("HTTPS", "HTTPS")),
        ("TCP", true, Some(_)) => Err(format!(
            "{}: must be http, https, ssl or tcp",
            names::BACKEND
        )),
        (other, ..) => Err(format!(
            "{other} is not possible with classic load balancers; {}: nlb makes one that can",
            names::TYPE
        )),
    }
}

/// Attributes with the Go provider's defaults, under the names of the API's fields.
pub(super) fn attributes(
    service: &Service,
    mistakes: &mut Vec<String>,
) -> BTreeMap<&'static str, String> {
    let mut attributes = BTreeMap::new();
    let switches = [
        ("AccessLog.Enabled", names::LOGS),
        ("ConnectionDraining.Enabled", names::DRAINING),
        ("CrossZoneLoadBalancing.Enabled", names::CROSS_ZONE),
    ];
    for (field, name) in switches {
        attributes.insert(field, truth(service, name, mistakes).to_string());
    }
    let is_on = |field: &str| attributes.get(field).is_some_and(|value| value == "true");
    let (logs, drains) = (
        is_on("AccessLog.Enabled"),
        is_on("ConnectionDraining.Enabled"),
    );
    attributes.insert("ConnectionSettings.IdleTimeout", "60".to_owned());
    // AWS' defaults: what an annotation said before it was removed would stay otherwise.
    if drains {
        attributes.insert("ConnectionDraining.Timeout", "300".to_owned());
    }
    if logs {
        attributes.insert("AccessLog.EmitInterval", "60".to_owned());
        attributes.insert("AccessLog.S3BucketPrefix", String::new());
    }
    let numbers = [
        ("ConnectionSettings.IdleTimeout", names::IDLE, true),
        (
            "ConnectionDraining.Timeout",
            names::DRAINING_TIMEOUT,
            drains,
        ),
        ("AccessLog.EmitInterval", names::LOGS_INTERVAL, logs),
    ];
    for (field, name, counts) in numbers {
        match get(service, name).map(str::parse::<u32>) {
            Some(Ok(number)) if counts => drop(attributes.insert(field, number.to_string())),
            Some(Err(_)) => mistakes.push(format!("{name}: must be a number")),
            _ => {}
        }
    }
    if logs {
        match get(service, names::LOGS_BUCKET) {
            Some(bucket) => drop(attributes.insert("AccessLog.S3BucketName", bucket.to_owned())),
            None => mistakes.push(format!("{}: is required for logs", names::LOGS_BUCKET)),
        }
        if let Some(folder) = get(service, names::LOGS_PREFIX) {
            attributes.insert("AccessLog.S3BucketPrefix", folder.to_owned());
        }
    }
    attributes
}
