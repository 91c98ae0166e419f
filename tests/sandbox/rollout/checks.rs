//! The active version proves its credential to the leading process.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::rollout::Record;
use ccm_core::safety::tenure::Tenure;
use ccm_sim::hetzner::{Fault, Hetzner, Trouble};

use crate::rollout::shipped::{self, TOKEN, version};
use crate::rollout::world::{PLACE, Start, World, block_on, in_time};
use ccm_tests::harness::Test;

pub(crate) const TESTS: &[Test] = &[
    (
        "the_first_version_proves_its_credential_once_when_its_process_leads",
        the_first_version_proves_its_credential_once_when_its_process_leads,
    ),
    (
        "a_credential_that_is_no_good_is_said_until_it_is_one",
        a_credential_that_is_no_good_is_said_until_it_is_one,
    ),
    (
        "a_module_of_the_program_that_was_loaded_before_its_process_led_proves_its_credential_too",
        a_module_of_the_program_that_was_loaded_before_its_process_led_proves_its_credential_too,
    ),
    (
        "the_credential_of_a_changed_configuration_is_proved_anew",
        the_credential_of_a_changed_configuration_is_proved_anew,
    ),
    (
        "a_cloud_that_throttles_a_version_on_trial_holds_no_other_up",
        a_cloud_that_throttles_a_version_on_trial_holds_no_other_up,
    ),
    (
        "a_check_after_the_end_of_a_leadership_is_no_fault_of_a_version",
        a_check_after_the_end_of_a_leadership_is_no_fault_of_a_version,
    ),
    (
        "no_check_begins_after_the_end_of_a_leadership",
        no_check_begins_after_the_end_of_a_leadership,
    ),
    (
        "a_check_ends_with_its_leadership_and_is_made_again_under_the_next",
        a_check_ends_with_its_leadership_and_is_made_again_under_the_next,
    ),
];

/// The answers to the guest's self-check, which alone requests the locations.
fn checks(cloud: &Hetzner) -> Vec<Option<u16>> {
    let requests = cloud.requests();
    let checks = requests.iter().filter(|one| one.path == "/locations");
    checks.map(|one| one.status).collect()
}

