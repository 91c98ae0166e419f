//! People's orders.

use super::world::{Kind, LONG, World, digest, release};
use crate::rollout::*;

#[test]
fn a_person_goes_back_once_and_what_was_there_is_rejected() {
    let mut world = World::serving();
    world.offer(2, Kind::Good);
    world.run(LONG);
    let back = Orders {
        roll_back: true,
        ..Orders::default()
    };
    let began = world.seconds;
    world.order(back.clone());
    world.run(1);
    assert_eq!(world.serves(), Some(digest(1)));
    assert!(world.seconds <= began + 1);
    assert!(world.stored.is_rejected(&digest(2)));
    assert_eq!(
        world.stored.previous, None,
        "there is nothing more to go back to"
    );
    assert_eq!(world.state(), RolloutState::RolledBack);
    world.run(LONG);
    assert_eq!(
        world.serves(),
        Some(digest(1)),
        "although version 2 is still offered"
    );
    world.order(back);
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(1)));
    assert_eq!(world.told().last(), Some(&"RollBackImpossible"));
    assert!(!world.orders.roll_back, "it is taken away, too");
}

#[test]
fn an_order_that_is_seen_again_before_it_is_taken_away_is_not_followed_twice() {
    let mut world = World::serving();
    for number in [2, 3] {
        world.offer(number, Kind::Good);
        world.run(LONG);
    }
    world.is_online = false;
    world.order(Orders {
        roll_back: true,
        ..Orders::default()
    });
    world.run(5);
    for _ in 0..5 {
        world.facts.ordered(Orders {
            roll_back: true,
            ..Orders::default()
        });
        world.run(5);
    }
    assert_eq!(world.serves(), Some(digest(2)));
    let back = world
        .told()
        .iter()
        .filter(|it| **it == "ProviderRolledBack")
        .count();
    assert_eq!(back, 1);
    assert!(!world.told().contains(&"RollBackImpossible"));
}

#[test]
fn an_order_to_go_back_takes_back_what_is_on_trial_first() {
    let mut world = World::serving();
    world.offer(2, Kind::Good);
    world.run(20);
    assert_eq!(world.stored.trial.as_ref().unwrap().phase, Phase::Canary);
    world.order(Orders {
        roll_back: true,
        ..Orders::default()
    });
    world.settle();
    assert!(world.done.contains(&RolloutEffect::EndTrial));
    assert!(world.stored.is_rejected(&digest(2)));
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(1)));
}

#[test]
fn an_order_to_go_back_is_carried_out_once_even_if_the_process_ends_before_it_is_removed() {
    let back = Orders {
        roll_back: true,
        ..Orders::default()
    };
    let mut world = World::serving();
    world.offer(2, Kind::Good);
    world.run(LONG);
    world.offer(3, Kind::Good);
    world.run(20);
    assert_eq!(world.stored.trial.as_ref().unwrap().phase, Phase::Canary);
    world.order(back.clone());
    world.settle();
    assert!(!world.stored.has_gone_back, "the order is removed");
    // The record was written, and the removal of the order was not.
    let written = world.done.iter().find_map(|effect| match effect {
        RolloutEffect::Keep(record) if record.is_rejected(&digest(3)) => Some((**record).clone()),
        _ => None,
    });
    world.stored = written.unwrap();
    world.orders = back.clone();
    world.restart();
    world.offer(3, Kind::Good);
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(2)));
    assert!(!world.stored.is_rejected(&digest(2)));
    assert_eq!(world.orders, Orders::default(), "it is removed");
    // The next order is another one.
    world.order(back);
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(1)));
}

#[test]
fn pinned_and_paused_providers_try_nothing() {
    let pinned = Orders {
        pin: Some(digest(1)),
        ..Orders::default()
    };
    let paused = Orders {
        pause: true,
        ..Orders::default()
    };
    for (orders, expected) in [
        (pinned, RolloutState::Pinned),
        (paused, RolloutState::Paused),
    ] {
        let mut world = World::serving();
        // A new version is in the middle of its trial.
        world.offer(2, Kind::Good);
        world.run(20);
        world.order(orders.clone());
        world.run(LONG);
        assert_eq!(world.serves(), Some(digest(1)));
        assert_eq!(world.stored.trial, None);
        assert_eq!(world.stored.trouble, "");
        assert_eq!(state(&world.stored, &orders, true), expected);
        world.order(Orders::default());
        world.run(LONG);
        assert_eq!(world.serves(), Some(digest(2)));
    }
}

