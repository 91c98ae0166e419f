//! The smallest provider that is honest: machines of an imaginary cloud, one request for each.

use ccm_guest::http::{self, Request};
use ccm_guest::{Config, Error, FindReply, Instance, Instances, Lookup, MachineId, Node, Provider};

struct Tiny;

impl Provider for Tiny {
    fn init(_: &Config) -> Result<Tiny, Error> {
        Ok(Tiny)
    }
}

impl Instances for Tiny {
    fn find(&self, nodes: Vec<Node>) -> Result<FindReply, Error> {
        let lookups = nodes.iter().map(look_up).collect::<Result<_, _>>()?;
        Ok(FindReply::new(lookups))
    }
}

fn look_up(node: &Node) -> Result<Lookup, Error> {
    let MachineId::Own(id) = node.machine_id("tiny") else {
        return Ok(Lookup::NotMine);
    };
    let machine = Request::get("api", http::path(["machines", id]));
    Ok(match machine.find_json() {
        Ok(Some(size)) => Lookup::Found(Instance {
            instance_type: size,
            ..Instance::new(format!("tiny://{id}"))
        }),
        Ok(None) => Lookup::Gone,
        // The other nodes have their answers, unless the error is about them, too.
        Err(error) => Lookup::Unknown(error.of_one()?),
    })
}

ccm_guest::export_provider! { provider: Tiny, interfaces: [instances], manifest: "examples/tiny/manifest.json" }
