//! A candidate whose answers are only compared.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ccm_core::cloud::{Address, AddressType, Instance, Lookup, ProviderError};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::safety::permit::{Access, CloudRequest, Permit, Refusal};
use ccm_fixtures::permits::change;
use ccm_host::egress::now;
use ccm_host::limits;

use super::scripted::{Play, found, node, permit};

/// Makes as many calls as one comparison needs, and waits for it.
async fn one_comparison(play: &Play) {
    for _ in 0..10 {
        // The script may answer with an error.
        let _ = play.find().await;
    }
    settle().await;
}

/// Lets all tasks that are ready run: this runtime has one thread.
pub(super) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn one_find_in_ten_is_asked_once_more_and_the_rest_is_the_old_ones() {
    let play = Play::new();
    play.shadow();
    for _ in 0..100 {
        play.find().await.unwrap();
        settle().await;
        play.active.find_fresh(&[node()], permit()).await.unwrap();
        play.ensure("uid", None).await.unwrap();
    }
    assert_eq!(play.new.asked(), ["find"; 10]);
    let tally = play.active.tally();
    assert_eq!((tally.compared, tally.candidate.calls), (10, 10));
    assert_eq!(tally.serving.calls, 300);
    assert!(tally.differences.is_empty() && tally.fatal.is_none());
}

#[tokio::test]
async fn nobody_waits_for_a_candidate_and_one_question_is_open_at_a_time() {
    let play = Play::new();
    play.new.close();
    play.shadow();
    for _ in 0..100 {
        play.find().await.unwrap();
        settle().await;
    }
    assert_eq!(play.new.asked(), ["find"]);
    // The end of the trial ends the comparison.
    play.ends_trial();
    settle().await;
    assert_eq!(Arc::strong_count(&play.new), 1);
}

#[tokio::test]
async fn while_the_cloud_wants_to_be_left_alone_nothing_is_compared() {
    let play = Play::new();
    *play.new.held.lock().unwrap() = Some(Duration::from_secs(1));
    play.shadow();
    one_comparison(&play).await;
    play.active.read_each_capability(&permit()).await;
    assert_eq!(play.new.asked().len(), 0);
}

pub(super) fn may(permit: &Permit, access: Access) -> Result<(), Refusal> {
    let request = CloudRequest {
        access,
        ..change("POST", "/servers")
    };
    permit.ask(now(), &request)
}

#[tokio::test]
async fn a_candidate_in_shadow_may_read_and_nothing_else() {
    let play = Play::new();
    let begins = now().after(limits::CALL_CEILING);
    play.new.answers(Ok(found("sim://2")));
    play.shadow();
    one_comparison(&play).await;
    play.active.read_each_capability(&permit()).await;
    let permits = play.new.permits.lock().unwrap().clone();
    assert_eq!(
        permits.len(),
        6,
        "find, again, then one for each capability"
    );
    for permit in permits {
        assert_eq!(may(&permit, Access::Read), Ok(()));
        assert_eq!(may(&permit, Access::Write), Err(Refusal::Budget(0)));
        // All of its time, also after a wait.
        assert!(begins.until(permit.call_ends()) >= limits::CALL_CEILING);
    }
}