#[test]
fn an_order_that_holds_back_the_first_version_counts_also_where_it_was_loaded_before() {
    let pin = |number| Orders {
        pin: Some(digest(number)),
        ..Orders::default()
    };
    let paused = Orders {
        pause: true,
        ..Orders::default()
    };
    for (orders, expected) in [
        (pin(2), None),
        (paused, None),
        (pin(1), Some(digest(1))),
        (Orders::default(), Some(digest(1))),
    ] {
        for is_seen_first in [true, false] {
            let mut world = World::new();
            world.facts.follows();
            world.offer(1, Kind::Good);
            world.run(5);
            assert_eq!(world.serves(), Some(digest(1)));
            world.order(orders.clone());
            if is_seen_first {
                world.run(5);
                assert_eq!(world.serves(), expected, "{orders:?}");
            }
            world.facts.leads(Some(world.stored.clone()));
            world.run(LONG);
            assert_eq!(world.serves(), expected, "{orders:?}");
            let active = world.stored.active.as_ref();
            assert_eq!(active.map(|it| it.release.digest.clone()), expected);
            let why = not_serving(&world.facts).map(|(_, is_final)| is_final);
            assert_eq!(why.is_some(), expected.is_none(), "{orders:?}");
            world.order(Orders::default());
            world.run(LONG);
            assert_eq!(world.serves(), Some(digest(1)));
        }
    }
}

#[test]
fn a_pin_brings_back_the_previous_version_and_says_what_it_cannot_find() {
    let mut world = World::serving();
    world.offer(2, Kind::Good);
    world.run(LONG);
    let pin = |number| Orders {
        pin: Some(digest(number)),
        ..Orders::default()
    };
    world.order(pin(1));
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(1)));
    assert!(!world.stored.is_rejected(&digest(2)));
    world.order(pin(9));
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(1)));
    assert!(
        world.stored.trouble.contains("neither offered nor known"),
        "{}",
        world.stored.trouble
    );
}

#[test]
fn an_order_that_names_the_manifest_of_a_module_is_told_the_modules_digest() {
    let manifest = format!("sha256:{}", "ee".repeat(32));
    let of_manifest = || Some(manifest.clone());
    for orders in [
        Orders {
            pin: of_manifest(),
            ..Orders::default()
        },
        Orders {
            approve: of_manifest(),
            ..Orders::default()
        },
        Orders {
            allow_downgrade: of_manifest(),
            ..Orders::default()
        },
    ] {
        let mut world = World::serving();
        world.kinds.insert(digest(2), Kind::Wider);
        let offered = Release {
            origin: format!("oci://registry.example.com/hcloud@{manifest}"),
            ..release(2)
        };
        world.facts.offered(offered, world.now());
        world.order(orders);
        world.run(LONG);
        assert_eq!(world.serves(), Some(digest(1)));
        let trouble = &world.stored.trouble;
        for part in [&manifest, "is the digest of a manifest", &digest(2)] {
            assert!(trouble.contains(part), "{part}: {trouble}");
        }
    }
}

#[test]
fn a_source_that_goes_back_to_a_rejected_version_is_reported_once() {
    let mut world = World::serving();
    world.offer(2, Kind::Broken);
    world.run(LONG);
    world.offer(3, Kind::Good);
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(3)));
    let again = |world: &World| {
        let told = world.told();
        let again = told.iter().filter(|it| **it == "RejectedVersionOffered");
        again.count()
    };
    assert_eq!(again(&world), 0, "its rejection was reported");
    // A tag is moved back repeatedly.
    for _ in 0..3 {
        world.offer(2, Kind::Broken);
        world.run(LONG);
    }
    assert_eq!(again(&world), 1);
    let said = world.done.iter().rev().find_map(|effect| match effect {
        RolloutEffect::RecordEvent(event) => Some(event.message.clone()),
        _ => None,
    });
    let said = said.unwrap();
    for part in [
        "1.0.2",
        "it does not compile",
        "wasm-ccm.dev/retry",
        &digest(2),
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(world.serves(), Some(digest(3)));
    assert_eq!(
        world.state(),
        RolloutState::Active,
        "nothing that serves is touched"
    );
}

#[test]
fn what_was_rejected_where_the_record_is_kept_from_now_on_is_not_tried() {
    let mut world = World::serving();
    let before = Record {
        active: None,
        rejected: [1, 2]
            .map(|number| Rejected {
                digest: digest(number),
                version: String::new(),
                reason: "it traps".to_owned(),
                has_answered: true,
                at: 0,
            })
            .to_vec(),
        approved: vec![digest(3)],
        ..Record::default()
    };
    world.facts.inherits(&before);
    world.facts.inherits(&before);
    let rejected = world.record().rejected.iter();
    let rejected: Vec<_> = rejected.map(|one| one.digest.clone()).collect();
    assert_eq!(rejected, [digest(2)], "what serves is not rejected");
    assert_eq!(world.record().approved, [digest(3)]);
    world.offer(2, Kind::Good);
    world.run(400);
    assert_eq!(world.serves(), Some(digest(1)));
    world.offer(3, Kind::Wider);
    world.run(400);
    assert_eq!(world.serves(), Some(digest(3)));
}

