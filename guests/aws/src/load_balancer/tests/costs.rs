//! How many requests each event costs.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests, and figures"
)]

use ccm_guest::load_balancer::{DeleteRequest, EnsureRequest, Service, UpdateRequest};

use crate::load_balancer::{deletion, ensure};
use crate::samples::{
    Form, INSTANCE, INSTANCES, NOT_FOUND, actions, host, node, service, settings, xml,
};

/// What each event costs, beside the Go provider's requests for it, counted in its source (version 1.37.1). The same rows
/// stand in the README.
#[test]
fn each_event_costs_what_the_readme_says() {
    let settings = settings(&[]);
    let readme = include_str!("../../../../README.md");
    let cost = |event: &str, go: &str, sent: Vec<String>| {
        let row = format!("| {event} | {} | {go} |", sent.len());
        println!("{row} {sent:?}");
        assert!(
            readme.contains(&row),
            "guests/README.md lacks\n{row}\nof {sent:#?}"
        );
    };
    let ensure = |service: Service, nodes: usize| {
        ensure::ensure(&settings, &EnsureRequest::new(service, four(nodes))).unwrap()
    };
    let new = host(|action, _| (action == "DescribeLoadBalancers").then(|| xml(400, NOT_FOUND)));
    ensure(service(&[]), 4);
    // The fixture's group is open already; a new Service's is opened by one request more.
    cost(
        "create",
        "20",
        [
            actions(&new),
            vec!["AuthorizeSecurityGroupIngress".to_owned()],
        ]
        .concat(),
    );
    drop(new);

    let there = host(four_registered);
    ensure(service(&[]), 4);
    cost(
        "the hourly look, when all is as wanted",
        "never",
        actions(&there),
    );
    let mut before = actions(&there).len();
    let mut since = || {
        let all = actions(&there);
        let new = all[before..].to_vec();
        before = all.len();
        new
    };
    let mut annotated = service(&[]);
    annotated
        .annotations
        .push(("example.com/unrelated".to_owned(), "x".to_owned()));
    ensure(annotated, 4);
    cost(
        "another annotation that says nothing about it",
        "12",
        since(),
    );
    ensure::update_targets(&settings, &UpdateRequest::new(service(&[]), four(5))).unwrap();
    cost("node added", "16", since());
    let mut moved = service(&[]);
    moved.ports[0].node_port = Some(30081);
    ensure(moved, 4);
    cost("one node port changed", "19", since());
    let mut replaced = service(&[]);
    replaced.ports[0].port = 81;
    ensure(replaced, 4);
    cost("one port replaced", "16", since());
    drop(there);
    let there = host(|_, _| None);
    deletion::delete(&settings, &DeleteRequest::new(service(&[]))).unwrap();
    let _ = deletion::get(&service(&[]));
    cost("delete, and the proof of it", "11", actions(&there));
}

/// Nodes whose instances are all the fixture's, with other IDs.
fn four(count: usize) -> Vec<ccm_guest::Node> {
    let id = |number: usize| format!("aws:///eu-west-1c/i-{number:017x}");
    (0..count)
        .map(|number| node(&format!("node-{number}"), Some(&id(number))))
        .collect()
}

fn four_registered(action: &str, form: &Form) -> Option<ccm_guest::testing::Answer> {
    let ids = |from: &str| {
        let of = form
            .iter()
            .filter(|(key, _)| key.starts_with(from))
            .map(|(_, id)| id.clone());
        of.collect::<Vec<_>>()
    };
    match action {
        "DescribeInstances" => {
            let (_, rest) = INSTANCES.split_once("<instancesSet>")?;
            let (item, _) = rest.split_once("</instancesSet>")?;
            let items: String = ids("Filter.1.Value")
                .iter()
                .map(|id| item.replace(INSTANCE, id))
                .collect();
            Some(xml(
                200,
                format!(
                    "<DescribeInstancesResponse><reservationSet><item><instancesSet>{items}</instancesSet></item></reservationSet></DescribeInstancesResponse>"
                ),
            ))
        }
        "DescribeTargetHealth" => {
            let target = |number: usize| {
                format!("<member><Target><Id>i-{number:017x}</Id></Target></member>")
            };
            let targets: String = (0..4).map(target).collect();
            let inner = format!("<TargetHealthDescriptions>{targets}</TargetHealthDescriptions>");
            Some(xml(
                200,
                format!(
                    "<DescribeTargetHealthResponse><DescribeTargetHealthResult>{inner}</DescribeTargetHealthResult></DescribeTargetHealthResponse>"
                ),
            ))
        }
        _ => None,
    }
}
