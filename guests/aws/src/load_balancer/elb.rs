//! The requests about network load balancers.

use std::collections::BTreeSet;

use ccm_guest::Error;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::wanted::{Attributes, Port, Wanted};
use crate::ec2::{Subnet, Tag};
use crate::query::{Answer, Query, pairs, together};

mod records;

pub use records::{Listener, LoadBalancer, TargetGroup};

/// Objects on a page, AWS' maximum.
const PAGE: usize = 400;
/// Maximum number of targets in one request.
const TARGETS: usize = 100;
/// The lists in answers.
const LOAD_BALANCERS: &str = "LoadBalancers.*";
const LISTENERS: &str = "Listeners.*";
const TARGET_GROUPS: &str = "TargetGroups.*";

/// The load balancer of this name.
///
/// # Errors
/// A refusal by AWS, or no answer; [`Error::Conflict`] if it is no network load balancer.
pub fn by_name(name: &str) -> Result<Option<LoadBalancer>, Error> {
    let query = Query::elb("DescribeLoadBalancers").set("Names.member", [name]);
    match query.read::<Vec<LoadBalancer>>(LOAD_BALANCERS) {
        Ok(found) => chosen(found, name),
        Err(refusal) if refusal.is("LoadBalancerNotFound") => Ok(None),
        Err(refusal) => Err(refusal.error),
    }
}

/// As [`by_name`], from the list of all load balancers: only an answer without an error proves an absence.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn by_list(name: &str) -> Result<Option<LoadBalancer>, Error> {
    let query = Query::elb("DescribeLoadBalancers").set("PageSize", PAGE);
    chosen(query.pages(LOAD_BALANCERS)?, name)
}

fn chosen(found: Vec<LoadBalancer>, name: &str) -> Result<Option<LoadBalancer>, Error> {
    let found = found.into_iter().find(|one| one.load_balancer_name == name);
    match found {
        Some(other) if other.kind != "network" => {
            let why = format!("the load balancer {name} is of type {}", other.kind);
            Err(Error::conflict(why, None))
        }
        found => Ok(found),
    }
}

/// Creates a load balancer with these security groups.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn create(
    wanted: &Wanted,
    subnets: &[Subnet],
    groups: &[String],
) -> Result<LoadBalancer, Error> {
    let scheme = match wanted.internal {
        true => "internal",
        false => "internet-facing",
    };
    let mapping = |(index, subnet): (usize, &Subnet)| {
        json!({
            "SubnetId": subnet.subnet_id,
            "AllocationId": wanted.allocations.get(index),
            "PrivateIPv4Address": wanted.private_addresses.get(index),
        })
    };
    let mappings: Vec<_> = subnets.iter().enumerate().map(mapping).collect();
    let query = Query::elb("CreateLoadBalancer")
        .set("Name", &wanted.name)
        .set("Type", "network")
        .set("Scheme", scheme)
        .set("SecurityGroups.member", groups)
        .set("SubnetMappings.member", mappings)
        .set("Tags.member", pairs(&wanted.tags));
    let made = query.one(LOAD_BALANCERS)?;
    Ok(LoadBalancer {
        security_groups: groups.to_vec(),
        ..made
    })
}

/// The listeners of a load balancer.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn listeners(load_balancer: &str) -> Result<Vec<Listener>, Error> {
    let query = Query::elb("DescribeListeners").set("LoadBalancerArn", load_balancer);
    query.pages(LISTENERS)
}

/// The target groups of a load balancer; `None`: of the whole region.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn target_groups(load_balancer: Option<&str>) -> Result<Vec<TargetGroup>, Error> {
    let query = Query::elb("DescribeTargetGroups").set("LoadBalancerArn", load_balancer);
    query.set("PageSize", PAGE).pages(TARGET_GROUPS)
}

