//! Converts a Kubernetes Service to what a provider may see; never the whole object. Decides nothing.

use k8s_openapi::api::core::v1::{Service, ServicePort as StoredPort};

use super::source_ranges::source_ranges;
use super::stored_state::{
    annotations, is_load_balancer, load_balancer_status, service_ref, service_type, spec,
};
use crate::cloud::load_balancer::{
    CloudService, IpFamily, IpFamilyPolicy, Protocol, ServicePort, TrafficPolicy,
};
use crate::name_syntax::is_within;
use crate::well_known::{LAST_APPLIED, OUR_DOMAIN};

/// Path at which kube-proxy reports whether a node has endpoints (SVC-092).
const HEALTH_CHECK_PATH: &str = "/healthz";

/// The provider's view of `service`.
pub fn cloud_service(service: &Service) -> CloudService {
    let named = service_ref(service);
    let spec = spec(service);
    let annotations = annotations(service).iter();
    let ports = spec.and_then(|spec| spec.ports.as_deref());
    let families = spec.and_then(|spec| spec.ip_families.as_deref());
    CloudService {
        namespace: named.namespace,
        name: named.name,
        uid: named.uid,
        annotations: annotations
            .filter(|(key, _)| is_shown(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        labels: service.metadata.labels.clone().unwrap_or_default(),
        ports: ports.unwrap_or_default().iter().filter_map(port).collect(),
        class: spec.and_then(|spec| spec.load_balancer_class.clone()),
        requested_ip: spec
            .and_then(|spec| spec.load_balancer_ip.clone())
            .filter(|ip| !ip.is_empty()),
        source_ranges: shown_ranges(service),
        external_traffic_policy: traffic_policy(service),
        health_check_node_port: health_check(service).map(|(_, port)| port),
        ip_families: families
            .unwrap_or_default()
            .iter()
            .filter_map(|family| IpFamily::parse(family))
            .collect(),
        ip_family_policy: spec
            .and_then(|spec| IpFamilyPolicy::parse(spec.ip_family_policy.as_deref()?)),
        session_affinity_seconds: affinity(service),
        cluster_ips: spec
            .and_then(|spec| spec.cluster_ips.clone())
            .unwrap_or_default(),
        status: load_balancer_status(service),
    }
}

/// Whether providers see the annotation with this key.
pub(super) fn is_shown(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    key != LAST_APPLIED && !is_within(domain, OUR_DOMAIN)
}

/// Whether kube-proxy forwards external traffic only to endpoints on the receiving node.
pub fn requests_only_local_traffic(service: &Service) -> bool {
    let is_exposed = matches!(service_type(service), "LoadBalancer" | "NodePort");
    is_exposed && traffic_policy(service) == Some(TrafficPolicy::Local)
}

fn traffic_policy(service: &Service) -> Option<TrafficPolicy> {
    TrafficPolicy::parse(spec(service)?.external_traffic_policy.as_deref()?)
}

/// Whether the load balancer has to check which nodes have endpoints.
pub fn needs_health_check(service: &Service) -> bool {
    is_load_balancer(service) && requests_only_local_traffic(service)
}

/// Path and port of that health check.
pub fn health_check(service: &Service) -> Option<(&'static str, u16)> {
    if !needs_health_check(service) {
        return None;
    }
    let port = spec(service)?.health_check_node_port?;
    let port = u16::try_from(port).ok().filter(|port| *port != 0)?;
    Some((HEALTH_CHECK_PATH, port))
}

/// Empty when nothing is configured, which allows everyone. Unparsable ranges are passed verbatim: such a Service only
/// reaches the provider for target updates and removal.
fn shown_ranges(service: &Service) -> Vec<String> {
    let in_spec = spec(service).and_then(|spec| spec.load_balancer_source_ranges.as_ref());
    let has_spec = in_spec.is_some_and(|ranges| !ranges.is_empty());
    let annotation = annotations(service).get(crate::well_known::SOURCE_RANGES);
    if !has_spec && annotation.is_none_or(|text| text.trim().is_empty()) {
        return Vec::new();
    }
    match source_ranges(service) {
        Ok(ranges) => ranges.iter().map(ToString::to_string).collect(),
        Err(_) if has_spec => in_spec.cloned().unwrap_or_default(),
        Err(_) => annotation.cloned().into_iter().collect(),
    }
}

fn port(stored: &StoredPort) -> Option<ServicePort> {
    let number = |port: i32| u16::try_from(port).ok().filter(|port| *port != 0);
    Some(ServicePort {
        name: stored.name.clone().filter(|name| !name.is_empty()),
        protocol: match stored.protocol.as_deref() {
            None => Protocol::Tcp,
            Some(text) => Protocol::parse(text)?,
        },
        app_protocol: stored.app_protocol.clone(),
        port: number(stored.port)?,
        node_port: stored.node_port.and_then(number),
    })
}

fn affinity(service: &Service) -> Option<u32> {
    /// The default of the API server.
    const DEFAULT_SECONDS: u32 = 10_800;
    let spec = spec(service)?;
    if spec.session_affinity.as_deref() != Some("ClientIP") {
        return None;
    }
    let config = spec.session_affinity_config.as_ref();
    let seconds = config
        .and_then(|config| config.client_ip.as_ref())
        .and_then(|client| client.timeout_seconds)
        .and_then(|seconds| u32::try_from(seconds).ok());
    Some(seconds.unwrap_or(DEFAULT_SECONDS))
}
