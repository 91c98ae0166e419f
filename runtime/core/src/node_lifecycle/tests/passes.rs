//! When a node is deleted, and when it stays.

use super::super::*;
use super::world::World;
use crate::cloud::error::ProviderError;
use crate::cloud::instance::Lookup;

#[test]
fn a_node_whose_machine_is_gone_goes_within_ninety_seconds() {
    let mut world = World::new(&["a", "b", "c", "d"]);
    world.run(60).machine_vanishes("a");
    world.run(60);
    let log = world.log.clone();
    assert!(!world.exists("a"), "{log:#?}");
    assert_eq!(
        world.done(),
        ["90 event node/a Normal DeletingNode", "90 delete node/a"]
    );
    assert_eq!(
        log[..3],
        [
            "60 find a with b c",
            "90 find fresh a with b c d",
            "90 event node/a Normal DeletingNode"
        ]
    );
    let deleting = "Deleting node a because it does not exist in the cloud provider";
    assert_eq!(world.messages, [deleting]);
}

#[test]
fn a_restart_in_the_middle_begins_the_row_of_answers_anew() {
    let mut world = World::new(&["a", "b"]);
    world.machine_vanishes("a");
    world.run(25).restart();
    world.run(30);
    assert!(world.exists("a"));
    world.run(10);
    assert!(!world.exists("a"));
}

#[test]
fn found_and_not_ready_is_asked_again_after_five_seconds_growing_to_a_minute() {
    let mut world = World::new(&["a", "b"]);
    world.ready("a", "False");
    world.run(300);
    let asked: Vec<&str> = world
        .log
        .iter()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(asked, ["0", "5", "15", "35", "75", "135", "195", "255"]);
}

#[test]
fn life_005_nothing_is_asked_about_ready_nodes() {
    let mut world = World::new(&["a", "b"]);
    world.cloud.insert("a".to_owned(), Lookup::Gone);
    world.run(600);
    assert_eq!(world.log, [""; 0]);
    assert_eq!(
        world.settled, 119,
        "all passes but the first can be left out"
    );
}

#[test]
fn a_pass_is_held_while_an_own_node_is_not_ready_and_once_after_each_change_of_the_nodes() {
    let mut world = World::new(&["a", "b"]);
    let mut held = |change: fn(&mut World)| {
        let before = world.settled;
        change(&mut world);
        world.run(50);
        10 - (world.settled - before)
    };
    assert_eq!(held(|_| {}), 1, "the first");
    assert_eq!(held(|world| world.ready("a", "False")), 10);
    assert_eq!(held(|world| world.give("a", "another")), 1);
    assert_eq!(held(|world| world.give("a", "sim")), 10);
    assert_eq!(held(|world| world.ready("a", "True")), 1);
    assert_eq!(held(|world| world.add("c", 3700)), 1);
    // A node that is recreated under its name.
    assert_eq!(held(|world| world.add("c", 3700)), 1);
    assert_eq!(held(|world| drop(world.nodes.remove("c"))), 1);
    assert_eq!(held(|_| {}), 0);
}

