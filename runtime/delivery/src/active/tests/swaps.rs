//! Replacing one generation by another.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ccm_core::cloud::load_balancer::{DeleteRequest, Progress, UpdateRequest};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::rollout::TrialKind;
use futures::FutureExt as _;

use super::scripted::{Play, Scripted, found, generation, node, permit, service};
use crate::active::Active;

#[tokio::test]
async fn a_call_ends_where_it_began_and_the_next_one_goes_to_the_new_generation() {
    let play = Play::new();
    play.new.answers(Ok(found("sim://2")));
    play.old.close();
    let mut under_way = Box::pin(play.find());
    assert!((&mut under_way).now_or_never().is_none());

    assert_eq!(play.active.digest(), "digest-of-old");
    play.swaps();
    assert_eq!(play.active.digest(), "digest-of-new");
    assert_eq!(play.find().await.unwrap().lookups, [found("sim://2")]);
    play.old.gate.add_permits(1);
    assert_eq!(under_way.await.unwrap().lookups, [found("sim://1")]);
    assert_eq!((play.old.asked().len(), play.new.asked().len()), (1, 1));
}

#[tokio::test]
async fn a_generation_goes_with_its_last_call() {
    let old = Arc::new(Scripted::new("old"));
    let gone = Arc::downgrade(&old);
    let active = Active::new("entry", generation(&old));
    old.close();
    let nodes = [node()];
    let mut under_way = active.find(&nodes, permit());
    assert!((&mut under_way).now_or_never().is_none());
    old.gate.add_permits(1);
    drop(old);

    active.set_roles(generation(&Arc::new(Scripted::new("new"))), None);
    assert!(gone.upgrade().is_some(), "a call needs it");
    under_way.await.unwrap();
    assert!(gone.upgrade().is_none());
}

#[tokio::test]
async fn a_version_learns_that_it_serves_when_it_does_and_not_while_it_is_tried() {
    let play = Play::new();
    let told = |provider: &Scripted| provider.serves.load(Ordering::Relaxed);
    assert!(told(&play.old), "the first one");
    let candidate = generation(&play.new);
    for kind in [TrialKind::Shadow, TrialKind::Canary] {
        let trial = Some((kind, candidate.clone()));
        play.active.set_roles(play.active.serving(), trial);
    }
    play.ends_trial();
    Active::alone("entry", candidate.clone());
    assert!(!told(&play.new));
    play.active.set_roles(candidate, None);
    assert!(told(&play.new));
}

/// Otherwise it would believe of load balancers what was so before the other one changed them.
#[test]
fn who_answers_in_the_place_of_another_has_forgotten_what_was_before() {
    let play = Play::new();
    let forgot = || [&play.old, &play.new].map(|provider| provider.forgets.load(Ordering::Relaxed));
    play.shadow();
    assert_eq!(forgot(), [0, 0], "a shadow changes nothing");
    play.canary();
    assert_eq!(forgot(), [0, 1]);
    play.ends_trial();
    assert_eq!(forgot(), [1, 1]);
    play.swaps();
    assert_eq!(forgot(), [1, 2]);
}

#[tokio::test]
async fn who_answers_forgets_again_when_a_change_ends_that_another_one_began() {
    let play = Play::new();
    let forgot = || [&play.old, &play.new].map(|provider| provider.forgets.load(Ordering::Relaxed));
    play.canary();
    play.new.close();
    let uids: Vec<String> = (0..99).map(|number| number.to_string()).collect();
    let mut calls = uids.iter().map(|uid| Box::pin(play.ensure(uid, None)));
    let of_candidate = calls
        .find_map(|mut call| (&mut call).now_or_never().is_none().then_some(call))
        .unwrap();
    play.ends_trial();
    assert_eq!(forgot(), [1, 1]);
    play.new.gate.add_permits(1);
    of_candidate.await.unwrap();
    assert_eq!(forgot(), [2, 1]);
    play.ensure("uid", None).await.unwrap();
    assert_eq!(forgot(), [2, 1], "it has made this change itself");

    // It may also be dropped before its end, and the cloud goes on.
    play.old.close();
    let mut of_old = Box::pin(play.ensure("uid", None));
    assert!((&mut of_old).now_or_never().is_none());
    play.swaps();
    assert_eq!(forgot(), [2, 2]);
    drop(of_old);
    assert_eq!(forgot(), [2, 3]);
}

#[tokio::test]
async fn hints_come_back_whole_and_never_to_another_generation() {
    let play = Play::new();
    let hint = play.ensure("uid", None).await.unwrap();
    let hint = play.ensure("uid", hint).await.unwrap();
    play.swaps();
    let crossed = play.ensure("uid", hint).await.unwrap();
    // The same holds when the same module is loaded once more.
    play.swaps();
    play.ensure("uid", crossed).await.unwrap();

    let hints = |provider: &Scripted| provider.hints.lock().unwrap().clone();
    assert_eq!(hints(&play.old), [None, Some(b"old"[..].into())]);
    assert_eq!(hints(&play.new), [None, None]);
}

#[tokio::test]
async fn the_other_calls_carry_hints_in_the_same_way() {
    let play = Play::new();
    let (service, targets) = (service("uid"), Arc::new([]));
    let mut update = UpdateRequest {
        service: service.clone(),
        targets,
        hint: None,
    };
    let mut delete = DeleteRequest {
        service,
        hint: None,
    };
    let hint = |progress: Progress| match progress {
        Progress::Pending(pending) => pending.hint,
        Progress::Done => None,
    };
    for _ in 0..2 {
        let reply = play.active.update_targets(&update, permit()).await.unwrap();
        update.hint = hint(reply.progress);
        let reply = play
            .active
            .delete_load_balancer(&delete, permit())
            .await
            .unwrap();
        delete.hint = hint(reply.progress);
    }
    play.swaps();
    play.active.update_targets(&update, permit()).await.unwrap();
    play.active
        .delete_load_balancer(&delete, permit())
        .await
        .unwrap();

    let old = Some(b"old"[..].into());
    assert_eq!(
        *play.old.hints.lock().unwrap(),
        [None, None, old.clone(), old]
    );
    assert_eq!(*play.new.hints.lock().unwrap(), [None, None]);
}

#[test]
fn only_a_generation_of_the_same_shape_fits() {
    let play = Play::new();
    assert!(play.active.fits(&generation(&play.new)));
    type Change = fn(&mut Scripted);
    let changes: [(&str, Change); 3] = [
        ("schemes", |other| other.schemes = vec!["else".to_owned()]),
        ("capabilities", |other| other.capabilities.routes = false),
        ("annotation prefixes", |other| {
            other.annotation_prefixes = vec!["else.example/".to_owned()];
        }),
    ];
    for (what, change) in changes {
        let mut other = Scripted::new("other");
        change(&mut other);
        assert!(!play.active.fits(&generation(&Arc::new(other))), "{what}");
    }
}

#[test]
fn it_has_the_name_of_its_entry() {
    assert_eq!(Play::new().active.name(), "entry");
}
