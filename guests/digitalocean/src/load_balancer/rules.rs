//! The forwarding rules of a Service. Pure.
//!
//! A load balancer of type `REGIONAL` terminates connections and sends to node ports. One of type `REGIONAL_NETWORK`
//! forwards packets to the port that they came to.

use std::collections::BTreeSet;

use ccm_guest::Protocol;
use ccm_guest::load_balancer::{Service, ServicePort};
use ccm_guest::values::{Values, parse_boolean};
use serde_json::{Value, json};

use super::annotations::{self as annotation, choice, number, ports};
use crate::config::Type;

/// The certificate of the rules that terminate TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificate {
    /// No rule needs a certificate.
    None,
    /// The certificate with this id.
    Id(String),
    /// The certificate with this name.
    Name(String),
}

/// How a rule treats TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tls {
    None,
    /// Terminated with the certificate.
    Ended,
    /// Forwarded as it is.
    Passed,
}

/// A forwarding rule for one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    entry_protocol: &'static str,
    entry_port: u16,
    target_protocol: &'static str,
    target_port: u16,
    tls: Tls,
}

impl Rule {
    /// The API's rule. It contains `certificate`, an id, only if the rule terminates TLS.
    pub fn body(&self, certificate: &str) -> Value {
        let mut body = json!({
            "entry_protocol": self.entry_protocol,
            "entry_port": self.entry_port,
            "target_protocol": self.target_protocol,
            "target_port": self.target_port,
        });
        match self.tls {
            Tls::None => {}
            Tls::Ended => body["certificate_id"] = json!(certificate),
            Tls::Passed => body["tls_passthrough"] = json!(true),
        }
        body
    }

    /// Whether the rule terminates TLS.
    pub fn ends_tls(&self) -> bool {
        self.tls == Tls::Ended
    }
}

const TCP: &str = "tcp";
const UDP: &str = "udp";
const HTTP: &str = "http";
const HTTPS: &str = "https";
const HTTP2: &str = "http2";
const HTTP3: &str = "http3";
/// The port that uses HTTPS by default, if there is a certificate or TLS is forwarded, and no annotation names a port.
const SECURE_PORT: u16 = 443;
/// Maximum number of ports. Ten thousands, which a Service without node ports can have, would exhaust the guest's memory.
const MAX_PORTS: usize = 256;

/// The rules of a load balancer of this type.
pub fn rules(kind: Type, service: &Service, read: &mut Values<'_>) -> Vec<Rule> {
    let count = service.ports.len();
    if count > MAX_PORTS {
        read.mistake(format_args!(
            "the Service has {count} ports, and {MAX_PORTS} are allowed"
        ));
        return Vec::new();
    }
    match kind {
        Type::RegionalNetwork => passed_on(service, read),
        Type::Regional => ended(service, read),
    }
}

fn passed_on(service: &Service, read: &mut Values<'_>) -> Vec<Rule> {
    let rules = service.ports.iter().filter_map(|port| {
        let protocol = transport(port, read)?;
        Some(Rule {
            entry_protocol: protocol,
            entry_port: port.port,
            target_protocol: protocol,
            target_port: port.port,
            tls: Tls::None,
        })
    });
    rules.collect()
}

fn ended(service: &Service, read: &mut Values<'_>) -> Vec<Rule> {
    let words = [TCP, HTTP, HTTPS, HTTP2, HTTP3].map(|word| (word, word));
    let default = choice(read, annotation::PROTOCOL, &words).unwrap_or(TCP);
    let http = ports(read, annotation::HTTP_PORTS);
    let mut https = ports(read, annotation::TLS_PORTS);
    let http2 = ports(read, annotation::HTTP2_PORTS);
    let mut seen = BTreeSet::new();
    let all = http.iter().chain(&https).chain(&http2);
    let shared: Vec<String> = all
        .filter(|port| !seen.insert(**port))
        .map(u16::to_string)
        .collect();
    if !shared.is_empty() {
        read.mistake(format_args!(
            "ports are named by more than one annotation: {}",
            shared.join(", ")
        ));
    }
    let passes = passes_tls(read);
    let has_certificate = certificate(read) != Certificate::None;
    if (has_certificate || passes) && https.is_empty() && !http2.contains(&SECURE_PORT) {
        https.push(SECURE_PORT);
    }
    let mut rules = Vec::new();
    for port in &service.ports {
        let Some(transport) = transport(port, read) else {
            continue;
        };
        let protocol = match transport {
            UDP => UDP,
            _ if http2.contains(&port.port) => HTTP2,
            _ if https.contains(&port.port) => HTTPS,
            _ if http.contains(&port.port) => HTTP,
            _ => default,
        };
        let tls = match protocol {
            HTTPS | HTTP2 => how_tls(has_certificate, passes, read),
            _ => Tls::None,
        };
        rules.push(Rule {
            entry_protocol: protocol,
            entry_port: port.port,
            target_protocol: if tls == Tls::Ended { HTTP } else { protocol },
            target_port: node_port(port, read),
            tls,
        });
    }
    if let Some(http3) = number(read, annotation::HTTP3_PORT) {
        if passes || !has_certificate {
            let key = annotation::HTTP3_PORT;
            read.mistake(format_args!(
                "{key}: HTTP/3 needs a certificate, and excludes passing TLS on"
            ));
        }
        let port = service
            .ports
            .iter()
            .find(|port| u32::from(port.port) == http3);
        rules.extend(port.map(|port| Rule {
            entry_protocol: HTTP3,
            entry_port: port.port,
            target_protocol: HTTP,
            target_port: node_port(port, read),
            tls: Tls::Ended,
        }));
    }
    rules
}

fn how_tls(has_certificate: bool, passes: bool, read: &mut Values<'_>) -> Tls {
    match (has_certificate, passes) {
        (true, false) => Tls::Ended,
        (false, true) => Tls::Passed,
        (true, true) => {
            read.mistake("a certificate excludes passing TLS on");
            Tls::Passed
        }
        (false, false) => {
            read.mistake("HTTPS and HTTP/2 need a certificate, or TLS passed on");
            Tls::Passed
        }
    }
}

/// The certificate that the annotations name; an id takes precedence over a name.
pub fn certificate(read: &mut Values<'_>) -> Certificate {
    let id = read.trimmed(annotation::CERTIFICATE_ID);
    let id = id.map(|id| Certificate::Id(id.to_owned()));
    let name = read.trimmed(annotation::CERTIFICATE_NAME);
    let name = name.map(|name| Certificate::Name(name.to_owned()));
    id.or(name).unwrap_or(Certificate::None)
}

/// As in the Go manager, a value that is no boolean counts as false, for this annotation only.
fn passes_tls(read: &mut Values<'_>) -> bool {
    let value = read.text(annotation::TLS_PASSTHROUGH);
    value.and_then(parse_boolean).unwrap_or(false)
}

fn transport(port: &ServicePort, read: &mut Values<'_>) -> Option<&'static str> {
    match port.protocol {
        Protocol::Tcp => Some(TCP),
        Protocol::Udp => Some(UDP),
        Protocol::Sctp => {
            read.mistake(format_args!("port {}: SCTP is not supported", port.port));
            None
        }
    }
}

/// The node port; 0 after a mistake, which is recorded.
pub fn node_port(port: &ServicePort, read: &mut Values<'_>) -> u16 {
    if port.node_port.is_none() {
        read.mistake(format_args!(
            "port {}: a load balancer of type REGIONAL needs a node port",
            port.port
        ));
    }
    port.node_port.unwrap_or_default()
}
