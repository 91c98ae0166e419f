//! A brake delays a mistake and no intended deletion: the time until the last of many nodes is deleted.

#![allow(clippy::print_stdout, reason = "the delays belong to the result")]

use super::world::World;
use crate::cloud::instance::Lookup;
use crate::safety::brake::Brake;
use crate::selector::Selector;
use crate::well_known::{
    KARPENTER_DISRUPTED_TAINT, KARPENTER_DISRUPTION_TAINT, TO_BE_DELETED_TAINT,
};

fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("n{index:04}")).collect()
}

/// Twelve nodes, of which the first eight have just vanished together.
fn a_mass() -> (World, Vec<String>) {
    let all = names(12);
    let names: Vec<&str> = all.iter().map(String::as_str).collect();
    let mut world = World::new(&names);
    world.run(60);
    for name in &names[..8] {
        world.machine_vanishes(name);
    }
    (world, all)
}

/// The number of seconds until the last of `gone` nodes, which vanish together, is deleted; there are `all`.
fn last_after(all: usize, gone: usize, prepare: impl Fn(&mut World, &str)) -> Option<u64> {
    let names = names(all);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(&names);
    world.run(60);
    for name in &names[..gone] {
        prepare(&mut world, name);
        world.machine_vanishes(name);
    }
    let began = world.now;
    while world.nodes.len() > all - gone {
        if world.now > began + 5 * 3600 {
            return None;
        }
        world.run(5);
    }
    Some(world.now - began)
}

#[test]
fn what_is_not_marked_goes_ever_faster_while_the_answers_agree() {
    println!("nodes gone of all, minutes until the last is deleted, minutes at most");
    for (gone, all, most) in [
        (30, 90, 20),
        (10, 30, 15),
        (33, 100, 20),
        (15, 50, 20),
        (20, 40, 30),
        (90, 100, 60),
        (300, 1_000, 20),
        (1_000, 5_000, 15),
    ] {
        let took = last_after(all, gone, |_, _| {}).unwrap();
        println!("{gone} of {all}: {}.{} of {most}", took / 60, took % 60 / 6);
        assert!(took <= most * 60, "{gone} of {all} took {took} s");
    }
}

#[test]
fn what_is_meant_waits_for_neither_a_mass_nor_a_budget_nor_a_neighbour() {
    for taint in [
        TO_BE_DELETED_TAINT,
        KARPENTER_DISRUPTED_TAINT,
        KARPENTER_DISRUPTION_TAINT,
    ] {
        for (gone, all) in [(90, 100), (1, 1), (5, 5)] {
            let took = last_after(all, gone, |world, name| world.mark(name, taint)).unwrap();
            println!("{gone} of {all} with {taint}: {took} s");
            assert!(took <= 90, "{gone} of {all} with {taint} took {took} s");
        }
    }
    let drained = last_after(5, 5, |world, name| world.drain(name, true));
    assert!(drained.is_some_and(|took| took <= 90), "{drained:?}");
    let drained = last_after(100, 90, |world, name| world.drain(name, true));
    assert!(drained.is_some_and(|took| took <= 90), "{drained:?}");
    let cordoned = last_after(5, 5, |world, name| world.drain(name, false));
    assert_eq!(cordoned, None, "pods are left on them");
    let selected = last_after(5, 5, |world, name| {
        world.rules.wanted = Some(Selector::parse("pool=burst").unwrap());
        world.nodes.get_mut(name).unwrap()["metadata"]["labels"]["pool"] = "burst".into();
    });
    assert!(selected.is_some_and(|took| took <= 90), "{selected:?}");
    let nobody_said = last_after(5, 5, |_, _| {});
    assert_eq!(
        nobody_said, None,
        "the last nodes stay where nobody has said anything"
    );
}

#[test]
fn a_node_that_waits_for_a_finalizer_does_not_keep_the_last_one_that_is_marked() {
    let mut world = World::new(&["a", "b"]);
    world.run(60).machine_vanishes("a");
    let metadata = &mut world.nodes.get_mut("a").unwrap()["metadata"];
    metadata["deletionTimestamp"] = "1970-01-01T01:01:00Z".into();
    world.machine_vanishes("b");
    world.run(300);
    assert!(world.exists("b"), "nobody has said anything");
    world.mark("b", TO_BE_DELETED_TAINT);
    world.run(120);
    assert!(!world.exists("b"), "{:#?}", world.done());
}

#[test]
fn a_mass_stays_confirmed_while_deletions_and_lost_answers_go_on() {
    let names = names(30);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(&names);
    // Every seventh answer is not complete.
    world.lie = |answer, _, asked| {
        answer.map(|mut reply| {
            reply.complete = asked % 7 != 0;
            reply
        })
    };
    world.run(60);
    for name in &names[..27] {
        world.machine_vanishes(name);
    }
    world.run(3 * 3600);
    assert_eq!(world.nodes.len(), 3);
}

#[test]
fn the_nodes_of_other_providers_make_no_mass_smaller() {
    let names = names(25);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(&names);
    for name in &names[5..] {
        let labels = &mut world.nodes.get_mut(*name).unwrap()["metadata"]["labels"];
        labels["wasm-ccm.dev/provider"] = "other".into();
    }
    for name in &names[..3] {
        world.machine_vanishes(name);
    }
    world.run(895);
    assert_eq!(world.nodes.len(), 25, "{:#?}", world.done());
    world.run(65);
    assert_eq!(world.nodes.len(), 22, "{:#?}", world.done());
}

