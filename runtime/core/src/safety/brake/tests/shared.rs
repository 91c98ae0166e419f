//! The budget of all changes at a cloud: the parts of objects and namespaces, and its rise.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::at;
use crate::moment::Moment;
use crate::safety::brake::{
    Allowance, Brake, BudgetLevel, BudgetShare, HeldSpender, SharedBudget, Spender,
};

const BRAKE: Brake = Brake::CloudMutations;

fn budget(objects: usize) -> SharedBudget {
    SharedBudget::new(BRAKE, Allowance::default_of(BRAKE), move || objects)
}

/// As an operator may set it: the budget does not grow with the cluster.
fn fixed(changes: usize) -> SharedBudget {
    let allowance = Allowance {
        least: changes,
        percent: 0,
        most: changes,
        ..Allowance::default_of(BRAKE)
    };
    SharedBudget::new(BRAKE, allowance, || 5_000)
}

/// Something that a user asks of the Service `NAMESPACE/NAME`.
fn asked(object: &str) -> Spender<'_> {
    Spender {
        object,
        namespace: object.split('/').next(),
        share: BudgetShare::Common,
    }
}

/// Something that follows the nodes, or a deletion.
fn required(object: &str) -> Spender<'_> {
    Spender {
        share: BudgetShare::Whole,
        ..asked(object)
    }
}

/// Takes as much as it can, and returns how much that was.
fn takes(budget: &SharedBudget, seconds: u64, spender: Spender<'_>) -> usize {
    (0..10_000)
        .take_while(|_| budget.take(at(seconds), spender).is_ok())
        .count()
}

/// Takes one change for each of these objects, and returns how many may go.
fn one_each(budget: &SharedBudget, seconds: u64, kind: &str, objects: usize) -> usize {
    let names = (0..objects).map(|number| format!("{kind}-{number}/it"));
    let goes = |name: &String| budget.take(at(seconds), required(name)).is_ok();
    names.filter(goes).count()
}

#[test]
fn a_shared_budget_is_one_budget_for_all_who_take_at_the_same_time() {
    let budget = budget(0);
    let taken: usize = std::thread::scope(|scope| {
        let takers = ["a/1", "b/2", "c/3", "d/4"].map(|name| {
            let budget = &budget;
            scope.spawn(move || takes(budget, 5, required(name)))
        });
        let taken = takers.map(|taker| taker.join().unwrap());
        taken.iter().sum()
    });
    assert_eq!(taken, 600);
    let level = BudgetLevel {
        taken: 600,
        allowed: 600,
    };
    assert_eq!(budget.level(at(5)), level);
}

#[test]
fn f33_a_service_that_is_edited_without_end_leaves_changes_to_all_others() {
    let budget = budget(40);
    let mut own = Vec::new();
    for second in 0..600 {
        own.extend((0..10).filter(|_| budget.take(at(second), asked("evil/web")).is_ok()));
    }
    assert_eq!(own.len(), 256, "the changes of one call");
    assert_eq!(
        takes(&budget, 599, asked("evil/other")),
        44,
        "half for a namespace"
    );
    assert_eq!(takes(&budget, 599, asked("evil/third")), 0);
    assert_eq!(
        takes(&budget, 599, asked("good/web")),
        150,
        "three quarters for what users ask"
    );
    assert_eq!(takes(&budget, 599, asked("good/other")), 0);
    // What is left is for nodes and deletions, of the first Service, too.
    assert_eq!(budget.take(at(599), required("evil/web")), Ok(()));
    assert_eq!(takes(&budget, 599, required("route/10.244.1.0")), 149);
    assert_eq!(takes(&budget, 599, required("evil/web")), 0);
}

/// With a hundred targets, each removed and added again.
#[test]
fn one_object_gets_the_changes_of_a_call_if_its_namespace_has_them_and_its_targets_and_deletion_get_more()
 {
    // All changes, those that a user gets for one object, the further ones that nodes and its deletion get for it, and
    // what is left to other objects.
    for (changes, asked_for, further, others) in [
        (1, 1, 0, 0),
        (2, 1, 0, 1),
        (4, 2, 1, 1),
        (60, 30, 15, 15),
        (100, 50, 25, 25),
        (300, 150, 75, 75),
        (400, 200, 100, 100),
        (512, 256, 128, 128),
        (600, 256, 150, 194),
        (2_000, 500, 500, 1_000),
    ] {
        let budget = fixed(changes);
        let taken = [asked("a/web"), required("a/web"), required("b/web")]
            .map(|spender| takes(&budget, 0, spender));
        assert_eq!(taken[..2], [asked_for, further], "{changes}");
        let rest = one_each(&budget, 0, "other", changes);
        assert_eq!(taken[2] + rest, others, "{changes}");
    }
}

#[test]
fn f33_a_loop_does_not_make_the_budget_rise() {
    let budget = budget(40);
    let mut taken = 0;
    for second in 0..7_200 {
        let changes =
            ["evil/1", "evil/2", "evil/3"].map(|name| budget.take(at(second), asked(name)));
        taken += changes.iter().filter(|change| change.is_ok()).count();
    }
    assert_eq!(taken, 300 * 12, "half of the budget in each ten minutes");
    assert_eq!(budget.level(at(7_199)).allowed, 600);
}

#[test]
fn a_node_that_joins_is_added_to_thousands_of_load_balancers_at_once() {
    let budget = budget(2_001);
    assert_eq!(one_each(&budget, 0, "balancer", 2_000), 2_000);
}