#[test]
fn a_record_that_was_begun_without_knowing_the_stored_one_gives_way_to_it() {
    let mut world = World::new();
    world.offer(4, Kind::Broken);
    world.run(5);
    world.offer(3, Kind::Good);
    world.run(5);
    assert_eq!(world.serves(), Some(digest(3)));
    world.kinds.insert(digest(1), Kind::Good);
    let rejected = |number| Rejected {
        digest: digest(number),
        version: String::new(),
        reason: "it traps".to_owned(),
        has_answered: true,
        at: 0,
    };
    let before = Record {
        active: Some(Placed {
            release: release(1),
            since: 7,
            noted: Noted {
                requests: Some("GET /servers".to_owned()),
                highest: None,
            },
            untried: None,
        }),
        rejected: vec![rejected(3)],
        approved: vec![digest(5)],
        ..Record::default()
    };
    world.facts.gives_way_to(before);
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(1)));
    let rejected = world.stored.rejected.iter();
    let rejected: Vec<_> = rejected.map(|one| one.digest.clone()).collect();
    assert_eq!(rejected, [digest(3), digest(4)], "its own, too");
    assert_eq!(world.stored.approved, [digest(5)]);
}

#[test]
fn whose_word_there_is_for_a_version() {
    let mut world = World::serving();
    world.offer(2, Kind::Good);
    world.run(LONG);
    let word = |world: &World, number| world.facts.endorsement(&digest(number));
    let all = |world: &World| [1, 2, 3].map(|number| word(world, number));
    assert_eq!(
        all(&world),
        [
            Endorsement::Unendorsed,
            Endorsement::Recorded,
            Endorsement::Unendorsed
        ]
    );
    let named = Some(digest(3));
    for (orders, expected) in [
        (
            Orders {
                pin: named.clone(),
                ..Orders::default()
            },
            [
                Endorsement::Unendorsed,
                Endorsement::Recorded,
                Endorsement::Ordered,
            ],
        ),
        (
            Orders {
                allow_downgrade: named,
                ..Orders::default()
            },
            [
                Endorsement::Unendorsed,
                Endorsement::Recorded,
                Endorsement::Ordered,
            ],
        ),
        (
            Orders {
                roll_back: true,
                ..Orders::default()
            },
            [
                Endorsement::Ordered,
                Endorsement::Recorded,
                Endorsement::Unendorsed,
            ],
        ),
    ] {
        world.facts.ordered(orders.clone());
        assert_eq!(all(&world), expected, "{orders:?}");
    }
}

#[test]
fn what_was_not_trusted_is_looked_at_again_when_a_person_names_it() {
    let named = Some(digest(2));
    for orders in [
        Orders {
            pin: named.clone(),
            ..Orders::default()
        },
        Orders {
            allow_downgrade: named,
            ..Orders::default()
        },
    ] {
        let mut world = World::serving();
        world.offer(2, Kind::Distrusted);
        world.run(LONG);
        let examined = |world: &World| world.begun(|work| matches!(work, Work::Examine(_)));
        let before = examined(&world);
        world.order(orders);
        world.settle();
        assert_eq!(examined(&world), before + 1, "at once");
    }
}

/// Version 2 serves, and version 1 is to be restored although the registry does not answer.
fn going_back_to_what_cannot_be_fetched_now() -> World {
    let mut world = World::serving();
    world.offer(2, Kind::Good);
    world.run(LONG);
    world.unreachable.insert(digest(1));
    world.order(Orders {
        roll_back: true,
        ..Orders::default()
    });
    world
}

#[test]
fn an_order_to_go_back_that_waits_for_a_registry_keeps_nothing_else_from_serving() {
    let mut world = going_back_to_what_cannot_be_fetched_now();
    world.run(LONG);
    world.restart();
    world.offer(2, Kind::Good);
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(2)), "until version 1 is there");

    // Grants that are taken away are not kept for the old version's sake.
    world.facts.policy_changed();
    world.run(LONG);
    let serving = world.facts.serving.as_ref().unwrap();
    assert_eq!(serving.policy_generation, world.facts.policy_generation);

    let trouble = &world.stored.trouble;
    for part in ["1.0.1", "cannot serve yet", "no route to host"] {
        assert!(trouble.contains(part), "{part}: {trouble}");
    }

    // Nothing new is tried meanwhile: the order would take that back instead.
    world.offer(3, Kind::Good);
    world.run(LONG);
    assert_eq!(world.serves(), Some(digest(2)));
    assert_eq!(world.stored.trial, None);

    world.unreachable.clear();
    world.run(LONG);
    assert!(world.stored.is_rejected(&digest(2)));
    assert!(!world.orders.roll_back);
    let previous = world.stored.previous.as_ref().unwrap();
    assert_eq!(previous.digest, digest(1), "before version 3 was tried");
}
