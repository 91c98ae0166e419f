//! One node that cannot be answered does not delay the others.

use serde_json::json;

use super::world::{Answer, World};
use crate::cloud::error::ProviderError;
use crate::cloud::instance::Lookup;
use crate::well_known::DELETE_UNTIL;

#[test]
fn a_node_that_cannot_be_told_delays_no_deletion_and_is_told_of() {
    let mut world = World::new(&["a", "broken", "c", "d"]);
    let unknown = Lookup::Unknown("the provider ID has no number".to_owned());
    world.cloud.insert("broken".to_owned(), unknown);
    world.ready("broken", "Unknown");
    world.run(60).machine_vanishes("a");
    world.run(120);
    assert!(!world.exists("a"), "{:#?}", world.log);
    assert!(world.exists("broken"));
    let done = world.done();
    let held = done
        .iter()
        .find(|line| line.contains("hold deletion node/broken unknown"));
    assert!(held.is_some(), "{done:#?}");
}

#[test]
fn a_node_that_could_not_be_told_either_is_deleted_once_it_can() {
    let mut world = World::new(&["a", "broken", "c", "d"]);
    for name in ["a", "broken"] {
        let unknown = Lookup::Unknown("the host does not answer".to_owned());
        world.cloud.insert(name.to_owned(), unknown);
        world.ready(name, "Unknown");
    }
    world.run(5);
    world.cloud.insert("a".to_owned(), Lookup::Gone);
    world.run(300);
    assert!(!world.exists("a"), "{:#?}", world.log);
    assert!(world.exists("broken"));
}

#[test]
fn a_witness_that_cannot_be_told_takes_nobodys_answer_away() {
    let mut world = World::new(&["a", "broken", "d"]);
    let unknown = Lookup::Unknown("the credentials of Robot are refused".to_owned());
    world.cloud.insert("broken".to_owned(), unknown);
    world.run(60).machine_vanishes("a");
    world.run(60);
    assert!(!world.exists("a"), "{:#?}", world.log);
}

#[test]
fn answers_that_are_never_complete_are_told_of() {
    let mut world = World::new(&["a", "b", "c"]);
    world.lie = |answer, _, _| {
        answer.map(|mut reply| {
            reply.complete = false;
            reply
        })
    };
    world.machine_vanishes("a");
    world.run(300);
    assert!(world.exists("a"));
    let done = world.done();
    let held = done
        .iter()
        .find(|line| line.contains("hold deletion node/a incomplete"));
    assert!(held.is_some(), "{done:#?}");
}

#[test]
fn a_person_who_asks_for_a_deletion_does_not_replace_the_answer_of_the_cloud() {
    for condition in ["unknown", "incomplete"] {
        let mut world = World::new(&["a", "b", "c"]);
        world.machine_vanishes("a");
        let node = world.nodes.get_mut("a").unwrap();
        node["metadata"]["annotations"][DELETE_UNTIL] = json!("2100-01-01T00:00:00Z");
        if condition == "unknown" {
            let unknown = Lookup::Unknown("the host does not answer".to_owned());
            world.cloud.insert("a".to_owned(), unknown);
        } else {
            world.lie = |answer, _, _| {
                answer.map(|mut reply| {
                    reply.complete = false;
                    reply
                })
            };
        }
        world.run(300);
        assert!(world.exists("a"), "{condition}");
        let held = format!("hold deletion node/a {condition}");
        let done = world.done();
        assert!(done.iter().any(|line| line.contains(&held)), "{done:#?}");
    }
}

