//! A candidate that answers a part of the calls.

use std::sync::Arc;
use std::time::Duration;

use super::scripted::{
    Play, Scripted, found, generation, node, permit, permit_of_the_past, service,
};
use super::shadow::may;
use crate::active::Active;
use ccm_core::cloud::load_balancer::{DeleteRequest, UpdateRequest};
use ccm_core::cloud::{Lookup, ProviderError};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::rollout::{Cause, Counts, TrialTally, WorkResult};
use ccm_core::safety::permit::{Access, Refusal};
use futures::FutureExt as _;

impl Play {
    /// The UID of a Service whose calls go to the candidate.
    fn candidates_service(&self) -> String {
        let roles = self.active.roles.load();
        let trial = roles.trial.as_ref().unwrap();
        let mut uids = (0..20).map(|number| number.to_string());
        uids.find(|uid| trial.takes_service(uid)).unwrap()
    }
}

fn trapped() -> ProviderError {
    ProviderError::Trapped("unreachable".to_owned())
}

#[tokio::test]
async fn every_second_find_is_the_candidates_and_nothing_that_gives_up() {
    let play = Play::new();
    play.canary();
    for _ in 0..10 {
        play.find().await.unwrap();
        play.active.find_fresh(&[node()], permit()).await.unwrap();
        play.active
            .get_load_balancer(&service("uid"), permit())
            .await
            .unwrap();
    }
    assert_eq!((play.old.times("find"), play.new.times("find")), (5, 5));
    assert_eq!(
        (play.old.times("find_fresh"), play.old.times("get")),
        (10, 10)
    );
    assert_eq!(play.new.asked().len(), 5);
    let tally = play.active.tally();
    assert_eq!((tally.serving.calls, tally.candidate.calls), (25, 5));
    assert!(tally.candidate.errors.is_empty());
}

#[tokio::test]
async fn half_of_the_services_are_the_candidates_and_always_the_same_half() {
    let play = Play::new();
    play.canary();
    let uids: Vec<String> = (0..200)
        .map(|number| format!("0b9f{number:04x}-8d1e-4c6a-9a53-6f1b2c3d4e5f"))
        .collect();
    let mut candidates = 0;
    for uid in &uids {
        let before = play.new.asked().len();
        for _ in 0..3 {
            play.ensure(uid, None).await.unwrap();
        }
        let taken = play.new.asked().len() - before;
        assert!(taken == 0 || taken == 3, "{uid}: {taken}");
        candidates += taken / 3;
    }
    assert!((60..140).contains(&candidates), "{candidates}");
}

