//! The desired state of a load balancer, from a Service, its annotations, its nodes, the configuration and the fixed
//! fields of an existing load balancer. Pure: no request, no clock.
//!
//! A field without an annotation has the vendor's default, also on an existing load balancer: the vendor's `PUT` works
//! like that, and so does the Go manager. Only fields that are fixed at creation keep their values.

use std::collections::BTreeSet;

use ccm_guest::annotations::{Report, Treatment};
use ccm_guest::event::listed;
use ccm_guest::load_balancer::Service;
use ccm_guest::values::Values;
use ccm_guest::{Error, Event, IpFamily, Node, Protocol};
use serde_json::{Map, Value, json};

use super::annotations::{self as annotation, TABLE, choice, number, ports};
use super::api::LoadBalancer;
use super::owner;
use super::rules::{self, Certificate, Rule};
use super::targets::Targets;
use crate::config::{Settings, Type};

#[cfg(test)]
mod tests;

/// From where clients reach a load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// From the internet.
    External,
    /// From inside the VPC only.
    Internal,
}

impl Network {
    /// All variants, each with its name in the API.
    pub const NAMES: [(&'static str, Network); 2] = [
        ("EXTERNAL", Network::External),
        ("INTERNAL", Network::Internal),
    ];
}

/// The address families of a load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stack {
    /// IPv4 only.
    Ipv4,
    /// IPv4 and IPv6.
    DualStack,
}

