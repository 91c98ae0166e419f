//! The Go provider's annotations of Services: the only table of their support by this provider. Pure.

use ccm_guest::Event;
use ccm_guest::annotations::Report;
use ccm_guest::annotations::Treatment::{self, Ignored, Refused, Supported};
use ccm_guest::load_balancer::Service;
use ccm_guest::values::MAX_ANNOTATION;

/// Prefix of all annotations.
pub const PREFIX: &str = "service.beta.kubernetes.io/aws-load-balancer-";

const CLASSIC: Treatment = Ignored("it is about classic load balancers");
const NETWORK: Treatment = Ignored("it is about network load balancers");

/// Every annotation, without [`PREFIX`], in the order of the Go provider's source: its treatment for network load
/// balancers, and for classic ones.
pub const ALL: &[(&str, Treatment, Treatment)] = &[
    (TYPE, Supported, Supported),
    (INTERNAL, Supported, Supported),
    (
        PROXY,
        Ignored(
            "proxy_protocol_v2.enabled=true in target-group-attributes is what network load balancers have",
        ),
        Supported,
    ),
    (LOGS_INTERVAL, CLASSIC, Supported),
    (LOGS, Supported, Supported),
    (LOGS_BUCKET, Supported, Supported),
    (LOGS_PREFIX, Supported, Supported),
    (DRAINING, CLASSIC, Supported),
    (DRAINING_TIMEOUT, CLASSIC, Supported),
    (IDLE, CLASSIC, Supported),
    (CROSS_ZONE, Supported, Supported),
    (
        EXTRA_GROUPS,
        Refused("network load balancers take security-groups only, as with the Go provider"),
        Supported,
    ),
    (GROUPS, Supported, Supported),
    (CERTIFICATE, Supported, Supported),
    (TLS_PORTS, Supported, Supported),
    (TLS_POLICY, Supported, Supported),
    (BACKEND, Supported, Supported),
    (TAGS, Supported, Supported),
    (HEALTH_PROTOCOL, Supported, Supported),
    (HEALTH_PORT, Supported, Supported),
    (HEALTH_PATH, Supported, Supported),
    (HEALTHY, Supported, Supported),
    (UNHEALTHY, Supported, Supported),
    (
        HEALTH_TIMEOUT,
        Ignored(
            "the Go provider does not send it for network load balancers either: 6 s for HTTP, 10 s otherwise",
        ),
        Supported,
    ),
    (HEALTH_INTERVAL, Supported, Supported),
    (
        ATTRIBUTES,
        Supported,
        Refused("classic load balancers have no target groups, as with the Go provider"),
    ),
    (ALLOCATIONS, Supported, NETWORK),
    (PRIVATE_ADDRESSES, Supported, NETWORK),
    (NODE_LABELS, Supported, Supported),
    (SUBNETS, Supported, Supported),
];