#[test]
fn one_survey_for_all_nodes_of_a_pass() {
    let names: Vec<String> = (0..40).map(|index| format!("n{index:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(&names);
    for name in &names[..20] {
        world.ready(name, "Unknown");
    }
    world.run(5);
    assert_eq!(world.log.len(), 1);
    assert!(world.log[0].ends_with("with n20 n21"), "{:?}", world.log);
}

#[test]
fn f14_everybody_gone_deletes_nobody() {
    let names = ["a", "b", "c", "d", "e"];
    let mut world = World::new(&names);
    for name in names {
        world.machine_vanishes(name);
    }
    world.run(7200);
    assert_eq!(world.nodes.len(), 5);
    assert!(
        world
            .done()
            .contains(&"30 event node/a Warning NodeDeletionHeld".to_owned())
    );
}

#[test]
fn e13_another_accounts_credential_deletes_nobody_and_says_so_every_ten_minutes() {
    let mut world = World::new(&["a", "b", "c", "d"]);
    world.ready("a", "Unknown");
    for name in ["a", "b", "c", "d"] {
        world.cloud.insert(name.to_owned(), Lookup::Gone);
    }
    world.run(3600);
    assert!(world.exists("a"));
    let held = world.done();
    let events = held.iter().filter(|line| line.contains("NodeDeletionHeld"));
    assert!((5..=7).contains(&events.count()), "{held:#?}");
    assert!(
        held[0].ends_with("hold deletion node/a no-known-good-node"),
        "{held:#?}"
    );
}

#[test]
fn f15_a_cloud_that_changes_its_mind_at_each_answer_deletes_nobody() {
    let mut world = World::new(&["a", "b", "c", "d"]);
    world.ready("a", "Unknown");
    world.lie = |answer, _, count| {
        answer.map(|mut reply| {
            if count % 2 == 1 {
                reply.lookups[0] = Lookup::Gone;
            }
            reply
        })
    };
    world.run(7200);
    assert!(world.exists("a"));
}

#[test]
fn an_answer_from_memory_is_not_confirmed_by_a_fresh_one() {
    let mut world = World::new(&["a", "b"]);
    world.ready("a", "Unknown");
    world.lie = |answer, is_fresh, _| {
        answer.map(|mut reply| {
            if !is_fresh {
                reply.lookups[0] = Lookup::Gone;
            }
            reply
        })
    };
    world.run(3600);
    assert!(world.exists("a"));
}

#[test]
fn answers_that_are_not_complete_prove_nothing() {
    type Lie = fn(super::world::Answer, bool, usize) -> super::world::Answer;
    let lies: [Lie; 4] = [
        |answer, _, _| {
            answer.map(|mut reply| {
                reply.complete = false;
                reply
            })
        },
        |answer, _, _| {
            answer.map(|mut reply| {
                reply.lookups[0] = Lookup::Unknown("?".to_owned());
                reply
            })
        },
        |answer, _, _| {
            answer.map(|mut reply| {
                reply.lookups.pop();
                reply
            })
        },
        |_, _, _| Err(ProviderError::Denied("401".to_owned())),
    ];
    for (index, lie) in lies.into_iter().enumerate() {
        let mut world = World::new(&["a", "b", "c"]);
        world.machine_vanishes("a");
        world.lie = lie;
        world.run(1800);
        assert!(world.exists("a"), "lie {index}");
    }
}

#[test]
fn half_the_cluster_is_held_for_a_quarter_of_an_hour_and_then_goes_ever_faster() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let mut world = World::new(&names);
    for name in &names[..5] {
        world.machine_vanishes(name);
    }
    world.run(895);
    assert_eq!(world.nodes.len(), 10);
    world.run(125);
    assert_eq!(world.nodes.len(), 7, "{:#?}", world.log);
    world.run(100);
    assert_eq!(world.nodes.len(), 7);
    world.run(130);
    assert_eq!(world.nodes.len(), 5, "{:#?}", world.done());
}

#[test]
fn an_autoscaler_that_says_so_takes_ten_nodes_to_five_at_once() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let mut world = World::new(&names);
    for name in &names[..5] {
        let node = world.nodes.get_mut(*name).unwrap();
        node["spec"]["taints"] = serde_json::json!([{ "key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule" }]);
        world.machine_vanishes(name);
    }
    world.run(90);
    assert_eq!(world.nodes.len(), 5, "{:#?}", world.done());
}

#[test]
fn one_node_alone_is_held_and_of_two_the_other_one_vouches() {
    let mut world = World::new(&["a"]);
    world.machine_vanishes("a");
    world.run(3600);
    assert!(world.exists("a"));
    world.rules.delete_last_node = true;
    world.run(120);
    assert!(!world.exists("a"));
    let mut world = World::new(&["a", "b"]);
    world.machine_vanishes("a");
    world.run(60);
    assert!(!world.exists("a"));
}

