//! Converts a load balancer to a Service's status. Pure.

use ccm_guest::{Ingress, LoadBalancerStatus};

use super::api::LoadBalancer;

/// The Service's status: only the annotated host name, if there is one, because clients must use it; otherwise the
/// addresses. Empty while there is no address.
pub fn status(hostname: Option<&str>, found: &LoadBalancer) -> LoadBalancerStatus {
    match hostname {
        Some(hostname) => LoadBalancerStatus::new([Ingress::hostname(hostname)]),
        None => LoadBalancerStatus::new(found.addresses().map(Ingress::ip)),
    }
}