impl Stack {
    /// All variants, each with its name in the API.
    pub const NAMES: [(&'static str, Stack); 2] =
        [("IPV4", Stack::Ipv4), ("DUALSTACK", Stack::DualStack)];
}

/// The name of a variant, from a table of all variants.
fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    let found = names.iter().find(|(_, one)| one == value);
    found.map_or("", |(name, _)| name)
}

/// The variant with this name.
pub(super) fn meant<T: Copy>(names: &[(&'static str, T)], name: Option<&str>) -> Option<T> {
    let found = names.iter().find(|(one, _)| Some(*one) == name)?;
    Some(found.1)
}

/// The port of kube-proxy's health check, which the Go manager uses, too.
const KUBE_PROXY_HEALTH: u16 = 10256;
const HEALTHZ: &str = "/healthz";
/// Maximum length of an annotation with rules of the firewall, in bytes: thousands of rules. The Go manager has no limit.
const MAX_RULES: usize = 64 << 10;

/// The desired state of a load balancer.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// The load balancer's type.
    pub kind: Type,
    /// The certificate of the rules that need one.
    pub certificate: Certificate,
    /// The droplets, and the nodes that have none.
    pub targets: Targets,
    /// Host name for the Service's status, instead of addresses.
    pub hostname: Option<String>,
    /// The tags of the owner and of the cluster.
    pub tags: BTreeSet<String>,
    /// The customer's own address for a new load balancer (BYOIP).
    ip: Option<String>,
    rules: Vec<Rule>,
    /// The other fields of the API. Those with the vendor's default are left out.
    fields: Map<String, Value>,
    /// Events about fields that have no effect.
    pub events: Vec<Event>,
}

impl Wanted {
    /// Reads a Service and its nodes. `found` is its load balancer, if there is one.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every mistake in the Service at once.
    pub fn read(
        settings: &Settings,
        service: &Service,
        nodes: &[Node],
        found: Option<&LoadBalancer>,
    ) -> Result<Wanted, Error> {
        let mut annotations = service.values();
        let read = &mut annotations;
        let annotated = choice(read, annotation::TYPE, &Type::NAMES);
        let actual = meant(&Type::NAMES, found.and_then(LoadBalancer::kind));
        let kind =
            fixed(annotation::TYPE, annotated, actual, read).unwrap_or(settings.default_type);
        let annotated = choice(read, annotation::NETWORK, &Network::NAMES);
        let actual = meant(&Network::NAMES, found.and_then(LoadBalancer::network));
        let network =
            fixed(annotation::NETWORK, annotated, actual, read).unwrap_or(Network::External);
        let targets = Targets::read(kind, network, nodes);
        let stack = stack(kind, network, &targets, found, read);

        let mut fields = Map::new();
        let mut set = |key: &str, value: Value| drop(fields.insert(key.to_owned(), value));
        set("name", json!(name(service, read)));
        set("type", json!(name_of(&Type::NAMES, &kind)));
        set("network", json!(name_of(&Network::NAMES, &network)));
        set("network_stack", json!(name_of(&Stack::NAMES, &stack)));
        set("health_check", health_check(service, read));
        set("sticky_sessions", sticky_sessions(read));
        set("firewall", firewall(service, read));
        for (field, key) in [
            ("redirect_http_to_https", annotation::REDIRECT_HTTP_TO_HTTPS),
            ("enable_proxy_protocol", annotation::ENABLE_PROXY_PROTOCOL),
            (
                "enable_backend_keepalive",
                annotation::ENABLE_BACKEND_KEEPALIVE,
            ),
            (
                "disable_lets_encrypt_dns_records",
                annotation::DISABLE_LETS_ENCRYPT_DNS_RECORDS,
            ),
        ] {
            if read.boolean(key).unwrap_or(false) {
                set(field, json!(true));
            }
        }
        if let Some(seconds) = number(read, annotation::HTTP_IDLE_TIMEOUT) {
            set("http_idle_timeout_seconds", json!(seconds));
        }
        if let Some((field, size)) = size(read) {
            set(field, size);
        }
        if let Some(vpc) = &settings.vpc {
            set("vpc_uuid", json!(vpc));
        }
        if let Some(subnet) = read.trimmed(annotation::SUBNET) {
            set("subnet_uuid", json!(subnet));
        }
        let rules = rules::rules(kind, service, read);
        let certificate = match kind {
            Type::Regional => rules::certificate(read),
            Type::RegionalNetwork => Certificate::None,
        };
        let ip = read.trimmed(annotation::IP).map(str::to_owned);
        let hostname = read.hostname(annotation::HOSTNAME);
        let owner = owner::tag(&service.uid)?;
        let is_v4_only = kind == Type::Regional || stack == Stack::Ipv4;
        let events = events(service, is_v4_only, &targets);
        annotations.finish()?;
        Ok(Wanted {
            kind,
            certificate,
            tags: settings.cluster_tag().into_iter().chain([owner]).collect(),
            targets,
            hostname,
            ip,
            rules,
            fields,
            events,
        })
    }

    /// The load balancer's name.
    pub fn name(&self) -> &str {
        let name = self.fields.get("name").and_then(Value::as_str);
        name.unwrap_or_default()
    }

    /// The fields of the API that are compared and sent. `certificate` is the id of the certificate that the rules
    /// need.
    pub fn fields(&self, certificate: &str) -> Map<String, Value> {
        let mut fields = self.fields.clone();
        let rules: Vec<Value> = self
            .rules
            .iter()
            .map(|rule| rule.body(certificate))
            .collect();
        fields.insert("forwarding_rules".to_owned(), json!(rules));
        fields.insert("droplet_ids".to_owned(), json!(self.targets.droplets));
        fields
    }

    /// The fields, with those that count at creation only.
    pub fn creation(&self, certificate: &str, region: &str, project: Option<&str>) -> Value {
        let mut fields = self.fields(certificate);
        let mut set = |key: &str, value: Value| drop(fields.insert(key.to_owned(), value));
        set("region", json!(region));
        set("tags", json!(self.tags));
        if let Some(project) = project {
            set("project_id", json!(project));
        }
        if let Some(ip) = &self.ip {
            set("ip", json!(ip));
        }
        Value::Object(fields)
    }

    /// Whether a rule terminates TLS.
    pub fn ends_tls(&self) -> bool {
        self.rules.iter().any(Rule::ends_tls)
    }
}

/// The name of the Service's load balancer: the annotated one, or that of the Go manager.
fn name(service: &Service, read: &mut Values<'_>) -> String {
    let name = read.trimmed(annotation::NAME);
    name.map_or_else(|| service.default_name(), str::to_owned)
}

/// A field that is fixed at creation: as annotated, or else its current value. A mistake if the two differ.
fn fixed<T: Copy + PartialEq>(
    key: &str,
    annotated: Option<T>,
    actual: Option<T>,
    read: &mut Values<'_>,
) -> Option<T> {
    if let (Some(annotated), Some(actual)) = (annotated, actual)
        && annotated != actual
    {
        let treatment = TABLE.iter().find(|(one, _)| *one == key);
        let why = match treatment {
            Some((_, Treatment::AtCreation(why))) => why,
            _ => "it cannot be changed",
        };
        read.mistake(format_args!(
            "{key}: {why}; delete the Service and create it again, or set the annotation back"
        ));
    }
    annotated.or(actual)
}

fn stack(
    kind: Type,
    network: Network,
    targets: &Targets,
    found: Option<&LoadBalancer>,
    read: &mut Values<'_>,
) -> Stack {
    let key = annotation::NETWORK_STACK;
    let annotated = choice(read, key, &Stack::NAMES);
    let actual = meant(&Stack::NAMES, found.and_then(LoadBalancer::network_stack));
    if annotated == Some(Stack::DualStack) && network == Network::Internal {
        read.mistake(format_args!(
            "{key}: an internal load balancer has IPv4 alone"
        ));
    }
    let needs_ipv6 = kind == Type::RegionalNetwork && annotated == Some(Stack::DualStack);
    if needs_ipv6 && !targets.without_ipv6.is_empty() {
        read.mistake(format_args!(
            "{key}: a load balancer of type REGIONAL_NETWORK needs nodes with IPv6 addresses, which these lack: {}",
            listed(&targets.without_ipv6)
        ));
    }
    fixed(key, annotated, actual, read).unwrap_or_else(|| targets.stack(kind, network))
}

/// The node port of `externalTrafficPolicy: Local`, or kube-proxy's own port, unless annotations override that.
fn health_check(service: &Service, read: &mut Values<'_>) -> Value {
    let mut check = json!({
        "check_interval_seconds": number(read, annotation::HEALTH_CHECK_INTERVAL).unwrap_or(3),
        "response_timeout_seconds": number(read, annotation::HEALTH_CHECK_TIMEOUT).unwrap_or(5),
        "unhealthy_threshold": number(read, annotation::UNHEALTHY_THRESHOLD).unwrap_or(3),
        "healthy_threshold": number(read, annotation::HEALTHY_THRESHOLD).unwrap_or(5),
    });
    if read.is_set(annotation::OVERRIDE_HEALTH_CHECK) {
        let path = read.trimmed(annotation::HEALTH_CHECK_PATH);
        let names = ["tcp", "http", "https"].map(|name| (name, name));
        let default = if path.is_some() { "http" } else { "tcp" };
        let protocol = choice(read, annotation::HEALTH_CHECK_PROTOCOL, &names);
        check["protocol"] = json!(protocol.unwrap_or(default));
        check["port"] = json!(health_check_port(service, read));
        if let Some(path) = path {
            check["path"] = json!(path);
        }
        return check;
    }
    check["protocol"] = json!("http");
    check["port"] = json!(service.local_health_port().unwrap_or(KUBE_PROXY_HEALTH));
    check["path"] = json!(HEALTHZ);
    // Neither of the two health check servers understands the proxy protocol.
    check["proxy_protocol"] = json!(false);
    check
}

/// The node port of the annotated port, or of the first TCP port.
fn health_check_port(service: &Service, read: &mut Values<'_>) -> u16 {
    let key = annotation::HEALTH_CHECK_PORT;
    let is_tcp = |protocol| protocol == Protocol::Tcp;
    let named = ports(read, key);
    let port = match named.as_slice() {
        [] => service.ports.iter().find(|one| is_tcp(one.protocol)),
        [port] => service.ports.iter().find(|one| one.port == *port),
        _ => {
            read.mistake(format_args!("{key}: one port is allowed"));
            return 0;
        }
    };
    match port {
        Some(port) if is_tcp(port.protocol) => rules::node_port(port, read),
        _ => {
            read.mistake(format_args!("{key}: the Service has no such port of TCP"));
            0
        }
    }
}

fn sticky_sessions(read: &mut Values<'_>) -> Value {
    // As in the Go manager, any other value means no sticky sessions.
    if read.trimmed(annotation::STICKY_SESSIONS_TYPE) != Some("cookies") {
        return json!({"type": "none"});
    }
    let name = read.trimmed(annotation::STICKY_SESSIONS_COOKIE_NAME);
    let seconds = number(read, annotation::STICKY_SESSIONS_COOKIE_TTL);
    for (key, is_there) in [
        (annotation::STICKY_SESSIONS_COOKIE_NAME, name.is_some()),
        (annotation::STICKY_SESSIONS_COOKIE_TTL, seconds.is_some()),
    ] {
        if !is_there && !read.is_set(key) {
            read.mistake(format_args!("{key}: sticky sessions need it"));
        }
    }
    json!({"type": "cookies", "cookie_name": name, "cookie_ttl_seconds": seconds})
}

/// The Service's source ranges take precedence over the annotation.
fn firewall(service: &Service, read: &mut Values<'_>) -> Value {
    let mut rules = |key| read.long_list(key, MAX_RULES).unwrap_or_default();
    let deny = rules(annotation::DENY_RULES);
    let ranges = &service.source_ranges;
    let allow: Vec<String> = match ranges.is_empty() {
        true => {
            let rules = rules(annotation::ALLOW_RULES).into_iter();
            rules.map(str::to_owned).collect()
        }
        false => ranges.iter().map(|range| format!("cidr:{range}")).collect(),
    };
    json!({"allow": allow, "deny": deny})
}

fn size(read: &mut Values<'_>) -> Option<(&'static str, Value)> {
    let names = ["lb-small", "lb-medium", "lb-large"].map(|name| (name, name));
    let slug = choice(read, annotation::SIZE_SLUG, &names);
    let unit = number(read, annotation::SIZE_UNIT).filter(|unit| *unit > 0);
    if let (Some(_), Some(_)) = (slug, unit) {
        let (slug, unit) = (annotation::SIZE_SLUG, annotation::SIZE_UNIT);
        read.mistake(format_args!("{slug} excludes {unit}"));
    }
    let unit = unit.map(|unit| ("size_unit", json!(unit)));
    unit.or(slug.map(|slug| ("size", json!(slug))))
}

/// The event reason for fields without effect.
const NO_EFFECT: &str = "UnsupportedFieldConfigured";

/// `is_v4_only`: the load balancer reaches the droplets by IPv4 alone. One that passes packets on reaches them by IPv6,
/// too, if it has both families.
fn events(service: &Service, is_v4_only: bool, targets: &Targets) -> Vec<Event> {
    let ip = service.requested_ip.as_ref().map(|ip| {
        let key = annotation::IP;
        let message = format!("loadBalancerIP {ip} has no effect: addresses of your own are chosen with the annotation {key}");
        Event::warning(NO_EFFECT, message)
    });
    let affinity = service.session_affinity_seconds.map(|_| {
        let key = annotation::STICKY_SESSIONS_TYPE;
        let message = format!("sessionAffinity has no effect before the node: for HTTP there are sticky sessions by cookie, with the annotation {key}");
        Event::warning(NO_EFFECT, message)
    });
    let is_unreachable = is_v4_only && matches!(service.ip_families.as_slice(), [IpFamily::Ipv6]);
    let families = is_unreachable.then(|| {
        let message = "the load balancer reaches nodes by IPv4 alone: the Service, which has IPv6 alone, gets no traffic; give it IPv4, too, such as with ipFamilyPolicy: PreferDualStack";
        Event::warning(NO_EFFECT, message)
    });
    let unknown = (!targets.unknown.is_empty()).then(|| {
        let names = listed(&targets.unknown);
        let message = format!("nodes without a provider ID of a droplet are left out: {names}");
        Event::warning("UnknownProviderIDPrefix", message)
    });
    let mut events = Report::of(service, TABLE).events(NO_EFFECT);
    events.extend([ip, affinity, families, unknown].into_iter().flatten());
    events
}
