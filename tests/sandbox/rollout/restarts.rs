//! The next process after the last one has ended, and the behaviour of a follower.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::reconciliation::retry::Backoff;
use ccm_core::rollout::{Orders, Phase, Record, RolloutRules};
use ccm_core::safety::permit::Mode;
use ccm_delivery::artifact::Artifact;
use ccm_delivery::record::{MemoryRecordStore, RecordStore as _, Report};
use ccm_delivery::rollout_controller::Served;
use ccm_delivery::source::SourceError;
use ccm_delivery::trust::TrustPolicy;

use crate::rollout::sources::{PINNED, pinned};
use crate::rollout::world::{
    PLACE, Start, World, block_on, in_time, module, says, signed, trusting, wider,
};
use ccm_tests::harness::Test;
use rcgen::KeyPair;

pub(crate) const TESTS: &[Test] = &[
    (
        "g9_a_start_needs_no_source_when_the_module_is_kept",
        g9_a_start_needs_no_source_when_the_module_is_kept,
    ),
    (
        "a_module_that_was_fetched_again_needs_no_source_at_the_next_start_either",
        a_module_that_was_fetched_again_needs_no_source_at_the_next_start_either,
    ),
    (
        "a_kept_module_counts_as_pinned_where_the_address_of_the_source_pins_it",
        a_kept_module_counts_as_pinned_where_the_address_of_the_source_pins_it,
    ),
    (
        "a_start_goes_by_the_signatures_that_the_source_has_now",
        a_start_goes_by_the_signatures_that_the_source_has_now,
    ),
    (
        "a_source_that_is_away_is_asked_once_for_other_signatures",
        a_source_that_is_away_is_asked_once_for_other_signatures,
    ),
    (
        "what_nobody_vouches_for_is_not_written",
        what_nobody_vouches_for_is_not_written,
    ),
    (
        "a_rejected_version_is_not_tried_again_after_a_restart",
        a_rejected_version_is_not_tried_again_after_a_restart,
    ),
    (
        "a_module_that_is_lost_is_stood_in_for_by_one_that_requests_no_more_and_by_none_that_does",
        a_module_that_is_lost_is_stood_in_for_by_one_that_requests_no_more_and_by_none_that_does,
    ),
    (
        "a_lost_module_that_is_found_again_serves_though_the_process_leads_no_longer",
        a_lost_module_that_is_found_again_serves_though_the_process_leads_no_longer,
    ),
    (
        "a_process_that_does_not_lead_is_ready_and_writes_nothing",
        a_process_that_does_not_lead_is_ready_and_writes_nothing,
    ),
    (
        "g10_a_follower_serves_what_its_leader_wrote_down_or_nothing",
        g10_a_follower_serves_what_its_leader_wrote_down_or_nothing,
    ),
    (
        "a_record_that_somebody_sets_back_is_written_again",
        a_record_that_somebody_sets_back_is_written_again,
    ),
    (
        "in_plan_mode_nothing_is_written",
        in_plan_mode_nothing_is_written,
    ),
];

/// A process that serves `one`, has it written down, and ends.
pub(crate) async fn has_served(start: Start<'_>, one: &Artifact) {
    let world = World::start(start);
    world.offer(one);
    world.serves(one).await;
    world
        .recorded("it is written down", |record| record.active.is_some())
        .await;
    world.ends().await;
}

/// As by a backup of the cluster in which the Lease names the same leader.
fn a_record_that_somebody_sets_back_is_written_again() {
    block_on(async {
        let one = module("1.0.0", "honest");
        let world = World::start(Start::default());
        world.offer(&one);
        world.serves(&one).await;
        let is_written = |record: &Record| record.active.is_some();
        let record = world.recorded("it is written down", is_written).await;
        let before = Report::default();
        world.record_store.write(&before).await.unwrap();
        let again = world.recorded("it is written again", is_written).await;
        assert_eq!(again.active, record.active);
    });
}

