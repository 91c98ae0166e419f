//! The smallest provider that programs routes honestly, for an imaginary cloud that records with each route the node
//! that it was made for.

use ccm_guest::http::Request;
use ccm_guest::routes::{CreateRequest, DeleteRequest, ProgressReply, Route, Target};
use ccm_guest::{AddressType, Config, Error, Failure, Node, Provider, Routes};
use serde::{Deserialize, Serialize};

/// A provider without configuration.
#[derive(Debug)]
pub(crate) struct Paths;

/// A route as the API shows it.
#[derive(Debug, Serialize, Deserialize)]
struct Path {
    #[serde(default, skip_serializing)]
    id: u64,
    destination: String,
    /// The IP address of the next hop.
    via: String,
    made_for: String,
}

impl Provider for Paths {
    fn init(_: &Config) -> Result<Paths, Error> {
        Ok(Paths)
    }
}

impl Routes for Paths {
    fn list(&self, nodes: Vec<Node>) -> Result<Vec<Route>, Failure> {
        let paths: Vec<Path> = Request::get("api", "/routes").send()?.ok()?.json()?;
        let route = |path: Path| {
            Ok(Route {
                target: target(&path, &nodes)?,
                id: path.id.to_string(),
                destination_cidr: path.destination,
                extra: Vec::new(),
            })
        };
        paths.into_iter().map(route).collect()
    }

    fn create(&self, request: CreateRequest) -> Result<ProgressReply, Failure> {
        let Some(via) = internal_ip(&request.node) else {
            return Err(Error::unavailable("the node has no internal address yet").into());
        };
        let path = Path {
            id: 0,
            destination: request.destination_cidr,
            via: via.to_owned(),
            made_for: request.node.name,
        };
        // This cloud answers 200 for a route that exists already, and refuses a second route to the same destination.
        Request::post("api", "/routes").json(&path)?.send()?.ok()?;
        Ok(ProgressReply::done())
    }

    fn delete(&self, request: DeleteRequest) -> Result<ProgressReply, Failure> {
        let path = format!("/routes/{}", request.route.id);
        Request::delete("api", path).send()?.found()?;
        Ok(ProgressReply::done())
    }
}

/// Only a route whose next hop is none of these nodes costs a request.
fn target(path: &Path, nodes: &[Node]) -> Result<Target, Error> {
    let hop = |node: &&Node| internal_ip(node) == Some(&path.via);
    if let Some(node) = nodes.iter().find(hop) {
        return Ok(Target::Node(node.name.clone()));
    }
    if nodes.iter().any(|node| node.name == path.made_for) {
        return Ok(Target::Outdated(path.made_for.clone()));
    }
    let machine = Request::get("api", format!("/addresses/{}", path.via));
    Ok(match machine.send()?.found()? {
        Some(machine) => Target::Other(machine.json()?),
        None => Target::Blackhole,
    })
}

fn internal_ip(node: &Node) -> Option<&str> {
    let internal = |address: &&ccm_guest::Address| address.address_type == AddressType::InternalIp;
    let address = node.addresses.iter().find(internal)?;
    Some(address.address.as_str())
}

ccm_guest::export_provider! { provider: Paths, interfaces: [routes], manifest: "examples/routes/manifest.json" }
