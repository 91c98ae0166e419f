//! The smallest provider that is honest: machines of an imaginary cloud, one request for each.

use ccm_guest::http::Request;
use ccm_guest::{Config, Error, FindReply, Instance, Instances, Lookup, Node, Provider};

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
    let id = node
        .provider_id
        .as_deref()
        .and_then(|text| text.strip_prefix("tiny://"));
    let Some(id) = id else {
        return Ok(Lookup::NotMine);
    };
    match Request::get("api", format!("/machines/{id}"))
        .send()?
        .found()?
    {
        Some(answer) => Ok(Lookup::Found(Instance {
            instance_type: answer.json()?,
            ..Instance::new(format!("tiny://{id}"))
        })),
        None => Ok(Lookup::Gone),
    }
}

ccm_guest::export_provider! { provider: Tiny, interfaces: [instances], manifest: "examples/tiny/manifest.json" }
