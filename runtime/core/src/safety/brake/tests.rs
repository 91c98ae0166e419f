#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::moment::Moment;

mod shared;
mod target_removal;

fn at(seconds: u64) -> Moment {
    Moment(Duration::from_secs(seconds))
}

/// Allowance of max(3, 10 %), at most 20, in ten minutes.
fn tenth() -> Allowance {
    Allowance::default_of(Brake::NodeDeletion)
}

#[test]
fn every_brake_lets_through_what_its_row_says() {
    let rows: [(Brake, [(usize, usize); 6]); 8] = [
        (Brake::InternalIp, TENTH),
        (Brake::Relabel, TENTH),
        (Brake::NodeDeletion, TENTH),
        (Brake::ShutdownTaint, TENTH),
        (
            Brake::LoadBalancerDeletion,
            [
                (0, 20),
                (1, 20),
                (199, 20),
                (210, 21),
                (990, 99),
                (5_000, 100),
            ],
        ),
        (
            Brake::RouteDeletion,
            [(0, 2), (1, 2), (29, 2), (30, 3), (500, 50), (5_000, 50)],
        ),
        (
            Brake::StatusClear,
            [(0, 1), (1, 1), (19, 1), (20, 2), (200, 20), (5_000, 20)],
        ),
        (
            Brake::CloudMutations,
            [
                (0, 600),
                (1, 600),
                (600, 600),
                (2_001, 2_001),
                (6_000, 6_000),
                (50_000, 6_000),
            ],
        ),
    ];
    assert!(
        Brake::ALL
            .iter()
            .all(|brake| rows.iter().any(|(row, _)| row == brake))
    );
    for (brake, row) in rows {
        let allowance = Allowances::default().of(brake);
        assert_eq!(allowance.window, Duration::from_secs(600), "{brake}");
        for (objects, most) in row {
            assert_eq!(allowance.of(objects), most, "{brake}, {objects} objects");
        }
    }
}

const TENTH: [(usize, usize); 6] = [(0, 3), (1, 3), (39, 3), (40, 4), (199, 19), (5_000, 20)];

#[test]
fn every_brake_has_a_word_of_its_own_by_which_it_is_found() {
    for brake in Brake::ALL {
        assert_eq!(Brake::parse(brake.as_str()), Some(brake));
    }
    assert_eq!(Brake::parse("node_deletion"), None);
}

#[test]
fn what_was_spent_comes_back_one_by_one_after_the_window() {
    let mut budget = Budget::new(tenth());
    for second in [0, 10, 20] {
        assert_eq!(budget.take(at(second), 5, Rise::NONE), Ok(()));
    }
    assert_eq!(budget.take(at(30), 5, Rise::NONE), Err(at(600)));
    assert_eq!(budget.take(at(599), 5, Rise::NONE), Err(at(600)));
    assert_eq!(budget.take(at(600), 5, Rise::NONE), Ok(()));
    assert_eq!(budget.take(at(600), 5, Rise::NONE), Err(at(610)));
}

#[test]
fn a_cluster_that_shrinks_waits_until_enough_is_free() {
    let mut budget = Budget::new(tenth());
    for second in 0..5 {
        assert_eq!(budget.take(at(second), 50, Rise::NONE), Ok(()));
    }
    assert_eq!(budget.take(at(100), 10, Rise::NONE), Err(at(602)));
    assert_eq!(budget.take(at(601), 10, Rise::NONE), Err(at(602)));
    assert_eq!(budget.take(at(602), 10, Rise::NONE), Ok(()));
}

#[test]
fn an_allowance_of_zero_stops_for_good() {
    let none = Allowance {
        least: 0,
        percent: 0,
        ..tenth()
    };
    let end = Moment(Duration::MAX);
    assert_eq!(Budget::new(none).take(at(1), 1_000, Rise::NONE), Err(end));
}

#[test]
fn one_brake_spends_nothing_of_another() {
    let mut budgets = ClusterBudgets::new(&Allowances::default());
    for _ in 0..3 {
        assert_eq!(take(&mut budgets, "a", 1, of(5)), Ok(()));
    }
    assert!(take(&mut budgets, "a", 1, of(5)).is_err());
    for brake in Brake::ALL {
        let taken = budgets.take("a", brake, at(1), of(5), Rise::NONE);
        assert_eq!(taken.is_ok(), brake != Brake::NodeDeletion, "{brake}");
    }
}