#[test]
fn a_ready_node_that_is_called_gone_holds_all_others() {
    let mut world = World::new(&["a", "b", "c", "d", "e", "f", "g"]);
    world.ready("a", "Unknown");
    world.run(60);
    world.machine_vanishes("a");
    world.cloud.insert("b".to_owned(), Lookup::Gone);
    world.run(600);
    assert!(world.exists("a"));
    let done = world.done();
    assert!(
        done.iter()
            .any(|line| line.ends_with("node/a contradicted")),
        "{done:#?}"
    );
    world.run(600);
    assert!(
        !world.exists("a"),
        "an oddity of its own holds nobody for ever"
    );
}

#[test]
fn a_contradiction_that_ends_begins_every_row_of_answers_anew() {
    let mut world = World::new(&["a", "b", "c", "d"]);
    world.machine_vanishes("a");
    world.cloud.insert("b".to_owned(), Lookup::Gone);
    world.run(90).set_found("b", None);
    world.run(60);
    let done = world.done();
    assert_eq!(done.last().unwrap(), "115 delete node/a", "{done:#?}");
}

#[test]
fn edge_006_a_deletion_that_is_forbidden_backs_off_and_is_said_once() {
    let mut world = World::new(&["a", "b", "c", "d"]);
    world.machine_vanishes("a");
    world.refusals = vec![ClusterError::Denied("forbidden".to_owned()); 5];
    world.run(1800);
    let done = world.done();
    let failed = done
        .iter()
        .filter(|line| line.contains("DeletingNodeFailed"));
    assert_eq!(failed.count(), 1, "{done:#?}");
    let deletions = done.iter().filter(|line| line.contains(" delete ")).count();
    assert_eq!(deletions, 6, "{done:#?}");
    let told = [
        "Deleting node a because it does not exist in the cloud provider",
        "Failed deleting node a: denied: forbidden",
    ];
    assert_eq!(world.messages, told);
    assert!(!world.exists("a"));
}

#[test]
fn edge_005_a_conflict_is_read_again_and_decided_again() {
    let mut world = World::new(&["a", "b"]);
    world.machine_vanishes("a");
    world.refusals = vec![ClusterError::Conflict("newer".to_owned()); 2];
    world.run(40);
    assert_eq!(
        world.done(),
        [
            "30 event node/a Normal DeletingNode",
            "30 delete node/a",
            "30 delete node/a",
            "30 delete node/a"
        ]
    );
}

#[test]
fn life_019_a_node_of_somebody_else_is_neither_asked_about_nor_deleted() {
    let mut world = World::new(&["a", "b"]);
    let node = world.nodes.get_mut("a").unwrap();
    node["metadata"]["labels"]["wasm-ccm.dev/provider"] = serde_json::json!("other");
    world.machine_vanishes("a");
    world.run(600);
    assert_eq!(world.log, [""; 0]);
}

#[test]
fn a_node_that_was_ready_in_between_begins_anew() {
    let mut world = World::new(&["a", "b"]);
    world.machine_vanishes("a");
    world.run(25);
    // It is Ready between two passes, so that only the transition time shows it.
    world.ready("a", "Unknown");
    world.run(25);
    assert!(world.exists("a"));
    world.run(15);
    assert!(!world.exists("a"));
}

#[test]
fn a_doubt_of_long_ago_is_no_oddity_when_it_comes_again() {
    let mut world = World::new(&["a", "b", "c", "d"]);
    let lie = |world: &mut World| {
        world.ready("a", "Unknown");
        world.cloud.insert("a".to_owned(), Lookup::Gone);
        world.cloud.insert("b".to_owned(), Lookup::Gone);
    };
    let truth = |world: &mut World| {
        world.set_found("a", None);
        world.set_found("b", None);
    };
    // From this look-up on, the cloud is known to list b.
    world.ready("a", "Unknown");
    world.run(30);
    lie(&mut world);
    world.run(120);
    truth(&mut world);
    world.ready("a", "True");
    world.run(3600);
    lie(&mut world);
    world.run(600);
    assert!(world.exists("a"), "{:#?}", world.done());
}

