//! The configuration: keys of the Go provider's `[Global]` section, under their own names.

use std::collections::BTreeSet;

use ccm_guest::values::Values;
use ccm_guest::{Config, Error, IpFamily};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::ec2::Tags;
use crate::provider_id::is_instance_id;

#[cfg(test)]
mod tests;

/// Tag whose key names a cluster; its value says whether the cluster owns the object.
const CLUSTER: &str = "kubernetes.io/cluster/";
/// Tag whose value names a cluster, older than the tag whose key does.
pub const LEGACY: &str = "KubernetesCluster";
/// Port of kube-proxy's health check on every node.
pub const KUBE_PROXY: u16 = 10256;

/// The settings of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The AWS region of every object and request.
    pub region: String,
    /// `VPC`; `None`: the VPC of the nodes' instances, or of the subnets with the cluster's tag.
    pub vpc: Option<String>,
    /// Subnet for load balancers in a VPC without a usable tag.
    pub subnet: Option<String>,
    /// The route table's ID; `None`: the table with the cluster's tag.
    pub route_table: Option<String>,
    /// The cluster's ID, by which its objects are recognised; empty if `own_instance` names it.
    pub cluster: Cluster,
    /// The instance whose tags name the cluster; `None`: the configuration names it.
    pub own_instance: Option<String>,
    /// `--cluster-name`; part of the names of security groups.
    pub cluster_name: String,
    /// IP families of the nodes' addresses, the preferred one first.
    pub families: Vec<IpFamily>,
    /// Whether rules in the nodes' security groups let load balancers in.
    pub opens_node_groups: bool,
    /// Whether each load balancer gets a security group of its own.
    pub own_security_groups: bool,
    /// The security group of all classic load balancers; `None`: each gets its own.
    pub elb_security_group: Option<String>,
    /// The health check that all Services with `externalTrafficPolicy: Cluster` share; `None`: each port has its own.
    pub shared_health: Option<SharedHealth>,
    /// `--cluster-cidr`: only routes into these ranges are managed.
    pub pod_ranges: Vec<IpNet>,
}

/// The health check of kube-proxy, in place of each Service's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedHealth {
    /// The port on every node, the same for all Services.
    pub port: u16,
    /// The path of the HTTP request.
    pub path: String,
}

/// The cluster's ID, and which tags name it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// The ID: the end of the key of `kubernetes.io/cluster/ID`, and the value of the older `KubernetesCluster`.
    pub id: String,
    /// Whether new objects get the older tag as well.
    legacy: bool,
}

impl Cluster {
    /// The key of the cluster's tag.
    pub fn key(&self) -> String {
        format!("{CLUSTER}{}", self.id)
    }

    /// The tags that mark an object as owned by this cluster.
    pub fn owned(&self) -> Vec<(String, String)> {
        let mut tags = vec![(self.key(), "owned".to_owned())];
        if self.legacy {
            tags.push((LEGACY.to_owned(), self.id.clone()));
        }
        tags
    }

    /// The owner of an object, by its tags.
    pub fn claim<'a>(&self, tags: impl IntoIterator<Item = (&'a str, &'a str)>) -> Claim {
        let mut claim = Claim::Untagged;
        for (key, value) in tags {
            match named(key, value) {
                Some(id) if id == self.id => return Claim::Ours,
                Some(_) => claim = Claim::Others,
                None => {}
            }
        }
        claim
    }

    /// The cluster that the tags of this instance name. As in the Go provider, both tags have to name the same one.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they name none, or several.
    pub fn of_instance(instance: &str, tags: &Tags) -> Result<Cluster, Error> {
        let (mut ids, mut legacy) = (BTreeSet::new(), false);
        for (key, value) in tags.pairs() {
            if let Some(id) = named(key, value).filter(|id| !id.is_empty()) {
                ids.insert(id);
                legacy |= key == LEGACY;
            }
        }
        let count = ids.len();
        let id = ids.into_iter().collect::<Vec<_>>().join(", ");
        match count {
            1 => Ok(Cluster { id, legacy }),
            0 => Err(Error::invalid(format!(
                "KubernetesClusterID is not set, and the instance {instance} has no tag kubernetes.io/cluster/ID: set it, or add the tag"
            ))),
            _ => Err(Error::invalid(format!(
                "KubernetesClusterID is not set, and the tags of the instance {instance} name several clusters, {id}: set it to the one that this is"
            ))),
        }
    }
}

/// The cluster that a tag names.
fn named<'a>(key: &'a str, value: &'a str) -> Option<&'a str> {
    match key.strip_prefix(CLUSTER) {
        Some(id) => Some(id),
        None => (key == LEGACY).then_some(value),
    }
}

/// The cluster that an object belongs to, by its tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// This cluster, alone or together with others.
    Ours,
    /// One or more other clusters, and not this one.
    Others,
    /// No cluster: the object has no cluster's tag.
    Untagged,
}

