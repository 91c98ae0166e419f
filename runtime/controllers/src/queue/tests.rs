//! The queue's invariants (NODE-004, NODE-006).
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use std::time::Duration;

use crate::Pace;
use crate::clock::Clock;
use crate::metrics::{Metrics, QueueName};

fn at(seconds: u64) -> Moment {
    Moment(Duration::from_secs(seconds))
}

fn queue() -> Queue {
    let clock = Clock::start(Pace::REAL);
    Queue::new(Metrics::default().queues.meter(QueueName::Nodes, clock))
}

fn take_all(queue: &mut Queue, now: u64) -> Vec<String> {
    std::iter::from_fn(|| taken(queue, now)).collect()
}

fn taken(queue: &mut Queue, now: u64) -> Option<String> {
    queue.take(at(now), Capacity::Any).map(|(name, _)| name)
}

#[test]
fn urgent_objects_come_first_then_the_order_of_asking() {
    let mut queue = queue();
    queue.ask("b", at(1), false);
    queue.ask("a", at(1), false);
    queue.ask("new", at(1), true);
    queue.ask("later", at(2), true);
    assert_eq!(take_all(&mut queue, 1), ["new", "b", "a"]);
    assert_eq!(queue.next(Capacity::Any), Some(at(2)));
}

#[test]
fn an_urgent_object_does_not_wait_for_those_that_asked_earlier() {
    let mut queue = queue();
    queue.ask("pass", at(1), false);
    queue.ask("new", at(5), true);
    assert_eq!(
        queue.take(at(5), Capacity::Any),
        Some(("new".to_owned(), true))
    );
    assert_eq!(
        queue.take(at(5), Capacity::Urgent),
        None,
        "there is no room for others"
    );
    assert_eq!(queue.next(Capacity::Urgent), None);
    assert_eq!(
        queue.take(at(5), Capacity::Any),
        Some(("pass".to_owned(), false))
    );
}

#[test]
fn the_earlier_of_two_turns_stays_and_is_urgent_if_one_of_them_is() {
    let mut queue = queue();
    queue.ask("a", at(5), false);
    queue.ask("a", at(9), true);
    assert_eq!(queue.next(Capacity::Any), Some(at(5)));
    queue.ask("a", at(3), false);
    queue.ask("b", at(3), false);
    queue.ask("c", at(3), false);
    queue.ask("c", at(3), true);
    assert_eq!(
        queue.take(at(9), Capacity::Urgent),
        Some(("a".to_owned(), true))
    );
    assert_eq!(
        queue.take(at(9), Capacity::Urgent),
        Some(("c".to_owned(), true))
    );
    assert_eq!(take_all(&mut queue, 9), ["b"]);
    assert_eq!(queue.next(Capacity::Any), None);
    queue.finish("a", at(20));
    queue.ask("a", at(9), false);
    assert_eq!(
        queue.take(at(9), Capacity::Any),
        Some(("a".to_owned(), false)),
        "urgency ends with its turn"
    );
}

#[test]
fn node_004_an_object_has_one_reconciliation_at_a_time_and_loses_no_wake_up() {
    let mut queue = queue();
    queue.ask("a", at(1), true);
    assert_eq!(taken(&mut queue, 1).as_deref(), Some("a"));
    queue.ask("a", at(1), true);
    queue.ask("a", at(7), true);
    assert_eq!(taken(&mut queue, 9), None, "it is being talked about");
    queue.finish("a", at(20));
    assert_eq!(taken(&mut queue, 1).as_deref(), Some("a"));
    queue.finish("a", at(20));
    assert_eq!(taken(&mut queue, 99), None);
    assert!(
        queue.entries.is_empty(),
        "nothing is remembered of what is done"
    );
}

#[test]
fn a_held_object_is_not_woken_early_by_anything() {
    let mut queue = queue();
    queue.ask("a", at(1), true);
    taken(&mut queue, 1).unwrap();
    queue.hold("a", at(60));
    queue.ask("a", at(60), true);
    queue.finish("a", at(20));
    queue.ask("a", at(2), true);
    assert_eq!(queue.next(Capacity::Any), Some(at(60)));
    assert_eq!(taken(&mut queue, 60).as_deref(), Some("a"));
    queue.finish("a", at(20));
    queue.ask("a", at(61), true);
    assert_eq!(
        taken(&mut queue, 61).as_deref(),
        Some("a"),
        "the hold is over"
    );
}

#[test]
fn a_deleted_object_gets_no_turn() {
    let mut queue = queue();
    queue.ask("a", at(1), true);
    queue.forget("a");
    assert_eq!(taken(&mut queue, 9), None);
    queue.ask("b", at(1), true);
    taken(&mut queue, 1).unwrap();
    queue.ask("b", at(2), true);
    queue.forget("b");
    queue.finish("b", at(20));
    assert_eq!(taken(&mut queue, 9), None);
    assert!(queue.entries.is_empty());
}

#[test]
fn a_hold_counts_for_a_turn_that_was_asked_for_while_the_reconciliation_was_held() {
    let mut queue = queue();
    queue.ask("a", at(1), true);
    assert_eq!(
        queue.take(at(1), Capacity::Any),
        Some(("a".to_owned(), true))
    );
    queue.ask("a", at(2), true);
    queue.hold("a", at(100));
    queue.ask("a", at(100), false);
    queue.finish("a", at(20));
    assert_eq!(queue.next(Capacity::Any), Some(at(100)));
    assert_eq!(queue.take(at(99), Capacity::Any), None);
    assert_eq!(
        queue.take(at(100), Capacity::Any),
        Some(("a".to_owned(), true))
    );
}

#[test]
fn what_is_counted_as_waiting_is_what_waits_after_any_sequence_of_calls() {
    let mut queue = queue();
    let names = ["a", "b", "c", "d", "e"];
    let mut running = Vec::new();
    let mut now = 1;
    // Knuth's generator: the same sequence in every run.
    let mut state = 1_u64;
    let mut draw = |most: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    for step in 0..20_000 {
        let name = names[usize::try_from(draw(5)).unwrap()];
        match draw(6) {
            0 => queue.hold(name, at(now + draw(4))),
            1 => queue.forget(name),
            2 => {
                if let Some((name, _)) = queue.take(at(now), Capacity::Any) {
                    running.push(name);
                }
            }
            3 if !running.is_empty() => queue.finish(&running.swap_remove(0), at(now)),
            4 => now += draw(3),
            _ => queue.ask(name, at((now + draw(4)).saturating_sub(1)), draw(2) == 0),
        }
        let turns = queue.urgent.keys().chain(queue.low_priority.keys());
        let waiting = turns.filter(|turn| queue.is_counted(**turn)).count();
        let depth = queue.meter.depth();
        assert_eq!(usize::try_from(depth), Ok(waiting), "after step {step}");
        let begun = queue.meter.running();
        assert_eq!(begun, running.len(), "after step {step}");
    }
}
