//! Reports Service fields that Hetzner's load balancers do not support. They have no effect, and an event says so: a
//! client restriction that silently does nothing is worse than an error. Pure.

use ccm_guest::event::listed;
use ccm_guest::load_balancer::Service;
use ccm_guest::{Event, IpFamily};

#[cfg(test)]
mod tests;

/// The reason of every event here.
pub const REASON: &str = "UnsupportedFieldConfigured";
/// The range that restricts no client.
const ANY_SOURCE: &str = "0.0.0.0/0";

/// One event for each set field without effect.
pub fn events(service: &Service) -> impl Iterator<Item = Event> {
    let ranges = &service.source_ranges;
    let is_restricted = !ranges.is_empty() && ranges.iter().all(|range| range != ANY_SOURCE);
    let restricted = is_restricted.then(|| {
        format!(
            "Hetzner's load balancers cannot restrict who connects: the service {} is open to everybody, not only to {}; use a firewall on the nodes, or network policies with externalTrafficPolicy: Local and the proxy protocol",
            service.name,
            listed(ranges)
        )
    });
    let ip = service.requested_ip.as_ref().map(|ip| {
        format!(
            "Hetzner chooses the addresses of load balancers: loadBalancerIP {ip} of service {} has no effect",
            service.name
        )
    });
    let affinity = service.session_affinity_seconds.map(|_| {
        format!(
            "Hetzner's load balancers keep no client at one node: sessionAffinity of service {} has no effect before the node; for HTTP there are sticky sessions by cookie",
            service.name
        )
    });
    let is_v6_only = matches!(service.ip_families.as_slice(), [IpFamily::Ipv6]);
    let families = is_v6_only.then(|| {
        format!(
            "Hetzner's load balancers reach nodes by IPv4 alone: service {}, which has IPv6 alone, gets no traffic; give it IPv4, too, such as with ipFamilyPolicy: PreferDualStack",
            service.name
        )
    });
    let messages = [restricted, ip, affinity, families].into_iter().flatten();
    messages.map(|message| Event::warning(REASON, &message))
}