/// Answers of a candidate's `find`, the number of calls to the serving provider about them, and the error counted as
/// fatal.
#[tokio::test]
async fn what_a_candidate_cannot_answer_the_other_one_does() {
    let text = || "why".to_owned();
    let throttled = ProviderError::Throttled {
        message: text(),
        retry_after: None,
    };
    let rows = [
        (Ok(found("sim://1")), 0, None),
        (Ok(Lookup::Gone), 0, None),
        (
            Err(trapped()),
            1,
            Some("instances.find: trapped: unreachable"),
        ),
        (
            Err(ProviderError::TimedOut(text())),
            1,
            Some("instances.find: timed out: why"),
        ),
        (
            Err(ProviderError::Internal(text())),
            1,
            Some("instances.find: internal error of the provider: why"),
        ),
        (Err(ProviderError::Unavailable(text())), 1, None),
        (Err(ProviderError::Denied(text())), 1, None),
        (Err(throttled), 0, None),
        (
            Ok(found("sim://2")),
            1,
            Some("instances.find answers what cannot be: node worker-1: the provider ID sim://2"),
        ),
        (
            Ok(found("other://1")),
            1,
            Some("instances.find answers what cannot be: node worker-1: the provider ID other://1"),
        ),
        (Ok(found("")), 0, None),
    ];
    for (answer, repeats, fatal) in rows {
        let play = Play::new();
        play.new.answers(answer.clone());
        play.canary();
        play.find().await.unwrap();
        let second = play.find().await;
        assert_eq!(play.old.times("find"), 1 + repeats, "{answer:?}");
        assert_eq!(play.new.times("find"), 1, "{answer:?}");
        if repeats == 1 {
            assert_eq!(second.unwrap().lookups, [found("sim://1")], "{answer:?}");
        }
        let tally = play.active.tally();
        assert_eq!(tally.fatal.as_deref(), fatal, "{answer:?}");
        let errors = u32::from(answer.is_err());
        assert_eq!(
            tally.candidate.errors.values().sum::<u32>(),
            errors,
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn what_both_cannot_do_is_no_reason_to_take_a_candidate_back() {
    for (error, counted) in [
        // A time-out of the second call proves nothing: it had only the time left by the first.
        (ProviderError::TimedOut("the cloud is silent".to_owned()), 1),
        (ProviderError::Internal("the same".to_owned()), 2),
    ] {
        let play = Play::new();
        play.old.answers(Err(error.clone()));
        play.new.answers(Err(error.clone()));
        play.canary();
        for _ in 0..2 {
            assert_eq!(play.find().await, Err(error.clone()));
        }
        let tally = play.active.tally();
        assert_eq!(tally.fatal, None, "{error}");
        assert_eq!(tally.candidate.errors[error.reason()], 1);
        assert_eq!(tally.serving.errors[error.reason()], counted);
    }
    for second in [ProviderError::TimedOut, ProviderError::NotBegun] {
        let play = Play::new();
        let late = ProviderError::TimedOut("late".to_owned());
        play.new.answers(Err(late.clone()));
        play.canary();
        play.find().await.unwrap();
        play.old.answers(Err(second("no time left".to_owned())));
        assert_eq!(play.find().await, Err(late));
        assert!(
            play.active.tally().fatal.is_some(),
            "it took the other one's time"
        );
    }
    // Both providers answer with an ID that contradicts the stored one.
    let play = Play::new();
    for provider in [&play.old, &play.new] {
        provider.answers(Ok(found("sim://2")));
    }
    play.canary();
    for _ in 0..2 {
        assert_eq!(play.find().await.unwrap().lookups, [found("sim://2")]);
    }
    assert_eq!(play.active.tally().fatal, None);
}

#[tokio::test]
async fn a_change_that_fails_is_not_made_by_the_other_one() {
    let play = Play::new();
    *play.new.balance.lock().unwrap() = Err(trapped());
    play.canary();
    let mut failed = 0;
    for number in 0..20 {
        failed += usize::from(play.ensure(&number.to_string(), None).await.is_err());
    }
    assert_eq!(play.new.times("ensure"), failed);
    assert_eq!(play.old.times("ensure"), 20 - failed);
    let fatal = play.active.tally().fatal;
    assert_eq!(
        fatal.as_deref(),
        Some("load-balancer.ensure: trapped: unreachable")
    );
}

/// A process that the kernel or a person ended says nothing about the module in it, nor does one that was not called.
#[tokio::test]
async fn an_interrupted_call_and_one_that_never_began_are_not_held_against_the_candidate() {
    for error in [ProviderError::Interrupted, ProviderError::NotBegun] {
        let error = error("why".to_owned());
        let play = Play::new();
        play.new.answers(Err(error.clone()));
        *play.new.balance.lock().unwrap() = Err(error);
        play.canary();
        for number in 0..20 {
            assert_eq!(play.find().await.unwrap().lookups, [found("sim://1")]);
            let _ = play.ensure(&number.to_string(), None).await;
        }
        let tally = play.active.tally();
        assert_eq!(tally.fatal, None);
        assert_eq!(tally.candidate, Counts::default());
        assert!(tally.interrupted > 0);
    }
}

/// A Service whose owner made a mistake fails with every version, and all calls about it go to one of them.
#[tokio::test]
async fn a_change_that_fails_with_both_is_not_held_against_the_candidate() {
    let text = || "annotation X: no such location".to_owned();
    let errors = [
        ProviderError::Invalid(text()),
        ProviderError::Denied(text()),
        ProviderError::Internal(text()),
    ];
    for error in errors {
        for fails_with_both in [true, false] {
            let play = Play::new();
            *play.new.balance.lock().unwrap() = Err(error.clone());
            if fails_with_both {
                *play.old.balance.lock().unwrap() = Err(error.clone());
            }
            play.canary();
            let uid = play.candidates_service();
            assert_eq!(play.ensure(&uid, None).await, Err(error.clone()));
            let update = UpdateRequest {
                service: service(&uid),
                targets: Arc::new([]),
                hint: None,
            };
            let updated = play.active.update_targets(&update, permit()).await;
            assert_eq!(updated, Err(error.clone()));
            let delete = DeleteRequest {
                service: service(&uid),
                hint: None,
            };
            let deleted = play.active.delete_load_balancer(&delete, permit()).await;
            assert_eq!(deleted, Err(error.clone()));
            let tally = play.active.tally();
            let of = |counts: &Counts| counts.errors.get(error.reason()).copied();
            assert_eq!(of(&tally.candidate), Some(3), "{error}");
            assert_eq!(of(&tally.serving), fails_with_both.then_some(3), "{error}");
            assert_eq!((tally.candidate.calls, tally.serving.calls), (3, 3));
            let is_fatal = !fails_with_both && matches!(error, ProviderError::Internal(_));
            assert_eq!(tally.fatal.is_some(), is_fatal, "{error}");
            // The version that serves is asked what it would do, and does nothing.
            assert_eq!(play.old.asked(), ["ensure", "update", "delete"]);
            for permit in play.old.permits.lock().unwrap().iter() {
                assert_eq!(may(permit, Access::Write), Err(Refusal::Mode("plan")));
            }
        }
    }
}

#[tokio::test]
async fn a_change_that_the_one_that_serves_would_begin_is_an_error_of_the_candidate_alone() {
    let play = Play::new();
    let denied = ProviderError::Denied("no such right".to_owned());
    *play.new.balance.lock().unwrap() = Err(denied.clone());
    play.canary();
    let uid = play.candidates_service();
    play.old
        .wants
        .lock()
        .unwrap()
        .insert(uid.clone(), vec![true]);
    assert_eq!(play.ensure(&uid, None).await, Err(denied));
    let tally = play.active.tally();
    assert_eq!((tally.serving.calls, tally.serving.errors.len()), (1, 0));
    assert_eq!(tally.candidate.errors["denied"], 1);
}

#[tokio::test]
async fn who_is_no_leader_any_more_learns_nothing() {
    let play = Play::new();
    play.new
        .answers(Err(ProviderError::TimedOut("revoked".to_owned())));
    play.canary();
    for _ in 0..2 {
        let _ = play.active.find(&[node()], permit_of_the_past()).await;
    }
    assert_eq!(play.active.tally().fatal, None);
    assert_eq!(play.active.tally().candidate.calls, 0);
}

#[tokio::test]
async fn a_cloud_that_wants_to_be_left_alone_is_not_held_against_anybody() {
    let play = Play::new();
    play.new.answers(Err(ProviderError::Throttled {
        message: "wait".to_owned(),
        retry_after: None,
    }));
    *play.new.held.lock().unwrap() = Some(Duration::from_secs(9));
    play.canary();
    for _ in 0..2 {
        let _ = play.find().await;
    }
    let tally = play.active.tally();
    assert_eq!(tally.candidate.calls, 0);
    // Without a rate-limit hold it counts as an error like others.
    *play.new.held.lock().unwrap() = None;
    for _ in 0..2 {
        let _ = play.find().await;
    }
    assert_eq!(play.active.tally().candidate.errors["throttled"], 1);
}

/// Without a trial a version of another shape is judged by one read for each capability.
#[tokio::test]
async fn a_version_whose_reads_were_not_all_answered_has_not_passed() {
    let throttled = ProviderError::Throttled {
        message: "wait".to_owned(),
        retry_after: None,
    };
    let revoked = ProviderError::Denied("revoked".to_owned());
    let held = Some(Duration::from_secs(9));
    for (what, answer, is_held, permit, answered) in [
        ("all well", Ok(found("sim://1")), None, permit(), Ok(())),
        (
            "the cloud wants to be left alone",
            Err(throttled),
            held,
            permit(),
            Err("0 of 3"),
        ),
        (
            "the leadership has ended",
            Err(revoked),
            None,
            permit_of_the_past(),
            Err("2 of 3"),
        ),
    ] {
        let new = Arc::new(Scripted::new("new"));
        new.answers(answer);
        *new.held.lock().unwrap() = is_held;
        let alone = Active::alone("entry", generation(&new));
        alone.read_each_capability(&permit).await;
        let end = WorkResult::of_reads(&alone.tally(), alone.capabilities());
        match answered {
            Ok(()) => assert_eq!(end, WorkResult::Passed, "{what}"),
            Err(answered) => assert!(
                matches!(&end, WorkResult::Failed(Cause::Circumstances, lines) if lines[0].contains(answered)),
                "{what}: {end:?}"
            ),
        }
    }
}

#[tokio::test]
async fn the_end_of_a_trial_takes_every_further_call_away_at_once() {
    let play = Play::new();
    play.new.close();
    play.canary();
    play.find().await.unwrap();
    let mut under_way = Box::pin(play.find());
    assert!((&mut under_way).now_or_never().is_none());
    play.ends_trial();
    assert!(play.active.trial().is_none());
    for number in 0..20 {
        play.find().await.unwrap();
        play.ensure(&number.to_string(), None).await.unwrap();
    }
    assert_eq!(play.new.asked(), ["find"]);
    assert_eq!(play.active.tally(), TrialTally::default());

    // A call under way ends on the candidate; if the candidate fails, the serving provider answers.
    play.new.answers(Err(trapped()));
    play.new.gate.add_permits(1);
    assert_eq!(under_way.await.unwrap().lookups, [found("sim://1")]);
    play.canary();
    assert_eq!(play.active.tally(), TrialTally::default(), "another trial");
}

#[tokio::test]
async fn a_trial_wakes_its_listener_and_begins_with_an_empty_tally() {
    let play = Play::new();
    play.canary();
    assert!(play.active.tally_changed().now_or_never().is_none());
    play.find().await.unwrap();
    play.active.tally_changed().await;
    assert!(
        play.active.tally_changed().now_or_never().is_none(),
        "told once"
    );
    play.canary();
    assert_eq!(play.active.tally(), TrialTally::default());
    play.swaps();
    play.find().await.unwrap();
    assert!(
        play.active.tally_changed().now_or_never().is_none(),
        "no trial"
    );
}

#[tokio::test]
async fn without_traffic_a_candidate_is_asked_once_for_each_capability() {
    let play = Play::new();
    play.active.read_each_capability(&permit()).await;
    assert_eq!(play.old.asked().len(), 0, "no trial, no reads");
    play.canary();
    play.active.read_each_capability(&permit()).await;
    assert_eq!(play.new.asked(), ["find", "get", "list"]);
    assert_eq!(play.old.asked().len(), 0);
    assert_eq!(play.active.tally().candidate.calls, 3);
    play.new.answers(Err(trapped()));
    play.active.read_each_capability(&permit()).await;
    assert_eq!(
        play.active.tally().fatal.as_deref(),
        Some("instances.find: trapped: unreachable")
    );
    assert_eq!(play.old.asked(), ["find"], "whose fault is it");
}
