//! The objects that are read from EC2, and the requests for them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ccm_guest::{Error, state};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::Cluster;
use crate::query::{Answer, Query, filter};

/// Maximum number of IDs or names in one request. All its filters together may have 200 values, and an answer 16 MiB: one
/// instance with eight interfaces of thirty addresses takes 106 kB.
pub const IDS: usize = 150;
/// Results on a page of instances.
const PAGE: usize = 1000;
/// The instances in an answer.
const INSTANCES: &str = "reservationSet.*.instancesSet.*";
/// How long zones are kept: they hardly change.
const ZONES_AGE: Duration = Duration::from_secs(3600);

/// A tag of an EC2 object, or an attribute of a load balancer or a target group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// The key, such as `kubernetes.io/cluster/ID`.
    #[serde(alias = "Key")]
    pub key: String,
    /// The value; may be empty.
    #[serde(alias = "Value", default)]
    pub value: String,
}

/// Tags in an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tags(pub Vec<Tag>);

impl Tags {
    /// The tags as pairs of key and value.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let tags = self.0.iter();
        tags.map(|tag| (tag.key.as_str(), tag.value.as_str()))
    }

    /// The value of a tag.
    pub fn get(&self, key: &str) -> Option<&str> {
        let mut pairs = self.pairs();
        pairs.find_map(|(one, value)| (one == key).then_some(value))
    }
}

/// An EC2 instance (`DescribeInstances`).
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// The ID, `i-…`.
    pub instance_id: String,
    /// The lifecycle state: `pending`, `running`, `shutting-down`, `stopping`, `stopped` or `terminated`.
    #[serde(rename = "instanceState.name")]
    pub state: String,
    /// The instance type, such as `m5.large`.
    pub instance_type: Option<String>,
    /// The name of the zone that the instance runs in, such as `eu-central-1a`.
    #[serde(rename = "placement.availabilityZone", default)]
    pub zone: String,
    /// The ID of the instance's VPC, if it has one.
    pub vpc_id: Option<String>,
    /// The private DNS name, which nodes have as their name.
    #[serde(default)]
    pub private_dns_name: String,
    /// The public DNS name; empty without one.
    #[serde(default)]
    pub dns_name: String,
    /// The public IPv4 address; empty without one.
    #[serde(default)]
    pub ip_address: String,
    /// Whether EC2 drops packets whose source or destination is another machine, such as a pod.
    pub source_dest_check: Option<bool>,
    /// All attached network interfaces.
    #[serde(rename = "networkInterfaceSet.*", default)]
    pub interfaces: Vec<Interface>,
    /// IDs of the security groups of the instance.
    #[serde(rename = "groupSet.*.groupId", default)]
    pub groups: Vec<String>,
    /// Tags of the instance.
    #[serde(rename = "tagSet.*", default)]
    pub tags: Tags,
}

/// A network interface of an instance.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Interface {
    /// `in-use` if it is attached.
    pub status: String,
    /// The interface's index; 0 is the primary interface. `None`: it is attached to no instance.
    #[serde(rename = "attachment.deviceIndex")]
    pub device_index: Option<u32>,
    /// IPv4 addresses, the primary one first.
    #[serde(rename = "privateIpAddressesSet.*.privateIpAddress")]
    pub ipv4: Vec<String>,
    /// IPv6 addresses of this interface.
    #[serde(rename = "ipv6AddressesSet.*.ipv6Address")]
    pub ipv6: Vec<String>,
}

/// A subnet of a VPC.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subnet {
    /// The ID, `subnet-…`.
    pub subnet_id: String,
    /// The ID of its VPC.
    pub vpc_id: String,
    /// The name of the subnet's zone.
    pub availability_zone: String,
    /// The IPv4 range in CIDR form; may be empty.
    #[serde(default)]
    pub cidr_block: String,
    /// Tags of the subnet.
    #[serde(rename = "tagSet.*", default)]
    pub tags: Tags,
}

/// A route table of a VPC.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteTable {
    /// The ID, `rtb-…`.
    pub route_table_id: String,
    /// All routes of the table, also those of others.
    #[serde(rename = "routeSet.*", default)]
    pub routes: Vec<Route>,
    /// The subnets that use the table.
    #[serde(rename = "associationSet.*", default)]
    pub associations: Vec<Association>,
}

/// A route of a route table.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Route {
    /// IPv4 destination in CIDR form; may be empty.
    #[serde(rename = "destinationCidrBlock")]
    pub ipv4: String,
    /// IPv6 destination in CIDR form; may be empty.
    #[serde(rename = "destinationIpv6CidrBlock")]
    pub ipv6: String,
    /// The instance that is the next hop.
    pub instance_id: Option<String>,
    /// The gateway that is the next hop.
    pub gateway_id: Option<String>,
    /// `active` or `blackhole`.
    pub state: String,
}

/// An association of a route table with a subnet, or with all of them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Association {
    /// The subnet's ID; `None` for the main association.
    pub subnet_id: Option<String>,
    /// Whether all subnets without a table of their own use it.
    pub main: bool,
}

/// A zone of the region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Zone {
    /// The name, such as `eu-central-1a`.
    pub zone_name: String,
    /// The zone's ID, such as `euc1-az2`, which is the same in every account; may be empty.
    #[serde(default)]
    pub zone_id: String,
    /// `availability-zone` for an ordinary zone, which is neither a local nor a wavelength one; so is one without a type.
    pub zone_type: Option<String>,
}