/// Answers of both, and the reported difference.
#[tokio::test]
async fn answers_are_compared_where_they_would_be_written_down() {
    let full = || Instance {
        provider_id: "sim://1".to_owned(),
        instance_type: Some("small".to_owned()),
        zone: Some("z".to_owned()),
        region: Some("r".to_owned()),
        addresses: vec![address("2001:db8::1")],
        labels: vec![label("a", "b")],
        shutdown: Some(false),
    };
    let of = |instance| Lookup::Found(Box::new(instance));
    let rows = [
        (of(full()), of(full()), None),
        (
            of(full()),
            of(Instance {
                addresses: vec![address("2001:db8:0::1")],
                ..full()
            }),
            None,
        ),
        (
            of(full()),
            of(Instance {
                zone: None,
                ..full()
            }),
            Some("zone z, and none by the candidate"),
        ),
        (
            of(full()),
            of(Instance {
                region: Some("x\u{1b}[31m".to_owned()),
                ..full()
            }),
            Some("region r, and x\\u{1b}[31m by the candidate"),
        ),
        (
            of(full()),
            of(Instance {
                instance_type: Some("big".to_owned()),
                ..full()
            }),
            Some("instance type small, and big by the candidate"),
        ),
        (
            of(full()),
            of(Instance {
                addresses: Vec::new(),
                ..full()
            }),
            Some("addresses InternalIP 2001:db8::1, and  by the candidate"),
        ),
        (
            of(full()),
            of(Instance {
                labels: Vec::new(),
                ..full()
            }),
            Some("label a b, and none by the candidate"),
        ),
        (
            of(full()),
            of(Instance {
                labels: vec![label("new", "1"), label("a", "c")],
                ..full()
            }),
            Some("label a b, and c by the candidate"),
        ),
        // A new version may add labels.
        (
            of(full()),
            of(Instance {
                labels: vec![label("new", "1"), label("a", "b")],
                ..full()
            }),
            None,
        ),
        (
            of(full()),
            of(Instance {
                shutdown: Some(true),
                ..full()
            }),
            Some("state running, and switched off by the candidate"),
        ),
        (
            of(full()),
            of(Instance {
                shutdown: None,
                ..full()
            }),
            None,
        ),
        (
            of(full()),
            found("sim://2"),
            Some("provider ID sim://1, and sim://2 by the candidate"),
        ),
        (
            of(full()),
            Lookup::Gone,
            Some("lookup found, and gone by the candidate"),
        ),
        (Lookup::Gone, Lookup::Gone, None),
        (
            Lookup::NotMine,
            Lookup::Gone,
            Some("lookup not mine, and gone by the candidate"),
        ),
        (
            Lookup::Gone,
            Lookup::Unknown("why".to_owned()),
            Some("lookup gone, and unknown by the candidate"),
        ),
        (Lookup::Unknown("why".to_owned()), Lookup::Gone, None),
    ];
    for (ours, theirs, told) in rows {
        let play = Play::new();
        play.old.answers(Ok(ours));
        play.new.answers(Ok(theirs));
        play.shadow();
        one_comparison(&play).await;
        let tally = play.active.tally();
        assert_eq!(tally.compared, 1, "{told:?}");
        let told: Vec<_> = told
            .iter()
            .map(|told| format!("node worker-1: {told}"))
            .collect();
        assert_eq!(tally.differences, told);
    }
}

fn label(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

fn address(address: &str) -> Address {
    Address {
        address_type: AddressType::InternalIp,
        address: address.to_owned(),
    }
}

#[tokio::test]
async fn a_difference_that_is_gone_at_the_second_look_is_none() {
    let play = Play::new();
    play.old.answers(Ok(found("sim://1")));
    play.new.answers(Ok(Lookup::Gone));
    *play.old.fresh.lock().unwrap() = Some(Lookup::Gone);
    play.shadow();
    one_comparison(&play).await;
    let tally = play.active.tally();
    assert_eq!((tally.compared, tally.differences.len()), (1, 0));
    assert_eq!(play.new.asked(), ["find", "find_fresh"]);
    // Both additional calls count: thirty calls pass before the next comparison.
    for _ in 0..2 {
        one_comparison(&play).await;
        assert_eq!(play.new.asked().len(), 2);
    }
    one_comparison(&play).await;
    assert_eq!(play.new.asked().len(), 4);
}

#[tokio::test]
async fn errors_are_counted_and_compared_with_nothing() {
    let play = Play::new();
    play.old
        .answers(Err(ProviderError::Unavailable("down".to_owned())));
    play.new
        .answers(Err(ProviderError::Trapped("unreachable".to_owned())));
    play.shadow();
    one_comparison(&play).await;
    let tally = play.active.tally();
    assert_eq!(tally.compared, 0);
    assert_eq!(tally.serving.errors["unavailable"], 10);
    assert_eq!(tally.candidate.errors["trapped"], 1);
    assert_eq!(
        tally.fatal.as_deref(),
        Some("instances.find: trapped: unreachable")
    );
}

#[tokio::test]
async fn without_traffic_both_are_asked_about_what_was_seen_last_or_about_nobody() {
    let play = Play::new();
    play.shadow();
    play.active.read_each_capability(&permit()).await;
    assert_eq!(play.old.asked(), ["find", "get", "list"]);
    assert_eq!(play.new.asked(), ["find", "get", "list"]);
    assert_eq!(play.active.tally().compared, 3);
    play.find().await.unwrap();
    play.ensure("uid", None).await.unwrap();
    play.active.read_each_capability(&permit()).await;
    let tally = play.active.tally();
    assert_eq!((tally.compared, tally.differences.len()), (6, 0));
    play.old.has_balancer.store(true, Ordering::Relaxed);
    play.active.read_each_capability(&permit()).await;
    let told = play.active.tally().differences;
    let [told] = told.as_slice() else {
        panic!("{told:?}")
    };
    assert!(
        told.starts_with("load balancer of default/web: present")
            && told.ends_with(", and absent by the candidate"),
        "{told}"
    );
}
