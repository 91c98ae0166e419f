//! Load balancers of an imaginary cloud, which takes seconds to create one.

use ccm_guest::http::{self, Next, Request};
use ccm_guest::load_balancer::{
    DeleteRequest, EnsureReply, EnsureRequest, Found, ProgressReply, Service, UpdateRequest,
};
use ccm_guest::{
    Config, Error, Failure, Ingress, LoadBalancer, LoadBalancerStatus, MachineId, Node, Provider,
};
use ccm_guest::{compare, log, owner};
use serde::Deserialize;
use serde_json::{Value, json};

/// A provider without configuration.
pub(crate) struct Balancers;

/// A load balancer as the API shows it.
#[derive(Deserialize)]
struct Balancer {
    id: String,
    /// Absent until the load balancer works.
    address: Option<String>,
    /// All fields that this provider sends, with their current values.
    order: Value,
}

impl Provider for Balancers {
    fn init(_: &Config) -> Result<Balancers, Error> {
        Ok(Balancers)
    }
}

impl LoadBalancer for Balancers {
    fn ensure(&self, request: EnsureRequest) -> Result<EnsureReply, Failure> {
        let wanted = order(&request.service, &request.targets)?;
        let Some(found) = of_service(&request.service)? else {
            // The owner is part of the order: if the answer is lost, the next call finds the load balancer.
            let create = Request::post("api", "/balancers").json(&wanted)?;
            create.send()?.ok()?;
            return Ok(EnsureReply::pending(request.again()));
        };
        write_difference(&found, &wanted)?;
        Ok(match found.address {
            Some(address) => EnsureReply::ready(LoadBalancerStatus::new([Ingress::ip(address)])),
            None => EnsureReply::pending(request.again()),
        })
    }

    fn update_targets(&self, request: UpdateRequest) -> Result<ProgressReply, Failure> {
        let found = of_service(&request.service)?;
        let found = found.ok_or_else(|| Error::unavailable("the Service has no load balancer"))?;
        write_difference(&found, &json!({ "targets": targets(&request.targets) }))?;
        Ok(ProgressReply::done())
    }

    fn delete(&self, request: DeleteRequest) -> Result<ProgressReply, Failure> {
        let Some(found) = of_service(&request.service)? else {
            return Ok(ProgressReply::done());
        };
        let path = http::path(["balancers", &found.id]);
        Request::delete("api", path).send()?.found()?;
        // Done once the list does not show it any more.
        Ok(ProgressReply::pending(request.again()))
    }

    fn get(&self, service: Service) -> Result<Found, Failure> {
        let found = of_service(&service)?.map(|found| found.address.map(Ingress::ip));
        let status = found.map(LoadBalancerStatus::new);
        Ok(status.map_or(Found::Absent, Found::Present))
    }
}

/// The load balancer that a Service wants: every field that this provider decides about, and no other.
fn order(service: &Service, nodes: &[Node]) -> Result<Value, Error> {
    let ports = service.ports.iter();
    let ports = ports.map(|port| json!({ "port": port.port, "to": port.node_port }));
    Ok(json!({
        "owner": service.uid,
        "tls": service.read(|values| values.boolean("balancer.example.com/tls"))?.unwrap_or(false),
        "ports": ports.collect::<Vec<_>>(),
        "targets": targets(nodes),
    }))
}

fn targets(nodes: &[Node]) -> Vec<&str> {
    let ids = nodes.iter().map(|node| node.machine_id("balancers"));
    ids.filter_map(MachineId::own).collect()
}

fn of_service(service: &Service) -> Result<Option<Balancer>, Error> {
    let list = Request::get("api", "/balancers").query("owner", &service.uid);
    let found = http::follow(list, |answer| {
        let next = Next::link(&answer);
        Ok((answer.json::<Vec<Balancer>>()?, next))
    })?;
    // If the cloud ignores the filter, another Service's load balancer must not become ours.
    if found.iter().any(|one| one.order["owner"] != service.uid) {
        return Err(Error::unavailable("a list came that holds other things"));
    }
    owner::only_one(found, &service.uid, |one| one.id.clone())
}

fn write_difference(found: &Balancer, wanted: &Value) -> Result<(), Error> {
    if let Some(what) = compare::difference(wanted, &found.order) {
        log::info!(id = found.id, what; "changing the load balancer");
        let path = http::path(["balancers", &found.id]);
        Request::patch("api", path).json(wanted)?.send()?.ok()?;
    }
    Ok(())
}

ccm_guest::export_provider! { provider: Balancers, interfaces: [load_balancer], manifest: "examples/balancer/manifest.json" }