fn g9_a_start_needs_no_source_when_the_module_is_kept() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let start = || Start {
            folder: Some(folder.path()),
            ..Start::default()
        };
        let one = module("1.0.0", "honest");
        has_served(start(), &one).await;
        let world = World::start(start());
        world.offers_nothing(SourceError::unavailable(PLACE, "no route to host"));
        world.serves(&one).await;
        world
            .recorded("it is said", |record| record.trouble.contains("no route"))
            .await;
    });
}

fn a_module_that_was_fetched_again_needs_no_source_at_the_next_start_either() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let start = || Start {
            folder: Some(folder.path()),
            ..Start::default()
        };
        let one = module("1.0.0", "honest");
        has_served(start(), &one).await;
        std::fs::remove_dir_all(folder.path().join("modules")).unwrap();
        let world = World::start(start());
        world.finds(&one);
        world.serves(&one).await;
        world.ends().await;
        let world = World::start(start());
        world.offers_nothing(SourceError::unavailable(PLACE, "no route to host"));
        world.serves(&one).await;
    });
}

/// The store does not know what the operator pins.
fn a_kept_module_counts_as_pinned_where_the_address_of_the_source_pins_it() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let start = |place: &'static str| Start {
            place,
            folder: Some(folder.path()),
            trust: TrustPolicy::default(),
            ..Start::default()
        };
        let one = pinned();
        has_served(start(PINNED), &one).await;
        let world = World::start(start(PINNED));
        world.offers_nothing(SourceError::unavailable(PINNED, "no route to host"));
        world.serves(&one).await;
        world.ends().await;

        let world = World::start(start(PLACE));
        world.offers_nothing(SourceError::unavailable(PLACE, "no route to host"));
        let (why, _) = world.fails().await;
        assert!(why.contains("nobody vouches"), "{why}");
    });
}

/// After a rotation of keys the store may have the signature of the former key alone.
fn a_start_goes_by_the_signatures_that_the_source_has_now() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let keys = [KeyPair::generate().unwrap(), KeyPair::generate().unwrap()];
        let start = |key: &KeyPair| Start {
            folder: Some(folder.path()),
            trust: trusting(key),
            ..Start::default()
        };
        let [by_old, by_new] = [0, 1].map(|key| signed(&keys[key], module("1.0.0", "honest")));
        has_served(start(&keys[0]), &by_old).await;

        // The signature in the store is as good as the one that the registry cannot give now.
        let world = World::start(start(&keys[0]));
        world.finds(&Artifact {
            evidence: Vec::new(),
            unanswered: vec!["one.test answered 500".to_owned()],
            ..by_old.clone()
        });
        world.serves(&by_old).await;
        world.ends().await;

        // Whether the source has another signature is unknown: the version is not lost.
        let world = World::start(start(&keys[1]));
        world.offers_nothing(SourceError::unavailable(PLACE, "no route to host"));
        let (why, is_final) = world.fails().await;
        assert!(why.contains("cannot be asked") && !is_final, "{why}");
        world.ends().await;

        // Nor while one of its registries does not answer.
        let world = World::start(start(&keys[1]));
        world.finds(&Artifact {
            unanswered: vec!["one.test answered 500".to_owned()],
            ..by_old.clone()
        });
        let mut served = world.served.clone();
        let waits = served.wait_for(|served| {
            matches!(served, Served::Failed { why, is_final: false } if why.contains("one.test"))
        });
        in_time("it waits for an answer", waits).await.unwrap();
        world.ends().await;

        let world = World::start(start(&keys[1]));
        world.finds(&by_new);
        world.serves(&by_new).await;
        world.ends().await;
        let world = World::start(start(&keys[1]));
        world.offers_nothing(SourceError::unavailable(PLACE, "no route to host"));
        world.serves(&by_new).await;
    });
}