/// The instances with these IDs that exist, terminated ones among them. By filter: with `InstanceIds` one missing
/// instance would make the whole answer an error, which proves nothing about the others.
///
/// Answers of EC2 may lag behind one another, so missing instances are asked for once more, but no more of them than one
/// request may name.
///
/// # Errors
/// The first request that failed.
pub fn by_ids(ids: &[&str]) -> Result<Vec<Instance>, Error> {
    let filters = |ids: &[&str]| vec![filter("instance-id", ids)];
    let mut found = listed(ids.chunks(IDS).map(filters))?;
    let has: BTreeSet<&str> = found.iter().map(|one| one.instance_id.as_str()).collect();
    let missing = ids.iter().copied().filter(|id| !has.contains(id));
    let missing: Vec<&str> = missing.take(IDS).collect();
    found.extend(listed(missing.chunks(IDS).map(filters))?);
    Ok(found)
}

/// The instances with these private DNS names that are not terminated.
///
/// # Errors
/// The first request that failed.
pub fn by_names(names: &[&str], vpc: Option<&str>) -> Result<Vec<Instance>, Error> {
    const ALIVE: &[&str] = &["pending", "running", "shutting-down", "stopping", "stopped"];
    let filters = |names: &[&str]| {
        let mut filters = vec![
            filter("private-dns-name", names),
            filter("instance-state-name", ALIVE),
        ];
        filters.extend(vpc.map(|vpc| filter("vpc-id", [vpc])));
        filters
    };
    listed(names.chunks(IDS).map(filters))
}

fn listed(filters: impl Iterator<Item = Vec<Value>>) -> Result<Vec<Instance>, Error> {
    let mut instances = Vec::new();
    // One answer after the other: those about instances with pods in the VPC are so large that the host holds only one.
    for filters in filters {
        let query = Query::ec2("DescribeInstances").set("MaxResults", PAGE);
        let query = query.set("Filter", filters);
        instances.extend(query.pages::<Instance>(INSTANCES)?);
    }
    Ok(instances)
}

/// The tags of an instance, or `None` if it does not exist. Proves nothing about nodes.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn tags_of(id: &str) -> Result<Option<Tags>, Error> {
    let query = Query::ec2("DescribeInstances").supplementary();
    let query = query.set("Filter", [filter("instance-id", [id])]);
    let instances: Vec<Instance> = query.pages(INSTANCES)?;
    let found = instances.into_iter().find(|one| one.instance_id == id);
    Ok(found.map(|one| one.tags))
}

/// The zones of the region, kept for an hour.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn zones() -> Result<Vec<Zone>, Error> {
    if let Some(zones) = state::get_json("zones") {
        return Ok(zones);
    }
    let query = Query::ec2("DescribeAvailabilityZones").supplementary();
    let zones: Vec<Zone> = query.read("availabilityZoneInfo.*")?;
    state::set_json("zones", &zones, ZONES_AGE);
    Ok(zones)
}

/// The network nodes above each of at most 100 instances, from the outermost layer on.
///
/// # Errors
/// A refusal by AWS, such as in a region without this API, or no answer.
pub fn topology(ids: &[&str]) -> Result<BTreeMap<String, Vec<String>>, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Topology {
        instance_id: String,
        #[serde(rename = "networkNodeSet.*", default)]
        network_nodes: Vec<String>,
    }
    let query = Query::ec2("DescribeInstanceTopology").supplementary();
    // AWS takes no page size beside IDs, and chooses its own.
    let topologies: Vec<Topology> = query.set("InstanceId", ids).pages("instanceSet.*")?;
    let by_id = |one: Topology| (one.instance_id, one.network_nodes);
    Ok(topologies.into_iter().map(by_id).collect())
}

/// The subnets that the filter selects.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn subnets(name: &str, values: impl Serialize) -> Result<Vec<Subnet>, Error> {
    let query = Query::ec2("DescribeSubnets").set("Filter", [filter(name, values)]);
    query.pages("subnetSet.*")
}

/// The route tables that the filter selects.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn route_tables(name: &str, value: &str) -> Result<Vec<RouteTable>, Error> {
    let query = Query::ec2("DescribeRouteTables").set("Filter", [filter(name, [value])]);
    query.pages("routeTableSet.*")
}

/// What `list` finds by the cluster's tag, or, if that is nothing, by the older one. `list` gets the name of a filter and
/// its value.
///
/// # Errors
/// As `list`.
pub fn tagged<T>(
    cluster: &Cluster,
    list: impl Fn(&str, &str) -> Result<Vec<T>, Error>,
) -> Result<Vec<T>, Error> {
    let found = list("tag-key", &cluster.key())?;
    match found.is_empty() {
        true => list("tag:KubernetesCluster", &cluster.id),
        false => Ok(found),
    }
}

/// Switches the source and destination check off, so that the instance can pass on the pods' traffic.
///
/// # Errors
/// A refusal by AWS, or no answer.
pub fn pass_on_traffic(instance: &str) -> Answer<()> {
    let query = Query::ec2("ModifyInstanceAttribute").set("InstanceId", instance);
    query.set("SourceDestCheck.Value", "false").act()
}
