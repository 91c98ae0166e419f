//! Upstream's own cases about routes, each row under its ID in `tests/conformance.md`.

use std::collections::BTreeSet;

use serde_json::json;

use super::world::*;
use crate::route::network::is_inside;

#[test]
fn route_024_upstream_is_responsible_for_route() {
    for (id, cluster, route, is_ours) in [
        (
            "TestIsResponsibleForRoute/01",
            "10.244.0.0/16",
            "10.244.0.0/24",
            true,
        ),
        (
            "TestIsResponsibleForRoute/02",
            "10.244.0.0/16",
            "10.244.10.0/24",
            true,
        ),
        (
            "TestIsResponsibleForRoute/03",
            "10.244.0.0/16",
            "10.244.255.0/24",
            true,
        ),
        (
            "TestIsResponsibleForRoute/04",
            "10.244.0.0/14",
            "10.244.0.0/24",
            true,
        ),
        (
            "TestIsResponsibleForRoute/05",
            "10.244.0.0/14",
            "10.247.255.0/24",
            true,
        ),
        (
            "TestIsResponsibleForRoute/06",
            "a00:100::/10",
            "a00:100::/24",
            true,
        ),
        (
            "TestIsResponsibleForRoute/07",
            "10.244.0.0/16",
            "10.224.0.0/24",
            false,
        ),
        (
            "TestIsResponsibleForRoute/08",
            "10.244.0.0/16",
            "10.0.10.0/24",
            false,
        ),
        (
            "TestIsResponsibleForRoute/09",
            "10.244.0.0/16",
            "10.255.255.0/24",
            false,
        ),
        (
            "TestIsResponsibleForRoute/10",
            "10.244.0.0/14",
            "10.248.0.0/24",
            false,
        ),
        (
            "TestIsResponsibleForRoute/11",
            "10.244.0.0/14",
            "10.243.255.0/24",
            false,
        ),
        (
            "TestIsResponsibleForRoute/12",
            "a00:100::/10",
            "b00:100::/24",
            false,
        ),
    ] {
        let cluster = [network(cluster)];
        assert_eq!(is_inside(&network(route), &cluster), is_ours, "{id}");
    }
}

const V4: [&str; 2] = ["10.120.0.0/24", "10.120.1.0/24"];
const V6: [&str; 2] = ["a00:100::/24", "a00:200::/24"];

/// Routes before, as destination and node; `!` before a node: to a former address of it, `-`: to nothing.
struct Case {
    id: &'static str,
    is_dual: bool,
    /// Pod CIDRs of both nodes.
    pod_cidrs: [&'static [&'static str]; 2],
    before: &'static [(&'static str, &'static str)],
    after: &'static [(&'static str, &'static str)],
    /// Numbers of removed and created routes.
    changes: (usize, usize),
}

const ALL: &[(&str, &str)] = &[
    ("10.120.0.0/24", "node-1"),
    ("10.120.1.0/24", "node-2"),
    ("a00:100::/24", "node-1"),
    ("a00:200::/24", "node-2"),
];
const FOUR: &[(&str, &str)] = &[("10.120.0.0/24", "node-1"), ("10.120.1.0/24", "node-2")];
const DUAL: [&[&str]; 2] = [&[V4[0], V6[0]], &[V4[1], V6[1]]];
const SINGLE: [&[&str]; 2] = [&[V4[0]], &[V4[1]]];

