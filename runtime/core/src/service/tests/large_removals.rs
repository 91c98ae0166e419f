//! Removals of most targets of a load balancer: each target stays until it has not been wanted for half a minute.

use std::sync::Arc;
use std::time::Duration;

use super::world::*;
use crate::cloud::instance::{CloudNode, MOST_NODES};
use crate::cloud::load_balancer::{Progress, TargetNodes};
use crate::node::cloud_node::cloud_node;
use crate::reconciliation::effect::When;
use crate::service::ServiceAction;
use crate::service::targets::union;

fn names(targets: &[Arc<CloudNode>]) -> Vec<&str> {
    targets.iter().map(|node| node.name.as_str()).collect()
}

/// The targets of the last call that contains any.
fn effective_targets(world: &World) -> Vec<&str> {
    match world.calls.last().unwrap() {
        ServiceAction::Ensure(request) => names(&request.targets),
        ServiceAction::UpdateTargets(request) => names(&request.targets),
        other => panic!("{other:?}"),
    }
}

#[test]
fn most_targets_go_only_when_that_is_wanted_for_half_a_minute() {
    let mut world = world();
    world.with_nodes(&["a", "b", "c", "d"]);
    world.reconcile();
    world.ensure = [ready(&["192.0.2.1"], 0)].into();
    world.calls.clear();

    world.with_nodes(&["a"]);
    let run = does_nothing(&mut world);
    assert_eq!(run.again(), Duration::from_secs(30));
    // A node that is added meanwhile does not wait.
    world.wait(10);
    world.with_nodes(&["a", "e"]);
    let run = world.reconcile();
    assert_eq!(effective_targets(&world), ["a", "b", "c", "d", "e"]);
    assert_eq!(run.again(), Duration::from_secs(20));
    world.wait(20);
    assert_eq!(world.reconcile().end, When::AwaitChange);
    assert_eq!(effective_targets(&world), ["a", "e"]);
}

#[test]
fn most_targets_go_after_half_a_minute_also_where_a_node_leaves_every_ten_seconds() {
    let mut world = world();
    world.with_nodes(&["a", "b", "c", "d", "e", "f", "g", "h"]);
    world.reconcile();
    world.ensure = [ready(&["192.0.2.1"], 0)].into();
    world.calls.clear();
    for (left, again) in [
        (&["a", "b", "c"][..], 30),
        (&["a", "b"][..], 20),
        (&["a"][..], 10),
    ] {
        world.with_nodes(left);
        let run = does_nothing(&mut world);
        assert_eq!(run.again(), Duration::from_secs(again));
        world.wait(10);
    }
    // Those that left later are most of what is then left.
    assert_eq!(world.reconcile().again(), Duration::from_secs(10));
    assert_eq!(effective_targets(&world), ["a", "b", "c"]);
    world.wait(10);
    world.calls.clear();
    assert_eq!(world.reconcile().end, When::AwaitChange);
    let updates = world.calls.iter().map(|call| match call {
        ServiceAction::UpdateTargets(request) => names(&request.targets),
        other => panic!("{other:?}"),
    });
    let updates: Vec<Vec<&str>> = updates.collect();
    assert_eq!(updates, [vec!["a", "b"], vec!["a"]]);
}

#[test]
fn what_is_kept_for_a_while_leaves_room_for_what_is_wanted() {
    let like = cloud_node(&node_object("a").build());
    let named = |letter: &str, count: usize| -> TargetNodes {
        let names = (0..count).map(|number| format!("{letter}{number:04}"));
        let nodes = names.map(|name| {
            Arc::new(CloudNode {
                name,
                ..like.clone()
            })
        });
        nodes.collect()
    };
    let (wanted, current) = (named("b", MOST_NODES - 2), named("a", 4));
    let all = union(&wanted, current.iter());
    assert_eq!(all.len(), MOST_NODES);
    assert_eq!(names(&all[..3]), ["a0000", "a0001", "b0000"]);
    assert!(Arc::ptr_eq(&union(&wanted, wanted.iter()), &wanted));
    let many = named("b", MOST_NODES);
    assert!(Arc::ptr_eq(&union(&many, current.iter()), &many));
}

#[test]
fn most_targets_that_take_long_to_go_are_not_put_back_meanwhile() {
    let mut world = world();
    world.with_nodes(&["a", "b", "c", "d"]);
    world.ensure = [ready(&["192.0.2.1"], 0)].into();
    world.reconcile();
    world.with_nodes(&["a"]);
    world.reconcile();
    world.wait(30);
    world.update = [
        Ok(Progress::Pending(pending("b is going"))),
        Err(unavailable()),
    ]
    .into();
    world.ensure = [begun("c is going"), ready(&["192.0.2.1"], 1)].into();
    world.calls.clear();
    while !matches!(world.reconcile().end, When::AwaitChange) {
        assert_eq!(effective_targets(&world), ["a"]);
        world.wait(2);
    }
    assert!(world.calls.len() > 3, "{:?}", world.calls);
    for call in &world.calls {
        match call {
            ServiceAction::Ensure(request) => assert_eq!(names(&request.targets), ["a"]),
            ServiceAction::UpdateTargets(request) => assert_eq!(names(&request.targets), ["a"]),
            _ => {}
        }
    }
    // The next large removal has to be confirmed again.
    world.with_nodes(&[]);
    assert_eq!(does_nothing(&mut world).again(), Duration::from_secs(30));
}
