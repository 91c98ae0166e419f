//! The Go provider's annotations of Services: the only table of their support by this provider. Pure.

use ccm_guest::Event;
use ccm_guest::annotations::Report;
use ccm_guest::annotations::Treatment::{self, Ignored, Refused, Supported};
use ccm_guest::load_balancer::Service;
use ccm_guest::values::Values;

/// Prefix of all annotations.
pub const PREFIX: &str = "service.beta.kubernetes.io/aws-load-balancer-";

const CLASSIC: Treatment = Ignored("it is about classic load balancers");
const NETWORK: Treatment = Ignored("it is about network load balancers");

ccm_guest::annotations! {
    /// Every annotation, without [`PREFIX`], in the order of the Go provider's source: its treatment for network load
    /// balancers, and for classic ones.
    pub ALL: (Treatment, Treatment);
    /// Kind of load balancer: `nlb`; `external` and `nlb-ip` are left to AWS Load Balancer Controller; any other value is
    /// a classic one.
    TYPE = "type": (Supported, Supported);
    /// Any value but `false` and the empty one: the load balancer is reachable from inside the VPC only.
    INTERNAL = "internal": (Supported, Supported);
    /// `*`: the load balancer sends the clients' addresses to the nodes by the proxy protocol.
    PROXY = "proxy-protocol": (
        Ignored("proxy_protocol_v2.enabled=true in target-group-attributes is what network load balancers have"),
        Supported
    );
    /// Minutes between logs: 5 or 60.
    LOGS_INTERVAL = "access-log-emit-interval": (CLASSIC, Supported);
    /// Whether connections are logged.
    LOGS = "access-log-enabled": (Supported, Supported);
    /// S3 bucket of the connection logs.
    LOGS_BUCKET = "access-log-s3-bucket-name": (Supported, Supported);
    /// Folder of the logs in the bucket.
    LOGS_PREFIX = "access-log-s3-bucket-prefix": (Supported, Supported);
    /// Whether connections to a node that leaves may still end.
    DRAINING = "connection-draining-enabled": (CLASSIC, Supported);
    /// Seconds that such connections may take to end.
    DRAINING_TIMEOUT = "connection-draining-timeout": (CLASSIC, Supported);
    /// Seconds until an idle connection is closed.
    IDLE = "connection-idle-timeout": (CLASSIC, Supported);
    /// Whether each zone's address sends traffic to all zones.
    CROSS_ZONE = "cross-zone-load-balancing-enabled": (Supported, Supported);
    /// Security groups in addition to the first ones.
    EXTRA_GROUPS = "extra-security-groups": (
        Refused("network load balancers take security-groups only, as with the Go provider"),
        Supported
    );
    /// Security groups of the load balancer; for `nlb` only with `NLBSecurityGroupMode=Managed`.
    GROUPS = "security-groups": (Supported, Supported);
    /// ARN of the certificate for TLS.
    CERTIFICATE = "ssl-cert": (Supported, Supported);
    /// Ports with TLS, by number or name, with commas and no spaces between; all of them by default, and with `*`.
    TLS_PORTS = "ssl-ports": (Supported, Supported);
    /// Name of the security policy for TLS.
    TLS_POLICY = "ssl-negotiation-policy": (Supported, Supported);
    /// Protocol to the nodes: `ssl` for TLS there as well. Classic load balancers also take `tcp`, `http` and `https`:
    /// with `http` their listeners are HTTP, or HTTPS on ports with TLS, and with `https` the nodes get HTTPS, too. `https`
    /// and `ssl` count on ports with TLS alone.
    BACKEND = "backend-protocol": (Supported, Supported);
    /// Additional tags, as `key=value,key=value`.
    TAGS = "additional-resource-tags": (Supported, Supported);
    /// Protocol of health checks: `tcp`, `http` or `https`; of classic load balancers also `ssl`.
    HEALTH_PROTOCOL = "healthcheck-protocol": (Supported, Supported);
    /// Port of health checks, or `traffic-port`.
    HEALTH_PORT = "healthcheck-port": (Supported, Supported);
    /// Path of health checks with HTTP or HTTPS.
    HEALTH_PATH = "healthcheck-path": (Supported, Supported);
    /// Successes until a node is healthy.
    HEALTHY = "healthcheck-healthy-threshold": (Supported, Supported);
    /// Failures until a node is unhealthy.
    UNHEALTHY = "healthcheck-unhealthy-threshold": (Supported, Supported);
    /// Seconds until a health check without an answer fails.
    HEALTH_TIMEOUT = "healthcheck-timeout": (
        Ignored("the Go provider does not send it for network load balancers either: 6 s for HTTP, 10 s otherwise"),
        Supported
    );
    /// Seconds between health checks.
    HEALTH_INTERVAL = "healthcheck-interval": (Supported, Supported);
    /// Attributes of target groups, as `key=value,key=value`.
    ATTRIBUTES = "target-group-attributes": (
        Supported,
        Refused("classic load balancers have no target groups, as with the Go provider")
    );
    /// Allocations of Elastic IP addresses, one for each subnet.
    ALLOCATIONS = "eip-allocations": (Supported, NETWORK);
    /// Private addresses, one for each subnet.
    PRIVATE_ADDRESSES = "private-ipv4-addresses": (Supported, NETWORK);
    /// Labels of the nodes that get traffic.
    NODE_LABELS = "target-node-labels": (Supported, Supported);
    /// Subnets of the load balancer, by ID or name.
    SUBNETS = "subnets": (Supported, Supported);
}

/// A reader of the annotations, by their names without [`PREFIX`].
pub fn values(service: &Service) -> Values<'_> {
    service.values_of(PREFIX)
}

/// An annotation with the spaces around it, which count in the Go provider's comparisons.
pub fn exact<'a>(service: &'a Service, name: &str) -> Option<&'a str> {
    service.annotation(&format!("{PREFIX}{name}"))
}

/// The parts of an annotation that holds a list.
pub fn list(read: &mut Values<'_>, name: &str) -> Vec<String> {
    let parts = read.list(name).unwrap_or_default();
    parts.into_iter().map(str::to_owned).collect()
}

/// The pairs of a list of `key=value`. A key alone has the empty value.
pub fn pairs(list: Option<Vec<&str>>) -> impl Iterator<Item = (String, String)> {
    let parts = list.unwrap_or_default().into_iter();
    let pairs = parts.map(|part| part.split_once('=').unwrap_or((part, "")));
    let named = pairs.filter(|(key, _)| !key.is_empty());
    named.map(|(key, value)| (key.to_owned(), value.to_owned()))
}

/// Notes the annotations that are refused, or known and too long, and returns an event about those that are ignored or
/// unknown.
pub fn judge(service: &Service, is_classic: bool, read: &mut Values<'_>) -> Option<Event> {
    let mut report = Report::default();
    let keys = service.annotations.iter().map(|(key, _)| key);
    for name in keys.filter_map(|key| key.strip_prefix(PREFIX)) {
        let row = ALL.iter().find(|(known, _)| *known == name);
        row.and_then(|_| read.text(name));
        // AWS Load Balancer Controller has many more of this prefix.
        let unknown = Ignored("unknown");
        let (network, classic) = row.map_or((unknown, unknown), |(_, both)| *both);
        report.add(name, if is_classic { classic } else { network });
    }
    for mistake in report.mistakes() {
        read.mistake(mistake);
    }
    report.event("AnnotationIgnored")
}
