//! The parts of a Service's wanted state that differ for a classic load balancer. Pure.

use std::collections::BTreeMap;

use ccm_guest::values::Values;

use super::names;

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
pub(super) fn attributes(read: &mut Values<'_>) -> BTreeMap<&'static str, String> {
    let mut attributes = BTreeMap::new();
    let switches = [
        ("AccessLog.Enabled", names::LOGS),
        ("ConnectionDraining.Enabled", names::DRAINING),
        ("CrossZoneLoadBalancing.Enabled", names::CROSS_ZONE),
    ];
    for (field, name) in switches {
        let is_on = read.boolean(name).unwrap_or(false);
        attributes.insert(field, is_on.to_string());
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
        let number: Option<u32> = read.parse(name, "must be a number");
        if let Some(number) = number.filter(|_| counts) {
            attributes.insert(field, number.to_string());
        }
    }
    if logs {
        match read.text(names::LOGS_BUCKET) {
            Some(bucket) => drop(attributes.insert("AccessLog.S3BucketName", bucket.to_owned())),
            None => read.mistake(format_args!("{}: is required for logs", names::LOGS_BUCKET)),
        }
        if let Some(folder) = read.text(names::LOGS_PREFIX) {
            attributes.insert("AccessLog.S3BucketPrefix", folder.to_owned());
        }
    }
    attributes
}
