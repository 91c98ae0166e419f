//! Changes for which one answer is not enough, and machines and addresses of other nodes.

use super::world::*;
use crate::cloud::error::ProviderError;
use crate::cloud::instance::AddressType::{ExternalIp, InternalIp};
use crate::cloud::instance::{Address, Instance};
use crate::moment::Moment;
use crate::node::Looked;
use crate::node::index::{AddressClash, Clashes, DuplicateProviderId};
use crate::reconciliation::effect::{ClusterError, When};
use crate::safety::brake::Brake;
use serde_json::{Value, json};
use std::time::Duration;

fn ready(mut world: World) -> World {
    world.stored["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
    world
}

fn answers(world: &mut World, list: &[(crate::cloud::instance::AddressType, &str)]) {
    world.answer = found(Instance {
        addresses: addresses(list),
        ..instance()
    });
}

fn later(world: &mut World, seconds: u64) {
    world.now = world.now.after(Duration::from_secs(seconds));
}

fn internal_ips(world: &World) -> Vec<Value> {
    let list = world.stored["status"]["addresses"].as_array().unwrap();
    list.iter()
        .filter(|one| one["type"] == "InternalIP")
        .map(|one| one["address"].clone())
        .collect()
}

fn clashing(world: &mut World, clashes: Clashes) {
    let answer = world.answer.clone().unwrap();
    world.answer = Ok(Looked { clashes, ..answer });
}

fn duplicate(is_stored: bool) -> Clashes {
    Clashes {
        duplicate: Some(DuplicateProviderId {
            name: "node9".to_owned(),
            is_stored,
        }),
        addresses: Vec::new(),
    }
}

#[test]
fn an_internal_ip_of_a_ready_node_changes_after_two_equal_answers() {
    let mut world = ready(initialised());
    answers(&mut world, &[(InternalIp, "10.0.0.9")]);
    let first = changes_nothing(&mut world);
    assert_eq!(
        first.end,
        When::Retry {
            after: Duration::from_secs(10),
            why: "waiting for a second, equal answer: the cloud says other InternalIPs than the Ready node has"
                .to_owned()
        }
    );
    later(&mut world, 9);
    changes_nothing(&mut world);
    later(&mut world, 1);
    let second = world.reconcile();
    assert_eq!(second.effects[1], "take budget internal-ip node/node0");
    assert_eq!(second.end, When::AwaitChange);
    assert_eq!(internal_ips(&world), ["10.0.0.9"]);
}

#[test]
fn an_answer_that_is_another_one_every_time_never_changes_anything() {
    let mut world = ready(initialised());
    for round in 0..20 {
        answers(&mut world, &[(InternalIp, &format!("10.0.1.{round}"))]);
        changes_nothing(&mut world);
        later(&mut world, 60);
    }
    // An answer with the stored address discards the proposal.
    answers(&mut world, &[(InternalIp, "10.0.0.9")]);
    changes_nothing(&mut world);
    answers(
        &mut world,
        &[(InternalIp, "10.0.0.1"), (ExternalIp, "192.0.2.1")],
    );
    world.reconcile();
    later(&mut world, 60);
    answers(&mut world, &[(InternalIp, "10.0.0.9")]);
    changes_nothing(&mut world);
}

#[test]
fn an_error_in_between_is_no_answer_and_takes_nothing_back() {
    let mut world = ready(initialised());
    answers(&mut world, &[(InternalIp, "10.0.0.9")]);
    changes_nothing(&mut world);
    let answer = world.answer.clone();
    world.answer = Err(ProviderError::Unavailable("502".to_owned()));
    later(&mut world, 5);
    changes_nothing(&mut world);
    world.answer = answer;
    later(&mut world, 5);
    world.reconcile();
    assert_eq!(internal_ips(&world), ["10.0.0.9"]);
}

#[test]
fn without_budget_an_internal_ip_stays_and_an_event_says_so() {
    let mut world = ready(initialised());
    answers(&mut world, &[(InternalIp, "10.0.0.9")]);
    changes_nothing(&mut world);
    later(&mut world, 10);
    world.budget = Err(world.now.after(Duration::from_secs(120)));
    let braked = changes_nothing(&mut world);
    assert_eq!(braked.events[0].0, "BrakeEngaged");
    assert!(matches!(braked.end, When::Retry { after, .. } if after == Duration::from_secs(120)));
    world.budget = Ok(());
    later(&mut world, 120);
    world.reconcile();
    assert_eq!(internal_ips(&world), ["10.0.0.9"]);
}

#[test]
fn a_change_that_is_refused_for_ever_leaves_the_budget_to_the_others() {
    let mut world = ready(initialised());
    answers(&mut world, &[(InternalIp, "10.0.0.9")]);
    world.reconcile();
    let mut taken = 0;
    for _ in 0..60 {
        later(&mut world, 10);
        world.errors = vec![ClusterError::Rejected("a webhook says no".to_owned())];
        let run = world.reconcile();
        let budgets = run.effects.iter().filter(|act| act.starts_with("take"));
        taken += budgets.count();
    }
    assert_eq!(taken, 2, "in ten minutes");
    world.errors.clear();
    later(&mut world, 300);
    world.reconcile();
    assert_eq!(internal_ips(&world), ["10.0.0.9"]);
    // Another change takes budget of its own.
    answers(&mut world, &[(InternalIp, "10.0.0.8")]);
    world.reconcile();
    later(&mut world, 10);
    let run = world.reconcile();
    assert_eq!(run.effects[1], "take budget internal-ip node/node0");
    assert_eq!(internal_ips(&world), ["10.0.0.8"]);
}

#[test]
fn a_brake_that_never_opens_is_asked_again_every_five_minutes() {
    let mut world = ready(initialised());
    world.rules.confirm_after = Duration::ZERO;
    world.budget = Err(Moment(Duration::MAX));
    answers(&mut world, &[(InternalIp, "10.0.0.9")]);
    let braked = changes_nothing(&mut world);
    assert!(matches!(braked.end, When::Retry { after, .. } if after == Duration::from_secs(300)));
}

/// The answer about a Ready node with 10.0.0.1, and whether it needs confirmation.
#[test]
fn what_counts_as_a_change_of_an_internal_ip() {
    let rows: [(&[(crate::cloud::instance::AddressType, &str)], bool); 6] = [
        (
            &[(InternalIp, "10.0.0.1"), (ExternalIp, "192.0.2.7")],
            false,
        ),
        (&[(InternalIp, "10.0.0.1"), (InternalIp, "fd00::1")], false),
        (&[(InternalIp, "fd00::1"), (InternalIp, "10.0.0.1")], true),
        (&[(InternalIp, "10.0.0.2")], true),
        (&[(ExternalIp, "192.0.2.1")], true),
        (
            &[(ExternalIp, "192.0.2.1"), (InternalIp, "10.0.0.1")],
            false,
        ),
    ];
    for (answered, is_change) in rows {
        for is_ready in [true, false] {
            let mut world = initialised();
            if is_ready {
                world = ready(world);
            }
            answers(&mut world, answered);
            let run = world.reconcile();
            let is_held = matches!(run.end, When::Retry { .. });
            assert_eq!(
                is_held,
                is_change && is_ready,
                "{answered:?}, ready: {is_ready}"
            );
        }
    }
}

/// A kubelet with `--node-ip` reports that IP as an InternalIP until the provider says which addresses are right.
#[test]
fn a_new_node_that_is_ready_already_is_initialised_by_the_first_answer() {
    let mut world = ready(world());
    world.stored["status"]["addresses"] = json!([{ "type": "InternalIP", "address": "10.0.0.8" }]);
    world.budget = Err(world.now.after(Duration::from_secs(120)));
    world.reconcile();
    assert_eq!(internal_ips(&world), ["10.0.0.1"]);
    assert_eq!(world.stored["spec"]["taints"], json!([]));
}

#[test]
fn a_node_that_is_tainted_again_needs_two_equal_answers_if_it_is_ready() {
    let mut world = ready(world());
    world.stored["metadata"]["labels"] = json!({ "wasm-ccm.dev/provider": "sim" });
    world.stored["status"]["addresses"] = json!([{ "type": "InternalIP", "address": "10.0.0.8" }]);
    changes_nothing(&mut world);
    later(&mut world, 10);
    world.reconcile();
    assert_eq!(internal_ips(&world), ["10.0.0.1"]);
    assert_eq!(world.stored["spec"]["taints"], json!([]));
}

#[test]
fn labels_follow_a_resize_and_a_move_when_that_is_asked_for_after_two_equal_answers() {
    let mut world = initialised();
    world.stored["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!("zone-z");
    world.stored["metadata"]["labels"]["node.kubernetes.io/instance-type"] = json!("tiny");
    changes_nothing(&mut world);
    world.rules.reconcile_labels = true;
    changes_nothing(&mut world);
    later(&mut world, 10);
    let run = world.reconcile();
    assert_eq!(run.effects[1], "take budget relabel node/node0");
    let labels = &world.stored["metadata"]["labels"];
    for (key, value) in [
        ("node.kubernetes.io/instance-type", "small"),
        ("beta.kubernetes.io/instance-type", "small"),
        ("topology.kubernetes.io/zone", "zone-a"),
        ("failure-domain.beta.kubernetes.io/zone", "zone-a"),
        ("topology.kubernetes.io/region", "region-a"),
    ] {
        assert_eq!(labels[key], value);
    }
    later(&mut world, 10);
    changes_nothing(&mut world);
    // Another move takes budget of its own.
    world.answer = found(Instance {
        zone: Some("zone-b".to_owned()),
        ..instance()
    });
    changes_nothing(&mut world);
    later(&mut world, 10);
    let run = world.reconcile();
    assert_eq!(run.effects[1], "take budget relabel node/node0");
}

#[test]
fn an_answer_that_is_recalled_confirms_nothing() {
    let mut world = initialised();
    world.rules.reconcile_labels = true;
    world.stored["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!("zone-z");
    changes_nothing(&mut world);
    world.recalled = Some(world.now);
    later(&mut world, 10);
    changes_nothing(&mut world);
    world.recalled = None;
    let run = world.reconcile();
    assert_eq!(run.effects[1], "take budget relabel node/node0");
}

#[test]
fn a_zone_that_is_another_one_every_time_and_a_move_of_all_nodes_change_no_label() {
    let mut world = initialised();
    world.rules.reconcile_labels = true;
    for round in 0..10 {
        world.answer = found(Instance {
            zone: Some(format!("zone-{round}")),
            ..instance()
        });
        changes_nothing(&mut world);
        later(&mut world, 60);
    }
    world.answer = found(instance());
    changes_nothing(&mut world);
    later(&mut world, 10);
    world.budget = Err(world.now.after(Duration::from_secs(60)));
    assert_eq!(changes_nothing(&mut world).events[0].0, "BrakeEngaged");
}

#[test]
fn the_two_brakes_have_budgets_of_their_own() {
    assert_ne!(Brake::InternalIp.as_str(), Brake::Relabel.as_str());
    let mut world = ready(initialised());
    world.rules.reconcile_labels = true;
    world.rules.confirm_after = Duration::ZERO;
    answers(&mut world, &[(InternalIp, "10.0.0.9")]);
    let run = world.reconcile();
    let taken: Vec<_> = run
        .effects
        .iter()
        .filter(|one| one.starts_with("take"))
        .collect();
    assert_eq!(
        taken,
        [
            "take budget internal-ip node/node0",
            "take budget relabel node/node0"
        ]
    );
}

#[test]
fn one_provider_id_for_two_nodes_holds_both_new_nodes() {
    for is_stored in [true, false] {
        let mut world = world();
        clashing(&mut world, duplicate(is_stored));
        let run = changes_nothing(&mut world);
        assert_eq!(run.events[0].0, "DuplicateProviderID");
        assert!(
            run.events[0]
                .1
                .contains("sim://42 is also that of node \"node9\"")
        );
        assert!(matches!(run.end, When::Retry { .. }));
    }
}

#[test]
fn a_node_that_has_the_provider_id_written_down_is_not_held_by_one_that_has_not() {
    let mut world = initialised();
    answers(&mut world, &[(InternalIp, "10.0.0.9")]);
    clashing(&mut world, duplicate(false));
    world.reconcile();
    assert_eq!(internal_ips(&world), ["10.0.0.9"]);
    answers(&mut world, &[(InternalIp, "10.0.0.7")]);
    clashing(&mut world, duplicate(true));
    let run = changes_nothing(&mut world);
    assert_eq!(run.events[0].0, "DuplicateProviderID");
}

#[test]
fn another_nodes_address_is_refused_unless_the_node_has_it_already() {
    let holder = |address: &str| Clashes {
        duplicate: None,
        addresses: vec![AddressClash {
            address: address.parse().unwrap(),
            name: "node9".to_owned(),
        }],
    };
    let mut world = world();
    clashing(&mut world, holder("10.0.0.1"));
    let run = changes_nothing(&mut world);
    assert_eq!(run.events[0].0, "InvalidProviderAnswer");
    assert!(
        run.events[0].1.contains("the node \"node9\" has it"),
        "{:?}",
        run.events
    );

    let mut world = initialised();
    clashing(&mut world, holder("10.0.0.1"));
    assert_eq!(changes_nothing(&mut world).events, []);
    let mut stored: Vec<Address> = addresses(&[(InternalIp, "10.0.0.1")]);
    stored.extend(addresses(&[(InternalIp, "10.0.0.2")]));
    world.answer = found(Instance {
        addresses: stored,
        ..instance()
    });
    clashing(&mut world, holder("10.0.0.2"));
    world.reconcile();
    assert_eq!(internal_ips(&world), ["10.0.0.1"]);
}
