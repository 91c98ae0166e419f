//! Constructors for the records of the contract. Prefer them to struct literals: a later version of the contract may
//! add fields.

use std::net::IpAddr;

use crate::{
    Address, AddressType, AnnotationChange, Error, Failure, Ingress, Instance, IpMode,
    LoadBalancerStatus, NamespacedName, Owner, PortStatus, Protocol, load_balancer, routes,
};

#[cfg(test)]
mod tests;

impl Address {
    /// A name of the machine that is no IP address.
    pub fn hostname(name: impl ToString) -> Address {
        Address::new(AddressType::Hostname, name)
    }

    /// The IP address, if it is one: names are none. An IPv4 address that is written as IPv6 is the IPv4 address, as it is
    /// for the manager.
    pub fn ip(&self) -> Option<IpAddr> {
        let ip: Option<IpAddr> = self.address.trim().parse().ok();
        ip.map(|ip| ip.to_canonical())
    }

    /// An IP address in the cluster's network.
    pub fn internal(ip: impl ToString) -> Address {
        Address::new(AddressType::InternalIp, ip)
    }

    /// An IP address that is reachable from outside.
    pub fn external(ip: impl ToString) -> Address {
        Address::new(AddressType::ExternalIp, ip)
    }

    /// An address of any type.
    pub fn new(address_type: AddressType, address: impl ToString) -> Address {
        Address {
            address_type,
            address: address.to_string(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        error.with_events(Vec::new())
    }
}

impl Owner {
    /// The Service (or Node) with this UID.
    pub fn uid(uid: impl Into<String>) -> Owner {
        Owner::Uid(uid.into())
    }

    /// The Service of this name, for clouds that keep no UID.
    pub fn name(namespace: impl Into<String>, name: impl Into<String>) -> Owner {
        Owner::Name(NamespacedName {
            namespace: namespace.into(),
            name: name.into(),
        })
    }
}

impl Instance {
    /// An instance with a provider ID and nothing else.
    pub fn new(provider_id: impl Into<String>) -> Instance {
        Instance {
            provider_id: provider_id.into(),
            instance_type: None,
            zone: None,
            region: None,
            addresses: Vec::new(),
            labels: Vec::new(),
            shutdown: None,
            extra: Vec::new(),
        }
    }
}

impl AnnotationChange {
    /// Sets an annotation of the Service to a value of at most 4096 bytes.
    pub fn set(key: impl Into<String>, value: impl Into<String>) -> AnnotationChange {
        AnnotationChange {
            key: key.into(),
            value: Some(value.into()),
        }
    }

    /// Removes an annotation from the Service.
    pub fn remove(key: impl Into<String>) -> AnnotationChange {
        AnnotationChange {
            key: key.into(),
            value: None,
        }
    }
}

impl LoadBalancerStatus {
    /// A status with these addresses in this order, at most 16: the host refuses the whole reply for more.
    pub fn new(ingress: impl IntoIterator<Item = Ingress>) -> LoadBalancerStatus {
        LoadBalancerStatus {
            ingress: ingress.into_iter().collect(),
        }
    }
}

impl Ingress {
    /// An entry of `status.loadBalancer.ingress` with an IP address.
    pub fn ip(ip: impl ToString) -> Ingress {
        Ingress {
            ip: Some(ip.to_string()),
            hostname: None,
            ip_mode: None,
            ports: Vec::new(),
        }
    }

    /// An entry of `status.loadBalancer.ingress` with a DNS name.
    pub fn hostname(name: impl Into<String>) -> Ingress {
        Ingress {
            ip: None,
            hostname: Some(name.into()),
            ip_mode: None,
            ports: Vec::new(),
        }
    }

    /// Sets `ipMode`, how kube-proxy treats the IP address. Without it the cluster's default applies.
    #[must_use]
    pub fn with_mode(self, mode: IpMode) -> Ingress {
        Ingress {
            ip_mode: Some(mode),
            ..self
        }
    }

    /// Sets the status of each port, at most 256: the host refuses the whole reply for more.
    #[must_use]
    pub fn with_ports(self, ports: Vec<PortStatus>) -> Ingress {
        Ingress { ports, ..self }
    }
}

impl PortStatus {
    /// The status of a port that works.
    pub fn new(port: u16, protocol: Protocol) -> PortStatus {
        PortStatus {
            port,
            protocol,
            error: None,
        }
    }

    /// Sets why the port does not work: a CamelCase word such as `NoCertificate`, or a qualified name such as
    /// `acme.example/no-certificate`.
    #[must_use]
    pub fn with_error(self, error: impl Into<String>) -> PortStatus {
        PortStatus {
            error: Some(error.into()),
            ..self
        }
    }
}

impl load_balancer::EnsureRequest {
    /// A first request, without adoption and hint.
    pub fn new(
        service: load_balancer::Service,
        targets: Vec<crate::Node>,
    ) -> load_balancer::EnsureRequest {
        load_balancer::EnsureRequest {
            service,
            targets,
            adopt: None,
            hint: None,
        }
    }
}

impl load_balancer::UpdateRequest {
    /// A first request, without hint.
    pub fn new(
        service: load_balancer::Service,
        targets: Vec<crate::Node>,
    ) -> load_balancer::UpdateRequest {
        load_balancer::UpdateRequest {
            service,
            targets,
            hint: None,
        }
    }
}

impl load_balancer::DeleteRequest {
    /// A first request, without hint.
    pub fn new(service: load_balancer::Service) -> load_balancer::DeleteRequest {
        load_balancer::DeleteRequest {
            service,
            hint: None,
        }
    }
}

impl routes::Route {
    /// A route to `destination` in canonical CIDR form; `id` identifies it at the cloud.
    pub fn new(
        id: impl ToString,
        destination: impl Into<String>,
        target: routes::Target,
    ) -> routes::Route {
        routes::Route {
            id: id.to_string(),
            destination_cidr: destination.into(),
            target,
            extra: Vec::new(),
        }
    }
}

impl routes::CreateRequest {
    /// A first request, without hint.
    pub fn new(node: crate::Node, destination: impl Into<String>) -> routes::CreateRequest {
        routes::CreateRequest {
            node,
            destination_cidr: destination.into(),
            hint: None,
        }
    }
}

impl routes::DeleteRequest {
    /// A first request, without hint.
    pub fn new(route: routes::Route) -> routes::DeleteRequest {
        routes::DeleteRequest { route, hint: None }
    }
}