#[test]
fn upstream_reconcile_makes_and_removes_what_is_wanted_and_nothing_else() {
    let old: &[(&str, &str)] = &[
        ("10.120.0.0/24", "!node-1"),
        ("10.120.1.0/24", "!node-2"),
        ("a00:100::/24", "!node-1"),
        ("a00:200::/24", "!node-2"),
    ];
    let case = |id, is_dual, before, after, changes| Case {
        id,
        is_dual,
        pod_cidrs: if is_dual { DUAL } else { SINGLE },
        before,
        after,
        changes,
    };
    let cases = [
        case("TestReconcile/01", true, old, ALL, (4, 4)),
        case("TestReconcile/02", true, old, ALL, (4, 4)),
        case("TestReconcile/03", true, &[], ALL, (0, 4)),
        case("TestReconcile/04", true, ALL, ALL, (0, 0)),
        case(
            "TestReconcile/05",
            true,
            &[
                ("10.120.0.0/24", "node-2"),
                ("10.120.1.0/24", "node-1"),
                ("a00:100::/24", "node-2"),
                ("a00:200::/24", "node-1"),
            ],
            ALL,
            (4, 4),
        ),
        case(
            "TestReconcile/06",
            true,
            &[("10.120.1.0/24", "node-2"), ("a00:200::/24", "node-2")],
            ALL,
            (0, 2),
        ),
        case(
            "TestReconcile/07",
            true,
            &[
                ("10.120.0.0/24", "node-1"),
                ("10.120.1.0/24", "node-2"),
                ("10.120.2.0/24", "-"),
                ("a00:100::/24", "node-1"),
                ("a00:200::/24", "node-2"),
                ("a00:300::/24", "-"),
            ],
            ALL,
            (2, 0),
        ),
        case("TestReconcile/08", false, FOUR, FOUR, (0, 0)),
        case(
            "TestReconcile/09",
            false,
            &[("10.120.0.0/24", "!node-1"), ("10.120.1.0/24", "!node-2")],
            FOUR,
            (2, 2),
        ),
        case(
            "TestReconcile/10",
            false,
            &[("10.120.0.0/24", "node-1")],
            FOUR,
            (0, 1),
        ),
        case("TestReconcile/11", false, &[], FOUR, (0, 2)),
        case(
            "TestReconcile/12",
            false,
            &[
                ("10.120.0.0/24", "node-1"),
                ("10.120.1.0/24", "node-2"),
                ("10.120.2.0/24", "node-1"),
                ("10.120.3.0/24", "node-2"),
            ],
            FOUR,
            (2, 0),
        ),
        case(
            "TestReconcile/13",
            false,
            &[("10.120.0.0/24", "node-1"), ("10.120.2.0/24", "node-2")],
            FOUR,
            (1, 1),
        ),
        Case {
            pod_cidrs: [SINGLE[0], &[]],
            ..case(
                "TestReconcile/14",
                false,
                &[],
                &[("10.120.0.0/24", "node-1")],
                (0, 1),
            )
        },
        case(
            "TestReconcile/15",
            false,
            &[
                ("10.120.0.0/24", "node-1"),
                ("10.120.1.0/24", "node-2"),
                ("10.120.2.0/24", "-"),
            ],
            FOUR,
            (1, 0),
        ),
        case(
            "TestReconcile/16",
            false,
            &[
                ("10.120.0.0/24", "node-1"),
                ("10.120.1.0/24", "node-2"),
                ("10.1.2.0/24", "-"),
            ],
            &[
                ("10.120.0.0/24", "node-1"),
                ("10.120.1.0/24", "node-2"),
                ("10.1.2.0/24", "-"),
            ],
            (0, 0),
        ),
        // ROUTE-033: here the destination is requested once.
        Case {
            pod_cidrs: [&[V4[0], V4[0]], SINGLE[1]],
            ..case("TestReconcile/17", false, &[], FOUR, (0, 2))
        },
    ];
    for case in cases {
        let id = case.id;
        let mut world = match case.is_dual {
            true => world(&["10.120.0.0/16", "ace:cab:deca::/8"]),
            false => world(&["10.120.0.0/16"]),
        };
        world.add("node-1", case.pod_cidrs[0], "10.0.0.1");
        world.add("node-2", case.pod_cidrs[1], "10.0.0.2");
        let hop = |to: &str| match to.strip_prefix('!') {
            Some(node) => Hop::Machine(node.to_owned(), "10.0.0.9".to_owned()),
            None if to == "-" => Hop::Machine("gone".to_owned(), "10.0.0.9".to_owned()),
            None => {
                let last = to.strip_prefix("node-").unwrap();
                Hop::Machine(to.to_owned(), format!("10.0.0.{last}"))
            }
        };
        for (destination, to) in case.before {
            world.route(destination, hop(to));
        }
        let acts = world.settle();
        let after = case.after.iter().map(|(destination, to)| match hop(to) {
            Hop::Machine(node, address) => format!("{destination} {node} {address}"),
            Hop::Fixed(target) => format!("{destination} {target}"),
        });
        let after: BTreeSet<String> = after.collect();
        assert_eq!(world.final_routes(), after, "{id}: {acts:?}");
        let count = |word: &str| acts.iter().filter(|act| act.starts_with(word)).count();
        let changes = (count("delete route"), count("create route"));
        assert_eq!(changes, case.changes, "{id}: {acts:?}");
        for (index, name) in ["node-1", "node-2"].into_iter().enumerate() {
            let expected = if case.pod_cidrs[index].is_empty() {
                ""
            } else {
                "False/RouteCreated"
            };
            assert_eq!(world.condition(name), expected, "{id}");
        }
        world.log.clear();
        world.pass();
        assert_eq!(world.acts(), [""; 0], "{id}: a second pass does nothing");
    }
}