#[test]
fn what_an_operator_says_replaces_the_default_of_this_brake_only() {
    let mut allowances = Allowances::default();
    let reported = Allowance {
        least: 1,
        percent: 0,
        most: 1,
        window: Duration::from_secs(60),
    };
    assert!(allowances.set(Brake::NodeDeletion, reported));
    assert!(!allowances.set(Brake::NodeDeletion, reported));
    let mut budget = Budget::new(allowances.of(Brake::NodeDeletion));
    assert_eq!(budget.take(at(0), 99, Rise::NONE), Ok(()));
    assert_eq!(budget.take(at(1), 99, Rise::NONE), Err(at(60)));
    let mut other = Budget::new(allowances.of(Brake::Relabel));
    assert_eq!(other.take(at(0), 99, Rise::NONE), Ok(()));
    assert_eq!(other.take(at(1), 99, Rise::NONE), Ok(()));
}

#[test]
fn a_restored_budget_goes_on_where_it_was() {
    let spent = [at(20), at(0), at(10)];
    let mut budget = Budget::restore(tenth(), spent.into_iter());
    assert_eq!(budget.take(at(30), 5, Rise::NONE), Err(at(600)));
    assert_eq!(budget.take(at(600), 5, Rise::NONE), Ok(()));
    assert_eq!(
        budget.spent().collect::<Vec<_>>(),
        [at(10), at(20), at(600)]
    );
    let level = |now| {
        Budget::restore(tenth(), spent.into_iter())
            .level(at(now), 5)
            .taken
    };
    assert_eq!([level(599), level(600), level(615)], [3, 2, 1]);
}

/// The steps of a process that uses a budget.
#[derive(Debug, Clone)]
enum Step {
    /// Time passes, and then one change is taken, given this many objects.
    Take { wait: u64, objects: usize },
    /// The process restarts with the saved entries, in some order.
    Restart { reversed: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        9 => (0_u64..200, prop_oneof![Just(60), 0_usize..400])
            .prop_map(|(wait, objects)| Step::Take { wait, objects }),
        1 => any::<bool>().prop_map(|reversed| Step::Restart { reversed }),
    ]
}

proptest! {
    #[test]
    fn no_window_ever_has_more_than_the_allowance_also_across_restarts(
        steps in proptest::collection::vec(step(), 1..300),
        brake in proptest::sample::select(Brake::ALL.to_vec()),
    ) {
        let allowance = Allowance::default_of(brake);
        let mut budget = Budget::new(allowance);
        let (mut now, mut granted) = (0, Vec::new());
        for step in steps {
            match step {
                Step::Restart { reversed } => {
                    let mut spent: Vec<_> = budget.spent().collect();
                    if reversed {
                        spent.reverse();
                    }
                    budget = Budget::restore(allowance, spent.into_iter());
                }
                Step::Take { wait, objects } => {
                    now += wait;
                    match budget.take(at(now), objects, Rise::NONE) {
                        Ok(()) => granted.push((now, allowance.of(objects))),
                        Err(free) => {
                            prop_assert!(free > at(now));
                            prop_assert_eq!(budget.clone().take(free, objects, Rise::NONE), Ok(()), "what is promised is kept");
                        }
                    }
                }
            }
        }
        // Each change that was taken was within the allowance of its own moment.
        for (index, (end, allowed)) in granted.iter().enumerate() {
            let within = granted[..=index].iter().filter(|(at, _)| end - at < 600).count();
            prop_assert!(within <= *allowed, "{within} within ten minutes, {allowed} allowed");
        }
    }
}

/// Takes one node deletion.
fn take(
    budgets: &mut ClusterBudgets,
    provider: &str,
    seconds: u64,
    objects: Objects,
) -> Result<(), Moment> {
    let taken = budgets.take(
        provider,
        Brake::NodeDeletion,
        at(seconds),
        objects,
        Rise::NONE,
    );
    taken.map(|spent| assert_eq!(spent.by.as_deref(), Some(provider)))
}

