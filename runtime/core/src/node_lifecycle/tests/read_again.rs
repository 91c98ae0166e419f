//! The node as the API server has it when it is read again just before its deletion.

use super::world::World;

#[test]
fn a_node_that_the_api_server_calls_ready_when_it_is_read_again_stays() {
    let mut world = World::new(&["a", "b"]);
    world.machine_vanishes("a");
    // The transition time is the old one, so that only the status shows it.
    world.at_read = |world, name| {
        let node = world.nodes.get_mut(name).unwrap();
        node["status"]["conditions"][0]["status"] = "True".into();
    };
    world.run(600);
    assert_eq!(world.log, ["0 find a with b", "30 find fresh a with b"]);
    assert!(world.exists("a"));
}

#[test]
fn a_node_that_was_ready_before_it_is_read_again_waits_for_both_answers_again() {
    let mut world = World::new(&["a", "b"]);
    world.machine_vanishes("a");
    world.at_read = |world, name| world.ready(name, "Unknown");
    world.run(35);
    assert!(world.exists("a"));
    world.at_read = |_, _| {};
    world.run(35);
    assert_eq!(
        world.log,
        [
            "0 find a with b",
            "30 find fresh a with b",
            "35 find a with b",
            "65 find fresh a with b",
            "65 event node/a Normal DeletingNode",
            "65 delete node/a"
        ]
    );
}

#[test]
fn a_node_that_another_client_has_changed_when_it_is_read_again_stays() {
    type Change = fn(&mut World, &str);
    let changes: [(&str, Change); 3] = [
        ("given to another provider", |world, name| {
            world.give(name, "another");
        }),
        ("recreated", |world, name| {
            let node = world.nodes.get_mut(name).unwrap();
            node["metadata"]["uid"] = "uid-of-the-next".into();
        }),
        ("uncordoned", |world, name| {
            let node = world.nodes.get_mut(name).unwrap();
            node["spec"]["unschedulable"] = false.into();
        }),
    ];
    let names = ["a", "b", "c", "d", "e"];
    for (what, change) in changes {
        let mut world = World::new(&names);
        for name in names {
            world.drain(name, true);
            world.machine_vanishes(name);
        }
        world.at_read = change;
        world.run(60);
        assert_eq!(world.nodes.len(), 5, "{what}: {:#?}", world.done());
    }
}