#[test]
fn what_is_held_for_four_minutes_doubles_the_budget_until_there_is_room_again() {
    let budget = fixed(600);
    let allowed = |seconds| budget.level(at(seconds)).allowed;
    assert_eq!(one_each(&budget, 0, "a", 2_000), 600);
    let held = asked("new/web");
    assert_eq!(budget.take(at(1), held), Err(at(240)));
    assert_eq!(one_each(&budget, 239, "b", 1_400), 0);
    assert_eq!(allowed(239), 600);
    // Each that is still held may ask; what is new shares in it.
    assert_eq!(one_each(&budget, 240, "b", 1_400), 600);
    assert_eq!(budget.take(at(240), required("node/new")), Err(at(480)));
    assert_eq!(allowed(240), 1_200);
    assert_eq!(one_each(&budget, 480, "c", 800), 800);
    assert_eq!(allowed(480), 2_400);
    // The first 600 are over, and then all but some.
    assert_eq!(allowed(600), 2_400);
    assert_eq!(budget.take(at(600), held), Ok(()));
    assert_eq!(budget.take(at(1_079), held), Ok(()));
    assert_eq!(allowed(1_079), 2_400);
    assert_eq!(budget.take(at(1_080), held), Ok(()));
    assert_eq!(allowed(1_080), 600);
}

#[test]
fn a_burst_long_after_another_does_not_raise_the_budget_at_once() {
    let budget = fixed(600);
    // More than a third is used all the time.
    for (seconds, kind, objects, going) in [
        (0, "always", 200, 200),
        (590, "always", 200, 200),
        (600, "first", 1_000, 400),
        (1_195, "always", 200, 200),
        (1_790, "always", 200, 200),
        (1_800, "second", 1_000, 400),
    ] {
        let goes = one_each(&budget, seconds, kind, objects);
        assert_eq!(goes, going, "at {seconds}");
    }
    let held = required("late/it");
    assert_eq!(budget.take(at(1_800), held), Err(at(2_040)));
}

/// Its provider answers after ten seconds, and asks again after five minutes.
#[test]
fn one_change_that_is_held_again_and_again_makes_the_budget_rise() {
    let budget = fixed(600);
    let used = |seconds| one_each(&budget, seconds, "always", 250);
    assert_eq!(one_each(&budget, 0, "first", 350), 350);
    assert_eq!(used(0), 250);
    assert_eq!(budget.take(at(1), required("held/it")), Err(at(241)));
    assert_eq!(budget.take(at(311), required("held/it")), Ok(()));
    assert_eq!(budget.level(at(311)).allowed, 1_200);
}

#[test]
fn all_services_of_one_namespace_get_the_whole_budget_in_time() {
    let budget = budget(100);
    let names: Vec<String> = (0..1_000).map(|number| format!("all/{number}")).collect();
    let mut waiting: Vec<&String> = names.iter().collect();
    for seconds in [0, 240, 480] {
        waiting.retain(|name| budget.take(at(seconds), asked(name)).is_err());
    }
    assert!(waiting.is_empty(), "{}", waiting.len());
}

#[test]
fn what_is_held_longest_is_shown_until_it_is_made_or_could_be() {
    let budget = fixed(2);
    let held = |seconds| {
        let held = budget.held_longest(at(seconds));
        held.map(|HeldSpender { object, at, free }| (object, at, free))
    };
    for name in ["a/1", "a/2"] {
        assert_eq!(budget.take(at(0), required(name)), Ok(()));
    }
    assert_eq!(held(0), None);
    assert_eq!(budget.take(at(1), required("a/3")), Err(at(241)));
    let it = Some(("a/3".to_owned(), at(1), at(241)));
    assert_eq!(held(240), it);
    assert_eq!(budget.take(at(2), required("a/4")), Err(at(241)));
    assert_eq!(held(240), it, "it waits no longer than the other one");
    assert_eq!(held(241), None);
    assert_eq!(budget.take(at(241), required("a/4")), Ok(()));
    assert_eq!(held(240), it, "another one's change");
    assert_eq!(budget.take(at(241), required("a/3")), Ok(()));
    assert_eq!(held(240), None);
}

#[test]
fn where_no_change_is_allowed_none_ever_is() {
    let end = Moment(std::time::Duration::MAX);
    for seconds in [0, 240, 10_000] {
        assert_eq!(fixed(0).take(at(seconds), asked("a/b")), Err(end));
    }
}

#[test]
fn objects_are_counted_once_a_minute_and_only_for_a_change() {
    let objects = Arc::new(AtomicUsize::new(1_000));
    let (counted, counts) = (objects.clone(), Arc::new(AtomicUsize::new(0)));
    let asked_for = counts.clone();
    let count = move || {
        asked_for.fetch_add(1, Ordering::Relaxed);
        counted.load(Ordering::Relaxed)
    };
    let budget = SharedBudget::new(BRAKE, Allowance::default_of(BRAKE), count);
    assert_eq!(budget.level(at(0)).allowed, 600);
    for (seconds, now, times, allowed) in [
        (10, 1_000, 1, 1_000),
        (69, 3_000, 1, 1_000),
        (70, 3_000, 2, 3_000),
        (130, 20, 3, 600),
    ] {
        objects.store(now, Ordering::Relaxed);
        assert_eq!(budget.take(at(seconds), asked("a/b")), Ok(()));
        assert_eq!(counts.load(Ordering::Relaxed), times, "at {seconds}");
        assert_eq!(budget.level(at(seconds)).allowed, allowed, "at {seconds}");
    }
}
