//! Security groups: rules in the nodes' groups that let a load balancer in, and a load balancer's own group.
//!
//! A rule belongs to a load balancer by its description, as the Go provider writes it, so that one listing of the VPC's
//! groups shows every rule that has to go. Two kinds of rules serve all load balancers of a group, and go with the last
//! of them: those for the clients' ICMP messages about packet sizes, and those for the health check that Services share.

use std::collections::{BTreeMap, BTreeSet};

use ccm_guest::event::listed;
use ccm_guest::{Error, Event};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::wanted::{Port, Wanted};
use crate::config::{Cluster, KUBE_PROXY, LEGACY, Settings};
use crate::ec2::{Instance, Tags};
use crate::query::{Answer, Query, filter, pairs};

#[cfg(test)]
mod tests;

/// Security groups on a page.
const PAGE: usize = 500;
/// Prefixes of the descriptions of rules.
const CLIENT: &str = "kubernetes.io/rule/nlb/client";
const HEALTH: &str = "kubernetes.io/rule/nlb/health";
const PACKET_SIZE: &str = "kubernetes.io/rule/nlb/mtu";
/// The description of a load balancer's own group, as the Go provider writes it.
const OWN: &str = "[k8s] Managed SecurityGroup for LoadBalancer";
/// The API's protocol number for all protocols.
const EVERYTHING: &str = "-1";
/// AWS' error codes for a rule that has the wanted state already.
const IS_SO: [&str; 2] = ["InvalidPermission.Duplicate", "InvalidPermission.NotFound"];
/// AWS' error code for a group that can have no more rules.
const FULL: &str = "RulesPerSecurityGroupLimitExceeded";

/// A security group with its inbound rules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// The ID, `sg-…`.
    pub group_id: String,
    /// The group's name.
    #[serde(default)]
    pub group_name: String,
    #[serde(rename = "ipPermissions.*", default)]
    permissions: Vec<Permission>,
    /// Tags of the group.
    #[serde(rename = "tagSet.*", default)]
    pub tags: Tags,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Permission {
    ip_protocol: String,
    from_port: Option<i32>,
    to_port: Option<i32>,
    #[serde(rename = "ipRanges.*", default)]
    ipv4: Vec<Source>,
    #[serde(rename = "ipv6Ranges.*", default)]
    ipv6: Vec<Source>,
    #[serde(rename = "groups.*", default)]
    groups: Vec<Source>,
}

/// The source of a rule: an address range, or a security group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Source {
    #[serde(alias = "cidrIp", alias = "cidrIpv6", alias = "groupId")]
    range: String,
    #[serde(default)]
    description: String,
}

/// An inbound rule. AWS identifies it by these fields alone; the description does not count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    protocol: String,
    from: i32,
    to: i32,
    range: String,
}

/// Rules with their descriptions.
pub type Rules = BTreeMap<Rule, String>;

impl Rule {
    fn of(protocol: &str, (from, to): (i32, i32), range: &str) -> Rule {
        Rule {
            protocol: protocol.to_owned(),
            from,
            to,
            range: range.to_owned(),
        }
    }

    fn new(protocol: &str, port: u16, range: &str) -> Rule {
        Rule::of(protocol, (port.into(), port.into()), range)
    }

    /// ICMP type 3, code 4: fragmentation needed.
    fn packet_size(range: &str) -> Rule {
        Rule::of("icmp", (3, 4), range)
    }
}

impl Group {
    /// Whether it was made for a load balancer, by this provider or the Go provider. The older tag has no value but the
    /// cluster.
    pub fn is_own(&self, cluster: &Cluster) -> bool {
        let is_owned = self.tags.get(&cluster.key()) == Some("owned")
            || self.tags.get(LEGACY) == Some(&*cluster.id);
        is_owned && self.group_name.starts_with("k8s-")
    }