/// Creates a port's target group, or takes over the one that an interrupted call left. Also returns its registered
/// targets, as far as they are known: AWS returns a group that has the same settings as if it were new.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn create_target_group(
    wanted: &Wanted,
    port: &Port,
    vpc: &str,
) -> Result<(TargetGroup, BTreeSet<String>), Error> {
    let name = wanted.group_name(port);
    let query = Query::elb("CreateTargetGroup")
        .set("Name", &name)
        .set("VpcId", vpc)
        .set("Port", port.back)
        .set("Protocol", port.back_protocol)
        .set("TargetType", "instance")
        .set("HealthCheckProtocol", &port.health.protocol)
        .set("HealthCheckIntervalSeconds", port.health.interval)
        .set("Tags.member", pairs(&wanted.tags));
    match adjustable(query, port).one(TARGET_GROUPS) {
        Err(refusal) if refusal.is("DuplicateTargetGroupName") => {
            let query = Query::elb("DescribeTargetGroups").set("Names.member", [&name]);
            let left = set_health(query.one(TARGET_GROUPS)?, port)?;
            let targets = targets(std::slice::from_ref(&left))?.pop();
            Ok((left, targets.unwrap_or_default()))
        }
        made => Ok((made?, BTreeSet::new())),
    }
}

/// Changes the fields of a target group that AWS can change, if they differ, and returns the new state.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn set_health(group: TargetGroup, port: &Port) -> Answer<TargetGroup> {
    let health = port.health.clone();
    let wanted = TargetGroup {
        health_check_port: health.port,
        health_check_path: health.path.or_else(|| group.health_check_path.clone()),
        healthy_threshold_count: health.healthy,
        unhealthy_threshold_count: health.unhealthy,
        ..group.clone()
    };
    if wanted != group {
        let query = Query::elb("ModifyTargetGroup").set("TargetGroupArn", &group.target_group_arn);
        adjustable(query, port).act()?;
    }
    Ok(wanted)
}

fn adjustable(query: Query, port: &Port) -> Query {
    query
        .set("HealthCheckPort", &port.health.port)
        .set("HealthCheckPath", port.health.path.as_ref())
        .set("HealthyThresholdCount", port.health.healthy)
        .set("UnhealthyThresholdCount", port.health.unhealthy)
}

/// Deletes an object, a load balancer with its listeners; a missing one counts as deleted.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn delete(object: Object<'_>) -> Answer<()> {
    about(object, "Delete", "").delete()
}

/// Replaces the security groups of a load balancer.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn set_security_groups(arn: &str, groups: &[String]) -> Answer<()> {
    let query = Query::elb("SetSecurityGroups").set("LoadBalancerArn", arn);
    query.set("SecurityGroups.member", groups).act()
}

/// Creates the listener of a port, or changes the one that `existing` names. Returns its new state.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn put_listener(
    wanted: &Wanted,
    load_balancer: &str,
    existing: Option<&Listener>,
    port: &Port,
    group: &str,
) -> Answer<Listener> {
    let tls = port.tls.as_ref();
    let (certificate, policy) = tls.map(|tls| (&tls.certificate, &tls.policy)).unzip();
    let query = match existing {
        Some(listener) => Query::elb("ModifyListener").set("ListenerArn", &listener.listener_arn),
        None => Query::elb("CreateListener")
            .set("LoadBalancerArn", load_balancer)
            .set("Tags.member", pairs(&wanted.tags)),
    };
    let query = query
        .set("Port", port.front)
        .set("Protocol", port.front_protocol)
        .set("DefaultActions.member.1.Type", "forward")
        .set("DefaultActions.member.1.TargetGroupArn", group)
        .set("Certificates.member.1.CertificateArn", certificate)
        .set("SslPolicy", policy);
    let arn = match existing {
        Some(listener) => {
            query.act()?;
            listener.listener_arn.clone()
        }
        None => query.one::<Listener>(LISTENERS)?.listener_arn,
    };
    Ok(Listener {
        listener_arn: arn,
        port: port.front,
        protocol: port.front_protocol.to_owned(),
        ssl_policy: policy.cloned().flatten(),
        certificates: certificate.into_iter().cloned().collect(),
        target_groups: vec![group.to_owned()],
    })
}