/// Every provider has five objects, and the cluster has `all`.
fn of(all: usize) -> Objects {
    Objects { own: 5, all }
}

#[test]
fn a_provider_spends_its_own_budget_and_all_together_the_clusters() {
    let mut budgets = ClusterBudgets::new(&Allowances::default());
    let brake = Brake::NodeDeletion;
    for (seconds, provider, expected) in [
        (0, "a", Ok(())),
        (1, "a", Ok(())),
        (2, "a", Ok(())),
        // The provider's three are spent; the cluster's budget is a tenth of fifty.
        (3, "a", Err(at(600))),
        (4, "b", Ok(())),
        (5, "b", Ok(())),
        // The cluster's five are spent, and b has one left.
        (6, "b", Err(at(600))),
        (7, "c", Err(at(600))),
        (600, "c", Ok(())),
        // The later moment of both budgets.
        (600, "a", Err(at(601))),
        (601, "a", Ok(())),
    ] {
        let taken = take(&mut budgets, provider, seconds, of(50));
        assert_eq!(taken, expected, "{provider} at {seconds}");
    }
    let level = |provider| budgets.level(provider, brake, at(601), 5).taken;
    assert_eq!(["a", "b", "c", "d"].map(level), [2, 2, 1, 0]);
    assert!(
        budgets
            .take("d", Brake::Relabel, at(601), of(50), Rise::NONE)
            .is_ok()
    );
}

#[test]
fn what_was_refused_has_spent_nothing() {
    let mut budgets = ClusterBudgets::new(&Allowances::default());
    let brake = Brake::NodeDeletion;
    for provider in ["a", "b", "c"] {
        assert_eq!(take(&mut budgets, provider, 0, of(3)), Ok(()));
    }
    for seconds in 1..100 {
        let refused = take(&mut budgets, "a", seconds, of(3));
        assert_eq!(refused, Err(at(600)));
    }
    assert_eq!(budgets.spent(brake).len(), 3);
    // With more nodes, a has two left.
    assert_eq!(take(&mut budgets, "a", 100, of(100)), Ok(()));
    assert_eq!(take(&mut budgets, "a", 100, of(100)), Ok(()));
    assert_eq!(take(&mut budgets, "a", 100, of(100)), Err(at(600)));
}

#[test]
fn of_one_provider_that_has_all_objects_the_clusters_budget_is_never_the_smaller_one() {
    for objects in [0, 1, 5, 30, 99, 250, 5_000] {
        let (mut one, mut both) = (
            Budget::new(tenth()),
            ClusterBudgets::new(&Allowances::default()),
        );
        for seconds in (0..5_000).step_by(7) {
            let objects_of = Objects {
                own: objects,
                all: objects,
            };
            let taken = take(&mut both, "a", seconds, objects_of);
            assert_eq!(
                taken,
                one.take(at(seconds), objects, Rise::NONE),
                "{objects} at {seconds}"
            );
        }
    }
}

#[test]
fn what_was_spent_before_a_restart_counts_for_its_provider_and_without_a_name_for_each() {
    let brake = Brake::NodeDeletion;
    let spent = |seconds, by: Option<&str>| Spent {
        at: at(seconds),
        by: by.map(str::to_owned),
    };
    let mut budgets = ClusterBudgets::new(&Allowances::default());
    budgets.restore(
        brake,
        vec![
            spent(20, Some("a")),
            spent(0, None),
            spent(10, Some("gone")),
        ],
    );
    let level = |provider| budgets.level(provider, brake, at(30), 5).taken;
    assert_eq!(["a", "b", "gone"].map(level), [2, 1, 2]);
    assert_eq!(take(&mut budgets, "a", 30, of(50)), Ok(()));
    assert_eq!(take(&mut budgets, "a", 30, of(50)), Err(at(600)));
    assert_eq!(take(&mut budgets, "b", 30, of(50)), Ok(()));
    assert_eq!(
        take(&mut budgets, "b", 30, of(50)),
        Err(at(600)),
        "the cluster's five"
    );
    let names: Vec<Option<&str>> = budgets
        .spent(brake)
        .iter()
        .map(|one| one.by.as_deref())
        .collect();
    assert_eq!(names, [None, Some("gone"), Some("a"), Some("a"), Some("b")]);
    let many = (0..1_000).map(|seconds| spent(seconds, Some("a")));
    budgets.restore(brake, many.collect());
    assert_eq!(budgets.spent(brake).len(), 320, "the newest decide alone");
    // What more was taken since the rise began counts as well, and is not needed after a restart.
    let mut budgets = ClusterBudgets::new(&Allowances::default());
    let rise = Rise::since(Some(at(0)), at(720));
    let objects = Objects {
        own: 5_000,
        all: 5_000,
    };
    let mut take = || budgets.take("a", brake, at(720), objects, rise).is_ok();
    let taken = (0..2_000).filter(|_| take()).count();
    assert_eq!((taken, budgets.spent(brake).len()), (1_280, 320));
}

