//! Service annotations that configure a load balancer, and readers for the forms that only Hetzner uses. Values are
//! parsed as in the Go manager, so that existing Services keep working.

use ccm_guest::values::Values;

use crate::address_range::read_cidr;

#[cfg(test)]
mod tests;

/// Reverse DNS name of the public IPv4 address.
pub const IPV4_RDNS: &str = "load-balancer.hetzner.cloud/ipv4-rdns";
/// Reverse DNS name of the public IPv6 address.
pub const IPV6_RDNS: &str = "load-balancer.hetzner.cloud/ipv6-rdns";
/// Whether the status omits the public IPv6 address.
pub const IPV6_DISABLED: &str = "load-balancer.hetzner.cloud/ipv6-disabled";
/// The load balancer's name in the project.
pub const NAME: &str = "load-balancer.hetzner.cloud/name";
/// Whether the public interface is disabled.
pub const DISABLE_PUBLIC_NETWORK: &str = "load-balancer.hetzner.cloud/disable-public-network";
/// Whether the status omits the private addresses.
pub const DISABLE_PRIVATE_INGRESS: &str = "load-balancer.hetzner.cloud/disable-private-ingress";
/// Whether targets are reached by their private addresses.
pub const USE_PRIVATE_IP: &str = "load-balancer.hetzner.cloud/use-private-ip";
/// The load balancer's private address.
pub const PRIVATE_IPV4: &str = "load-balancer.hetzner.cloud/private-ipv4";
/// The subnet of the load balancer's private address.
pub const PRIVATE_SUBNET_IP_RANGE: &str = "load-balancer.hetzner.cloud/private-subnet-ip-range";
/// Host name in the status, instead of addresses.
pub const HOSTNAME: &str = "load-balancer.hetzner.cloud/hostname";
/// Protocol of all ports: `tcp`, `http` or `https`.
pub const PROTOCOL: &str = "load-balancer.hetzner.cloud/protocol";
/// How connections are distributed: `round_robin` or `least_connections`.
pub const ALGORITHM_TYPE: &str = "load-balancer.hetzner.cloud/algorithm-type";
/// Load balancer type, such as `lb11`.
pub const TYPE: &str = "load-balancer.hetzner.cloud/type";
/// Location, such as `fsn1`.
pub const LOCATION: &str = "load-balancer.hetzner.cloud/location";
/// Network zone, such as `eu-central`.
pub const NETWORK_ZONE: &str = "load-balancer.hetzner.cloud/network-zone";
/// Label selector of the nodes that become targets.
pub const NODE_SELECTOR: &str = "load-balancer.hetzner.cloud/node-selector";
/// Whether targets get the client's address by the proxy protocol.
pub const USES_PROXYPROTOCOL: &str = "load-balancer.hetzner.cloud/uses-proxyprotocol";
/// The name of the cookie for sticky sessions.
pub const HTTP_COOKIE_NAME: &str = "load-balancer.hetzner.cloud/http-cookie-name";
/// Lifetime of the cookie: a duration, although the Go manager's documentation says number.
pub const HTTP_COOKIE_LIFETIME: &str = "load-balancer.hetzner.cloud/http-cookie-lifetime";
/// Time until an idle HTTP connection is closed: a duration.
pub const HTTP_TIMEOUT_IDLE: &str = "load-balancer.hetzner.cloud/http-timeout-idle";
/// Source of the certificates: `uploaded` or `managed`.
pub const CERTIFICATE_TYPE: &str = "load-balancer.hetzner.cloud/certificate-type";
/// Certificate ids and names, separated by commas.
pub const HTTP_CERTIFICATES: &str = "load-balancer.hetzner.cloud/http-certificates";
/// Name of the managed certificate.
pub const HTTP_MANAGED_CERTIFICATE_NAME: &str =
    "load-balancer.hetzner.cloud/http-managed-certificate-name";
/// Whether the managed certificate comes from the staging CA, for tests. Used by Hetzner itself.
pub const HTTP_MANAGED_CERTIFICATE_ACME_STAGING: &str =
    "load-balancer.hetzner.cloud/http-managed-certificate-acme-staging";
/// The domains of the managed certificate.
pub const HTTP_MANAGED_CERTIFICATE_DOMAINS: &str =
    "load-balancer.hetzner.cloud/http-managed-certificate-domains";
/// Whether port 80 redirects to HTTPS.
pub const HTTP_REDIRECT_HTTP: &str = "load-balancer.hetzner.cloud/http-redirect-http";
/// Whether a client stays at the same target.
pub const HTTP_STICKY_SESSIONS: &str = "load-balancer.hetzner.cloud/http-sticky-sessions";
/// Protocol of the health check: `tcp`, `http` or `https`.
pub const HEALTH_CHECK_PROTOCOL: &str = "load-balancer.hetzner.cloud/health-check-protocol";
/// Port of the target for the health check.
pub const HEALTH_CHECK_PORT: &str = "load-balancer.hetzner.cloud/health-check-port";
/// Time between two health checks: a duration.
pub const HEALTH_CHECK_INTERVAL: &str = "load-balancer.hetzner.cloud/health-check-interval";
/// Time until a health check without an answer fails: a duration.
pub const HEALTH_CHECK_TIMEOUT: &str = "load-balancer.hetzner.cloud/health-check-timeout";
/// Number of failures before a target counts as unhealthy.
pub const HEALTH_CHECK_RETRIES: &str = "load-balancer.hetzner.cloud/health-check-retries";
/// The `Host` of a health check request.
pub const HEALTH_CHECK_HTTP_DOMAIN: &str = "load-balancer.hetzner.cloud/health-check-http-domain";
/// The path of a health check request.
pub const HEALTH_CHECK_HTTP_PATH: &str = "load-balancer.hetzner.cloud/health-check-http-path";
/// Whether a health check requires a valid certificate of the target.
pub const HEALTH_CHECK_HTTP_VALIDATE_CERTIFICATE: &str =
    "load-balancer.hetzner.cloud/health-check-http-validate-certificate";
/// HTTP status codes of a healthy target.
pub const HTTP_STATUS_CODES: &str = "load-balancer.hetzner.cloud/http-status-codes";
/// Never read or written: the Go manager reserved them for data from the cloud.
pub const UNUSED: [&str; 3] = [
    "load-balancer.hetzner.cloud/ipv4",
    "load-balancer.hetzner.cloud/ipv6",
    "load-balancer.hetzner.cloud/id",
];

/// A duration in whole seconds, rounded down.
pub fn seconds(annotations: &mut Values<'_>, key: &str) -> Option<u64> {
    annotations.duration(key).map(|time| time.as_secs())
}

/// The parts between commas, neither trimmed nor filtered.
pub fn parts(annotations: &mut Values<'_>, key: &str) -> Option<Vec<String>> {
    let value = annotations.text(key)?;
    Some(value.split(',').map(str::to_owned).collect())
}

/// An IPv4 range, with host bits cleared: `10.0.1.7/24` becomes `10.0.1.0/24`.
pub fn ip_range(annotations: &mut Values<'_>, key: &str) -> Option<String> {
    let value = annotations.filled(key)?;
    match read_cidr(value) {
        Some(range) => Some(range.to_string()),
        None => annotations.wrong(key, "must be an IPv4 range such as 10.0.1.0/24"),
    }
}
