//! The requests about classic load balancers. One request returns everything about a load balancer but its attributes.

use std::collections::{BTreeMap, BTreeSet};

use ccm_guest::{Error, Ingress, LoadBalancerStatus};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::elb::{Targets, differing};
use super::super::wanted::{Attributes, Health, Port, Wanted};
use crate::query::{Answer, Query, pairs};

/// Version of the API for classic load balancers.
pub(crate) const VERSION: &str = "2012-06-01";
/// Load balancers on a page, AWS' maximum.
const PAGE: usize = 400;
/// The load balancers in an answer.
const LOAD_BALANCERS: &str = "LoadBalancerDescriptions.*";

/// A classic load balancer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Classic {
    /// The name, which also identifies the load balancer in requests.
    pub load_balancer_name: String,
    /// The DNS name for clients.
    #[serde(rename = "DNSName")]
    pub dns_name: String,
    /// `internal` or `internet-facing`.
    pub scheme: String,
    /// The ID of the VPC.
    #[serde(rename = "VPCId")]
    pub vpc_id: String,
    /// Names of the zones of its subnets.
    #[serde(rename = "AvailabilityZones.*")]
    pub zones: Vec<String>,
    /// IDs of the subnets, one in each zone.
    #[serde(rename = "Subnets.*")]
    pub subnets: Vec<String>,
    /// IDs of the security groups.
    #[serde(rename = "SecurityGroups.*")]
    pub security_groups: BTreeSet<String>,
    #[serde(rename = "ListenerDescriptions.*")]
    listeners: Vec<Listener>,
    #[serde(rename = "BackendServerDescriptions.*")]
    backends: Vec<Backend>,
    #[serde(rename = "Policies.OtherPolicies.*")]
    policies: BTreeSet<String>,
    health_check: Check,
    #[serde(rename = "Instances.*.InstanceId")]
    instances: BTreeSet<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Listener {
    #[serde(rename = "Listener.Protocol")]
    protocol: String,
    #[serde(rename = "Listener.LoadBalancerPort")]
    port: u16,
    #[serde(rename = "Listener.InstanceProtocol")]
    instance_protocol: String,
    #[serde(rename = "Listener.InstancePort")]
    instance_port: u16,
    #[serde(rename = "Listener.SSLCertificateId")]
    certificate: String,
    #[serde(rename = "PolicyNames.*")]
    policies: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Backend {
    instance_port: u16,
    #[serde(rename = "PolicyNames.*")]
    policies: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Check {
    target: String,
    interval: u32,
    timeout: u32,
    healthy_threshold: u32,
    unhealthy_threshold: u32,
}

impl Listener {
    /// Whether the listener is as wanted. As with the Go provider, an ARN has no case.
    fn is(&self, port: &Port) -> bool {
        (self.port, self.instance_port) == (port.front, port.back)
            && self.protocol.eq_ignore_ascii_case(port.front_protocol)
            && self
                .instance_protocol
                .eq_ignore_ascii_case(port.back_protocol)
            && certificate(port)
                .unwrap_or_default()
                .eq_ignore_ascii_case(&self.certificate)
    }
}

impl Classic {
    /// The status for the Service.
    pub fn status(&self) -> LoadBalancerStatus {
        let name = Some(self.dns_name.to_lowercase()).filter(|name| !name.is_empty());
        LoadBalancerStatus::new(name.map(Ingress::hostname))
    }

    fn query(&self, action: &'static str) -> Query {
        Query::elb_of(VERSION, action).set("LoadBalancerName", &self.load_balancer_name)
    }
}

/// The load balancer of this name.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn by_name(name: &str) -> Result<Option<Classic>, Error> {
    let query =
        Query::elb_of(VERSION, "DescribeLoadBalancers").set("LoadBalancerNames.member", [name]);
    match query.read::<Vec<Classic>>(LOAD_BALANCERS) {
        Ok(found) => Ok(found.into_iter().find(|lb| lb.load_balancer_name == name)),
        Err(refusal) if refusal.is("LoadBalancerNotFound") => Ok(None),
        Err(refusal) => Err(refusal.error),
    }
}

/// All load balancers of the region: only an answer without an error proves that a name does not exist.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn list() -> Result<Vec<Classic>, Error> {
    let query = Query::elb_of(VERSION, "DescribeLoadBalancers").set("PageSize", PAGE);
    query.pages(LOAD_BALANCERS)
}

/// As [`by_name`], from the list of all load balancers.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn by_list(name: &str) -> Result<Option<Classic>, Error> {
    let mut all = list()?.into_iter();
    Ok(all.find(|lb| lb.load_balancer_name == name))
}