    fn rules(&self) -> Rules {
        let mut rules = Rules::new();
        for permission in &self.permissions {
            let lists = [&permission.ipv4, &permission.ipv6, &permission.groups];
            for source in lists.into_iter().flatten() {
                let ports = (permission.from_port, permission.to_port);
                let ports = (ports.0.unwrap_or(-1), ports.1.unwrap_or(-1));
                let rule = Rule::of(&permission.ip_protocol, ports, &source.range);
                rules.insert(rule, source.description.clone());
            }
        }
        rules
    }
}

/// The security groups that a filter selects.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn list(name: &str, value: &str) -> Result<Vec<Group>, Error> {
    let query = Query::ec2("DescribeSecurityGroups").set("MaxResults", PAGE);
    let query = query.set("Filter", [filter(name, [value])]);
    query.pages("securityGroupInfo.*")
}

/// The security groups of a VPC; of the cluster if the VPC is not known.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn list_of(settings: &Settings, vpc: Option<&String>) -> Result<Vec<Group>, Error> {
    match vpc.filter(|vpc| !vpc.is_empty()).or(settings.vpc.as_ref()) {
        Some(vpc) => list("vpc-id", vpc),
        None => list("tag-key", &settings.cluster.key()),
    }
}

/// The groups of the nodes that have to let traffic in: of each instance the one with the cluster's tag, or its only
/// one. `tagged` are the groups with that tag. Also returns an event about instances whose group cannot be determined.
pub fn of_nodes(
    tagged: &BTreeSet<String>,
    instances: &[Instance],
    settings: &Settings,
) -> (BTreeSet<String>, Option<Event>) {
    let mut chosen = BTreeSet::new();
    let mut unclear = Vec::new();
    for instance in instances {
        let mut marked = instance.groups.iter().filter(|id| tagged.contains(*id));
        match (marked.next(), marked.next(), &*instance.groups) {
            (Some(one), None, _) | (None, _, [one]) => drop(chosen.insert(one.clone())),
            _ => unclear.push(instance.instance_id.as_str()),
        }
    }
    let event = (!unclear.is_empty()).then(|| {
        let (key, which) = (settings.cluster.key(), listed(&unclear));
        let why = format!("exactly one security group of each node has to have the tag {key}; traffic is not let in to {which}");
        Event::warning("SecurityGroupUnclear", why)
    });
    (chosen, event)
}

/// The rules that a load balancer needs in a node's group. `subnets` are the ranges of its subnets, where health checks
/// come from.
pub fn for_nodes(wanted: &Wanted, subnets: &[String]) -> Rules {
    let mut rules = Rules::new();
    let of = |kind: &str| format!("{kind}={}", wanted.name);
    if !wanted.clients_cover_health() {
        for port in &wanted.ports {
            let checked = port.health.port.parse().unwrap_or(port.back);
            let ranges = subnets.iter();
            rules.extend(ranges.map(|range| (Rule::new("tcp", checked, range), of(HEALTH))));
        }
    }
    // After the health checks' rules, because the same rule may serve both, and the clients' description then wins.
    for port in &wanted.ports {
        let protocol = transport(port);
        let ranges = wanted.sources.iter();
        rules.extend(ranges.map(|range| (Rule::new(protocol, port.back, range), of(CLIENT))));
    }
    rules
}

/// The rules of a load balancer's own group.
pub fn for_own(wanted: &Wanted) -> Rules {
    let mut rules = Rules::new();
    for range in &wanted.sources {
        let rule = |port: &Port| (Rule::new(transport(port), port.front, range), String::new());
        rules.extend(wanted.ports.iter().map(rule));
        if !range.contains(':') {
            rules.insert(Rule::packet_size(range), String::new());
        }
    }
    rules
}

fn transport(port: &Port) -> &'static str {
    match port.front_protocol {
        "UDP" => "udp",
        _ => "tcp",
    }
}

