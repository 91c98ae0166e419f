//! Load balancers of an imaginary cloud, which makes them within seconds and not at once.

use ccm_guest::hint::Polls;
use ccm_guest::http::{self, Next, Request};
use ccm_guest::load_balancer::{
    DeleteRequest, EnsureReply, EnsureRequest, Found, ProgressReply, Service, UpdateRequest,
};
use ccm_guest::{
    Config, Error, Failure, Ingress, LoadBalancer, LoadBalancerStatus, MachineId, Node, Provider,
    compare, log, owner,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// The provider.
#[derive(Debug)]
pub(crate) struct Balancers;

/// A load balancer as this cloud shows it.
#[derive(Debug, Deserialize)]
struct Balancer {
    id: String,
    /// `active` once it works.
    state: String,
    address: Option<String>,
    /// Everything that was ordered, as it is now.
    order: Value,
}

impl Provider for Balancers {
    fn init(_: &Config) -> Result<Balancers, Error> {
        Ok(Balancers)
    }
}

impl LoadBalancer for Balancers {
    fn ensure(&self, request: EnsureRequest) -> Result<EnsureReply, Failure> {
        let polls: Polls = request.hint().unwrap_or_default();
        let wanted = order(&request.service, &request.targets)?;
        let Some(found) = of_service(&request.service)? else {
            log::info!(service = request.service.name; "creating a load balancer");
            // The owner is part of the order: should the answer be lost, the next call finds what was made.
            let create = Request::post("api", "/balancers").json(&wanted)?;
            create.send()?.ok()?;
            return Ok(EnsureReply::pending(polls.again()));
        };
        write_difference(&found, &wanted)?;
        match (found.state.as_str(), found.address) {
            ("active", Some(address)) => {
                let status = LoadBalancerStatus::new([Ingress::ip(address)]);
                Ok(EnsureReply::ready(status))
            }
            _ => Ok(EnsureReply::pending(polls.again())),
        }
    }

    fn update_targets(&self, request: UpdateRequest) -> Result<ProgressReply, Failure> {
        let Some(found) = of_service(&request.service)? else {
            return Err(Error::unavailable("the Service has no load balancer").into());
        };
        write_difference(&found, &json!({ "targets": targets(&request.targets) }))?;
        Ok(ProgressReply::done())
    }

    fn delete(&self, request: DeleteRequest) -> Result<ProgressReply, Failure> {
        let Some(found) = of_service(&request.service)? else {
            return Ok(ProgressReply::done());
        };
        log::info!(id = found.id; "deleting the load balancer");
        let path = http::path(["balancers", &found.id]);
        Request::delete("api", path).send()?.found()?;
        // Done when it is not listed any more.
        let polls: Polls = request.hint().unwrap_or_default();
        Ok(ProgressReply::pending(polls.again()))
    }

    fn get(&self, service: Service) -> Result<Found, Failure> {
        Ok(match of_service(&service)? {
            Some(found) => {
                let ingress = found.address.map(Ingress::ip);
                Found::Present(LoadBalancerStatus::new(ingress))
            }
            None => Found::Absent,
        })
    }
}

/// What a Service wants. Every field that this provider decides about, and no other.
fn order(service: &Service, nodes: &[Node]) -> Result<Value, Error> {
    let tls = service.read(|values| values.boolean("balancer.example.com/tls"))?;
    let ports = service.ports.iter();
    let ports = ports.map(|port| json!({ "port": port.port, "to": port.node_port }));
    Ok(json!({
        "name": service.default_name(),
        "owner": service.uid,
        "tls": tls.unwrap_or(false),
        "ports": ports.collect::<Vec<_>>(),
        "targets": targets(nodes),
    }))
}

fn targets(nodes: &[Node]) -> Vec<&str> {
    let machine = |node| match Node::machine_id(node, "balancers") {
        MachineId::Own(id) => Some(id),
        MachineId::Unset | MachineId::Foreign => None,
    };
    nodes.iter().filter_map(machine).collect()
}

fn of_service(service: &Service) -> Result<Option<Balancer>, Error> {
    let list = Request::get("api", "/balancers").query("owner", &service.uid);
    let found = http::follow(list, |answer| {
        let next = Next::link(&answer);
        Ok((answer.json::<Vec<Balancer>>()?, next))
    })?;
    // A cloud that ignores the filter must not make another Service's load balancer ours.
    if found.iter().any(|one| one.order["owner"] != service.uid) {
        return Err(Error::unavailable("a list came that holds other things"));
    }
    owner::only_one(found, &format!("owner={}", service.uid), |one| {
        one.id.clone()
    })
}

fn write_difference(found: &Balancer, wanted: &Value) -> Result<(), Error> {
    if let Some(what) = compare::difference(wanted, &found.order) {
        log::info!(id = found.id, what; "changing the load balancer");
        let path = http::path(["balancers", &found.id]);
        Request::patch("api", path).json(wanted)?.send()?.ok()?;
    }
    Ok(())
}

ccm_guest::export_provider! {
    provider: Balancers,
    interfaces: [load_balancer],
    manifest: "examples/balancer/manifest.json",
}
