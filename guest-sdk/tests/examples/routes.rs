//! The provider of `examples/routes` does what the contract says, against a scripted cloud.

#[path = "../../examples/routes/main.rs"]
mod example;

use ccm_guest::routes::{CreateRequest, DeleteRequest, ProgressReply, Route, Target};
use ccm_guest::testing::{Answer, Seen, TestHost, json, listed, node};
use ccm_guest::{Address, AddressType, Error, Node, Routes as _};
use example::Paths;

const MANIFEST: &str = include_str!("../../examples/routes/manifest.json");

fn worker(name: &str, address: &str) -> Node {
    Node {
        labels: vec![("a".to_owned(), "b".to_owned())],
        addresses: vec![Address {
            address_type: AddressType::InternalIp,
            address: address.to_owned(),
        }],
        ..node(name, None)
    }
}

fn cloud(request: &Seen) -> Answer {
    match request.line().as_str() {
        "GET /routes" => json(
            200,
            r#"[
                { "id": 1, "destination": "10.0.1.0/24", "via": "192.0.2.1", "made_for": "one" },
                { "id": 2, "destination": "10.0.2.0/24", "via": "192.0.2.9", "made_for": "two" },
                { "id": 3, "destination": "10.0.3.0/24", "via": "192.0.2.3", "made_for": "gone" },
                { "id": 4, "destination": "10.0.4.0/24", "via": "192.0.2.4", "made_for": "" }
            ]"#,
        ),
        "GET /addresses/192.0.2.4" => json(200, r#""firewall""#),
        "POST /routes" | "DELETE /routes/1" => json(200, ""),
        _ => json(404, ""),
    }
}

#[test]
fn each_route_leads_where_the_contract_says() {
    let host = TestHost::new(MANIFEST, cloud);
    let nodes = [worker("one", "192.0.2.1"), worker("two", "192.0.2.2")];
    let routes = Paths.list(nodes.map(listed).into()).unwrap();
    let targets: Vec<_> = routes.into_iter().map(|route| route.target).collect();
    let expected = [
        Target::Node("one".to_owned()),
        Target::Outdated("two".to_owned()),
        Target::Blackhole,
        Target::Other("firewall".to_owned()),
    ];
    assert_eq!(format!("{targets:?}"), format!("{expected:?}"));
    let asked = [
        "GET /routes",
        "GET /addresses/192.0.2.3",
        "GET /addresses/192.0.2.4",
    ];
    assert_eq!(host.requests(), asked);
}

#[test]
fn what_cannot_be_told_about_one_route_is_an_error_for_all() {
    let _host = TestHost::new(MANIFEST, |request| match request.path_only() {
        "/addresses/192.0.2.4" => json(500, ""),
        _ => cloud(request),
    });
    let listed = Paths.list(Vec::new());
    assert!(
        matches!(
            listed.as_ref().map_err(|failure| &failure.error),
            Err(Error::Unavailable(_))
        ),
        "{listed:?}"
    );
}

#[test]
fn a_route_is_made_with_one_request_and_removed_with_one() {
    let host = TestHost::new(MANIFEST, cloud);
    let create = |node| {
        Paths.create(CreateRequest {
            node,
            destination_cidr: "10.0.1.0/24".to_owned(),
            hint: None,
        })
    };
    let done = format!("{:?}", ProgressReply::done());
    let made = create(worker("one", "192.0.2.1")).unwrap();
    assert_eq!(format!("{made:?}"), done);
    let body = host.seen().remove(0).body;
    let expected = r#"{"destination":"10.0.1.0/24","via":"192.0.2.1","made_for":"one"}"#;
    assert_eq!(String::from_utf8(body).unwrap(), expected);
    // Nothing is sent for a node that cannot be a next hop yet.
    assert!(matches!(
        create(node("new", None)).map_err(|failure| failure.error),
        Err(Error::Unavailable(_))
    ));
    for (id, path) in [("1", "DELETE /routes/1"), ("7", "DELETE /routes/7")] {
        let route = Route {
            id: id.to_owned(),
            destination_cidr: "10.0.1.0/24".to_owned(),
            target: Target::Blackhole,
            extra: Vec::new(),
        };
        // A missing route counts as removed.
        let removed = Paths.delete(DeleteRequest { route, hint: None }).unwrap();
        assert_eq!(format!("{removed:?}"), done);
        assert_eq!(host.requests().last().unwrap(), path);
    }
    assert_eq!(host.requests().len(), 3);
}
