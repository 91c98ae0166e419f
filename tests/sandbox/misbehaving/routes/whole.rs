//! Values cross the boundary whole, or are refused whole, and waiting calls take no memory from others.

use std::sync::Arc;

use ccm_core::cloud::load_balancer::Progress;
use ccm_core::cloud::route::{CloudRoute, CreateRouteRequest, DeleteRouteRequest, RouteTarget};
use ccm_core::cloud::{Address, AddressType, Capabilities, CloudNode, Lookup};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::permit::{Mode, Permit};
use ccm_fixtures::objects::cloud_node;
use ccm_host::{LoadErrorKind, Module};
use guest_misbehaving::behaviour::{Behaviour, Routing};

use super::{node, route};
use crate::misbehaving::files::with;
use crate::misbehaving::load_balancers::service;
use crate::misbehaving::target::{Target, TargetMode};
use crate::misbehaving::world::{self, TIMEOUT, block_on};
use crate::permits;
use ccm_tests::harness::Test;

pub(crate) const TESTS: &[Test] = &[
    (
        "routes::requests_arrive_in_the_guest_as_they_were_asked",
        requests_arrive_in_the_guest_as_they_were_asked,
    ),
    (
        "routes::fifteen_thousand_nodes_have_two_routes_each_and_more_are_refused",
        fifteen_thousand_nodes_have_two_routes_each_and_more_are_refused,
    ),
    (
        "routes::many_that_wait_for_their_cloud_leave_room_for_nodes",
        many_that_wait_for_their_cloud_leave_room_for_nodes,
    ),
    (
        "routes::what_init_did_not_enable_is_not_called",
        what_init_did_not_enable_is_not_called,
    ),
    (
        "routes::an_export_of_another_type_is_not_loaded",
        an_export_of_another_type_is_not_loaded,
    ),
];

/// An address without a listener, because nothing is sent.
const NOWHERE: &str = "http://127.0.0.1:9/v1";

fn permit() -> Arc<Permit> {
    permits::permit(TIMEOUT, Mode::Enforce, 0)
}

/// A node with many labels and annotations.
fn full(name: &str, cidrs: [String; 2]) -> CloudNode {
    let pair = |key: &str, length: usize| [(key.to_owned(), "x".repeat(length))].into();
    CloudNode {
        provider_id: Some(format!("misbehaving://{name}")),
        labels: pair("a.example/label", 1_000),
        annotations: pair("a.example/annotation", 4_000),
        addresses: vec![Address {
            address_type: AddressType::InternalIp,
            address: "192.0.2.7".to_owned(),
        }],
        pod_cidrs: cidrs.into(),
        ..cloud_node(name)
    }
}

fn requests_arrive_in_the_guest_as_they_were_asked() {
    block_on(async {
        let provider = world::load_routing(Routing::Echo, NOWHERE).await.unwrap();
        let said = |progress: Progress| match progress {
            Progress::Pending(pending) => {
                String::from_utf8(pending.hint.unwrap().to_vec()).unwrap()
            }
            Progress::Done => panic!("done"),
        };
        let create = CreateRouteRequest {
            node: Arc::new(node("one")),
            destination_cidr: "2001:db8::/64".to_owned(),
            hint: Some(Arc::new([0, 255])),
        };
        let reply = provider.create_route(&create, permit()).await.unwrap();
        let text = said(reply.progress);
        for part in [
            r#"name: "one", uid: "uid-of-one", provider-id: None"#,
            r#"pod-cidrs: ["10.0.1.0/24"]"#,
            r#"destination-cidr: "2001:db8::/64", hint: Some([0, 255])"#,
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        for (target, reported) in [
            (
                RouteTarget::Node("one".to_owned()),
                r#"Target::Node("one")"#,
            ),
            (
                RouteTarget::Outdated("one".to_owned()),
                r#"Target::Outdated("one")"#,
            ),
            (RouteTarget::Blackhole, "Target::Blackhole"),
            (
                RouteTarget::Other("server 7".to_owned()),
                r#"Target::Other("server 7")"#,
            ),
        ] {
            let route = CloudRoute {
                target,
                extra: vec![("gateway".to_owned(), "192.0.2.7".to_owned())],
                ..route()
            };
            let delete = DeleteRouteRequest {
                route: Arc::new(route),
                hint: None,
            };
            let reply = provider.delete_route(&delete, permit()).await.unwrap();
            let expected = format!(
                r#"id: "1", destination-cidr: "10.0.1.0/24", target: {reported}, extra: [("gateway", "192.0.2.7")]"#
            );
            let text = said(reply.progress);
            assert!(text.contains(&expected), "{expected}: {text}");
            assert!(text.contains("hint: None"), "{text}");
        }
        // A list has of each node the fields that identify a next hop, and no field that people fill freely.
        let nodes = [full(
            "one",
            ["10.0.1.0/24", "2001:db8::/64"].map(str::to_owned),
        )];
        let listed = provider.list_routes(&nodes, permit()).await.unwrap();
        assert_eq!(listed.routes.len(), 2);
        let expected = r#"uid-of-one Some("misbehaving://one") [Address { address-type: AddressType::InternalIp, address: "192.0.2.7" }] 0 labels 0 annotations"#;
        for route in &listed.routes {
            assert_eq!(route.extra[0].1, expected);
        }
    });
}

fn fifteen_thousand_nodes_have_two_routes_each_and_more_are_refused() {
    block_on(async {
        let provider = world::load_routing(Routing::Echo, NOWHERE).await.unwrap();
        let cidrs = |number: usize| {
            let (high, low) = (number / 256, number % 256);
            [
                format!("10.{high}.{low}.0/24"),
                format!("2001:db8:{high:x}:{low:x}::/64"),
            ]
        };
        let mut nodes: Vec<_> = (0..15_000)
            .map(|number| full(&format!("node-{number}"), cidrs(number)))
            .collect();
        let listed = provider.list_routes(&nodes, permit()).await.unwrap();
        assert_eq!(listed.routes.len(), 30_000);
        for (number, routes) in listed.routes.chunks(2).enumerate() {
            let target = RouteTarget::Node(format!("node-{number}"));
            let destinations = routes.iter().map(|route| &route.destination_cidr);
            assert!(destinations.eq(&cidrs(number)), "{routes:?}");
            assert!(routes.iter().all(|route| route.target == target));
        }
        nodes.push(node("one-more"));
        let refused = provider.list_routes(&nodes, permit()).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "invalid: 15001 nodes to list routes for, at most 15000"
        );
    });
}