/// Kind of load balancer: `nlb`; `external` and `nlb-ip` are left to AWS Load Balancer Controller; any other value is a
/// classic one.
pub const TYPE: &str = "type";
/// Any value but `false` and the empty one: the load balancer is reachable from inside the VPC only.
pub const INTERNAL: &str = "internal";
/// `*`: the load balancer sends the clients' addresses to the nodes by the proxy protocol.
pub const PROXY: &str = "proxy-protocol";
/// Minutes between logs: 5 or 60.
pub const LOGS_INTERVAL: &str = "access-log-emit-interval";
/// Whether connections to a node that leaves may still end.
pub const DRAINING: &str = "connection-draining-enabled";
/// Seconds that such connections may take to end.
pub const DRAINING_TIMEOUT: &str = "connection-draining-timeout";
/// Seconds until an idle connection is closed.
pub const IDLE: &str = "connection-idle-timeout";
/// Security groups in addition to the first ones.
pub const EXTRA_GROUPS: &str = "extra-security-groups";
/// Seconds until a health check without an answer fails.
pub const HEALTH_TIMEOUT: &str = "healthcheck-timeout";
/// Whether connections are logged.
pub const LOGS: &str = "access-log-enabled";
/// S3 bucket of the connection logs.
pub const LOGS_BUCKET: &str = "access-log-s3-bucket-name";
/// Folder of the logs in the bucket.
pub const LOGS_PREFIX: &str = "access-log-s3-bucket-prefix";
/// Whether each zone's address sends traffic to all zones.
pub const CROSS_ZONE: &str = "cross-zone-load-balancing-enabled";
/// Security groups of the load balancer; for `nlb` only with `NLBSecurityGroupMode=Managed`.
pub const GROUPS: &str = "security-groups";
/// ARN of the certificate for TLS.
pub const CERTIFICATE: &str = "ssl-cert";
/// Ports with TLS, by number or name, with commas and no spaces between; all of them by default, and with `*`.
pub const TLS_PORTS: &str = "ssl-ports";
/// Name of the security policy for TLS.
pub const TLS_POLICY: &str = "ssl-negotiation-policy";
/// Protocol to the nodes: `ssl` for TLS there as well. Classic load balancers also take `tcp`, `http` and `https`: with
/// `http` their listeners are HTTP, or HTTPS on ports with TLS, and with `https` the nodes get HTTPS, too. `https` and
/// `ssl` count on ports with TLS alone.
pub const BACKEND: &str = "backend-protocol";
/// Additional tags, as `key=value,key=value`.
pub const TAGS: &str = "additional-resource-tags";
/// Protocol of health checks: `tcp`, `http` or `https`; of classic load balancers also `ssl`.
pub const HEALTH_PROTOCOL: &str = "healthcheck-protocol";
/// Port of health checks, or `traffic-port`.
pub const HEALTH_PORT: &str = "healthcheck-port";
/// Path of health checks with HTTP or HTTPS.
pub const HEALTH_PATH: &str = "healthcheck-path";
/// Successes until a node is healthy.
pub const HEALTHY: &str = "healthcheck-healthy-threshold";
/// Failures until a node is unhealthy.
pub const UNHEALTHY: &str = "healthcheck-unhealthy-threshold";
/// Seconds between health checks.
pub const HEALTH_INTERVAL: &str = "healthcheck-interval";
/// Attributes of target groups, as `key=value,key=value`.
pub const ATTRIBUTES: &str = "target-group-attributes";
/// Allocations of Elastic IP addresses, one for each subnet.
pub const ALLOCATIONS: &str = "eip-allocations";
/// Private addresses, one for each subnet.
pub const PRIVATE_ADDRESSES: &str = "private-ipv4-addresses";
/// Labels of the nodes that get traffic.
pub const NODE_LABELS: &str = "target-node-labels";
/// Subnets of the load balancer, by ID or name.
pub const SUBNETS: &str = "subnets";

/// The value of an annotation, without the spaces around it. Empty counts as not set.
pub fn get<'a>(service: &'a Service, name: &str) -> Option<&'a str> {
    let value = service.annotation(&format!("{PREFIX}{name}"))?.trim();
    (!value.is_empty()).then_some(value)
}

/// The values of an annotation that holds a list.
pub fn values<'a>(service: &'a Service, name: &str) -> Vec<&'a str> {
    let parts = get(service, name)
        .unwrap_or_default()
        .split(',')
        .map(str::trim);
    parts.filter(|part| !part.is_empty()).collect()
}

/// The pairs of an annotation that holds `key=value,key=value`. A key alone has the empty value.
pub fn pairs(service: &Service, name: &str) -> Vec<(String, String)> {
    let parts = values(service, name).into_iter();
    let pairs = parts.map(|part| part.split_once('=').unwrap_or((part, "")));
    let named = pairs.filter(|(key, _)| !key.is_empty());
    named
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// Mistakes and events about annotations that are refused, ignored or unknown.
pub fn judge(service: &Service, is_classic: bool) -> (Vec<String>, Vec<Event>) {
    let mut report = Report::default();
    for (key, value) in &service.annotations {
        let Some(name) = key.strip_prefix(PREFIX) else {
            continue;
        };
        if value.len() > MAX_ANNOTATION {
            report.refuse(
                name,
                format_args!("at most {MAX_ANNOTATION} bytes are allowed"),
            );
        }
        report.add(name, treatment(name, is_classic));
    }
    let event = report.event("AnnotationIgnored");
    (report.mistakes().to_vec(), event.into_iter().collect())
}

fn treatment(name: &str, is_classic: bool) -> Treatment {
    let row = ALL.iter().find(|(known, ..)| *known == name);
    match row {
        Some((_, _, classic)) if is_classic => *classic,
        Some((_, network, _)) => *network,
        // AWS Load Balancer Controller has many more of this prefix.
        None => Ignored("unknown"),
    }
}