/// The targets of each target group that receive traffic, without those that are draining.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn targets(groups: &[TargetGroup]) -> Result<Vec<BTreeSet<String>>, Error> {
    #[derive(Deserialize)]
    struct Description {
        #[serde(rename = "Target.Id")]
        id: String,
        #[serde(rename = "TargetHealth.State", default)]
        state: String,
    }
    let query = |group: &TargetGroup| {
        Query::elb("DescribeTargetHealth").set("TargetGroupArn", &group.target_group_arn)
    };
    let queries = groups.iter().map(query).collect();
    let answers: Vec<Vec<Description>> = together(queries, "TargetHealthDescriptions.*")?;
    let staying = |all: Vec<Description>| {
        let staying = all.into_iter().filter(|one| one.state != "draining");
        staying.map(|one| one.id).collect()
    };
    Ok(answers.into_iter().map(staying).collect())
}

/// The instances behind a load balancer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Targets {
    /// Running instances: AWS registers no others.
    pub running: BTreeSet<String>,
    /// Existing instances of the cluster: they stay registered if they are.
    pub existing: BTreeSet<String>,
}

impl Targets {
    /// Of the registered targets in `are`, those to deregister; and those to register.
    pub fn changes<'a>(&'a self, are: &'a BTreeSet<String>) -> (Vec<&'a String>, Vec<&'a String>) {
        let leaving = are.difference(&self.existing);
        let coming = self.running.difference(are);
        (leaving.collect(), coming.collect())
    }
}

/// Makes a group's targets the wanted ones. Deregisters before it registers, because the number of targets is limited.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn set_targets(
    group: &TargetGroup,
    are: &BTreeSet<String>,
    wanted: &Targets,
) -> Result<(), Error> {
    let (leaving, coming) = wanted.changes(are);
    let target = |id: &&String| json!({ "Id": id, "Port": group.port });
    for (action, changed) in [("DeregisterTargets", leaving), ("RegisterTargets", coming)] {
        for some in changed.chunks(TARGETS) {
            let query = Query::elb(action).set("TargetGroupArn", &group.target_group_arn);
            let targets: Vec<_> = some.iter().map(target).collect();
            query.set("Targets.member", targets).act()?;
        }
    }
    Ok(())
}

/// The kinds of objects, as the API names them.
pub const LOAD_BALANCER: &str = "LoadBalancer";
/// See [`LOAD_BALANCER`].
pub const LISTENER: &str = "Listener";
/// See [`LOAD_BALANCER`].
pub const TARGET_GROUP: &str = "TargetGroup";

/// An object, by its kind and its ARN.
pub type Object<'a> = (&'static str, &'a str);

/// A request about an object: its action has the kind's name in between, such as `DescribeTargetGroupAttributes`.
fn about((kind, arn): Object<'_>, verb: &str, what: &str) -> Query {
    Query::elb(&format!("{verb}{kind}{what}")).set(&format!("{kind}Arn"), arn)
}

/// The attributes of a load balancer or a target group.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn attributes(object: Object<'_>) -> Answer<Attributes> {
    let query = about(object, "Describe", "Attributes");
    let described: Vec<Tag> = query.read("Attributes.*")?;
    let pairs = described.into_iter().map(|one| (one.key, one.value));
    Ok(pairs.collect())
}

/// Changes the attributes that differ, and returns the new state. The attributes of a new object need not be read: it
/// has AWS' defaults.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn set_attributes(
    object: Object<'_>,
    mut are: Attributes,
    wanted: &Attributes,
) -> Answer<Attributes> {
    let changed = differing(&are, wanted);
    if !changed.is_empty() {
        let query = about(object, "Modify", "Attributes");
        query.set("Attributes.member", pairs(&changed)).act()?;
        are.extend(wanted.clone());
    }
    Ok(are)
}

/// The wanted attributes that differ. An attribute that AWS does not return is off or empty.
pub fn differing<'a>(are: &Attributes, wanted: &'a Attributes) -> Vec<(&'a String, &'a String)> {
    let is = |key: &String| match are.get(key) {
        Some(value) => value.as_str(),
        None if key.to_ascii_lowercase().ends_with(".enabled") => "false",
        None => "",
    };
    let wanted = wanted.iter();
    wanted.filter(|(key, value)| is(key) != **value).collect()
}