#[test]
fn a_node_that_makes_the_provider_crash_is_asked_about_alone_and_the_others_go() {
    let names: Vec<String> = (0..40).map(|index| format!("n{index:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(&names);
    world.lie = |answer: Answer, _, _| match answer {
        Ok(reply) if reply.lookups.contains(&unanswerable()) => {
            Err(ProviderError::Trapped("unreachable".to_owned()))
        }
        answer => answer,
    };
    world.run(60);
    for name in &names[..12] {
        world.machine_vanishes(name);
    }
    world.cloud.insert("n05".to_owned(), unanswerable());
    world.run(1_800);
    let left: Vec<&String> = world.nodes.keys().take(2).collect();
    assert_eq!(left, ["n05", "n12"], "{:#?}", world.log);
    let done = world.done();
    let held = done
        .iter()
        .find(|line| line.contains("hold deletion node/n05 unknown"));
    assert!(held.is_some(), "{done:#?}");
}

fn unanswerable() -> Lookup {
    Lookup::Unknown("poison".to_owned())
}

#[test]
fn a_ready_node_that_the_cloud_calls_gone_delays_others_once() {
    let mut world = World::new(&["a", "b", "c", "d", "restored"]);
    world.cloud.insert("restored".to_owned(), Lookup::Gone);
    // The first witnesses are then known to be good; another node takes the place of the one that is gone.
    world.run(60).machine_vanishes("a");
    world.run(60).machine_vanishes("b");
    world.run(600);
    assert!(world.exists("b"), "the cloud is wrong about one of them");
    world.run(400);
    assert!(!world.exists("b"), "{:#?}", world.log);
    world.run(3_600).machine_vanishes("c");
    world.run(120);
    assert!(!world.exists("c"), "{:#?}", world.log);
}

#[test]
fn a_young_ready_node_that_was_found_before_and_is_called_gone_now_holds_all_others() {
    let mut world = World::new(&["a", "c"]);
    world.run(5);
    world.add("b", 3_605);
    world.ready("a", "Unknown");
    world.run(10);
    world.machine_vanishes("a");
    world.cloud.insert("b".to_owned(), Lookup::Gone);
    world.run(120);
    assert!(world.exists("a"), "{:#?}", world.done());
}

/// Nodes that are called gone together.
const MASS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A mass, two minutes after its machines have vanished, and the nodes `g` and `h`.
fn six_of_eight_gone() -> World {
    let mut world = World::new(&["a", "b", "c", "d", "e", "f", "g", "h"]);
    world.run(60);
    for name in MASS {
        world.machine_vanishes(name);
    }
    world.run(120);
    world
}

#[test]
fn a_node_of_a_mass_that_cannot_be_told_any_more_does_not_hold_the_others_for_ever() {
    let mut world = six_of_eight_gone();
    world.cloud.insert("a".to_owned(), unanswerable());
    world.run(2 * 3600);
    let left: Vec<&String> = world.nodes.keys().collect();
    assert_eq!(left, ["a", "g", "h"]);
}

#[test]
fn a_mass_of_which_no_node_can_be_told_for_a_while_is_held_for_as_long_again() {
    let mut world = six_of_eight_gone();
    for name in MASS {
        world.cloud.insert(name.to_owned(), unanswerable());
    }
    world.run(1200);
    for name in MASS {
        world.machine_vanishes(name);
    }
    world.run(420);
    assert_eq!(world.nodes.len(), 8, "{:#?}", world.done());
}

#[test]
fn a_clock_that_was_slow_at_the_start_keeps_nobody_young_for_ever() {
    let mut world = World::new(&["a", "b", "c"]);
    // By the wall clock the node will be created in a day.
    world.add("a", 3_600 + 86_400);
    world.run(60).machine_vanishes("a");
    world.run(400);
    assert!(!world.exists("a"), "{:#?}", world.log);
}

#[test]
fn nodes_that_nobody_may_delete_leave_the_budget_to_others() {
    let names: Vec<String> = (0..20).map(|index| format!("n{index:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(&names);
    world.run(60);
    for name in &names[..3] {
        world.locked.insert((*name).to_owned());
        world.machine_vanishes(name);
    }
    world.run(300);
    for name in &names[3..5] {
        world.machine_vanishes(name);
    }
    world.run(120);
    assert_eq!(world.nodes.len(), 18, "{:#?}", world.log);
}
