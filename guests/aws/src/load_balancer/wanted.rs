//! The state that a Service wants at AWS: read from its ports, policies and annotations, with all mistakes at once.
//! Pure.

use std::collections::BTreeMap;

use ccm_guest::load_balancer::{Service, ServicePort};
use ccm_guest::values::Values;
use ccm_guest::{Error, Event, IpFamily, Node, Protocol};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::annotations::{self as names, judge, list, pairs};
use crate::config::Settings;

mod classic;
mod fields;

pub use classic::{group_of_classic, is_classic, named_group};
use fields::{attributes, group_attributes};

/// Load balancer class, and prefix of classes, of other controllers.
const ELSEWHERE: &[&str] = &["service.k8s.aws/", "eks.amazonaws.com/"];
/// Values of the annotation `type` that mean AWS Load Balancer Controller.
const EXTERNAL: &[&str] = &["external", "nlb-ip"];
/// All IPv4 addresses.
const ANYWHERE: &str = "0.0.0.0/0";
/// Maximum number of ports. AWS allows 50 by default, and 100 of a classic load balancer; thousands, each with long
/// annotations, would exhaust the guest's memory.
const MAX_PORTS: usize = 256;
/// Maximum number of ports times ranges of clients, each of which is a rule: AWS allows 1000 rules for all the groups of a
/// network interface, and a Service can have ten thousands of ranges.
const MAX_RULES: usize = 4096;

/// Attributes of a load balancer or a target group, by their keys.
pub type Attributes = BTreeMap<String, String>;

/// A load balancer with all objects that belong to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Wanted {
    /// The name, made of the Service's UID as in the Go provider.
    pub name: String,
    /// Whether it has private addresses only.
    pub internal: bool,
    /// The ports of the Service.
    pub ports: Vec<Port>,
    /// Load balancer attributes, by the API's keys; for a classic one by its fields.
    pub attributes: Attributes,
    /// Attributes of all its target groups.
    pub group_attributes: Attributes,
    /// Tags of every object that is created.
    pub tags: Vec<(String, String)>,
    /// Subnets by ID or name; empty: chosen by zone and tag.
    pub subnets: Vec<String>,
    /// Allocations of Elastic IP addresses, one for each subnet, or none.
    pub allocations: Vec<String>,
    /// Private addresses, one for each subnet, or none.
    pub private_addresses: Vec<String>,
    /// Address ranges of the clients that may connect.
    pub sources: Vec<String>,
    /// The load balancer's security groups.
    pub groups: Groups,
    /// The name of its own security group, which it has unless it has others.
    pub own_group: String,
    /// Whether it is a classic one.
    pub is_classic: bool,
    /// Additional security groups of a classic one.
    pub extra_groups: Vec<String>,
    /// Whether a classic one sends the clients' addresses to the nodes, by the proxy protocol.
    pub proxy_protocol: bool,
}

/// The security groups of a load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Groups {
    /// They are left as they are.
    Unmanaged,
    /// The groups with these IDs, whose rules are not managed.
    Named(Vec<String>),
    /// A group of its own with this name.
    Own(String),
}

/// A port of the Service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Port {
    /// The port for clients.
    pub front: u16,
    /// `TCP`, `UDP` or `TLS`; of classic load balancers `TCP`, `SSL`, `HTTP` or `HTTPS`.
    pub front_protocol: &'static str,
    /// Certificate and policy with `TLS`, `SSL` or `HTTPS`.
    pub tls: Option<Tls>,
    /// The node port that receives the traffic.
    pub back: u16,
    /// The protocol to the nodes, with the same values as `front_protocol`.
    pub back_protocol: &'static str,
    /// The health check of the nodes.
    pub health: Health,
}

/// TLS settings of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tls {
    /// The certificate's ARN.
    pub certificate: String,
    /// The name of the security policy; `None`: AWS' default.
    pub policy: Option<String>,
}

/// A health check of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// `TCP`, `HTTP` or `HTTPS`; of classic load balancers also `SSL`.
    pub protocol: String,
    /// A port, or `traffic-port`, which for a classic load balancer is the first port.
    pub port: String,
    /// The path; `None` for `TCP` and `SSL`.
    pub path: Option<String>,
    /// Seconds between two checks.
    pub interval: u32,
    /// Seconds until a check of a classic load balancer without an answer fails.
    pub timeout: u32,
    /// Successes until a node is healthy.
    pub healthy: u32,
    /// Failures until a node is unhealthy.
    pub unhealthy: u32,
}