/// Creates a load balancer with its ports.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn create(wanted: &Wanted, subnets: &[String], groups: &[String]) -> Result<Classic, Error> {
    let query = Query::elb_of(VERSION, "CreateLoadBalancer")
        .set("LoadBalancerName", &wanted.name)
        .set("Scheme", wanted.internal.then_some("internal"))
        .set("Subnets.member", subnets)
        .set("SecurityGroups.member", groups)
        .set("Tags.member", pairs(&wanted.tags));
    let dns_name = with_listeners(query, &wanted.ports).read("DNSName")?;
    let listener = |port: &Port| Listener {
        protocol: port.front_protocol.to_owned(),
        port: port.front,
        instance_protocol: port.back_protocol.to_owned(),
        instance_port: port.back,
        certificate: certificate(port).unwrap_or_default().to_owned(),
        policies: Vec::new(),
    };
    Ok(Classic {
        load_balancer_name: wanted.name.clone(),
        dns_name,
        listeners: wanted.ports.iter().map(listener).collect(),
        ..Classic::default()
    })
}

fn certificate(port: &Port) -> Option<&str> {
    port.tls.as_ref().map(|tls| tls.certificate.as_str())
}

fn with_listeners<'a>(query: Query, ports: impl IntoIterator<Item = &'a Port>) -> Query {
    let listener = |port: &Port| {
        json!({
            "Protocol": port.front_protocol,
            "LoadBalancerPort": port.front,
            "InstanceProtocol": port.back_protocol,
            "InstancePort": port.back,
            "SSLCertificateId": certificate(port),
        })
    };
    let listeners: Vec<_> = ports.into_iter().map(listener).collect();
    query.set("Listeners.member", listeners)
}

/// Changes the ports that differ, by deletion and creation, because AWS cannot change a port.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn set_listeners(classic: &Classic, wanted: &Wanted) -> Answer<()> {
    let are = &classic.listeners;
    let surplus = are
        .iter()
        .filter(|one| !wanted.ports.iter().any(|port| one.is(port)));
    let surplus: Vec<u16> = surplus.map(|one| one.port).collect();
    let missing = wanted
        .ports
        .iter()
        .filter(|port| !are.iter().any(|one| one.is(port)));
    let missing: Vec<&Port> = missing.collect();
    if !surplus.is_empty() {
        let query = classic.query("DeleteLoadBalancerListeners");
        query.set("LoadBalancerPorts.member", surplus).act()?;
    }
    match missing.is_empty() {
        true => Ok(()),
        false => with_listeners(classic.query("CreateLoadBalancerListeners"), missing).act(),
    }
}

/// The policy of node ports with the proxy protocol; the Go provider uses the same name.
const PROXY: &str = "k8s-proxyprotocol-enabled";

/// Sets the policies of ports: the proxy protocol for node ports, and the security policy for TLS.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn set_policies(classic: &Classic, wanted: &Wanted) -> Answer<()> {
    let mut existing = classic.policies.clone();
    let mut make = |name: &str, kind: &str, attribute: (&str, &str)| -> Answer<()> {
        if !existing.insert(name.to_owned()) {
            return Ok(());
        }
        let query = classic.query("CreateLoadBalancerPolicy");
        let made = query
            .set("PolicyName", name)
            .set("PolicyTypeName", kind)
            .set("PolicyAttributes.member.1.AttributeName", attribute.0)
            .set("PolicyAttributes.member.1.AttributeValue", attribute.1)
            .act();
        match made {
            Err(refusal) if !refusal.is("DuplicatePolicyName") => Err(refusal),
            _ => Ok(()),
        }
    };
    let backends = &classic.backends;
    let has = |port: u16| {
        let of = backends.iter().find(|one| one.instance_port == port);
        of.is_some_and(|one| one.policies.iter().any(|name| name == PROXY))
    };
    let back = |port: &Port| wanted.proxy_protocol.then_some(port.back);
    let wants: BTreeSet<u16> = wanted.ports.iter().filter_map(back).collect();
    let all = backends.iter().map(|one| one.instance_port);
    let all: BTreeSet<u16> = all.chain(wants.iter().copied()).collect();
    for port in all
        .into_iter()
        .filter(|port| has(*port) != wants.contains(port))
    {
        let query = classic.query("SetLoadBalancerPoliciesForBackendServer");
        let query = query.set("InstancePort", port);
        if wants.contains(&port) {
            make(PROXY, "ProxyProtocolPolicyType", ("ProxyProtocol", "true"))?;
            query.set("PolicyNames.member", [PROXY]).act()?;
        } else {
            query.set("PolicyNames", "").act()?;
        }
    }
    for port in &wanted.ports {
        let Some(policy) = port.tls.as_ref().and_then(|tls| tls.policy.as_ref()) else {
            continue;
        };
        let name = format!("k8s-SSLNegotiationPolicy-{policy}");
        // A listener that differed was made anew since it was read, and has AWS' default policy.
        let mut listeners = classic.listeners.iter();
        let listener = listeners.find(|one| one.is(port));
        if listener.is_some_and(|one| one.policies.contains(&name)) {
            continue;
        }
        let attribute = ("Reference-Security-Policy", policy.as_str());
        make(&name, "SSLNegotiationPolicyType", attribute)?;
        let query = classic.query("SetLoadBalancerPoliciesOfListener");
        let query = query.set("LoadBalancerPort", port.front);
        query.set("PolicyNames.member", [name]).act()?;
    }
    Ok(())
}

