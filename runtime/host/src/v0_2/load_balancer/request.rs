//! Converts a Service for a guest. Everything is passed on unchanged; nothing here can fail.

use ccm_core::cloud::load_balancer::{
    CloudService, Ingress, IpFamily, LoadBalancerStatus, PortStatus, ServicePort,
};

use crate::bindings::{common, load_balancer};
use crate::v0_2::pairs;

impl From<&CloudService> for load_balancer::Service {
    fn from(service: &CloudService) -> load_balancer::Service {
        load_balancer::Service {
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            uid: service.uid.clone(),
            annotations: pairs(service.annotations.iter()),
            labels: pairs(service.labels.iter()),
            ports: service.ports.iter().map(Into::into).collect(),
            class: service.class.clone(),
            requested_ip: service.requested_ip.clone(),
            source_ranges: service.source_ranges.clone(),
            external_traffic_policy: service.external_traffic_policy.map(Into::into),
            health_check_node_port: service.health_check_node_port,
            ip_families: service
                .ip_families
                .iter()
                .copied()
                .map(Into::into)
                .collect(),
            ip_family_policy: service.ip_family_policy.map(Into::into),
            session_affinity_seconds: service.session_affinity_seconds,
            cluster_ips: service.cluster_ips.clone(),
            status: (&service.status).into(),
            extra: Vec::new(),
        }
    }
}

impl From<&ServicePort> for load_balancer::ServicePort {
    fn from(port: &ServicePort) -> load_balancer::ServicePort {
        load_balancer::ServicePort {
            name: port.name.clone(),
            protocol: port.protocol.into(),
            app_protocol: port.app_protocol.clone(),
            port: port.port,
            node_port: port.node_port,
        }
    }
}

impl From<IpFamily> for common::IpFamily {
    fn from(family: IpFamily) -> common::IpFamily {
        match family {
            IpFamily::V4 => common::IpFamily::Ipv4,
            IpFamily::V6 => common::IpFamily::Ipv6,
        }
    }
}

impl From<&LoadBalancerStatus> for common::LoadBalancerStatus {
    fn from(status: &LoadBalancerStatus) -> common::LoadBalancerStatus {
        common::LoadBalancerStatus {
            ingress: status.ingress.iter().map(Into::into).collect(),
        }
    }
}

impl From<&Ingress> for common::Ingress {
    fn from(ingress: &Ingress) -> common::Ingress {
        common::Ingress {
            ip: ingress.ip.clone(),
            hostname: ingress.hostname.clone(),
            ip_mode: ingress.ip_mode.map(Into::into),
            ports: ingress.ports.iter().map(Into::into).collect(),
        }
    }
}

impl From<&PortStatus> for common::PortStatus {
    fn from(port: &PortStatus) -> common::PortStatus {
        common::PortStatus {
            port: port.port,
            protocol: port.protocol.into(),
            error: port.error.clone(),
        }
    }
}