/// Prefix of the names of a Service's target groups; 80 bits of its UID.
pub fn group_prefix(name: &str) -> String {
    format!("{}-", name.get(..21).unwrap_or(name))
}

/// The name of a load balancer's own security group, as in the Go provider.
pub fn own_group(settings: &Settings, service: &Service) -> String {
    let (namespace, name) = (service.namespace.as_str(), service.name.as_str());
    let digest = digest(
        &[&*settings.cluster_name, name, namespace, &service.uid].concat(),
        5,
    );
    let plain = |text: &str| -> String {
        let plain = text.chars().filter(char::is_ascii_alphanumeric);
        plain.take(8).collect()
    };
    format!("k8s-{}-{}-{digest}", plain(namespace), plain(name))
}

/// Checks that the Service's load balancer is this provider's task.
///
/// # Errors
/// [`Error::Elsewhere`] if another controller creates it.
pub fn is_ours(service: &Service) -> Result<(), Error> {
    let kind = names::exact(service, names::TYPE);
    let class = service.class.as_deref().unwrap_or_default();
    if kind.is_some_and(|kind| EXTERNAL.contains(&kind))
        || ELSEWHERE.iter().any(|prefix| class.starts_with(prefix))
    {
        return Err(Error::Elsewhere);
    }
    Ok(())
}

/// The nodes that are to receive traffic.
pub fn targets<'a>(service: &Service, nodes: &'a [Node]) -> Vec<&'a Node> {
    // `Wanted::read` refuses one that is too long. Until then the nodes stay the same.
    let labels = names::values(service).long_list(names::NODE_LABELS, usize::MAX);
    let labels: Vec<(String, String)> = pairs(labels).collect();
    let fits = |node: &&Node| {
        labels.iter().all(|(key, value)| {
            let mut own = node.labels.iter();
            own.any(|(name, held)| name == key && (value.is_empty() || held == value))
        })
    };
    nodes.iter().filter(fits).collect()
}

impl Wanted {
    /// Reads a Service. Annotations without effect become events, also when there are mistakes: a person who corrects
    /// these then learns of everything at once.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every mistake.
    pub fn read(
        settings: &Settings,
        service: &Service,
        events: &mut Vec<Event>,
    ) -> Result<Wanted, Error> {
        let is_classic = is_classic(service);
        let mut annotations = names::values(service);
        let read = &mut annotations;
        events.extend(judge(service, is_classic, read));
        if service.requested_ip.is_some() {
            read.mistake("loadBalancerIP: not possible at AWS; use eip-allocations or private-ipv4-addresses");
        }
        if service.session_affinity_seconds.is_some() {
            read.mistake("sessionAffinity: ClientIP is not possible");
        }
        let health = match is_classic {
            true => classic::health(settings, service, read),
            false => fields::health(settings, service, read),
        };
        let own_group = own_group(settings, service);
        let named = list(read, names::GROUPS);
        let are_ignored = !settings.own_security_groups && !named.is_empty();
        let mut wanted = Wanted {
            name: service.default_name(),
            internal: names::exact(service, names::INTERNAL)
                .is_some_and(|text| !["", "false"].contains(&text)),
            ports: ports(service, &health, read),
            attributes: attributes(read),
            group_attributes: group_attributes(service, read),
            tags: tags(settings, service, read),
            subnets: list(read, names::SUBNETS),
            allocations: list(read, names::ALLOCATIONS),
            private_addresses: list(read, names::PRIVATE_ADDRESSES),
            sources: match service.source_ranges.as_slice() {
                [] => vec![ANYWHERE.to_owned()],
                ranges => ranges.to_vec(),
            },
            groups: match settings.own_security_groups {
                false => Groups::Unmanaged,
                true if named.is_empty() => Groups::Own(own_group.clone()),
                true => Groups::Named(named),
            },
            own_group,
            is_classic,
            extra_groups: Vec::new(),
            proxy_protocol: false,
        };
        if is_classic {
            classic::adjust(settings, &mut wanted, read);
        } else if are_ignored {
            let why = "security-groups: without NLBSecurityGroupMode=Managed it has no effect, as with the Go provider";
            events.push(Event::warning("AnnotationIgnored", why));
        }
        // kube-proxy opens the node ports of such a Service for IPv6 alone.
        if matches!(service.ip_families.as_slice(), [IpFamily::Ipv6]) {
            let why = "ipFamilies: load balancers reach nodes by IPv4 alone, and a Service of IPv6 alone gets no traffic; give it IPv4, too, such as with ipFamilyPolicy: PreferDualStack";
            events.push(Event::warning("UnsupportedFieldConfigured", why));
        }
        annotations.finish()?;
        Ok(wanted)
    }