#[test]
fn a_node_is_no_oddity_because_the_one_before_of_its_name_was_one() {
    let mut world = World::new(&["a", "b", "c", "d"]);
    world.ready("a", "Unknown");
    world.run(60);
    world.machine_vanishes("a");
    world.cloud.insert("b".to_owned(), Lookup::Gone);
    world.run(1200);
    assert!(!world.exists("a"));
    world.done();
    world.nodes.remove("b");
    world.add("b", 0);
    world.cloud.insert("b".to_owned(), Lookup::Gone);
    // Until the cloud must know its machine.
    world.run(400);
    world.machine_vanishes("c");
    world.run(600);
    assert!(world.exists("c"), "{:#?}", world.done());
}

#[test]
fn an_answer_about_the_node_that_had_the_name_before_counts_for_nobody() {
    let mut world = World::new(&["a", "b"]);
    world.machine_vanishes("a");
    world.run(25);
    world.nodes.remove("a");
    world.add("a", 0);
    world.machine_vanishes("a");
    world.run(30);
    assert!(world.exists("a"), "{:#?}", world.done());
    // The node appeared while we watched, so that its creation date does not matter for its age.
    world.run(330);
    assert!(!world.exists("a"));
}

#[test]
fn somebody_else_is_asked_when_the_first_three_cannot_vouch() {
    let mut world = World::new(&["a", "b", "c", "d", "e"]);
    for stranger in ["a", "b", "c"] {
        world.cloud.insert(stranger.to_owned(), Lookup::NotMine);
    }
    world.machine_vanishes("d");
    world.run(300);
    assert!(!world.exists("d"), "{:#?}", world.log);
}

#[test]
fn a_node_that_answers_without_a_provider_id_vouches_for_nobody() {
    let mut world = World::new(&["a", "b"]);
    world
        .cloud
        .insert("b".to_owned(), Lookup::Found(Box::default()));
    world.machine_vanishes("a");
    world.run(600);
    assert!(world.exists("a"), "{:#?}", world.done());
}

#[test]
fn two_answers_that_find_no_node_in_common_delete_nobody() {
    let mut world = World::new(&["a", "b", "c"]);
    world.machine_vanishes("a");
    // Of the two witnesses, the answers find one and the other in turns.
    world.lie = |answer, _, count| {
        answer.map(|mut reply| {
            reply.lookups[1 + count % 2] = Lookup::NotMine;
            reply
        })
    };
    world.run(600);
    assert!(world.exists("a"), "{:#?}", world.done());
}

#[test]
fn what_many_deletions_have_paid_in_vain_is_not_spent_at_once() {
    let names = [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p",
    ];
    let mut world = World::new(&names);
    for name in &names[..5] {
        world.machine_vanishes(name);
    }
    world.refusals = vec![ClusterError::Denied("forbidden".to_owned()); 4000];
    world.run(3600);
    assert_eq!(world.nodes.len(), 16);
    world.refusals.clear();
    world.run(230);
    assert!(world.nodes.len() >= 13, "{:#?}", world.done());
}

#[test]
fn a_process_that_has_just_begun_doubts_what_is_said_of_an_old_ready_node() {
    let mut world = World::new(&["a", "b", "c", "d"]);
    world.ready("a", "Unknown");
    world.cloud.insert("a".to_owned(), Lookup::Gone);
    world.cloud.insert("b".to_owned(), Lookup::Gone);
    world.run(600);
    assert!(world.exists("a"), "{:#?}", world.done());
}

#[test]
fn all_that_are_not_ready_are_asked_about_before_one_of_them_goes() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut world = World::new(&names);
    // Their machines exist, and each is looked up at another time.
    for name in &names[..3] {
        world.ready(name, "Unknown");
        world.run(25);
    }
    world.run(100);
    for name in &names[..3] {
        world.cloud.insert((*name).to_owned(), Lookup::Gone);
    }
    world.run(300);
    assert_eq!(world.nodes.len(), 6, "a mass: {:#?}", world.done());
}
