//! The parts of a Service's wanted state that differ for a classic load balancer. Pure.

use ccm_guest::load_balancer::Service;
use ccm_guest::values::Values;

use super::names::{self, list};
use super::{Attributes, Groups, Health, Wanted, fields};
use crate::config::Settings;

/// Whether a Service wants a classic load balancer: as with the Go provider, without `type: nlb`.
pub fn is_classic(service: &Service) -> bool {
    names::exact(service, names::TYPE) != Some("nlb")
}

/// The name of a classic load balancer's own security group, as in the Go provider.
pub fn group_of_classic(name: &str) -> String {
    format!("k8s-elb-{name}")
}

/// The security group that the annotation, or else the configuration, names for a classic load balancer; the first of
/// several.
pub fn named_group(settings: &Settings, service: &Service) -> Option<String> {
    let named = names::values(service).long_list(names::GROUPS, usize::MAX);
    let mut named = named.unwrap_or_default().into_iter().map(str::to_owned);
    named.next().or_else(|| settings.elb_security_group.clone())
}

/// The health check. Unlike a network load balancer's, its annotations override the shared one, but for the port of the
/// traffic: the shared one always has a port of its own.
pub(super) fn health(settings: &Settings, service: &Service, read: &mut Values<'_>) -> Health {
    let mut health = Health {
        interval: 10,
        timeout: 5,
        healthy: 2,
        unhealthy: 6,
        ..fields::unannotated(service)
    };
    if !service.is_local() && matches!(read.text(names::BACKEND), Some("https" | "ssl")) {
        health.protocol = "SSL".to_owned();
    }
    let is_shared = fields::share(settings, service, &mut health);
    let port = health.port.clone();
    fields::annotate(&mut health, read);
    if is_shared && health.port == "traffic-port" {
        health.port = port;
    }
    fields::check(&mut health, &["TCP", "SSL", "HTTP", "HTTPS"], read);
    health
}

/// Turns what a network load balancer would be into a classic one.
pub(super) fn adjust(settings: &Settings, wanted: &mut Wanted, read: &mut Values<'_>) {
    wanted.own_group = group_of_classic(&wanted.name);
    let mut groups = list(read, names::GROUPS);
    if groups.is_empty() {
        groups.extend(settings.elb_security_group.clone());
    }
    wanted.groups = match groups.is_empty() {
        true => Groups::Own(wanted.own_group.clone()),
        false => Groups::Named(groups),
    };
    wanted.extra_groups = list(read, names::EXTRA_GROUPS);
    wanted.allocations = Vec::new();
    wanted.private_addresses = Vec::new();
    wanted.attributes = attributes(read);
    let proxy = read.text(names::PROXY);
    wanted.proxy_protocol = proxy.is_some();
    if proxy.is_some_and(|value| value != "*") {
        read.wrong::<()>(names::PROXY, "must be *");
    }
    let backend = read.text(names::BACKEND);
    for port in &mut wanted.ports {
        match protocols(port.front_protocol, backend) {
            Ok((front, back)) => (port.front_protocol, port.back_protocol) = (front, back),
            Err(why) => read.mistake(format_args!("port {}: {why}", port.front)),
        }
    }
}

/// The protocols of a port, for clients and to the nodes. `protocol`: a network load balancer's, for clients.
fn protocols(
    protocol: &str,
    backend: Option<&str>,
) -> Result<(&'static str, &'static str), String> {
    match (protocol, backend) {
        ("TCP", Some("http")) => Ok(("HTTP", "HTTP")),
        ("TCP", _) => Ok(("TCP", "TCP")),
        ("TLS", None | Some("tcp")) => Ok(("SSL", "TCP")),
        ("TLS", Some("ssl")) => Ok(("SSL", "SSL")),
        ("TLS", Some("http")) => Ok(("HTTPS", "HTTP")),
        ("TLS", Some("https")) => Ok(("HTTPS", "HTTPS")),
        ("TLS", Some(_)) => Err(format!(
            "{}: must be http, https, ssl or tcp",
            names::BACKEND
        )),
        (other, _) => Err(format!(
            "{other} is not possible with classic load balancers; {}: nlb makes one that can",
            names::TYPE
        )),
    }
}

/// Attributes with the Go provider's defaults, under the names of the API's fields.
fn attributes(read: &mut Values<'_>) -> Attributes {
    let mut attributes = Attributes::new();
    let mut set = |field: &str, value: String| drop(attributes.insert(field.to_owned(), value));
    let switches = [names::LOGS, names::DRAINING, names::CROSS_ZONE];
    let [logs, drains, across] = switches.map(|name| read.boolean(name).unwrap_or(false));
    set("AccessLog.Enabled", logs.to_string());
    set("ConnectionDraining.Enabled", drains.to_string());
    set("CrossZoneLoadBalancing.Enabled", across.to_string());
    set("ConnectionSettings.IdleTimeout", "60".to_owned());
    // AWS' defaults: what an annotation said before it was removed would stay otherwise.
    if drains {
        set("ConnectionDraining.Timeout", "300".to_owned());
    }
    if logs {
        set("AccessLog.EmitInterval", "60".to_owned());
        set("AccessLog.S3BucketPrefix", String::new());
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
            set(field, number.to_string());
        }
    }
    if logs {
        match read.text(names::LOGS_BUCKET) {
            Some(bucket) => set("AccessLog.S3BucketName", bucket.to_owned()),
            None => read.mistake(format_args!("{}: is required for logs", names::LOGS_BUCKET)),
        }
        if let Some(folder) = read.text(names::LOGS_PREFIX) {
            set("AccessLog.S3BucketPrefix", folder.to_owned());
        }
    }
    attributes
}
