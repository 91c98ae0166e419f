//! Service annotations: [`TABLE`] lists every one of the Go manager with its treatment here. Values are read as the Go
//! manager reads them, so that existing Services keep working. Tenants write annotations: expect any text of any
//! length.

use ccm_guest::Error;
use ccm_guest::annotations::Treatment::{self, AtCreation, Ignored, Supported};
use ccm_guest::load_balancer::Service;
use ccm_guest::values::Values;

#[cfg(test)]
mod tests;

ccm_guest::annotations! {
    /// Every annotation that the Go manager reads or writes, with its treatment.
    pub TABLE: Treatment;
    /// The load balancer's id. This provider writes this annotation, and no other.
    ID = "kubernetes.digitalocean.com/load-balancer-id": Supported;
    /// Whether the load balancer is left alone, so that a Service of another cluster can take it over.
    DISOWN = "service.kubernetes.io/do-loadbalancer-disown": Supported;
    /// Name of the load balancer in the account.
    NAME = "service.beta.kubernetes.io/do-loadbalancer-name": Supported;
    /// Protocol of the ports that no other annotation names: `tcp`, `http`, `https`, `http2` or `http3`.
    PROTOCOL = "service.beta.kubernetes.io/do-loadbalancer-protocol": Supported;
    /// Ports that speak HTTP.
    HTTP_PORTS = "service.beta.kubernetes.io/do-loadbalancer-http-ports": Supported;
    /// Ports that speak HTTPS.
    TLS_PORTS = "service.beta.kubernetes.io/do-loadbalancer-tls-ports": Supported;
    /// Ports that speak HTTP/2.
    HTTP2_PORTS = "service.beta.kubernetes.io/do-loadbalancer-http2-ports": Supported;
    /// The port that speaks HTTP/3.
    HTTP3_PORT = "service.beta.kubernetes.io/do-loadbalancer-http3-port": Supported;
    /// Whether encrypted data is forwarded as it is, so that the nodes terminate TLS.
    TLS_PASSTHROUGH = "service.beta.kubernetes.io/do-loadbalancer-tls-passthrough": Supported;
    /// UUID of the certificate for TLS.
    CERTIFICATE_ID = "service.beta.kubernetes.io/do-loadbalancer-certificate-id": Supported;
    /// Name of the certificate for TLS; has no effect beside an id.
    CERTIFICATE_NAME = "service.beta.kubernetes.io/do-loadbalancer-certificate-name": Supported;
    /// Host name in the status, instead of addresses.
    HOSTNAME = "service.beta.kubernetes.io/do-loadbalancer-hostname": Supported;
    /// With any value, the next three annotations determine port, path and protocol of the health check.
    OVERRIDE_HEALTH_CHECK = "service.beta.kubernetes.io/do-loadbalancer-override-health-check": Supported;
    /// Port of the Service whose node port is checked.
    HEALTH_CHECK_PORT = "service.beta.kubernetes.io/do-loadbalancer-healthcheck-port": Supported;
    /// Path of the health check; only with HTTP and HTTPS.
    HEALTH_CHECK_PATH = "service.beta.kubernetes.io/do-loadbalancer-healthcheck-path": Supported;
    /// Protocol of the health check: `tcp`, `http` or `https`.
    HEALTH_CHECK_PROTOCOL = "service.beta.kubernetes.io/do-loadbalancer-healthcheck-protocol": Supported;
    /// Seconds between two checks.
    HEALTH_CHECK_INTERVAL = "service.beta.kubernetes.io/do-loadbalancer-healthcheck-check-interval-seconds": Supported;
    /// Seconds until a check without an answer fails.
    HEALTH_CHECK_TIMEOUT = "service.beta.kubernetes.io/do-loadbalancer-healthcheck-response-timeout-seconds": Supported;
    /// Number of failures before a droplet counts as unhealthy.
    UNHEALTHY_THRESHOLD = "service.beta.kubernetes.io/do-loadbalancer-healthcheck-unhealthy-threshold": Supported;
    /// Number of successes before a droplet counts as healthy.
    HEALTHY_THRESHOLD = "service.beta.kubernetes.io/do-loadbalancer-healthcheck-healthy-threshold": Supported;
    /// `lb-small`, `lb-medium` or `lb-large`.
    SIZE_SLUG = "service.beta.kubernetes.io/do-loadbalancer-size-slug": Supported;
    /// Number of the load balancer's nodes at the vendor.
    SIZE_UNIT = "service.beta.kubernetes.io/do-loadbalancer-size-unit": Supported;
    /// Sticky sessions: `cookies` or `none`.
    STICKY_SESSIONS_TYPE = "service.beta.kubernetes.io/do-loadbalancer-sticky-sessions-type": Supported;
    /// Name of the cookie for sticky sessions.
    STICKY_SESSIONS_COOKIE_NAME = "service.beta.kubernetes.io/do-loadbalancer-sticky-sessions-cookie-name": Supported;
    /// Lifetime of the cookie in seconds.
    STICKY_SESSIONS_COOKIE_TTL = "service.beta.kubernetes.io/do-loadbalancer-sticky-sessions-cookie-ttl": Supported;
    /// Whether HTTP requests are redirected to HTTPS.
    REDIRECT_HTTP_TO_HTTPS = "service.beta.kubernetes.io/do-loadbalancer-redirect-http-to-https": Supported;
    /// Whether DNS records for certificates of Let's Encrypt are not created.
    DISABLE_LETS_ENCRYPT_DNS_RECORDS = "service.beta.kubernetes.io/do-loadbalancer-disable-lets-encrypt-dns-records": Supported;
    /// Whether the proxy protocol sends the clients' addresses to the droplets.
    ENABLE_PROXY_PROTOCOL = "service.beta.kubernetes.io/do-loadbalancer-enable-proxy-protocol": Supported;
    /// Whether connections to droplets are kept open between requests.
    ENABLE_BACKEND_KEEPALIVE = "service.beta.kubernetes.io/do-loadbalancer-enable-backend-keepalive": Supported;
    /// Seconds after which an idle connection ends.
    HTTP_IDLE_TIMEOUT = "service.beta.kubernetes.io/do-loadbalancer-http-idle-timeout-seconds": Supported;
    /// Firewall rules for clients that are denied.
    DENY_RULES = "service.beta.kubernetes.io/do-loadbalancer-deny-rules": Supported;
    /// Firewall rules for clients that are allowed; no effect beside `loadBalancerSourceRanges`.
    ALLOW_RULES = "service.beta.kubernetes.io/do-loadbalancer-allow-rules": Supported;
    /// Type of the load balancer: `REGIONAL` or `REGIONAL_NETWORK`.
    TYPE = "service.beta.kubernetes.io/do-loadbalancer-type": AtCreation("the type of a load balancer cannot be changed");
    /// Reachability of the load balancer: `EXTERNAL` or `INTERNAL`.
    NETWORK = "service.beta.kubernetes.io/do-loadbalancer-network": AtCreation("the network of a load balancer cannot be changed");
    /// Address families of the load balancer: `IPV4` or `DUALSTACK`.
    NETWORK_STACK = "service.beta.kubernetes.io/do-loadbalancer-network-stack": AtCreation("the network stack of a load balancer cannot be changed");
    /// The load balancer's address, from the customer's own range (BYOIP).
    IP = "service.beta.kubernetes.io/do-loadbalancer-ip": AtCreation("the address of a load balancer cannot be changed");
    /// UUID of the subnet in the VPC.
    SUBNET = "service.beta.kubernetes.io/do-loadbalancer-subnet-uuid": AtCreation("the subnet of a load balancer cannot be changed");
    /// `round_robin` or `least_connections`.
    ALGORITHM = "service.beta.kubernetes.io/do-loadbalancer-algorithm": Ignored("DigitalOcean ignores the algorithm of load balancers");
    /// Whether node ports are opened in the firewall of the nodes.
    FIREWALL_MANAGED = "kubernetes.digitalocean.com/firewall-managed": Ignored("this provider manages no firewall of nodes");
}

/// One of the given values; an empty value counts as not set.
pub fn choice<T: Clone>(read: &mut Values<'_>, key: &str, words: &[(&str, T)]) -> Option<T> {
    read.filled(key)?;
    read.choice(key, words)
}

/// A number; an empty value counts as not set.
pub fn number(read: &mut Values<'_>, key: &str) -> Option<u32> {
    read.filled(key)?;
    read.number(key, 0..=u32::MAX)
}

/// Port numbers, separated by commas.
pub fn ports(read: &mut Values<'_>, key: &str) -> Vec<u16> {
    let ports = read.each(key, "must be a port", |part| part.parse().ok());
    ports.unwrap_or_default()
}

/// Whether the annotation [`DISOWN`] is true, so that the Service's load balancer is left alone.
///
/// # Errors
/// [`Error::Invalid`] when the annotation is neither true nor false.
pub fn is_disowned(service: &Service) -> Result<bool, Error> {
    service.read(|read| read.boolean(DISOWN).unwrap_or(false))
}