    /// A digest of everything that is wanted.
    pub fn digest(&self) -> String {
        digest(&serde_json::to_string(self).unwrap_or_default(), 16)
    }

    /// The name of a port's target group. It contains a digest of the fields that cannot be changed in a target group.
    pub fn group_name(&self, port: &Port) -> String {
        let (front, back, protocol) = (port.front, port.back, port.back_protocol);
        let (check, interval) = (&port.health.protocol, port.health.interval);
        let fixed = format!("{front} {back} {protocol} {check} {interval}");
        group_prefix(&self.name) + &digest(&fixed, 5)
    }

    /// Whether the rules for the clients let in the health checks, too.
    pub fn clients_cover_health(&self) -> bool {
        self.sources == [ANYWHERE]
            && self
                .ports
                .iter()
                .all(|port| port.back_protocol != "UDP" && port.health.port == "traffic-port")
    }
}

/// The first bytes of a text's SHA-256, in hexadecimal digits.
fn digest(text: &str, bytes: usize) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let bytes = digest.iter().take(bytes);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

fn tags(settings: &Settings, service: &Service, read: &mut Values<'_>) -> Vec<(String, String)> {
    let mut tags: BTreeMap<String, String> = pairs(read.list(names::TAGS)).collect();
    let service = format!("{}/{}", service.namespace, service.name);
    tags.insert("kubernetes.io/service-name".to_owned(), service);
    tags.extend(settings.cluster.owned());
    tags.into_iter().collect()
}

fn ports(service: &Service, health: &Health, read: &mut Values<'_>) -> Vec<Port> {
    let mut protocols = service.ports.iter().map(|port| port.protocol);
    let first = protocols.next();
    if protocols.any(|one| Some(one) != first) {
        read.mistake("ports: several protocols in one load balancer are not possible");
    }
    let (count, ranges) = (service.ports.len(), service.source_ranges.len());
    if !(1..=MAX_PORTS).contains(&count) || count * ranges > MAX_RULES {
        let most = format_args!("{MAX_PORTS}, in at most {MAX_RULES} pairs with source ranges");
        read.mistake(format_args!("ports: there may be 1 to {most}"));
        return Vec::new();
    }
    // As in the Go provider, `*` is the whole value or nothing.
    let listed = names::exact(service, names::TLS_PORTS);
    let listed = listed.filter(|text| !["", "*"].contains(text));
    let has_tls = |port: &ServicePort| {
        let name = port.name.as_deref().unwrap_or_default();
        let is_named = |text: &str| text == name || text.parse() == Ok(port.port);
        listed.is_none_or(|texts| texts.split(',').any(is_named))
    };
    let backend = read.text(names::BACKEND);
    let policy = read.text(names::TLS_POLICY).map(str::to_owned);
    let tls = read.text(names::CERTIFICATE).map(|certificate| Tls {
        certificate: certificate.to_owned(),
        policy,
    });
    let mut wanted = Vec::new();
    for port in &service.ports {
        let number = port.port;
        let protocol = match port.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => {
                read.mistake(format_args!("port {number}: SCTP is not possible"));
                continue;
            }
        };
        let Some(back) = port.node_port else {
            read.mistake(format_args!(
                "port {number}: it has no node port, by which traffic reaches the nodes"
            ));
            continue;
        };
        let tls = tls.clone().filter(|_| protocol == "TCP" && has_tls(port));
        let (front_protocol, back_protocol) = match (tls.is_some(), backend) {
            (true, Some("ssl")) => ("TLS", "TLS"),
            (true, _) => ("TLS", protocol),
            (false, _) => (protocol, protocol),
        };
        wanted.push(Port {
            front: number,
            front_protocol,
            tls,
            back,
            back_protocol,
            health: health.clone(),
        });
    }
    wanted
}
