//! JSON view of a load balancer.

use serde_json::{Value, json};

use super::load_balancer_objects::{LoadBalancer, Protocol, Service, Target};
use super::objects::ServerStatus;
use super::query::LabelSelector;
use super::server_types::included_traffic;
use super::world::{World, in_whole_seconds};

/// The load balancer with all of the vendor's fields.
pub(super) fn show(world: &World, balancer: &LoadBalancer) -> Value {
    let spec = &balancer.spec;
    let is_known = !(world.load_balancer_rules.late_addresses && world.is_being_made(balancer.id));
    let address_id = u64::from(balancer.number) * 2 + 1;
    let public = json!({
        "enabled": spec.public_interface,
        "ipv4": {
            "id": address_id, "blocked": false,
            "ip": is_known.then(|| balancer.public_ipv4().to_string()),
            "dns_ptr": is_known.then(|| balancer.ipv4_dns_ptr()),
        },
        "ipv6": {
            "id": address_id + 1, "blocked": false,
            "ip": is_known.then(|| balancer.public_ipv6().to_string()),
            "dns_ptr": spec.ipv6_dns_ptr.as_ref().filter(|_| is_known),
        },
    });
    let private: Vec<Value> = balancer
        .private_net
        .filter(|_| is_known)
        .into_iter()
        .map(|net| json!({"network": net.network, "ip": net.ip.to_string()}))
        .collect();
    let services: Vec<Value> = spec.services.iter().map(show_service).collect();
    let targets: Vec<Value> = spec
        .targets
        .iter()
        .map(|target| show_target(world, balancer, target))
        .collect();
    json!({
        "id": balancer.id, "name": spec.name, "labels": spec.labels,
        "created": in_whole_seconds(balancer.created).to_string(),
        "public_net": public, "private_net": private,
        "location": spec.location.json(),
        "load_balancer_type": spec.load_balancer_type.json(world),
        "protection": {"delete": spec.delete_protected},
        "algorithm": {"type": spec.algorithm.name()},
        "services": services, "targets": targets,
        "ingoing_traffic": 0, "outgoing_traffic": 0,
        "included_traffic": included_traffic(spec.location),
    })
}

fn show_service(service: &Service) -> Value {
    let check = &service.health_check;
    let mut shown_check = json!({
        "protocol": if check.http.is_some() { "http" } else { "tcp" },
        "port": check.port, "interval": check.interval, "timeout": check.timeout,
        "retries": check.retries,
    });
    if let Some(http) = &check.http {
        shown_check["http"] = json!({
            "domain": http.domain, "path": http.path, "response": http.response,
            "status_codes": http.status_codes, "tls": http.tls,
        });
    }
    let mut shown = json!({
        "protocol": service.protocol.name(), "listen_port": service.listen_port,
        "destination_port": service.destination_port, "proxyprotocol": service.proxyprotocol,
        "health_check": shown_check,
    });
    if service.protocol != Protocol::Tcp {
        let http = &service.http;
        shown["http"] = json!({
            "cookie_name": http.cookie_name, "cookie_lifetime": http.cookie_lifetime,
            "timeout_idle": http.timeout_idle, "certificates": http.certificates,
            "redirect_http": http.redirect_http, "sticky_sessions": http.sticky_sessions,
        });
    }
    shown
}

fn show_target(world: &World, balancer: &LoadBalancer, target: &Target) -> Value {
    match target {
        Target::Server { id, use_private_ip } => show_server(world, balancer, *id, *use_private_ip),
        Target::LabelSelector {
            selector,
            use_private_ip,
        } => {
            // Requests were validated; an invalid selector set by a test matches nothing.
            let servers = world.servers.values().filter(|server| {
                LabelSelector::read(selector).is_ok_and(|read| read.matches(&server.spec.labels))
            });
            let servers: Vec<Value> = servers
                .map(|server| show_server(world, balancer, server.id, *use_private_ip))
                .collect();
            json!({
                "type": "label_selector", "label_selector": {"selector": selector},
                "use_private_ip": use_private_ip, "targets": servers,
            })
        }
        // The health of machines outside the project is unknown here.
        Target::Ip(ip) => json!({
            "type": "ip", "ip": {"ip": ip.to_string()},
            "health_status": health(balancer, "unknown"),
        }),
    }
}

fn show_server(world: &World, balancer: &LoadBalancer, id: u64, use_private_ip: bool) -> Value {
    let status = world.servers.get(&id).map(|server| server.spec.status);
    let word = match status {
        _ if world.is_being_made(balancer.id) => "unknown",
        Some(ServerStatus::Running) => "healthy",
        _ => "unhealthy",
    };
    json!({
        "type": "server", "server": {"id": id}, "use_private_ip": use_private_ip,
        "health_status": health(balancer, word),
    })
}

/// Health of one target by service: running servers are healthy, others unreachable.
fn health(balancer: &LoadBalancer, word: &str) -> Vec<Value> {
    let detail = (word == "unhealthy").then_some("layer4_no_connection");
    let services = balancer.spec.services.iter();
    services
        .map(|service| {
            json!({
                "listen_port": service.listen_port, "status": word,
                "detail": detail, "http_status_code": null,
            })
        })
        .collect()
}