/// Gives the load balancer `name` exactly the rules `wanted` in the groups `chosen`, and none in the others. Returns
/// whether the rules were so before. `cached_of` is the VPC of groups that come from the cache: before a rule goes that
/// serves all load balancers, the groups are read, because another one may need it by now.
///
/// # Errors
/// A refusal by AWS for one of the rules, or no answer.
pub fn open(
    settings: &Settings,
    groups: &[Group],
    name: &str,
    chosen: &BTreeSet<String>,
    wanted: &Rules,
    cached_of: Option<&str>,
) -> Result<bool, Error> {
    let shared = settings.shared_health.as_ref();
    let shared = shared.map_or(KUBE_PROXY, |health| health.port);
    let (nothing, mut changes) = (Rules::new(), Vec::new());
    for group in groups {
        let is_chosen = chosen.contains(&group.group_id);
        let rules = if is_chosen { wanted } else { &nothing };
        changes.push((group, difference(&group.rules(), name, rules, shared)));
    }
    let mut revoked = changes.iter().flat_map(|(_, needed)| needed.revoke.keys());
    let serves_all = |rule: &Rule| rule.protocol == "icmp" || rule.from == i32::from(shared);
    if let Some(vpc) = cached_of
        && revoked.any(serves_all)
    {
        let groups = list("vpc-id", vpc)?;
        return open(settings, &groups, name, chosen, wanted, None).map(|_| false);
    }
    for (group, needed) in &changes {
        change(group, needed)?;
    }
    Ok(changes.iter().all(|(_, one)| *one == Change::default()))
}

/// Lets all traffic from the group `source` into the groups `chosen`, and into no other of `groups`. As with the Go
/// provider, a chosen group that lets in some of it stays as it is: somebody may have made that narrower rule in advance.
///
/// # Errors
/// A refusal by AWS for one of the rules, or no answer.
pub fn admit<'a>(
    groups: impl IntoIterator<Item = &'a Group>,
    source: &str,
    chosen: &BTreeSet<String>,
) -> Result<(), Error> {
    let rule = Rule::of(EVERYTHING, (-1, -1), source);
    for group in groups {
        let (are, mut wanted) = (group.rules(), Rules::new());
        let is_chosen = chosen.contains(&group.group_id);
        if is_chosen && !are.keys().any(|one| one.range == source) {
            wanted.insert(rule.clone(), String::new());
        }
        let needed = Change::of(&are, &wanted, |one, _| !is_chosen && *one == rule);
        change(group, &needed)?;
    }
    Ok(())
}

/// Gives the load balancer's own group, which is the one of this name, exactly these rules. Returns whether the rules
/// were so before.
///
/// # Errors
/// A refusal by AWS for one of the rules, or no answer; [`Error::Unavailable`] if there is no such group.
pub fn set_own(groups: &[Group], name: &str, wanted: &Rules) -> Result<bool, Error> {
    let group = groups.iter().find(|group| group.group_name == name);
    let gone = || Error::unavailable(format!("the security group {name} is gone"));
    let group = group.ok_or_else(gone)?;
    let needed = Change::of(&group.rules(), wanted, |_, _| true);
    change(group, &needed)?;
    Ok(needed == Change::default())
}

/// The difference between a group's rules and the wanted ones. Rules are revoked without their descriptions.
#[derive(Debug, Default, PartialEq, Eq)]
struct Change {
    grant: Rules,
    revoke: Rules,
}

impl Change {
    /// Missing rules are granted. Existing rules are revoked if they are not wanted and `may_go` allows it.
    fn of(are: &Rules, wanted: &Rules, may_go: impl Fn(&Rule, &String) -> bool) -> Change {
        let (mut grant, mut revoke) = (wanted.clone(), are.clone());
        grant.retain(|rule, _| !are.contains_key(rule));
        revoke.retain(|rule, why| may_go(rule, why) && !wanted.contains_key(rule));
        revoke.values_mut().for_each(String::clear);
        Change { grant, revoke }
    }
}

