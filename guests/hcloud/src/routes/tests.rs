//! The number of requests for each event, as `guests/hcloud/README.md` states.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use ccm_guest::routes::{CreateRequest, DeleteRequest, Progress, ProgressReply, Target};
use ccm_guest::{Error, Node};

use super::fixtures::{Project, node, settings};
use super::{change, list::list};

/// Calls until the change is done, as the manager does.
fn finish(mut call: impl FnMut(Option<Vec<u8>>) -> Result<ProgressReply, Error>) {
    let mut hint = None;
    loop {
        match call(hint.take()).map(|reply| reply.progress) {
            Ok(Progress::Pending(pending)) => hint = pending.hint,
            Ok(Progress::Done) | Err(Error::Elsewhere) => return,
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Lists the routes, deletes the blackholes, and creates the routes that these nodes lack.
fn converge(nodes: &[Node]) {
    let routes = list(&settings(), nodes).unwrap();
    for route in &routes {
        if matches!(route.target, Target::Blackhole | Target::Outdated(_)) {
            finish(|hint| {
                let route = route.clone();
                change::delete(&settings(), &DeleteRequest { route, hint })
            });
        }
    }
    let is_there = |cidr: &String| {
        let mut of_nodes = routes
            .iter()
            .filter(|one| matches!(one.target, Target::Node(_)));
        of_nodes.any(|one| one.destination_cidr == *cidr)
    };
    for node in nodes {
        for destination_cidr in node.pod_cidrs.iter().filter(|cidr| !is_there(cidr)) {
            finish(|hint| {
                let request = CreateRequest {
                    node: node.clone(),
                    destination_cidr: destination_cidr.clone(),
                    hint,
                };
                change::create(&settings(), &request)
            });
        }
    }
}

#[test]
fn the_readme_has_what_each_event_costs() {
    const RANGE: &str = "10.244.1.0/24";
    let of = |range: &str| vec![node("node-1", 1, &["10.0.0.3"], &[range])];
    let (right, left) = ([(RANGE, "10.0.0.3")], [(RANGE, "10.0.0.2")]);
    let readme = include_str!("../../README.md");
    for (event, routes, nodes) in [
        ("nothing; routes are listed", &right[..], of(RANGE)),
        ("a node came", &[], of(RANGE)),
        ("a node went", &left, Vec::new()),
        ("a node has another address", &left, of(RANGE)),
        ("a node came with an IPv6 range", &[], of("fd00:2::/64")),
    ] {
        let cost = |has_balancers: bool| {
            let mut project = Project::slow(1, routes).server(1, "node-1", &["10.0.0.3"]);
            if has_balancers {
                project = project.load_balancer(7, "web", "10.0.0.5");
            }
            let (host, _) = project.serve();
            converge(&nodes);
            host.requests().len()
        };
        let row = match (cost(false), cost(true)) {
            (alone, beside) if alone == beside => format!("| {event} | {alone} |"),
            (alone, beside) => {
                format!("| {event} | {alone}; {beside} where the network has load balancers |")
            }
        };
        assert!(
            readme.contains(&row),
            "guests/hcloud/README.md lacks\n{row}"
        );
    }
}