impl Settings {
    /// Reads and checks the configuration.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every mistake.
    pub fn read(config: &Config) -> Result<Settings, Error> {
        let mut values = config.values();
        let zone = values.text("Zone");
        let of_zone = zone.and_then(|zone| {
            let region = region_of(zone).map(str::to_owned);
            region.or_else(|| values.wrong("Zone", "must be a zone's name such as eu-west-1a"))
        });
        let mut names = ["Region", "AWS_REGION", "AWS_DEFAULT_REGION"].into_iter();
        let named = names.find_map(|key| values.text(key));
        let granted = config.region("ec2");
        let region = of_zone.or_else(|| named.or(granted).map(str::to_owned));
        if region.is_none() && zone.is_none() {
            values.mistake(
                "Region: is required, AWS_REGION or Zone: there is no metadata service to ask",
            );
        }
        let (cluster, own_instance) = cluster(&mut values);
        let what = "must be ipv4, ipv6, or both with a comma between";
        let families = values.each("NodeIPFamilies", what, |family| match family {
            "ipv4" => Some(IpFamily::Ipv4),
            "ipv6" => Some(IpFamily::Ipv6),
            _ => None,
        });
        let shared = values.choice(
            "ClusterServiceLoadBalancerHealthProbeMode",
            &[("Shared", true), ("ServiceNodePort", false)],
        );
        let port = values.number("ClusterServiceSharedLoadBalancerHealthProbePort", 0..=65535);
        let path = values.text("ClusterServiceSharedLoadBalancerHealthProbePath");
        let shared_health = shared.unwrap_or(false).then(|| SharedHealth {
            // As in the Go provider, 0 is the default, too: OpenShift writes it.
            port: port.filter(|port| *port > 0).unwrap_or(KUBE_PROXY),
            path: path.unwrap_or("/healthz").to_owned(),
        });
        let own = values.choice("NLBSecurityGroupMode", &[("Managed", true)]);
        let closed = values.boolean("DisableSecurityGroupIngress");
        let mut pod_ranges = Vec::new();
        for text in &config.cluster_cidrs {
            match text.parse::<IpNet>() {
                Ok(range) => pod_ranges.push(range),
                Err(_) => values.mistake(format_args!("--cluster-cidr: {text} is no range")),
            }
        }
        let settings = Settings {
            region: region.unwrap_or_default(),
            vpc: values.text("VPC").map(str::to_owned),
            subnet: values.text("SubnetID").map(str::to_owned),
            route_table: values.text("RouteTableID").map(str::to_owned),
            cluster,
            own_instance,
            cluster_name: config.cluster_name.clone(),
            families: families.unwrap_or_else(|| vec![IpFamily::Ipv4]),
            opens_node_groups: !closed.unwrap_or(false),
            own_security_groups: own.unwrap_or(false),
            elb_security_group: values.text("ElbSecurityGroup").map(str::to_owned),
            shared_health,
            pod_ranges,
        };
        values.finish()?;
        Ok(settings)
    }

    /// Whether a range lies in those of the pods.
    pub fn is_pods(&self, network: &IpNet) -> bool {
        self.pod_ranges.iter().any(|range| range.contains(network))
    }
}

/// The region of a zone: its name up to the first number. A local zone has another place after that, such as
/// `us-west-2-lax-1a`.
fn region_of(zone: &str) -> Option<&str> {
    let begin = zone.find(|letter: char| letter.is_ascii_digit())?;
    let number = zone.get(begin..)?;
    let length = number.find(|letter: char| !letter.is_ascii_digit());
    zone.get(..begin + length.unwrap_or(number.len()))
}

/// The cluster that the configuration names; without one an empty cluster, and the instance whose tags name it.
fn cluster(values: &mut Values<'_>) -> (Cluster, Option<String>) {
    let id = values.text("KubernetesClusterID");
    let legacy = values.text("KubernetesClusterTag");
    let instance = values.text("InstanceID");
    if instance.is_some_and(|id| !is_instance_id(id)) {
        let _: Option<()> = values.wrong("InstanceID", "must be the ID of an instance, i-…");
    }
    match (id, legacy, instance) {
        (None, None, Some(instance)) => return (Cluster::default(), Some(instance.to_owned())),
        (None, None, None) => {
            values.mistake("KubernetesClusterID: is required: it marks this cluster's objects. It is the ID in the tag kubernetes.io/cluster/ID of the nodes' instances")
        }
        (Some(id), Some(legacy), _) if id != legacy => {
            values.mistake(format_args!(
                "KubernetesClusterTag: is not KubernetesClusterID, {id}"
            ));
        }
        _ => {}
    }
    let cluster = Cluster {
        legacy: legacy.is_some(),
        id: id.or(legacy).unwrap_or_default().to_owned(),
    };
    (cluster, None)
}