/// It may take minutes to say that it is away.
fn a_source_that_is_away_is_asked_once_for_other_signatures() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let keys = [KeyPair::generate().unwrap(), KeyPair::generate().unwrap()];
        // Once the source was away, it is not asked again within this test.
        let again = Backoff {
            first: Duration::from_secs(1_000_000),
            most: Duration::from_secs(1_000_000),
        };
        let start = || Start {
            folder: Some(folder.path()),
            trust: trusting(&keys[0]),
            rules: RolloutRules {
                again,
                ..RolloutRules::default()
            },
            ..Start::default()
        };
        let one = signed(&keys[0], module("1.0.0", "honest"));
        has_served(start(), &one).await;
        let world = World::start(start());
        world.serves(&one).await;
        world.finds(&one);
        world.trusts(trusting(&keys[1]));
        let is_refused = |record: &Record| says(record, "its signature is refused");
        world.recorded("it has no other", is_refused).await;
        let serving = world.serving().await;
        assert_eq!(serving, one.digest.to_string(), "a process that runs");
        *world.found.lock().unwrap() = Err(0);
        let is_away = |record: &Record| says(record, "cannot be asked");
        world.recorded("it is away", is_away).await;
        assert!(matches!(*world.found.lock().unwrap(), Err(1)));
    });
}

fn what_nobody_vouches_for_is_not_written() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let start = || Start {
            folder: Some(folder.path()),
            trust: trusting(&key),
            ..Start::default()
        };
        let file = |artifact: &Artifact, kind: &str| {
            let name = format!("{}.{kind}", artifact.digest.hex());
            folder.path().join("modules").join(name)
        };
        let one = signed(&key, module("1.0.0", "honest"));
        let two = module("2.0.0", "honest");
        let world = World::start(start());
        world.offer(&one);
        world.serves(&one).await;
        world.offer(&two);
        let is_refused = |record: &Record| says(record, "it is not signed");
        world.recorded("it is not trusted", is_refused).await;
        assert!(file(&one, "wasm").exists() && !file(&two, "wasm").exists());
        world.ends().await;

        // Nor does missing evidence replace the valid one, where nobody knows of the version that served.
        let before = std::fs::read(file(&one, "json")).unwrap();
        let world = World::start(Start {
            record_store: Some(Arc::new(MemoryRecordStore::new())),
            ..start()
        });
        world.offer(&Artifact {
            evidence: Vec::new(),
            ..one.clone()
        });
        let (why, _) = world.fails().await;
        assert!(why.contains("it is not signed"), "{why}");
        assert_eq!(std::fs::read(file(&one, "json")).unwrap(), before);
    });
}

fn a_rejected_version_is_not_tried_again_after_a_restart() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let start = || Start {
            folder: Some(folder.path()),
            ..Start::default()
        };
        let (one, two) = (module("1.0.0", "honest"), module("2.0.0", "panic"));
        let digest = two.digest.to_string();
        let mut world = World::start(start());
        world.offer(&one);
        world.serves(&one).await;
        world.calls().await;
        world.offer(&two);
        let before = world
            .recorded("it is rejected", |record| record.is_rejected(&digest))
            .await;
        world.ends().await;
        let world = World::start(start());
        world.offer(&two);
        world.serves(&one).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(world.record().unwrap(), before);
        assert_eq!(world.serving().await, one.digest.to_string());
    });
}

