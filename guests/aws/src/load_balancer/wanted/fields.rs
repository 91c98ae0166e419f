//! Health checks, and the attributes of network load balancers. Pure.

use ccm_guest::Protocol;
use ccm_guest::load_balancer::Service;
use ccm_guest::values::Values;

use super::names::{self, pairs};
use super::{Attributes, Health};
use crate::config::Settings;

/// The health check of a network load balancer. As in the Go provider, the shared one overrides its annotations.
pub(super) fn health(settings: &Settings, service: &Service, read: &mut Values<'_>) -> Health {
    let mut health = unannotated(service);
    annotate(&mut health, read);
    share(settings, service, &mut health);
    check(&mut health, &["TCP", "HTTP", "HTTPS"], read);
    health
}

/// The health check without annotations.
pub(super) fn unannotated(service: &Service) -> Health {
    let mut health = Health {
        protocol: "TCP".to_owned(),
        port: "traffic-port".to_owned(),
        path: Some("/".to_owned()),
        interval: 30,
        timeout: 0,
        healthy: 3,
        unhealthy: 3,
    };
    if let Some(port) = service.local_health_port() {
        ask(&mut health, port, "/healthz");
        (health.interval, health.healthy, health.unhealthy) = (10, 2, 2);
    }
    health
}

/// Makes it one that asks by HTTP.
fn ask(health: &mut Health, port: u16, path: &str) {
    health.protocol = "HTTP".to_owned();
    health.port = port.to_string();
    health.path = Some(path.to_owned());
}

/// Makes it the health check that Services share, if the configuration has one. Returns whether it is.
pub(super) fn share(settings: &Settings, service: &Service, health: &mut Health) -> bool {
    let shared = settings.shared_health.as_ref();
    let shared = shared.filter(|_| !service.is_local());
    if let Some(shared) = shared {
        ask(health, shared.port, &shared.path);
    }
    shared.is_some()
}

/// Reads the annotations about the health check.
pub(super) fn annotate(health: &mut Health, read: &mut Values<'_>) {
    if let Some(protocol) = read.text(names::HEALTH_PROTOCOL) {
        health.protocol = protocol.to_uppercase();
    }
    if let Some(path) = read.text(names::HEALTH_PATH) {
        health.path = Some(path.to_owned());
    }
    if let Some(port) = read.text(names::HEALTH_PORT) {
        health.port = port.to_owned();
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
}

/// Notes a protocol or a port that is not possible, and drops the path where it has no meaning.
pub(super) fn check(health: &mut Health, protocols: &[&str], read: &mut Values<'_>) {
    if !protocols.contains(&health.protocol.as_str()) {
        let words = protocols.join(", ").to_lowercase();
        let what = format_args!("must be one of {words}");
        read.wrong::<()>(names::HEALTH_PROTOCOL, what);
    }
    if !health.protocol.starts_with("HTTP") {
        health.path = None;
    }
    if health.port != "traffic-port" && !health.port.parse::<u16>().is_ok_and(|port| port > 0) {
        read.wrong::<()>(names::HEALTH_PORT, "must be a port or traffic-port");
    }
}

pub(super) fn attributes(read: &mut Values<'_>) -> Attributes {
    let mut attributes = Attributes::new();
    let mut set = |key: &str, value: String| drop(attributes.insert(key.to_owned(), value));
    let across = read.boolean(names::CROSS_ZONE).unwrap_or(false);
    let logs = read.boolean(names::LOGS).unwrap_or(false);
    set("load_balancing.cross_zone.enabled", across.to_string());
    set("access_logs.s3.enabled", logs.to_string());
    // While logs are off, AWS accepts no empty bucket name.
    if logs {
        match read.text(names::LOGS_BUCKET) {
            Some(bucket) => set("access_logs.s3.bucket", bucket.to_owned()),
            None => read.mistake(format_args!("{}: is required for logs", names::LOGS_BUCKET)),
        }
        let folder = read.text(names::LOGS_PREFIX).unwrap_or_default();
        set("access_logs.s3.prefix", folder.to_owned());
    }
    attributes
}

pub(super) fn group_attributes(service: &Service, read: &mut Values<'_>) -> Attributes {
    let mut attributes = Attributes::new();
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