#[test]
fn route_011_upstream_handle_node_update() {
    for (id, change, is_news) in [
        ("TestHandleNodeUpdate/01", "address", true),
        ("TestHandleNodeUpdate/02", "pod cidr", true),
        // Upstream lists then, too: its informer's resync looks the same. This manager has a resync of its own.
        ("TestHandleNodeUpdate/03", "nothing", false),
        ("TestHandleNodeUpdate/04", "images", false),
    ] {
        let mut world = world(&["10.120.0.0/16"]);
        world.add("node-1", &["10.120.0.0/24"], "10.0.0.1");
        world.settle();
        world.log.clear();
        world.change("node-1", |node| match change {
            "address" => node["status"]["addresses"][0]["address"] = json!("10.0.0.2"),
            "pod cidr" => node["spec"]["podCIDRs"] = json!(["10.120.1.0/24"]),
            "images" => node["status"]["images"] = json!([{ "names": ["nginx"] }]),
            _ => {}
        });
        world.run(60_000);
        assert_eq!(!world.listings_at().is_empty(), is_news, "{id}");
    }
}

/// The condition before, whether the route can be made, and the condition after.
#[test]
fn upstream_update_networking_condition() {
    for (id, before, is_made, after) in [
        (
            "TestUpdateNetworkingCondition/01",
            "",
            true,
            "False/RouteCreated",
        ),
        (
            "TestUpdateNetworkingCondition/02",
            "",
            false,
            "True/NoRouteCreated",
        ),
        (
            "TestUpdateNetworkingCondition/03",
            "False/RouteCreated",
            true,
            "",
        ),
        // Three conditions of other writers that upstream overwrites (ROUTE-042, EDGE-081).
        (
            "TestUpdateNetworkingCondition/04",
            "False/CalicoIsUp",
            true,
            "",
        ),
        (
            "TestUpdateNetworkingCondition/05",
            "False/ExternalCNI",
            true,
            "",
        ),
        (
            "TestUpdateNetworkingCondition/06",
            "True/SomeOtherReason",
            false,
            "",
        ),
        (
            "TestUpdateNetworkingCondition/07",
            "False/RouteCreated",
            false,
            "True/NoRouteCreated",
        ),
        (
            "TestUpdateNetworkingCondition/08",
            "True/NoRouteCreated",
            false,
            "",
        ),
        (
            "TestUpdateNetworkingConditionWithCalicoScenario/01",
            "False/CalicoIsUp",
            true,
            "",
        ),
    ] {
        let mut world = world(&["10.120.0.0/16"]);
        world.add("node-1", &["10.120.0.0/24"], "10.0.0.1");
        if let Some((status, reason)) = before.split_once('/') {
            let condition = json!([{
                "type": "NetworkUnavailable", "status": status, "reason": reason,
                "lastTransitionTime": "2026-01-01T00:00:00Z"
            }]);
            world.change("node-1", |node| node["status"]["conditions"] = condition);
        }
        if !is_made {
            let answer = Err(unavailable());
            world.changes.insert("10.120.0.0/24".to_owned(), answer);
        }
        // If the condition says that the network is available, a second failure has to confirm the first.
        world.run(1_000);
        world.run(1_000);
        let acts = world.acts();
        let patches = acts.iter().filter(|act| act.starts_with("patch "));
        assert_eq!(
            patches.count(),
            usize::from(!after.is_empty()),
            "{id}: {acts:?}"
        );
        let after = if after.is_empty() { before } else { after };
        assert_eq!(world.condition("node-1"), after, "{id}");
    }
}