#[test]
fn a_machine_that_is_found_again_begins_everything_anew() {
    let (mut world, names) = a_mass();
    world.run(890);
    world.set_found(&names[0], None);
    world.run(600);
    assert_eq!(world.nodes.len(), 12, "{:#?}", world.done());
}

/// Four of thirteen nodes vanish, which is no mass, and one more than the budget has. Three minutes after the brake has
/// begun to hold the fourth, something happens to it. Returns how many seconds the brake has held it when it goes.
fn held_by_the_brake(happens: impl Fn(&mut World, &str)) -> u64 {
    let names = names(13);
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(&all);
    for name in &all[..4] {
        world.machine_vanishes(name);
    }
    world.run(35);
    assert_eq!(world.nodes.len(), 10, "{:#?}", world.done());
    let held_since = world.now - 5;
    world.run(175);
    happens(&mut world, all[3]);
    while world.exists(all[3]) && world.now < held_since + 3600 {
        world.run(5);
    }
    world.now - 5 - held_since
}

#[test]
fn a_node_that_the_brake_holds_is_read_when_there_is_budget_which_comes_back_if_it_stays() {
    let names = names(13);
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(&all);
    world.at_read = |world, name| world.log.push(format!("read {name}"));
    let reads = |world: &mut World| {
        let done = world.done();
        done.iter()
            .filter(|line| line.contains("read n0003"))
            .count()
    };
    let spent = |world: &World| world.budgets.spent(Brake::NodeDeletion).len();
    for name in &all[..4] {
        world.machine_vanishes(name);
    }
    world.run(35 + 235);
    assert_eq!((world.nodes.len(), spent(&world)), (10, 3));
    assert_eq!(reads(&mut world), 1, "it asks every minute");
    // The budget has doubled, and the API server knows better than the cache.
    world.at_read = |world, name| world.ready(name, "True");
    world.run(10);
    assert_eq!((world.nodes.len(), spent(&world)), (10, 3));
    let returned = "return budget node-deletion node/n0003";
    assert!(world.done().iter().any(|line| line.ends_with(returned)));
}

#[test]
fn a_machine_that_is_found_again_or_a_node_that_was_ready_begins_the_brakes_time_anew() {
    assert_eq!(held_by_the_brake(|_, _| {}), 240, "the budget doubles");
    // The third answer that calls it gone again comes half a minute later.
    let found = held_by_the_brake(|world, name| {
        world.set_found(name, None);
        world.run(5);
        world.cloud.insert(name.to_owned(), Lookup::Gone);
    });
    assert_eq!(found, 210 + 240);
    // Ready between two passes; it has to be NotReady for half a minute again.
    let ready = held_by_the_brake(|world, name| world.ready(name, "Unknown"));
    assert_eq!(ready, 210 + 240);
}

/// A mass to which something happens after ten minutes. Returns how many of its other nodes are left when the hold has
/// been over for a minute.
fn left_of_a_mass(happens: impl Fn(&mut World, &str)) -> usize {
    let (mut world, names) = a_mass();
    world.run(600);
    assert_eq!(world.nodes.len(), 12, "a mass");
    happens(&mut world, &names[0]);
    world.run(420);
    let others = names[1..8].iter();
    others.filter(|name| world.exists(name)).count()
}

#[test]
fn a_node_of_a_mass_that_is_marked_or_deleted_by_hand_delays_no_other() {
    assert_eq!(left_of_a_mass(|_, _| {}), 5, "three go at first");
    let marked = left_of_a_mass(|world, name| world.mark(name, TO_BE_DELETED_TAINT));
    assert_eq!(
        marked, 4,
        "a mark on one node is no machine that is found again"
    );
    // A finalizer, as Karpenter sets, keeps the node for a while.
    let deleted = left_of_a_mass(|world, name| {
        let metadata = &mut world.nodes.get_mut(name).unwrap()["metadata"];
        metadata["deletionTimestamp"] = "1970-01-01T01:10:00Z".into();
    });
    assert_eq!(
        deleted, 4,
        "a deletion by hand is no machine that is found again"
    );
}

#[test]
fn a_node_that_is_called_gone_after_the_hold_of_a_mass_has_a_hold_of_its_own() {
    let (mut world, names) = a_mass();
    // Their deletions are refused, so that the mass goes on.
    world.locked.extend(names[..8].iter().cloned());
    world.run(1020);
    world.machine_vanishes(&names[8]);
    world.run(890);
    assert!(world.exists(&names[8]), "{:#?}", world.done());
    world.run(180);
    assert!(!world.exists(&names[8]), "{:#?}", world.done());
}

#[test]
fn a_ready_node_that_has_become_an_exception_does_not_begin_the_hold_of_a_mass_again() {
    let (mut world, names) = a_mass();
    world.cloud.insert(names[8].clone(), Lookup::Gone);
    world.run(840);
    assert_eq!(world.nodes.len(), 12, "held: {:#?}", world.done());
    world.run(180);
    assert_eq!(world.nodes.len(), 9, "{:#?}", world.done());
}

#[test]
fn while_what_a_deletion_spends_cannot_be_written_down_no_node_goes() {
    let mut world = World::new(&["a", "b", "c"]);
    world.run(60);
    world.machine_vanishes("a");
    world.is_ledger_away = true;
    world.run(600);
    assert!(world.exists("a"));
    let reported = world.done();
    let reported = reported
        .iter()
        .filter(|line| line.contains("DeletingNodeFailed"));
    assert_eq!(reported.count(), 1);
    world.is_ledger_away = false;
    world.run(600);
    assert!(!world.exists("a"));
}
