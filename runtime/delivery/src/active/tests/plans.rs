//! Changes that a candidate plans, asked in plan mode.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::ProviderError;
use ccm_core::cloud::load_balancer::{DeleteRequest, TargetNodes, UpdateRequest};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::rollout::Plans;
use ccm_core::safety::permit::{Access, Refusal};
use ccm_core::safety::tenure::Tenure;
use ccm_fixtures::objects::cloud_node;
use ccm_host::egress::now;
use ccm_host::limits;
use futures::FutureExt as _;

use super::scripted::{Play, generation, permit, service};
use super::shadow::may;
use crate::active::plan::Settled;

impl Play {
    /// Reports so many load balancers as matching their Services, by calls to the serving version.
    async fn settled(&self, services: usize) {
        for number in 0..services {
            self.wish(number, &[false], &[false]);
            self.ensure(&uid(number), None).await.unwrap();
        }
    }

    /// Sets what both providers want to change for this Service, call by call.
    fn wish(&self, number: usize, old: &[bool], new: &[bool]) {
        for (provider, wishes) in [(&self.old, old), (&self.new, new)] {
            let mut wants = provider.wants.lock().unwrap();
            wants.insert(uid(number), wishes.to_vec());
        }
    }

    async fn plans(&self) -> Result<Plans, ProviderError> {
        let tenure = Arc::new(Tenure::unlimited());
        self.active.plans(&generation(&self.new), &tenure).await
    }

    /// Number of `ensure` calls to both providers.
    fn asked(&self) -> (usize, usize) {
        (self.old.times("ensure"), self.new.times("ensure"))
    }
}

fn uid(number: usize) -> String {
    format!("uid-{number}")
}

fn plans(asked: u32, serving: u32, candidate: u32) -> Plans {
    Plans {
        asked,
        serving,
        candidate,
    }
}

#[tokio::test]
async fn g7_a_candidate_that_would_change_all_is_heard_and_changes_nothing() {
    let play = Play::new();
    play.settled(6).await;
    for number in 0..6 {
        play.wish(number, &[false], &[true]);
    }
    let begins = now().after(limits::CALL_CEILING);
    assert_eq!(play.plans().await, Ok(plans(6, 0, 6)));
    assert_eq!(play.asked(), (6 + 6, 12), "both once more, and it again");
    let permits = play.new.permits.lock().unwrap().clone();
    for permit in permits {
        assert_eq!(may(&permit, Access::Read), Ok(()));
        let refusal = may(&permit, Access::Write);
        assert_eq!(refusal, Err(Refusal::Mode("plan")));
        assert_eq!(permit.mutations_made(), 0);
        // All of its time, also after a wait.
        assert!(begins.until(permit.call_ends()) >= limits::CALL_CEILING);
    }
}

#[tokio::test]
async fn a_candidate_that_agrees_costs_one_call_of_its_own_for_each_of_the_latest_twelve() {
    let play = Play::new();
    play.settled(30).await;
    assert_eq!(play.plans().await, Ok(plans(12, 0, 0)));
    assert_eq!(play.asked(), (30, 12));
}

/// Changes that both want, call by call, and the counted plans.
#[tokio::test]
async fn what_both_want_and_what_passes_is_not_the_candidates_alone() {
    for (old, new, expected) in [
        (&[true][..], &[true][..], plans(1, 1, 1)),
        (&[true], &[false], plans(1, 0, 0)),
        (&[false], &[true, false], plans(1, 0, 0)),
        (&[false], &[true], plans(1, 0, 1)),
    ] {
        let play = Play::new();
        play.settled(1).await;
        play.wish(0, old, new);
        assert_eq!(play.plans().await, Ok(expected), "{old:?} {new:?}");
    }
}