/// Both kinds of calls together, in any number.
fn many_that_wait_for_their_cloud_leave_room_for_nodes() {
    block_on(async {
        let cloud = Target::start(TargetMode::Silent).await;
        let honest = [("balancing", "honest"), ("routing", "honest")];
        let provider = world::load_making(&honest, &cloud.endpoint())
            .await
            .unwrap();
        let (listed, service) = ([node("one")], service());
        let lists = (0..32).map(|_| provider.list_routes(&listed, permit()));
        let looks = (0..32).map(|_| provider.get_load_balancer(&service, permit()));
        let nodes = [cloud_node("one")];
        tokio::select! {
            // All of them take their memory before the node is looked up.
            biased;
            (end, ..) = futures::future::select_all(lists) => {
                panic!("the node had to wait until a list was there: {end:?}")
            }
            (end, ..) = futures::future::select_all(looks) => {
                panic!("the node had to wait until a load balancer was done: {end:?}")
            }
            found = provider.find(&nodes, permit()) => {
                let reply = found.unwrap();
                assert!(matches!(reply.lookups.as_slice(), [Lookup::Found(_)]), "{reply:?}");
            }
        }
    });
}

fn what_init_did_not_enable_is_not_called() {
    block_on(async {
        let provider = world::load(Behaviour::Honest, NOWHERE).await.unwrap();
        let instances = Capabilities {
            instances: true,
            ..Capabilities::default()
        };
        assert_eq!(provider.capabilities(), instances);
        let delete = DeleteRouteRequest {
            route: Arc::new(route()),
            hint: None,
        };
        for error in [
            provider.list_routes(&[], permit()).await.unwrap_err(),
            provider.delete_route(&delete, permit()).await.unwrap_err(),
        ] {
            assert_eq!(
                error.to_string(),
                "unsupported: misbehaving makes no routes"
            );
        }
        let provider = world::load_routing(Routing::Echo, NOWHERE).await.unwrap();
        let both = Capabilities {
            routes: true,
            ..instances
        };
        assert_eq!(provider.capabilities(), both);
    });
}

fn an_export_of_another_type_is_not_loaded() {
    let cases = [(
        "outdated",
        "antiquat",
        "routes@0.2.0: list has another type than in the contract",
    )];
    block_on(async {
        for (from, to, text) in cases {
            let module = Module {
                source: "bad.wasm".to_owned(),
                wasm: with(from, to).into(),
            };
            // Also for functions that would not be called.
            let config = world::config(Behaviour::Honest);
            let loaded = world::HOST.load(module, world::grants(NOWHERE), config);
            let error = loaded.await.err().unwrap();
            let said = world::chain(&error);
            assert!(matches!(error.kind, LoadErrorKind::Signature(_)), "{said}");
            assert!(said.contains(text), "{text}: {said}");
        }
    });
}
