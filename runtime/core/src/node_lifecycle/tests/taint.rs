//! The shutdown taint.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::super::{Memory, Now, Pass};
use super::world::World;
use crate::cloud::instance::{Instance, Lookup};
use crate::moment::Moment;
use crate::node::object::PrunedNode;
use crate::node::ownership::OwnershipContext;
use crate::settings::LifecycleRules;
use crate::well_known::SHUTDOWN_TAINT;

fn taints(world: &World, name: &str) -> usize {
    let list = world.nodes[name]["spec"]["taints"].as_array().unwrap();
    let ours = |taint: &&serde_json::Value| taint["key"] == json!(SHUTDOWN_TAINT);
    list.iter().filter(ours).count()
}

#[test]
fn life_013_a_machine_that_is_switched_off_gets_the_taint_and_loses_it_when_the_node_is_ready() {
    let mut world = World::new(&["a", "b"]);
    world.set_found("a", Some(true));
    world.run(30);
    assert_eq!(world.log, [""; 0], "life_005: it is Ready");
    world.ready("a", "Unknown");
    world.run(60);
    assert_eq!(taints(&world, "a"), 1);
    assert_eq!(world.done(), ["30 patch node/a +taint(shutdown) taints(1)"]);
    world.ready("a", "True");
    world.run(10);
    assert_eq!(taints(&world, "a"), 0);
    assert_eq!(world.done(), ["90 patch node/a -taint(shutdown) taints(0)"]);
}

#[test]
fn edge_011_it_loses_it_as_soon_as_the_cloud_says_that_it_runs() {
    let mut world = World::new(&["a", "b"]);
    world.set_found("a", Some(true));
    world.ready("a", "Unknown");
    world.run(10);
    assert_eq!(taints(&world, "a"), 1);
    world.set_found("a", None);
    world.run(120);
    assert_eq!(
        taints(&world, "a"),
        1,
        "a cloud that cannot tell changes nothing"
    );
    world.set_found("a", Some(false));
    world.run(65);
    assert_eq!(taints(&world, "a"), 0);
}

#[test]
fn only_an_answer_about_the_nodes_own_machine_taints_it() {
    // Without a provider ID in the answer, the stored one is meant.
    for (answered, expected) in [("sim://a", 1), ("", 1), ("sim://another", 0)] {
        let mut world = World::new(&["a", "b"]);
        let instance = Instance {
            provider_id: answered.to_owned(),
            shutdown: Some(true),
            ..Instance::default()
        };
        let found = Lookup::Found(Box::new(instance));
        world.cloud.insert("a".to_owned(), found);
        world.ready("a", "Unknown");
        world.run(60);
        assert_eq!(taints(&world, "a"), expected, "{answered:?}");
    }
}

#[test]
fn life_014_other_taints_keep_their_place_and_one_with_a_value_is_replaced_where_it_stands() {
    let mut world = World::new(&["a", "b"]);
    world.nodes.get_mut("a").unwrap()["spec"]["taints"] = json!([
        { "key": "x", "effect": "NoSchedule" },
        { "key": SHUTDOWN_TAINT, "value": "v", "effect": "NoSchedule" },
        { "key": SHUTDOWN_TAINT, "effect": "NoExecute" },
    ]);
    world.set_found("a", Some(true));
    world.ready("a", "Unknown");
    world.run(10);
    assert_eq!(
        world.nodes["a"]["spec"]["taints"],
        json!([
            { "key": "x", "effect": "NoSchedule" },
            { "key": SHUTDOWN_TAINT, "effect": "NoSchedule" },
            { "key": SHUTDOWN_TAINT, "effect": "NoExecute" },
        ])
    );
    world.ready("a", "True");
    world.run(30);
    assert_eq!(
        world.nodes["a"]["spec"]["taints"],
        json!([
            { "key": "x", "effect": "NoSchedule" },
            { "key": SHUTDOWN_TAINT, "effect": "NoExecute" },
        ]),
        "LIFE-015: one with another effect is another taint"
    );
    let done = world.done();
    let removals = done.iter().filter(|line| line.contains("-taint"));
    assert_eq!(removals.count(), 1, "{done:#?}");
}

