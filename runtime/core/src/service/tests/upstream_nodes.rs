//! Upstream's own cases about nodes behind load balancers, each row under its ID in `tests/conformance.md`. Its several
//! Services are several worlds here: each has reconciliations of its own.

use super::world::*;
use crate::node::object::PrunedNode;
use crate::reconciliation::effect::When;
use crate::service::{ServiceAction, Targets};
use serde_json::json;

const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

fn updates(world: &World) -> Vec<Vec<String>> {
    let sets = world.calls.iter().filter_map(|call| match call {
        ServiceAction::UpdateTargets(request) => Some(request),
        _ => None,
    });
    sets.map(|request| {
        request
            .targets
            .iter()
            .map(|node| node.name.clone())
            .collect()
    })
    .collect()
}

/// A Service of this type after its first reconciliation, with `node0` and `node1`.
fn of_type(kind: &str) -> World {
    let mut world = world();
    world.stored["spec"]["type"] = json!(kind);
    world.with_nodes(&["node0", "node1"]);
    world.reconcile();
    world.ensure = [ready(&["192.0.2.1"], 0)].into();
    world.calls.clear();
    world
}

#[test]
fn upstream_update_nodes_in_external_load_balancer() {
    const LB: &str = "LoadBalancer";
    for (id, types, expected) in [
        ("TestUpdateNodesInExternalLoadBalancer/01", [].as_slice(), 0),
        (
            "TestUpdateNodesInExternalLoadBalancer/02",
            &["ClusterIP", "NodePort"],
            0,
        ),
        ("TestUpdateNodesInExternalLoadBalancer/03", &[LB], 1),
        ("TestUpdateNodesInExternalLoadBalancer/04", &[LB, LB, LB], 3),
        (
            "TestUpdateNodesInExternalLoadBalancer/05",
            &["NodePort", LB, "ClusterIP", LB],
            2,
        ),
        ("TestUpdateNodesInExternalLoadBalancer/06", &[LB, ""], 1),
        (
            "TestUpdateNodesInExternalLoadBalancer/07",
            &[LB, LB, LB, LB],
            4,
        ),
    ] {
        let mut all = Vec::new();
        for kind in types {
            let mut world = of_type(kind);
            world.with_nodes(&["node0", "node1", "node73"]);
            assert_eq!(world.reconcile().end, When::AwaitChange, "{id}");
            all.extend(updates(&world));
        }
        assert_eq!(all, vec![["node0", "node1", "node73"]; expected], "{id}");
    }
}

