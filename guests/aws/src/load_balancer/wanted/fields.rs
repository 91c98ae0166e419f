//! Health checks, and the attributes of network load balancers. Pure.

use std::collections::BTreeMap;

use ccm_guest::Protocol;
use ccm_guest::load_balancer::{Service, TrafficPolicy};
use ccm_guest::values::Values;

use super::names::{self, pairs};
use super::{Health, is_classic};
use crate::config::Settings;

pub(super) fn health(settings: &Settings, service: &Service, read: &mut Values<'_>) -> Health {
    let is_local = service.external_traffic_policy == Some(TrafficPolicy::Local);
    let mut health = match service.health_check_node_port.filter(|_| is_local) {
        Some(port) => Health {
            protocol: "HTTP".to_owned(),
            port: port.to_string(),
            path: Some("/healthz".to_owned()),
            interval: 10,
            timeout: 0,
            healthy: 2,
            unhealthy: 2,
        },
        None => Health {
            protocol: "TCP".to_owned(),
            port: "traffic-port".to_owned(),
            path: Some("/".to_owned()),
            interval: 30,
            timeout: 0,
            healthy: 3,
            unhealthy: 3,
        },
    };
    let is_classic = is_classic(service);
    let shared = settings.shared_health.as_ref().filter(|_| !is_local);
    let share = |health: &mut Health| {
        if let Some(shared) = shared {
            health.protocol = "HTTP".to_owned();
            health.port = shared.port.to_string();
            health.path = Some(shared.path.clone());
        }
    };
    if is_classic {
        if !is_local && matches!(read.text(names::BACKEND), Some("https" | "ssl")) {
            health.protocol = "SSL".to_owned();
        }
        (health.interval, health.timeout) = (10, 5);
        (health.healthy, health.unhealthy) = (2, 6);
        share(&mut health);
    }
    if let Some(protocol) = read.text(names::HEALTH_PROTOCOL) {
        health.protocol = protocol.to_uppercase();
    }
    if let Some(path) = read.text(names::HEALTH_PATH) {
        health.path = Some(path.to_owned());
    }
    // The shared check of a classic load balancer has its own port, whatever the traffic's.
    let is_own = |port: &&str| !(is_classic && shared.is_some() && *port == "traffic-port");
    if let Some(port) = read.text(names::HEALTH_PORT).filter(is_own) {
        health.port = port.to_owned();
    }
    // The shared check overrides the annotations of network load balancers only, as in the Go provider.
    if !is_classic {
        share(&mut health);
    }
    match health.protocol.as_str() {
        "TCP" => health.path = None,
        "SSL" if is_classic => health.path = None,
        "HTTP" | "HTTPS" => {}
        _ => {
            let ssl = if is_classic { "ssl, " } else { "" };
            let what = format_args!("must be tcp, {ssl}http or https");
            read.wrong::<()>(names::HEALTH_PROTOCOL, what);
        }
    }
    if health.port != "traffic-port" && !health.port.parse::<u16>().is_ok_and(|port| port > 0) {
        read.wrong::<()>(names::HEALTH_PORT, "must be a port or traffic-port");
    }
    for (name, number) in [
        (names::HEALTH_INTERVAL, &mut health.interval),
        (names::HEALTHY, &mut health.healthy),
        (names::UNHEALTHY, &mut health.unhealthy),
        (names::HEALTH_TIMEOUT, &mut health.timeout),
    ] {
        if let Some(given) = read.parse(name, "must be a number") {
            *number = given;
        }
    }
    health
}

pub(super) fn attributes(read: &mut Values<'_>) -> BTreeMap<&'static str, String> {
    let across = read.boolean(names::CROSS_ZONE).unwrap_or(false);
    let logs = read.boolean(names::LOGS).unwrap_or(false);
    let mut attributes = BTreeMap::from([
        ("load_balancing.cross_zone.enabled", across.to_string()),
        ("access_logs.s3.enabled", logs.to_string()),
    ]);
    // While logs are off, AWS accepts no empty bucket name.
    if logs {
        match read.text(names::LOGS_BUCKET) {
            Some(bucket) => drop(attributes.insert("access_logs.s3.bucket", bucket.to_owned())),
            None => read.mistake(format_args!("{}: is required for logs", names::LOGS_BUCKET)),
        }
        let folder = read.text(names::LOGS_PREFIX).unwrap_or_default();
        attributes.insert("access_logs.s3.prefix", folder.to_owned());
    }
    attributes
}

pub(super) fn group_attributes(
    service: &Service,
    read: &mut Values<'_>,
) -> BTreeMap<String, String> {
    let mut attributes = BTreeMap::new();
    let mut ports = service.ports.iter();
    let is_udp = ports.any(|port| port.protocol == Protocol::Udp);
    for (key, value) in pairs(read.list(names::ATTRIBUTES)) {
        let is_known =
            ["preserve_client_ip.enabled", "proxy_protocol_v2.enabled"].contains(&key.as_str());
        let why = if !is_known {
            "is not supported"
        } else if value != "true" && value != "false" {
            "must be true or false"
        } else if is_udp && value == "false" && key.starts_with("preserve") {
            "cannot be false with UDP"
        } else if attributes.insert(key.clone(), value).is_some() {
            "is there twice"
        } else {
            continue;
        };
        read.wrong_part::<()>(names::ATTRIBUTES, &key, why);
    }
    attributes
}
