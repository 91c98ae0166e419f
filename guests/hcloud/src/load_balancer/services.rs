//! Converts a Service's ports to load balancer services. Annotations apply to all ports alike. Pure.

use std::collections::BTreeMap;

use ccm_guest::event::listed;
use ccm_guest::load_balancer::Service;
use ccm_guest::values::Values;
use ccm_guest::{Event, Protocol};

use super::annotations;
use super::status_addresses::proxy_protocol;
use super::wanted::{
    HealthCheckHttp, ServiceProtocol, WantedHealthCheck, WantedHttp, WantedService,
};
use crate::config::LoadBalancerSettings;

#[cfg(test)]
mod tests;

/// Maximum number of ports. The largest load balancer type takes 30; thousands, each with long annotations, would
/// exhaust the guest's memory.
pub const MAX_PORTS: usize = 256;

/// Message for an invalid port number.
const PORT: &str = "must be a port: a number from 1 to 65535";

/// Returns the services by listen port. `has_certificates` says whether the Service wants certificates.
pub fn read(
    defaults: &LoadBalancerSettings,
    service: &Service,
    has_certificates: bool,
    annotations: &mut Values<'_>,
    events: &mut Vec<Event>,
) -> BTreeMap<u16, WantedService> {
    let proxy_protocol = proxy_protocol(defaults, annotations);
    let protocol = annotations
        .choice(annotations::PROTOCOL, &ServiceProtocol::WORDS)
        .unwrap_or(ServiceProtocol::Tcp);
    let http = http(has_certificates, annotations);
    let check = HealthCheck::read(defaults, protocol, annotations);
    let wanted = ports(service, annotations, events).into_iter();
    wanted
        .map(|(listen_port, destination_port)| {
            let service = WantedService {
                destination_port,
                protocol,
                proxy_protocol,
                http: http.clone(),
                health_check: check.of_port(destination_port),
            };
            (listen_port, service)
        })
        .collect()
}

/// Listen port → node port, without ports that the cloud cannot forward.
fn ports(
    service: &Service,
    annotations: &mut Values<'_>,
    events: &mut Vec<Event>,
) -> BTreeMap<u16, u16> {
    let mut wanted = BTreeMap::new();
    let (mut udp, mut sctp, mut without) = (Vec::new(), Vec::new(), Vec::new());
    for port in &service.ports {
        match (port.protocol, port.node_port.filter(|number| *number > 0)) {
            (Protocol::Udp, _) => udp.push(port.port.to_string()),
            (Protocol::Sctp, _) => sctp.push(port.port.to_string()),
            (Protocol::Tcp, Some(node_port)) => {
                wanted.insert(port.port, node_port);
            }
            (Protocol::Tcp, None) => without.push(port.port.to_string()),
        }
    }
    for (protocol, ports) in [("UDP", udp), ("SCTP", sctp)] {
        if !ports.is_empty() {
            let message = format!(
                "Hetzner's load balancers do not forward {protocol}: port {} of service {} is left out",
                listed(&ports),
                service.name
            );
            events.push(Event::warning("UnsupportedProtocolConfigured", &message));
        }
    }
    if !without.is_empty() {
        annotations.mistake(format_args!(
            "no load balancer can reach a port without node port: {} (see allocateLoadBalancerNodePorts)",
            listed(&without)
        ));
    }
    if wanted.len() > MAX_PORTS {
        annotations.mistake(format_args!(
            "the service has {} ports, and {MAX_PORTS} are allowed",
            wanted.len()
        ));
        wanted.clear();
    }
    wanted
}

fn http(has_certificates: bool, annotations: &mut Values<'_>) -> Option<WantedHttp> {
    let cookie_name = annotations.text(annotations::HTTP_COOKIE_NAME);
    let http = WantedHttp {
        cookie_name: cookie_name.map(str::to_owned),
        cookie_lifetime: annotations::seconds(annotations, annotations::HTTP_COOKIE_LIFETIME),
        redirect_http: annotations.boolean(annotations::HTTP_REDIRECT_HTTP),
        sticky_sessions: annotations.boolean(annotations::HTTP_STICKY_SESSIONS),
        timeout_idle: annotations::seconds(annotations, annotations::HTTP_TIMEOUT_IDLE),
    };
    (has_certificates || http != WantedHttp::default()).then_some(http)
}

/// Health check settings for all ports.
struct HealthCheck {
    /// `None` if nothing is set: then a TCP check of the port is used, whatever its protocol.
    protocol: Option<ServiceProtocol>,
    port: Option<u16>,
    interval: Option<u64>,
    timeout: Option<u64>,
    retries: Option<u32>,
    http: Option<HealthCheckHttp>,
}

impl HealthCheck {
    /// HTTP settings are read only for HTTP checks, and do not enable a check by themselves.
    fn read(
        defaults: &LoadBalancerSettings,
        service_protocol: ServiceProtocol,
        annotations: &mut Values<'_>,
    ) -> HealthCheck {
        let protocol =
            annotations.choice(annotations::HEALTH_CHECK_PROTOCOL, &ServiceProtocol::WORDS);
        let port = annotations
            .parse(annotations::HEALTH_CHECK_PORT, PORT)
            .and_then(|port: u16| match port {
                0 => annotations.wrong(annotations::HEALTH_CHECK_PORT, PORT),
                port => Some(port),
            });
        let interval = annotations::seconds(annotations, annotations::HEALTH_CHECK_INTERVAL)
            .or(defaults.health_check_interval);
        let timeout = annotations::seconds(annotations, annotations::HEALTH_CHECK_TIMEOUT)
            .or(defaults.health_check_timeout);
        let retries = annotations
            .parse(
                annotations::HEALTH_CHECK_RETRIES,
                "must be a number, 0 or more",
            )
            .or(defaults.health_check_retries);
        let is_set = protocol.is_some()
            || port.is_some()
            || interval.is_some()
            || timeout.is_some()
            || retries.is_some();
        let protocol = protocol.unwrap_or(service_protocol);
        let http = match protocol {
            ServiceProtocol::Tcp => None,
            ServiceProtocol::Http | ServiceProtocol::Https => Some(health_check_http(annotations)),
        };
        HealthCheck {
            protocol: is_set.then_some(protocol),
            port,
            interval,
            timeout,
            retries,
            http: http.filter(|_| is_set),
        }
    }

    fn of_port(&self, destination_port: u16) -> WantedHealthCheck {
        WantedHealthCheck {
            protocol: self.protocol.unwrap_or(ServiceProtocol::Tcp),
            port: self.port.unwrap_or(destination_port),
            interval: self.interval,
            timeout: self.timeout,
            retries: self.retries,
            http: self.http.clone(),
        }
    }
}

fn health_check_http(annotations: &mut Values<'_>) -> HealthCheckHttp {
    let domain = annotations.text(annotations::HEALTH_CHECK_HTTP_DOMAIN);
    let path = annotations.text(annotations::HEALTH_CHECK_HTTP_PATH);
    HealthCheckHttp {
        domain: domain.map(str::to_owned),
        path: path.map(str::to_owned),
        status_codes: annotations::parts(annotations, annotations::HTTP_STATUS_CODES),
        tls: annotations.boolean(annotations::HEALTH_CHECK_HTTP_VALIDATE_CERTIFICATE),
    }
}
