//! Accessors for the state recorded in a Service. Decides nothing.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::effect::ServiceRef;
use crate::cloud::load_balancer::{Ingress, IpMode, LoadBalancerStatus, PortStatus, Protocol};
use crate::well_known::{LOAD_BALANCER_FINALIZER, SERVICE_OWNER};

/// Whether the type is LoadBalancer.
pub fn is_load_balancer(service: &Service) -> bool {
    service_type(service) == "LoadBalancer"
}

/// SVC-011, as upstream: our finalizer is set but no load balancer is wanted.
pub fn needs_cleanup(service: &Service) -> bool {
    has_finalizer(service) && (is_deleting(service) || !is_load_balancer(service))
}

/// Whether the Service wants a load balancer, or shows that there may be one.
pub fn is_relevant(service: &Service) -> bool {
    is_load_balancer(service) || has_finalizer(service) || recorded_owner(service).is_some()
}

/// Whether the finalizer is set that keeps a Service until its load balancer is gone.
pub fn has_finalizer(service: &Service) -> bool {
    finalizers(service)
        .iter()
        .any(|one| one == LOAD_BALANCER_FINALIZER)
}

pub(super) fn finalizers(service: &Service) -> &[String] {
    service.metadata.finalizers.as_deref().unwrap_or_default()
}

pub(super) fn is_deleting(service: &Service) -> bool {
    service.metadata.deletion_timestamp.is_some()
}

/// The recorded owner. An empty annotation counts as none.
pub fn recorded_owner(service: &Service) -> Option<&str> {
    annotations(service)
        .get(SERVICE_OWNER)
        .map(String::as_str)
        .filter(|name| !name.is_empty())
}

pub(super) fn annotations(service: &Service) -> &BTreeMap<String, String> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    service.metadata.annotations.as_ref().unwrap_or(&NONE)
}

/// `spec.loadBalancerClass`. An empty string counts as a class (SVC-010).
pub(super) fn class(service: &Service) -> Option<&str> {
    spec(service)?.load_balancer_class.as_deref()
}

pub(super) fn spec(service: &Service) -> Option<&ServiceSpec> {
    service.spec.as_ref()
}

pub(super) fn service_type(service: &Service) -> &str {
    let named = spec(service).and_then(|spec| spec.type_.as_deref());
    named.unwrap_or("ClusterIP")
}

/// The `metadata.uid` of `service`; empty if there is none.
pub fn uid(service: &Service) -> &str {
    service.metadata.uid.as_deref().unwrap_or_default()
}

/// Namespace, name and UID of `service`.
pub fn service_ref(service: &Service) -> ServiceRef {
    let metadata = &service.metadata;
    ServiceRef {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: uid(service).to_owned(),
    }
}

/// Whether `status.loadBalancer` has an IP.
pub fn has_address(service: &Service) -> bool {
    let status = load_balancer_status(service);
    status
        .ingress
        .iter()
        .any(|one| one.canonical_ip().is_some())
}

/// `status.loadBalancer`. Values that the API does not define are dropped, so that they compare as different.
pub(super) fn load_balancer_status(service: &Service) -> LoadBalancerStatus {
    let status = service.status.as_ref();
    let load_balancer = status.and_then(|status| status.load_balancer.as_ref());
    let ingress = load_balancer.and_then(|stored| stored.ingress.as_deref());
    LoadBalancerStatus {
        ingress: ingress.unwrap_or_default().iter().map(read).collect(),
    }
}

pub(super) fn condition<'a>(service: &'a Service, kind: &str) -> Option<&'a Condition> {
    let conditions = service.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|one| one.type_ == kind)
}

fn read(stored: &LoadBalancerIngress) -> Ingress {
    let ports = stored.ports.as_deref().unwrap_or_default();
    Ingress {
        ip: stored.ip.clone().filter(|ip| !ip.is_empty()),
        hostname: stored.hostname.clone().filter(|name| !name.is_empty()),
        ip_mode: stored.ip_mode.as_deref().and_then(IpMode::parse),
        ports: ports
            .iter()
            .filter_map(|one| {
                Some(PortStatus {
                    port: u16::try_from(one.port).ok()?,
                    protocol: Protocol::parse(&one.protocol)?,
                    error: one.error.clone(),
                })
            })
            .collect(),
    }
}