#[test]
fn f17_everybody_switched_off_taints_three_in_ten_minutes() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut world = World::new(&names);
    for name in names {
        world.set_found(name, Some(true));
        world.ready(name, "Unknown");
    }
    world.run(595);
    let tainted = names
        .iter()
        .filter(|name| taints(&world, name) == 1)
        .count();
    assert_eq!(tainted, 3);
    let done = world.done();
    let reported = done
        .iter()
        .filter(|line| line.contains("BrakeEngaged"))
        .count();
    assert_eq!(reported, 5, "once for each node: {done:#?}");
    world.run(120);
    let tainted = names
        .iter()
        .filter(|name| taints(&world, name) == 1)
        .count();
    assert_eq!(tainted, 6);
}

#[test]
fn a_node_whose_taint_is_refused_for_ever_leaves_the_budget_to_the_others() {
    let mut world = World::new(&["a", "b", "c", "d"]);
    world.locked.insert("a".to_owned());
    for name in ["a", "b", "c"] {
        world.set_found(name, Some(true));
    }
    world.ready("a", "Unknown");
    world.run(200);
    for name in ["b", "c"] {
        world.ready(name, "Unknown");
    }
    world.run(10);
    let tainted = ["b", "c"].map(|name| taints(&world, name));
    assert_eq!(tainted, [1, 1], "{:#?}", world.done());
    world.locked.clear();
    world.run(610);
    assert_eq!(taints(&world, "a"), 1, "{:#?}", world.done());
}

#[test]
fn a_taint_that_was_paid_for_and_made_is_paid_for_again_the_next_time() {
    let mut world = World::new(&["a", "b"]);
    world.set_found("a", Some(true));
    for _ in 0..4 {
        world.ready("a", "Unknown");
        world.run(10);
        world.ready("a", "True");
        world.run(10);
    }
    let done = world.done();
    let made = done.iter().filter(|line| line.contains("+taint")).count();
    assert_eq!(made, 3, "{done:#?}");
}

#[test]
fn a_taint_that_cannot_be_taken_away_is_tried_again_less_and_less_often() {
    let mut world = World::new(&["a", "b"]);
    world.set_found("a", Some(true));
    world.ready("a", "Unknown");
    world.run(10);
    world.done();
    world.locked.insert("a".to_owned());
    world.ready("a", "True");
    world.run(1800);
    let done = world.done();
    let tries = done.iter().filter(|line| line.contains("-taint")).count();
    assert!((8..=16).contains(&tries), "{tries}: {done:#?}");
    let reported = done.iter().filter(|line| line.contains("event"));
    let reported: Vec<&str> = reported
        .map(|line| line.split_once(' ').unwrap().1)
        .collect();
    assert_eq!(reported, ["event node/a Warning NodeUpdateFailed"]);
    // A node that becomes NotReady then is looked up at once, whatever delay applied before.
    world.ready("a", "Unknown");
    let asked = world.asked;
    world.run(5);
    assert_eq!(world.asked, asked + 1);
}

#[test]
fn a_ready_node_of_another_provider_is_left_to_the_plan_of_that_provider() {
    for (owner, reconciliations) in [("sim", 1), ("other", 0)] {
        let node = json!({
            "metadata": { "name": "a", "uid": "u", "labels": { "wasm-ccm.dev/provider": owner } },
            "spec": { "providerID": "sim://a",
                "taints": [{ "key": SHUTDOWN_TAINT, "effect": "NoSchedule" }] },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        let nodes: [Arc<PrunedNode>; 1] = [Arc::new(serde_json::from_value(node).unwrap())];
        let ownership = Arc::new(OwnershipContext::alone("sim", vec!["sim".to_owned()]));
        let rules = Arc::new(LifecycleRules::default());
        let pass = Pass {
            nodes: &nodes,
            ownership: &ownership,
            rules: &rules,
            now: Now {
                moment: Moment(Duration::from_secs(3600)),
                wall: Timestamp::from_second(3600).unwrap(),
            },
        };
        let mut memory = Memory::default();
        assert!(memory.begin(&pass).is_empty(), "{owner}");
        assert_eq!(memory.facts(&pass).len(), reconciliations, "{owner}");
    }
}