/// Compares a group's rules with those wanted for `name`. Another owner's rule that lets in the same traffic suffices,
/// and stays. So one rule for the port `shared` of health checks serves all load balancers, whoever it was made for: it
/// stays while another of them lets clients in.
fn difference(are: &Rules, name: &str, wanted: &Rules, shared: u16) -> Change {
    let own = [format!("{CLIENT}={name}"), format!("{HEALTH}={name}")];
    if wanted.is_empty() && !are.values().any(|why| own.contains(why)) {
        return Change::default();
    }
    let has_others = are
        .values()
        .any(|why| why.starts_with(CLIENT) && !own.contains(why));
    let may_go = |rule: &Rule, why: &String| match why.starts_with(HEALTH) {
        true if rule.from == i32::from(shared) => !has_others,
        _ => own.contains(why),
    };
    let mut change = Change::of(are, wanted, may_go);
    let staying = are
        .iter()
        .filter(|(rule, _)| !change.revoke.contains_key(rule))
        .chain(&change.grant);
    let clients = staying.filter(|(rule, why)| why.starts_with(CLIENT) && rule.range.contains('.'));
    let sizes: Rules = clients
        .map(|(rule, _)| (Rule::packet_size(&rule.range), PACKET_SIZE.to_owned()))
        .collect();
    let sizes = Change::of(are, &sizes, |_, why| why == PACKET_SIZE);
    change.revoke.extend(sizes.revoke);
    change.grant.extend(sizes.grant);
    change
}

/// Sends one request for the rules to grant, and one for those to revoke. In a full group what goes makes room first.
fn change(group: &Group, change: &Change) -> Answer<()> {
    let grant = || send("AuthorizeSecurityGroupIngress", group, &change.grant);
    let revoke = || send("RevokeSecurityGroupIngress", group, &change.revoke);
    match grant() {
        Err(refusal) if refusal.is(FULL) && !change.revoke.is_empty() => {
            revoke().and_then(|()| grant())
        }
        answer => answer.and_then(|()| revoke()),
    }
}

fn send(action: &'static str, group: &Group, rules: &Rules) -> Answer<()> {
    if rules.is_empty() {
        return Ok(());
    }
    match permissions(action, group, rules).act() {
        Err(refusal) if IS_SO.contains(&refusal.code.as_str()) => match rules.len() {
            1 => Ok(()),
            // Another writer was faster with one of the rules, such as the shared one; AWS then changes none of them.
            _ => rules.iter().try_for_each(|(rule, why)| {
                send(action, group, &Rules::from([(rule.clone(), why.clone())]))
            }),
        },
        answer => answer,
    }
}

fn permissions(action: &'static str, group: &Group, rules: &Rules) -> Query {
    let permission = |(rule, why): (&Rule, &String)| {
        let (ranges, range) = match rule.range.as_str() {
            group if group.starts_with("sg-") => ("Groups", "GroupId"),
            range if range.contains(':') => ("Ipv6Ranges", "CidrIpv6"),
            _ => ("IpRanges", "CidrIp"),
        };
        let has_ports = rule.protocol != EVERYTHING;
        json!({
            "IpProtocol": rule.protocol,
            "FromPort": has_ports.then_some(rule.from),
            "ToPort": has_ports.then_some(rule.to),
            ranges: [{ range: rule.range, "Description": Some(why).filter(|why| !why.is_empty()) }],
        })
    };
    let permissions: Vec<_> = rules.iter().map(permission).collect();
    let query = Query::ec2(action).set("GroupId", &group.group_id);
    query.set("IpPermissions", permissions)
}

/// Creates a load balancer's own group.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn create(name: &str, vpc: &str, tags: &[(String, String)]) -> Result<Group, Error> {
    let group_id = Query::ec2("CreateSecurityGroup")
        .set("GroupName", name)
        .set("GroupDescription", OWN)
        .set("VpcId", vpc)
        .set("TagSpecification.1.ResourceType", "security-group")
        .set("TagSpecification.1.Tag", pairs(tags))
        .read("groupId")?;
    Ok(Group {
        group_id,
        group_name: name.to_owned(),
        ..Group::default()
    })
}

/// Deletes a group; a missing one counts as deleted.
///
/// # Errors
/// A refusal by AWS, such as while its load balancer is being deleted, or no answer.
pub fn delete(group: &Group) -> Answer<()> {
    let query = Query::ec2("DeleteSecurityGroup");
    query.set("GroupId", &group.group_id).delete()
}