fn a_module_that_is_lost_is_stood_in_for_by_one_that_requests_no_more_and_by_none_that_does() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let start = |has_lost| Start {
            folder: Some(folder.path()),
            has_lost,
            ..Start::default()
        };
        let one = module("1.0.0", "honest");
        let world = World::start(start(false));
        world.offer(&one);
        world.serves(&one).await;
        let is_known = |record: &Record| {
            let active = record.active.as_ref();
            active.is_some_and(|active| active.noted.requests.is_some())
        };
        world
            .recorded("what it requests is written down", is_known)
            .await;
        world.ends().await;

        // A new pod with an empty cache; and the source has another version, which requests more.
        let modules = folder.path().join("modules");
        std::fs::remove_dir_all(&modules).unwrap();
        let more = wider("2.0.0");
        let world = World::start(start(true));
        world.offer(&more);
        let record = world
            .recorded("it waits for approval", waits_for_approval)
            .await;
        let line = &record.trial.unwrap().lines[0];
        assert!(line.starts_with("+ "), "{line}");
        let (why, is_final) = world.fails().await;
        assert!(why.contains("it is nowhere") && !is_final, "{why}");
        world.order(Orders {
            approve: Some(more.digest.to_string()),
            ..Orders::default()
        });
        world.serves(&more).await;
        let stands = |artifact: &Artifact| {
            let digest = artifact.digest.to_string();
            move |record: &Record| {
                let active = record.active.as_ref();
                active.is_some_and(|active| active.release.digest == digest)
            }
        };
        world.recorded("it is written down", stands(&more)).await;
        world.ends().await;

        // Once more, with a version that requests less, and a source that has its bytes alone.
        std::fs::remove_dir_all(&modules).unwrap();
        let less = module("3.0.0", "honest");
        let world = World::start(start(false));
        world.finds(&less);
        world.offer(&less);
        world.serves(&less).await;
        let record = world.recorded("it is written down", stands(&less)).await;
        let untried = record.active.unwrap().untried.unwrap();
        for part in ["it was not tried beside 2.0.0", "was asked for, and"] {
            assert!(untried.contains(part), "{untried}");
        }
    });
}

fn waits_for_approval(record: &Record) -> bool {
    let trial = record.trial.as_ref();
    trial.is_some_and(|trial| trial.phase == Phase::WaitsForApproval)
}

/// The candidate's end must not remove the code of the version that was loaded meanwhile.
fn a_lost_module_that_is_found_again_serves_though_the_process_leads_no_longer() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let start = || Start {
            folder: Some(folder.path()),
            has_lost: true,
            ..Start::default()
        };
        let one = module("1.0.0", "honest");
        has_served(start(), &one).await;
        std::fs::remove_dir_all(folder.path().join("modules")).unwrap();
        let world = World::start(start());
        world.offer(&wider("2.0.0"));
        world
            .recorded("the other one is a candidate", waits_for_approval)
            .await;
        world.follows();
        world.finds(&one);
        world.serves(&one).await;
    });
}

fn a_process_that_does_not_lead_is_ready_and_writes_nothing() {
    block_on(async {
        let world = World::start(Start {
            leads: false,
            ..Start::default()
        });
        let (one, two) = (module("1.0.0", "honest"), module("2.0.0", "honest"));
        world.offer(&one);
        world.serves(&one).await;
        assert_eq!(world.record(), None);
        world.leads();
        world
            .recorded("it is written down", |record| record.active.is_some())
            .await;
        world.offer(&two);
        world.serves(&two).await;
    });
}

fn g10_a_follower_serves_what_its_leader_wrote_down_or_nothing() {
    block_on(async {
        let (one, two) = (module("1.0.0", "honest"), module("2.0.0", "honest"));
        let leader = World::start(Start::default());
        leader.offer(&one);
        leader.serves(&one).await;
        leader
            .recorded("it is written down", |record| record.active.is_some())
            .await;
        // Its source has the other version already, and nothing supplies the active one.
        let follower = World::start(Start {
            leads: false,
            record_store: Some(leader.record_store.clone()),
            ..Start::default()
        });
        follower.offer(&two);
        // Enough time to load it wrongly; its absence cannot be waited for.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!matches!(*follower.served.borrow(), Served::Serving(_)));
        follower.offer(&one);
        assert_eq!(follower.serving().await, one.digest.to_string());
        leader.offer(&two);
        leader.serves(&two).await;
        follower.offer(&two);
        follower.serves(&two).await;
        assert_eq!(follower.record(), leader.record());
    });
}

fn in_plan_mode_nothing_is_written() {
    block_on(async {
        let world = World::start(Start {
            mode: Mode::Plan,
            ..Start::default()
        });
        let (one, two) = (module("1.0.0", "honest"), module("2.0.0", "honest"));
        world.offer(&one);
        world.serves(&one).await;
        world.offer(&two);
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(world.serving().await, one.digest.to_string());
        assert_eq!(world.record(), None);
    });
}
