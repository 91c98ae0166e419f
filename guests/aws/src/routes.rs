//! Routes to the nodes' pods in one route table of the VPC.
//!
//! Only routes into `--cluster-cidr` are looked at: a VPC's table has other routes, and their blackholes are not this
//! cluster's.

use std::collections::BTreeMap;

use ccm_guest::routes::{CreateRequest, DeleteRequest, ProgressReply, Route, Target};
use ccm_guest::{Error, Node};
use ipnet::IpNet;

use crate::config::Settings;
use crate::ec2::{self, RouteTable};
use crate::provider_id::instance_of;
use crate::query::Query;

#[cfg(test)]
mod tests;

/// See [`ccm_guest::Routes::list`].
///
/// # Errors
/// See [`ccm_guest::Routes::list`].
pub fn list(settings: &Settings, nodes: &[Node]) -> Result<Vec<Route>, Error> {
    let table = table(settings)?;
    let ids = nodes
        .iter()
        .filter_map(|node| Some((instance_of(node)?, node.name.as_str())));
    let names: BTreeMap<&str, &str> = ids.collect();
    let ours = table.routes.iter().filter_map(|route| {
        let destination = destination(route).filter(|range| settings.is_pods(range))?;
        let id = route_id(&table, route)?;
        let target = match instance(route).map(|id| (id, names.get(id))) {
            _ if is_blackhole(route) => Target::Blackhole,
            Some((_, Some(name))) => Target::Node((*name).to_owned()),
            Some((id, None)) => Target::Other(format!("instance {id}")),
            None => return None,
        };
        Some(Route::new(id, destination.to_string(), target))
    });
    Ok(ours.collect())
}

/// See [`ccm_guest::Routes::create`].
///
/// # Errors
/// See [`ccm_guest::Routes::create`].
pub fn create(settings: &Settings, request: &CreateRequest) -> Result<ProgressReply, Error> {
    let node = &request.node.name;
    let id = instance_of(&request.node)
        .ok_or_else(|| Error::invalid(format!("{node} has no provider ID of an instance")))?;
    let mut found = ec2::by_ids(&[id])?;
    let Some(instance) = found.pop() else {
        return Err(Error::unavailable(format!("{id} does not exist")));
    };
    let table = table(settings)?;
    let cidr = &request.destination_cidr;
    let there = route_to(&table, cidr);
    if let Some(there) = there
        && (is_blackhole(there) || there.instance_id.as_deref() != Some(id))
    {
        let to = there.instance_id.as_deref().unwrap_or("nothing of ours");
        let why = format!("{cidr} leads to {to} in {}", table.route_table_id);
        return Err(Error::conflict(why, None));
    }
    // Before the route exists and brings the pods' traffic.
    if instance.source_dest_check.unwrap_or(true) {
        ec2::pass_on_traffic(id)?;
    }
    if there.is_none() {
        let query = change("CreateRoute", &table, cidr);
        query.set("InstanceId", id).act()?;
    }
    Ok(ProgressReply::done())
}

/// See [`ccm_guest::Routes::delete`].
///
/// # Errors
/// See [`ccm_guest::Routes::delete`].
pub fn delete(settings: &Settings, request: &DeleteRequest) -> Result<ProgressReply, Error> {
    let listed = &request.route;
    let table = table(settings)?;
    let there = route_to(&table, &listed.destination_cidr);
    let there = there.and_then(|route| route_id(&table, route));
    if there.as_ref() != Some(&listed.id) {
        return Ok(ProgressReply::done());
    }
    match change("DeleteRoute", &table, &listed.destination_cidr).act() {
        Err(refusal) if !refusal.is("InvalidRoute.NotFound") => Err(refusal.error),
        _ => Ok(ProgressReply::done()),
    }
}

fn change(action: &'static str, table: &RouteTable, cidr: &str) -> Query {
    let field = match cidr.contains(':') {
        true => "DestinationIpv6CidrBlock",
        false => "DestinationCidrBlock",
    };
    Query::ec2(action)
        .set("RouteTableId", &table.route_table_id)
        .set(field, cidr)
}

/// The cluster's route table: named in the configuration, or with the cluster's tag.
fn table(settings: &Settings) -> Result<RouteTable, Error> {
    let key = settings.cluster.key();
    let mut tables = match &settings.route_table {
        Some(id) => ec2::route_tables("route-table-id", id)?,
        None => ec2::tagged(&settings.cluster, ec2::route_tables)?,
    };
    let which = settings.route_table.as_ref().unwrap_or(&key);
    match (tables.pop(), tables.len()) {
        (Some(table), 0) => Ok(table),
        (None, _) => Err(Error::unavailable(format!(
            "there is no route table {which}"
        ))),
        (Some(_), more) => Err(Error::invalid(format!(
            "{} route tables have the tag {key}: set RouteTableID",
            more + 1
        ))),
    }
}

fn route_to<'a>(table: &'a RouteTable, cidr: &str) -> Option<&'a ec2::Route> {
    let wanted: IpNet = cidr.parse().ok()?;
    let mut routes = table.routes.iter();
    routes.find(|route| destination(route) == Some(wanted))
}

fn destination(route: &ec2::Route) -> Option<IpNet> {
    let texts = [&route.ipv4, &route.ipv6];
    let text = texts.into_iter().find(|text| !text.is_empty())?;
    text.parse::<IpNet>().ok().map(|range| range.trunc())
}

/// The table, the destination and the instance that is the next hop, so that a route that somebody turns elsewhere is
/// another one. `None`: it leads to something alive that is no instance, or has no CIDR as destination.
fn route_id(table: &RouteTable, route: &ec2::Route) -> Option<String> {
    let destination = destination(route)?;
    let instance = instance(route).or_else(|| is_blackhole(route).then_some(""))?;
    Some(format!("{}/{destination}/{instance}", table.route_table_id))
}

/// The instance that is the next hop.
fn instance(route: &ec2::Route) -> Option<&str> {
    route.instance_id.as_deref().filter(|id| !id.is_empty())
}

fn is_blackhole(route: &ec2::Route) -> bool {
    route.state == "blackhole"
}