#[tokio::test]
async fn nothing_is_asked_about_what_is_under_way_or_gone() {
    let play = Play::new();
    play.settled(4).await;
    // The first load balancer is pending, the second is being deleted, and the nodes of the third were changed.
    play.old.wants.lock().unwrap().remove(&uid(0));
    play.ensure(&uid(0), None).await.unwrap();
    let delete = DeleteRequest {
        service: service(&uid(1)),
        hint: None,
    };
    play.active
        .delete_load_balancer(&delete, permit())
        .await
        .unwrap();
    let update = UpdateRequest {
        service: service(&uid(2)),
        targets: Arc::new([]),
        hint: None,
    };
    play.active.update_targets(&update, permit()).await.unwrap();
    assert_eq!(play.plans().await, Ok(plans(1, 0, 0)));
}

#[tokio::test]
async fn what_changes_while_it_is_asked_about_does_not_count() {
    let play = Play::new();
    play.settled(1).await;
    play.wish(0, &[false], &[true]);
    play.old.close();
    let mut asking = Box::pin(play.plans());
    assert!(
        (&mut asking).now_or_never().is_none(),
        "the other one is asked"
    );
    let delete = DeleteRequest {
        service: service(&uid(0)),
        hint: None,
    };
    let mut deleting = Box::pin(play.active.delete_load_balancer(&delete, permit()));
    assert!((&mut deleting).now_or_never().is_none());
    play.old.gate.add_permits(2);
    deleting.await.unwrap();
    assert_eq!(asking.await, Ok(plans(0, 0, 0)));
}

#[tokio::test]
async fn a_candidate_that_fails_alone_is_told_from_a_cloud_that_fails_both() {
    let trapped = ProviderError::Trapped("unreachable".to_owned());
    let invalid = ProviderError::Invalid("no such type".to_owned());
    let interrupted = ProviderError::Interrupted("signal 9".to_owned());
    let unbegun = ProviderError::NotBegun("no turn".to_owned());
    let unavailable = ProviderError::Unavailable("down".to_owned());
    for (old, new, expected) in [
        (None, &trapped, Err(trapped.clone())),
        (None, &invalid, Err(invalid.clone())),
        (None, &interrupted, Err(interrupted.clone())),
        (None, &unbegun, Err(unbegun.clone())),
        (Some(&unavailable), &unavailable, Ok(plans(0, 0, 0))),
    ] {
        let play = Play::new();
        play.settled(3).await;
        if let Some(old) = old {
            *play.old.balance.lock().unwrap() = Err(old.clone());
        }
        *play.new.balance.lock().unwrap() = Err(new.clone());
        assert_eq!(play.plans().await, expected, "{new}");
    }
}

#[tokio::test]
async fn while_the_cloud_wants_to_be_left_alone_or_without_the_lead_nothing_is_planned() {
    let play = Play::new();
    play.settled(3).await;
    *play.new.held.lock().unwrap() = Some(Duration::from_secs(1));
    let end = play.plans().await;
    assert!(
        matches!(end, Err(ProviderError::Throttled { .. })),
        "{end:?}"
    );
    assert_eq!(play.new.asked().len(), 0);
    *play.new.held.lock().unwrap() = None;
    let tenure = Arc::new(Tenure::unlimited());
    tenure.end();
    for number in 0..3 {
        play.wish(number, &[true], &[true]);
    }
    let end = play.active.plans(&generation(&play.new), &tenure).await;
    assert!(matches!(end, Err(ProviderError::Unavailable(_))), "{end:?}");
}

/// Each list is as long as the cluster has nodes; but providers read labels, and both versions would want a change.
#[test]
fn load_balancers_share_a_list_of_nodes_only_with_its_labels() {
    let list = |label: &str| -> TargetNodes {
        let mut node = cloud_node("a");
        node.labels = vec![("pool".to_owned(), label.to_owned())]
            .into_iter()
            .collect();
        Arc::new([Arc::new(node)])
    };
    let settled = Settled::default();
    for (number, label) in [(0, "old"), (1, "old"), (2, "new"), (0, "new")] {
        settled.agreed(&service(&uid(number)), &list(label));
    }
    let kept = settled.all();
    let targets: Vec<&TargetNodes> = kept.iter().map(|one| &one.targets).collect();
    assert_eq!(targets, [&list("old"), &list("new"), &list("new")]);
    assert!(Arc::ptr_eq(targets[1], targets[2]));
}