#[test]
fn what_is_given_back_is_spent_by_nobody_and_everybody_elses_stays() {
    let brake = Brake::NodeDeletion;
    let mut budgets = ClusterBudgets::new(&Allowances::default());
    let mut spent = Vec::new();
    for seconds in 0..3 {
        let taken = budgets
            .take("a", brake, at(seconds), of(50), Rise::NONE)
            .unwrap();
        spent.push(taken);
    }
    assert_eq!(take(&mut budgets, "b", 3, of(50)), Ok(()));
    assert_eq!(take(&mut budgets, "a", 4, of(50)), Err(at(600)));
    budgets.give_back(brake, &spent[1]);
    budgets.give_back(brake, &spent[1]);
    let left: Vec<Moment> = budgets.spent(brake).iter().map(|one| one.at).collect();
    assert_eq!(left, [at(0), at(2), at(3)]);
    assert_eq!(take(&mut budgets, "a", 5, of(50)), Ok(()));
    assert_eq!(take(&mut budgets, "a", 6, of(50)), Err(at(600)));
}

#[test]
fn an_allowance_rises_to_everything_however_many_objects_there_are() {
    for (objects, expected) in [
        (5, [3, 6, 12, 24, 48]),
        (100, [10, 20, 40, 80, 160]),
        (200, [20, 40, 80, 160, 320]),
        (1_000, [20, 80, 320, 800, 1_600]),
        (5_000, [20, 80, 320, 1_280, 5_120]),
    ] {
        let held = [0, 240, 480, 720, 960].map(|now| Rise::since(Some(at(0)), at(now)));
        let risen = held.map(|rise| tenth().risen(objects, rise));
        assert_eq!(risen, expected, "{objects} objects");
        assert!(risen[4] >= objects);
    }
}

#[test]
fn what_has_been_held_for_long_takes_more_and_what_is_new_does_not() {
    let allowance = tenth();
    let mut budget = Budget::new(allowance);
    for _ in 0..9 {
        assert_eq!(budget.take(at(0), 90, Rise::NONE), Ok(()));
    }
    assert_eq!(budget.take(at(240), 81, Rise::NONE), Err(at(600)));
    let twice = Rise::since(Some(at(0)), at(240));
    for _ in 9..16 {
        assert_eq!(budget.take(at(240), 81, twice), Ok(()));
    }
    assert_eq!(budget.take(at(240), 81, twice), Err(at(600)));
    // A change that has been held since now only waits until all of these entries but eight have expired.
    assert_eq!(budget.take(at(241), 80, Rise::NONE), Err(at(600)));
    let none = Allowance {
        least: 0,
        most: 0,
        ..allowance
    };
    let end = Moment(Duration::MAX);
    assert_eq!(Budget::new(none).take(at(0), 90, Rise::MOST), Err(end));
}

#[test]
fn what_the_api_server_refuses_for_good_is_given_back_to_its_provider() {
    let brake = Brake::NodeDeletion;
    let mut budgets = ClusterBudgets::new(&Allowances::default());
    for _ in 0..3 {
        assert_eq!(take(&mut budgets, "a", 0, of(50)), Ok(()));
    }
    budgets.refused("b", brake);
    assert_eq!(take(&mut budgets, "a", 1, of(50)), Err(at(600)));
    budgets.refused("a", brake);
    assert_eq!(take(&mut budgets, "a", 1, of(50)), Ok(()));
}
