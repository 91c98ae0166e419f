//! Test fixtures: plain Services, nodes and configurations.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::load_balancer::{Service, ServicePort};
use ccm_guest::testing::{self, config, node};
use ccm_guest::{Address, Node, Protocol};

use crate::config::Settings;

pub mod project;

/// Keys and values of annotations or configuration.
pub type Pairs<'a> = &'a [(&'a str, &'a str)];

/// The UID of the Service made by [`service`].
pub const UID: &str = "0b1f6d5e-7a3c-4c55-9e0a-2f1d3b4c5a69";

/// A Service with the port 80, node port 30080, and these annotations.
pub fn service(annotations: Pairs<'_>) -> Service {
    let annotations = annotations.iter();
    Service {
        uid: UID.to_owned(),
        annotations: annotations
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        ..testing::service("web", &[(80, 30080)])
    }
}

/// A port of a Service; the protocol is that of the Service, not of the load balancer.
pub fn port(protocol: Protocol, port: u16, node_port: Option<u16>) -> ServicePort {
    ServicePort {
        name: None,
        protocol,
        app_protocol: None,
        port,
        node_port,
    }
}

/// The settings read from a configuration with these values.
pub fn settings(values: Pairs<'_>) -> Settings {
    Settings::read(&config(values)).unwrap()
}

/// The settings from these values, where only these targets are granted.
pub fn granted(targets: &[&str], values: Pairs<'_>) -> Settings {
    Settings::read(&testing::granting(config(values), targets)).unwrap()
}

/// A node with an InternalIP.
pub fn node_at(name: &str, provider_id: &str, internal_ip: &str) -> Node {
    Node {
        addresses: vec![Address::internal(internal_ip)],
        ..node(name, Some(provider_id))
    }
}