/// Nodes, each with a name and a change.
fn nodes(list: &[(&str, &str)]) -> Vec<String> {
    let one = |(name, what): &(&str, &str)| {
        let mut node = node_object(name).json();
        match *what {
            "" => {}
            "not ready" => node["status"]["conditions"][0]["status"] = json!("False"),
            "leaving" => {
                node["spec"]["taints"] =
                    json!([{ "key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule" }]);
            }
            "excluded" => node["metadata"]["labels"][EXCLUDE] = json!(""),
            "deleted" => node["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            "tainted" => node["spec"]["taints"] = json!([{ "key": "x", "effect": "NoSchedule" }]),
            other => panic!("{other}"),
        }
        serde_json::from_value::<PrunedNode>(node).unwrap()
    };
    let all: Vec<PrunedNode> = list.iter().map(one).collect();
    let targets = Targets::of(all.iter(), true);
    targets.nodes.iter().map(|node| node.name.clone()).collect()
}

#[test]
fn svc_061_and_069_upstream_node_changes_for_stable_node_set_enabled() {
    let two: &[(&str, &str)] = &[("n1", ""), ("n2", "")];
    let three: &[(&str, &str)] = &[("n1", ""), ("n2", ""), ("n3", "")];
    let with = |what: &'static str| [("n1", ""), ("n2", ""), ("n3", what)];
    for (id, before, after, fails, expected) in [
        (
            "TestNodeChangesForStableNodeSetEnabled/01",
            three,
            three,
            false,
            0,
        ),
        (
            "TestNodeChangesForStableNodeSetEnabled/02",
            two,
            three,
            false,
            3,
        ),
        // One failing pass; the total is checked instead of a second pass.
        (
            "TestNodeChangesForStableNodeSetEnabled/03",
            two,
            three,
            true,
            3,
        ),
        (
            "TestNodeChangesForStableNodeSetEnabled/04",
            three,
            &with("not ready"),
            false,
            0,
        ),
        (
            "TestNodeChangesForStableNodeSetEnabled/05",
            three,
            &with("leaving"),
            false,
            3,
        ),
        (
            "TestNodeChangesForStableNodeSetEnabled/06",
            &with("not ready"),
            three,
            false,
            0,
        ),
        (
            "TestNodeChangesForStableNodeSetEnabled/07",
            three,
            &with("excluded"),
            false,
            3,
        ),
        (
            "TestNodeChangesForStableNodeSetEnabled/08",
            three,
            two,
            false,
            3,
        ),
        (
            "TestNodeChangesForStableNodeSetEnabled/09",
            three,
            &with("deleted"),
            false,
            3,
        ),
        (
            "TestNodeChangesForStableNodeSetEnabled/10",
            three,
            &with("tainted"),
            false,
            0,
        ),
    ] {
        let mut count = 0;
        for policy in ["Local", "Local", "Cluster"] {
            let mut world = world();
            world.stored["spec"]["externalTrafficPolicy"] = json!(policy);
            world.nodes = nodes(before);
            world.reconcile();
            world.ensure = [ready(&["192.0.2.1"], 0)].into();
            world.nodes = nodes(after);
            if fails {
                world.update = [Err(unavailable())].into();
            }
            assert_eq!(world.reconcile().end, When::AwaitChange, "{id}");
            count += updates(&world).len();
            does_nothing(&mut world);
        }
        assert_eq!(count, expected, "{id}");
    }
}

#[test]
fn upstream_node_changes_in_external_load_balancer() {
    for (id, names) in [
        (
            "TestNodeChangesInExternalLoadBalancer/01",
            ["node1"].as_slice(),
        ),
        (
            "TestNodeChangesInExternalLoadBalancer/02",
            &["node1", "node2"],
        ),
        (
            "TestNodeChangesInExternalLoadBalancer/03",
            &["node1", "node2", "node3", "node4"],
        ),
    ] {
        for _service in 0..4 {
            let mut world = of_type("LoadBalancer");
            // Earlier targets stay a while longer where most would be removed.
            world
                .nodes
                .extend(names.iter().map(|name| (*name).to_owned()));
            world.nodes.sort();
            world.nodes.dedup();
            world.reconcile();
            let expected = usize::from(world.nodes.len() > 2);
            assert_eq!(updates(&world).len(), expected, "{id}");
        }
    }
    // Upstream's list of nodes cannot be read; ours is not complete yet.
    for id in [
        "TestNodeChangesInExternalLoadBalancer/04",
        "TestNodeChangesInExternalLoadBalancer/05",
    ] {
        for _service in 0..4 {
            let mut world = of_type("LoadBalancer");
            world.is_synced = false;
            world.with_nodes(&[]);
            let run = does_nothing(&mut world);
            assert_ne!(run.end, When::AwaitChange, "{id}: it comes back");
        }
    }
}

#[test]
fn edge_072_upstream_nodes_not_equal() {
    let with = |ids: [&str; 2]| {
        let all = ["a", "b"].into_iter().zip(ids).map(|(name, id)| {
            let mut node = node_object(name).json();
            node["spec"]["providerID"] = json!(id);
            serde_json::from_value::<PrunedNode>(node).unwrap()
        });
        let all: Vec<PrunedNode> = all.collect();
        Targets::of(all.iter(), true)
    };
    for (id, before, after, expected) in [
        (
            "TestNodesNotEqual/01",
            with(["", ""]),
            with(["sim://1", "sim://2"]),
            true,
        ),
        (
            "TestNodesNotEqual/02",
            with(["sim://1", "sim://2"]),
            with(["sim://1", "sim://2"]),
            false,
        ),
        (
            "TestNodesNotEqual/03",
            with(["sim://1", "sim://2"]),
            with(["sim://1", "sim://3"]),
            true,
        ),
    ] {
        let mut world = world();
        world.nodes = Vec::new();
        world.reconcile();
        world.past.targets.confirmed = Some(before.nodes);
        assert_eq!(world.past.wants_targets(&after), expected, "{id}");
    }
}

#[test]
fn edge_061_upstream_slow_node_sync() {
    let id = "TestSlowNodeSync/01";
    // The update of this Service is under way while the third node joins …
    let mut slow = of_type("LoadBalancer");
    slow.with_nodes(&["node0", "node1", "node2"]);
    slow.reconcile();
    assert_eq!(updates(&slow).len(), 1, "{id}");
    // … and this Service is created with all three.
    let mut other = world();
    other.with_nodes(&["node0", "node1", "node2"]);
    other.reconcile();
    let Some(ServiceAction::Ensure(request)) = other.calls.last() else {
        panic!("{id}: {:?}", other.calls);
    };
    assert_eq!(request.targets.len(), 3, "{id}");
    for world in [&mut slow, &mut other] {
        does_nothing(world);
    }
}