/// Waits until the answers to self-checks are so.
async fn checked(what: &str, cloud: &Hetzner, are_so: impl Fn(&[Option<u16>]) -> bool) {
    let answered = async {
        while !are_so(&checks(cloud)) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    in_time(what, answered).await;
}

/// A world with an active version, in a process that does not lead.
async fn following(cloud: &Hetzner) -> World {
    following_at(PLACE, cloud).await
}

/// The same, with a source at this address.
async fn following_at(place: &'static str, cloud: &Hetzner) -> World {
    let world = World::start(Start {
        place,
        leads: false,
        load_policy: Some(shipped::load_policy(cloud)),
        ..Start::default()
    });
    let one = version("8.0.0");
    world.offer(&one);
    world.serves(&one).await;
    assert_eq!(checks(cloud), [], "others do not ask");
    world
}

fn the_first_version_proves_its_credential_once_when_its_process_leads() {
    block_on(async {
        let cloud = shipped::cloud().await;
        let world = following(&cloud).await;
        world.leads();
        checked("a self-check", &cloud, |it| !it.is_empty()).await;
        // The next version proves its credential before it becomes active.
        let two = version("8.0.1");
        world.offer(&two);
        world.serves(&two).await;
        assert_eq!(checks(&cloud), [Some(200); 2]);
    });
}

fn a_credential_that_is_no_good_is_said_until_it_is_one() {
    block_on(async {
        let cloud = shipped::cloud().await;
        let world = following(&cloud).await;
        cloud.set_token("another-one");
        world.leads();
        let record = world.recorded("it is said", |it| {
            it.trouble.contains("its self-check fails")
        });
        let active = record.await.active.unwrap().release.digest;
        assert_eq!(world.serving().await, active, "it serves all the same");
        // The next version has the same credential.
        let two = version("8.0.1");
        world.offer(&two);
        let record = world.recorded("it is no fault of the next one", |it| {
            let said = "the version that serves cannot prove its credential either";
            it.trouble.contains(said)
        });
        assert!(!record.await.is_rejected(&two.digest.to_string()));
        cloud.set_token(TOKEN);
        world.serves(&two).await;
        world
            .recorded("it is not said any more", |it| it.trouble.is_empty())
            .await;
        assert_eq!(checks(&cloud).last(), Some(&Some(200)));
    });
}

fn a_module_of_the_program_that_was_loaded_before_its_process_led_proves_its_credential_too() {
    block_on(async {
        let cloud = shipped::cloud().await;
        let world = following_at("embedded:hcloud", &cloud).await;
        cloud.set_token("another-one");
        world.leads();
        world
            .recorded("it is said", |it| {
                it.trouble.contains("its self-check fails")
            })
            .await;
    });
}

fn the_credential_of_a_changed_configuration_is_proved_anew() {
    block_on(async {
        let cloud = shipped::cloud().await;
        let other = shipped::cloud().await;
        other.set_token("another-one");
        let world = following(&cloud).await;
        world.leads();
        world
            .recorded("it serves", |record| record.active.is_some())
            .await;
        checked("a self-check", &cloud, |it| it == [Some(200)]).await;
        // The same version, with a credential that its new cloud refuses.
        world.loads_under(shipped::load_policy(&other));
        world
            .recorded("it is said", |it| {
                it.trouble.contains("its self-check fails")
            })
            .await;
        assert_eq!(checks(&cloud), [Some(200)]);
        world.loads_under(shipped::load_policy(&cloud));
        world
            .recorded("it is not said any more", |it| it.trouble.is_empty())
            .await;
        checked("another self-check", &cloud, |it| it == [Some(200); 2]).await;
    });
}

fn a_cloud_that_throttles_a_version_on_trial_holds_no_other_up() {
    block_on(async {
        let cloud = shipped::cloud().await;
        let world = following(&cloud).await;
        world.leads();
        checked("a self-check", &cloud, |it| it == [Some(200)]).await;
        let refusal = Trouble::TooManyRequests {
            retry_after: Some("600".to_owned()),
        };
        cloud.inject(Fault::new(refusal).path("/locations").times(1));
        let two = version("8.0.1");
        world.offer(&two);
        let is_held = |it: &Record| it.trouble.contains("throttled");
        let record = world.recorded("it is held up", is_held).await;
        assert!(!record.is_rejected(&two.digest.to_string()));
        let serving = world.active().await.serving();
        assert_eq!(serving.provider.held_for(), None);
    });
}

/// A process that was told to stop leads until its requests have ended, and begins none.
fn a_check_after_the_end_of_a_leadership_is_no_fault_of_a_version() {
    block_on(async {
        let cloud = shipped::cloud().await;
        let world = following(&cloud).await;
        let active = world.serving().await;
        let tenure = Arc::new(Tenure::unlimited());
        world.leads_under(&tenure);
        world
            .recorded("it serves", |record| record.active.is_some())
            .await;
        tenure.end();
        let two = version("8.0.1");
        world.offer(&two);
        let record = world
            .recorded("it is said", |it| {
                it.trouble
                    .contains("this process is not the leader any more")
            })
            .await;
        assert!(!record.is_rejected(&two.digest.to_string()));
        assert_eq!(world.serving().await, active);
    });
}

fn no_check_begins_after_the_end_of_a_leadership() {
    block_on(async {
        let cloud = shipped::cloud().await;
        let world = following(&cloud).await;
        let tenure = Arc::new(Tenure::unlimited());
        tenure.end();
        world.leads_under(&tenure);
        world
            .recorded("it serves", |record| record.active.is_some())
            .await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(world.record().unwrap().trouble, "");
        world.leads();
        checked("a self-check", &cloud, |it| it == [Some(200)]).await;
    });
}

/// A process without a serving provider leads briefly again and again, and a provider may serve meanwhile.
fn a_check_ends_with_its_leadership_and_is_made_again_under_the_next() {
    block_on(async {
        let cloud = shipped::cloud().await;
        let world = following(&cloud).await;
        let silence = Trouble::SlowBefore(Duration::from_secs(60));
        cloud.inject(Fault::new(silence).path("/locations").times(1));
        let tenure = Arc::new(Tenure::unlimited());
        world.leads_under(&tenure);
        checked("a self-check", &cloud, |it| !it.is_empty()).await;
        world.follows();
        tenure.close();
        // As long as anybody has a closed tenure, no request is sent under another one.
        let closed = Arc::downgrade(&tenure);
        drop(tenure);
        let released = async {
            while closed.strong_count() > 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        // Without an end of the leadership the egress waits 15 s for an answer.
        tokio::time::timeout(Duration::from_secs(10), released)
            .await
            .expect("the check ends");
        world.leads();
        checked("another self-check", &cloud, |it| {
            it.last() == Some(&Some(200))
        })
        .await;
        assert_eq!(checks(&cloud).len(), 2);
        let record = world.recorded("it serves", |record| record.active.is_some());
        assert_eq!(record.await.trouble, "");
    });
}