/// Sets the health check.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn set_health(classic: &Classic, health: &Health, first: &Port) -> Answer<()> {
    let port = match health.port.as_str() {
        "traffic-port" => first.back.to_string(),
        port => port.to_owned(),
    };
    let path = health.path.as_deref().unwrap_or_default();
    let wanted = Check {
        target: format!("{}:{port}{path}", health.protocol),
        interval: health.interval,
        timeout: health.timeout,
        healthy_threshold: health.healthy,
        unhealthy_threshold: health.unhealthy,
    };
    if classic.health_check == wanted {
        return Ok(());
    }
    let query = classic.query("ConfigureHealthCheck");
    query.set("HealthCheck", &wanted).act()
}

/// The attributes of a load balancer, by their fields.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn attributes(classic: &Classic) -> Answer<Attributes> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "PascalCase", default)]
    struct Parts {
        access_log: Attributes,
        connection_draining: Attributes,
        connection_settings: Attributes,
        cross_zone_load_balancing: Attributes,
    }
    let query = classic.query("DescribeLoadBalancerAttributes");
    let parts: Parts = query.read("LoadBalancerAttributes")?;
    let mut attributes = new_attributes();
    for (name, part) in [
        ("AccessLog", parts.access_log),
        ("ConnectionDraining", parts.connection_draining),
        ("ConnectionSettings", parts.connection_settings),
        ("CrossZoneLoadBalancing", parts.cross_zone_load_balancing),
    ] {
        let part = part.into_iter();
        attributes.extend(part.map(|(key, value)| (format!("{name}.{key}"), value)));
    }
    Ok(attributes)
}

/// AWS' defaults, which a new load balancer has.
pub fn new_attributes() -> Attributes {
    BTreeMap::from([("ConnectionSettings.IdleTimeout".to_owned(), "60".to_owned())])
}

/// Changes the attributes if they differ, and returns the new state.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn set_attributes(
    classic: &Classic,
    mut are: Attributes,
    wanted: &Wanted,
) -> Answer<Attributes> {
    if !differing(&are, &wanted.attributes).is_empty() {
        let query = classic.query("ModifyLoadBalancerAttributes");
        let query = query.set("LoadBalancerAttributes", &wanted.attributes);
        query.act()?;
        are.extend(wanted.attributes.clone());
    }
    Ok(are)
}

/// Registers and deregisters instances, so that the load balancer has the wanted ones.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn set_instances(classic: &Classic, wanted: &Targets) -> Answer<()> {
    let (leaving, coming) = wanted.changes(&classic.instances);
    for (action, changed) in [
        ("RegisterInstancesWithLoadBalancer", coming),
        ("DeregisterInstancesFromLoadBalancer", leaving),
    ] {
        if changed.is_empty() {
            continue;
        }
        let query = classic.query(action);
        let instances = changed.iter().map(|id| json!({ "InstanceId": id }));
        let instances: Vec<_> = instances.collect();
        query.set("Instances.member", instances).act()?;
    }
    Ok(())
}

/// Attaches subnets, in zones in which the load balancer has none.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn attach_subnets(classic: &Classic, subnets: &[String]) -> Answer<()> {
    let query = classic.query("AttachLoadBalancerToSubnets");
    query.set("Subnets.member", subnets).act()
}

/// Replaces the load balancer's security groups.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn set_security_groups(classic: &Classic, groups: &[String]) -> Answer<()> {
    let query = classic.query("ApplySecurityGroupsToLoadBalancer");
    query.set("SecurityGroups.member", groups).act()
}

/// Deletes the load balancer; a missing one counts as deleted.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn delete(classic: &Classic) -> Answer<()> {
    classic.query("DeleteLoadBalancer").act()
}
