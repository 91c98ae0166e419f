//! The fates of versions while calls are made.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::rollout::{Orders, Phase, Record, RolloutRules, RolloutState, state};
use ccm_delivery::artifact::Artifact;
use ccm_delivery::record::{RefusalReason, SpecRefusal, Specification};
use ccm_delivery::source::SourceError;
use ccm_delivery::trust::{MinimumVersion, TrustPolicy};
use ccm_host::Digest;

use crate::rollout::world::{
    PLACE, Start, World, block_on, in_time, module, says, signed, trusting, wider,
};
use ccm_tests::harness::Test;
use rcgen::KeyPair;

pub(crate) const TESTS: &[Test] = &[
    (
        "a_good_version_takes_over_under_calls_and_its_predecessor_is_kept",
        a_good_version_takes_over_under_calls_and_its_predecessor_is_kept,
    ),
    (
        "g5_g6_bad_versions_never_stay_and_are_not_tried_twice",
        g5_g6_bad_versions_never_stay_and_are_not_tried_twice,
    ),
    (
        "a_wider_version_waits_for_a_person_and_says_what_it_wants",
        a_wider_version_waits_for_a_person_and_says_what_it_wants,
    ),
    (
        "what_is_not_granted_waits_for_grants",
        what_is_not_granted_waits_for_grants,
    ),
    (
        "a_person_goes_back_to_the_version_before",
        a_person_goes_back_to_the_version_before,
    ),
    (
        "g1_an_emptied_source_leaves_what_serves",
        g1_an_emptied_source_leaves_what_serves,
    ),
    (
        "a_spec_that_cannot_be_used_is_a_trouble_of_what_serves",
        a_spec_that_cannot_be_used_is_a_trouble_of_what_serves,
    ),
    (
        "g4_a_storm_of_offers_ends_with_the_last_one",
        g4_a_storm_of_offers_ends_with_the_last_one,
    ),
    (
        "g13_terms_that_do_not_fit_change_nothing_but_what_is_said",
        g13_terms_that_do_not_fit_change_nothing_but_what_is_said,
    ),
    (
        "whom_nobody_vouches_for_does_not_serve",
        whom_nobody_vouches_for_does_not_serve,
    ),
    (
        "a_version_that_is_signed_after_it_was_offered_takes_over",
        a_version_that_is_signed_after_it_was_offered_takes_over,
    ),
    (
        "what_nobody_vouches_for_is_not_rejected_whatever_it_is",
        what_nobody_vouches_for_is_not_rejected_whatever_it_is,
    ),
    (
        "a14_an_older_version_does_not_come_back_although_it_is_signed_until_a_person_names_it",
        a14_an_older_version_does_not_come_back_although_it_is_signed_until_a_person_names_it,
    ),
    (
        "a_person_who_names_an_older_version_does_not_overrule_the_minimum_version_of_the_file",
        a_person_who_names_an_older_version_does_not_overrule_the_minimum_version_of_the_file,
    ),
];

fn a_good_version_takes_over_under_calls_and_its_predecessor_is_kept() {
    block_on(async {
        let mut world = World::start(Start::default());
        let (one, two) = (module("1.0.0", "honest"), module("2.0.0", "honest"));
        world.offer(&one);
        world.serves(&one).await;
        world.calls().await;
        world.offer(&two);
        world
            .recorded("the canary", |record| {
                record
                    .trial
                    .as_ref()
                    .is_some_and(|trial| trial.phase == Phase::Canary)
            })
            .await;
        world.serves(&two).await;
        let record = world.recorded("it is written down", |record| {
            record
                .active
                .as_ref()
                .is_some_and(|it| it.release.version == "2.0.0")
        });
        let record = record.await;
        assert_eq!(record.previous.unwrap().digest, one.digest.to_string());
        assert_eq!((record.trial, record.trouble.as_str()), (None, ""));
        assert_eq!(*world.failed.lock().unwrap(), []);
    });
}

fn g5_g6_bad_versions_never_stay_and_are_not_tried_twice() {
    block_on(async {
        // A crowded machine makes few calls in a short window, and the last version fails in every tenth only.
        let rules = RolloutRules {
            canary_time: Duration::from_secs(3600),
            ..RolloutRules::default()
        };
        let mut world = World::start(Start {
            rules,
            ..Start::default()
        });
        let one = module("1.0.0", "honest");
        world.offer(&one);
        world.serves(&one).await;
        world.calls().await;
        let bad = [
            "panic-in-init",
            "spin-in-init",
            "panic",
            "too-few-lookups",
            "fails-sometimes",
        ];
        for (number, behaviour) in bad.iter().enumerate() {
            let two = module(&format!("2.0.{number}"), behaviour);
            world.offer(&two);
            let digest = two.digest.to_string();
            let record = world
                .recorded(behaviour, |record| record.is_rejected(&digest))
                .await;
            assert_eq!(record.trial, None, "{behaviour}");
            assert!(!record.rejected.first().unwrap().reason.is_empty());
            assert_eq!(world.serving().await, one.digest.to_string(), "{behaviour}");
            // Offered once more, it is not even inspected: the record stays as it is.
            world.offer(&two);
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(world.record().unwrap(), record, "{behaviour}");
        }
        // The candidate's errors in its trial reach no caller: failed reads are repeated with the active version.
        assert_eq!(*world.failed.lock().unwrap(), []);
    });
}

fn a_wider_version_waits_for_a_person_and_says_what_it_wants() {
    block_on(async {
        let world = World::start(Start::default());
        let (one, two) = (module("1.0.0", "honest"), wider("2.0.0"));
        world.offer(&one);
        world.serves(&one).await;
        world.offer(&two);
        let record = world.recorded("it waits", |record| {
            record
                .trial
                .as_ref()
                .is_some_and(|it| it.phase == Phase::WaitsForApproval)
        });
        let lines = record.await.trial.unwrap().lines;
        assert!(lines.iter().any(|line| line.starts_with('+')), "{lines:?}");
        // It waits on while its source cannot be read.
        world.offers_nothing(SourceError::denied(PLACE, "the login has expired"));
        let is_said = |record: &Record| record.trouble.contains("the login has expired");
        world.recorded("it is said", is_said).await;
        world.order(Orders {
            approve: Some(two.digest.to_string()),
            ..Orders::default()
        });
        world.serves(&two).await;
    });
}

fn what_is_not_granted_waits_for_grants() {
    block_on(async {
        let world = World::start(Start::default());
        let (one, two) = (module("1.0.0", "honest"), module("2.0.0", "honest"));
        world.offer(&one);
        world.serves(&one).await;
        world.grant(&[], true);
        world.offer(&two);
        let record = world.recorded("it waits", |record| {
            record
                .trial
                .as_ref()
                .is_some_and(|it| it.phase == Phase::WaitsForGrants)
        });
        let record = record.await;
        assert!(!record.trial.unwrap().lines.is_empty());
        assert_eq!(world.serving().await, one.digest.to_string());
        world.grant(&[], false);
        world.serves(&two).await;
        world
            .recorded("no trouble", |record| record.trouble.is_empty())
            .await;
    });
}

fn a_person_goes_back_to_the_version_before() {
    block_on(async {
        let mut world = World::start(Start::default());
        let (one, two) = (module("1.0.0", "honest"), module("2.0.0", "honest"));
        world.offer(&one);
        world.serves(&one).await;
        world.calls().await;
        world.offer(&two);
        world.serves(&two).await;
        world.order(Orders {
            roll_back: true,
            ..Orders::default()
        });
        world.serves(&one).await;
        let digest = two.digest.to_string();
        world
            .recorded("it is rejected", |record| record.is_rejected(&digest))
            .await;
        assert_eq!(*world.failed.lock().unwrap(), []);
    });
}

fn g1_an_emptied_source_leaves_what_serves() {
    block_on(async {
        let world = World::start(Start::default());
        let one = module("1.0.0", "honest");
        world.offer(&one);
        world.serves(&one).await;
        world.offers_nothing(SourceError::absent(PLACE, "no such key"));
        let record = world
            .recorded("it is said", |it| it.trouble.contains("no such key"))
            .await;
        assert_eq!(
            record.active.unwrap().release.digest,
            one.digest.to_string()
        );
        assert_eq!(world.serving().await, one.digest.to_string());
    });
}

/// As of a provider that contradicts another one: no controller asks it anything, and alerts count its state.
fn a_spec_that_cannot_be_used_is_a_trouble_of_what_serves() {
    block_on(async {
        let world = World::start(Start::default());
        let one = module("1.0.0", "honest");
        world.offer(&one);
        world.serves(&one).await;
        let refused = |reason: RefusalReason| Specification {
            refusal: Some(SpecRefusal {
                reason,
                message: format!("{reason:?}"),
            }),
            ..Specification::default()
        };
        for reason in [RefusalReason::Conflict, RefusalReason::NotApplied] {
            world.specification.send_replace(refused(reason));
            let said = format!("{reason:?}");
            let record = world.recorded("it is said", |it| it.trouble == said).await;
            let state = state(&record, &Orders::default(), true);
            assert_eq!(state, RolloutState::ActiveWithTrouble);
        }
        // An edit with a mistake changes nothing.
        let mistaken = refused(RefusalReason::InvalidSpec);
        world.specification.send_replace(mistaken);
        world
            .recorded("it is no trouble", |it| it.trouble.is_empty())
            .await;
    });
}

fn g4_a_storm_of_offers_ends_with_the_last_one() {
    block_on(async {
        let mut world = World::start(Start::default());
        let one = module("1.0.0", "honest");
        world.offer(&one);
        world.serves(&one).await;
        world.calls().await;
        let versions: Vec<_> = (0..100)
            .map(|n| module(&format!("2.1.{}", n % 10), "honest"))
            .collect();
        for version in &versions {
            world.offer(version);
        }
        let last = versions.last().unwrap();
        world.serves(last).await;
        let record = world.recorded("it is written down", |record| {
            record
                .active
                .as_ref()
                .is_some_and(|it| it.release.digest == last.digest.to_string())
        });
        let record = record.await;
        assert_eq!(
            record.previous.unwrap().digest,
            one.digest.to_string(),
            "nothing between them served"
        );
        assert_eq!(record.rejected, []);
        assert_eq!(*world.failed.lock().unwrap(), []);
    });
}

fn g13_terms_that_do_not_fit_change_nothing_but_what_is_said() {
    block_on(async {
        let world = World::start(Start::default());
        let one = module("1.0.0", "honest");
        world.offer(&one);
        world.serves(&one).await;
        let before = world.active().await.serving();
        world.grant(&["the Secret kube-system/hcloud has no key token"], false);
        world
            .recorded("it is said", |record| {
                record.trouble.contains("no key token")
            })
            .await;
        assert!(Arc::ptr_eq(&before, &world.active().await.serving()));
        world.grant(&[], false);
        let changed = async {
            while Arc::ptr_eq(&before, &world.active().await.serving()) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        in_time("the new load_policy", changed).await;
        let after = world.active().await.serving();
        let digest = before.provider.digest();
        assert_eq!(after.provider.digest(), digest, "the same bytes");
        world
            .recorded("it is not said any more", |record| {
                record.trouble.is_empty()
            })
            .await;
    });
}

fn whom_nobody_vouches_for_does_not_serve() {
    block_on(async {
        let world = World::start(Start {
            trust: TrustPolicy::default(),
            ..Start::default()
        });
        let one = module("1.0.0", "honest");
        world.offer(&one);
        let (why, is_final) = world.fails().await;
        assert!(why.contains("nobody vouches"), "{why}");
        assert!(is_final);
        world.trusts(TrustPolicy {
            allows_unsigned: true,
            ..TrustPolicy::default()
        });
        world.serves(&one).await;
    });
}

fn a_version_that_is_signed_after_it_was_offered_takes_over() {
    block_on(async {
        let key = KeyPair::generate().unwrap();
        let mut world = World::start(Start {
            trust: trusting(&key),
            ..Start::default()
        });
        let (one, two) = (module("1.0.0", "honest"), module("2.0.0", "honest"));
        let one = signed(&key, one);
        world.offer(&one);
        world.serves(&one).await;
        world.calls().await;
        world.offer(&two);
        world
            .recorded("it is not trusted", |record| says(record, "sign"))
            .await;
        world.finds(&signed(&key, two.clone()));
        world.serves(&two).await;
    });
}

/// The list of rejected versions is short: who can offer modules, and sign none, pushes no version out of it that a
/// person took back.
fn what_nobody_vouches_for_is_not_rejected_whatever_it_is() {
    block_on(async {
        let key = KeyPair::generate().unwrap();
        let world = World::start(Start {
            trust: trusting(&key),
            ..Start::default()
        });
        let one = signed(&key, module("1.0.0", "honest"));
        world.offer(&one);
        world.serves(&one).await;
        let wasm = b"\0asm and nothing else".to_vec();
        let junk = Artifact {
            digest: Digest::of(&wasm),
            wasm: wasm.into(),
            ..module("2.0.0", "honest")
        };
        world.offer(&junk);
        let is_distrusted = |record: &Record| says(record, "it is not signed");
        let record = world.recorded("it is not trusted", is_distrusted).await;
        assert_eq!(record.rejected, []);
        // Signed, it is at fault.
        let junk = signed(&key, junk);
        world.offer(&junk);
        let digest = junk.digest.to_string();
        let is_rejected = |record: &Record| record.is_rejected(&digest);
        world.recorded("it is rejected", is_rejected).await;
        assert_eq!(world.serving().await, one.digest.to_string());
    });
}

/// A person with write access to the registry moves its tag back to a version that was signed once.
fn a14_an_older_version_does_not_come_back_although_it_is_signed_until_a_person_names_it() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let start = |has_lost| Start {
            folder: Some(folder.path()),
            trust: trusting(&key),
            has_lost,
            ..Start::default()
        };
        let version = |number| signed(&key, module(number, "honest"));
        let [old, new] = ["1.0.0", "1.1.0"].map(version);
        let highest = |record: &Record| {
            let active = record.active.as_ref();
            active.and_then(|active| active.noted.highest.clone())
        };
        let is = |number: &'static str| {
            move |record: &Record| highest(record).as_deref() == Some(number)
        };
        let refused = |record: &Record| says(record, "version 1.0.0 is not 1.1.0 or higher");
        let world = World::start(start(false));
        world.offer(&old);
        world.serves(&old).await;
        world.recorded("it is the highest", is("1.0.0")).await;
        world.offer(&new);
        world.serves(&new).await;
        world.recorded("it is the highest", is("1.1.0")).await;
        world.offer(&old);
        let record = world.recorded("it is not trusted", refused).await;
        assert!(!record.is_rejected(&old.digest.to_string()));
        assert_eq!(world.serving().await, new.digest.to_string());
        world.ends().await;

        // Not even if the newer version is lost everywhere.
        std::fs::remove_dir_all(folder.path().join("modules")).unwrap();
        let world = World::start(start(true));
        world.offer(&old);
        world.recorded("it does not stand in", refused).await;
        let (why, _) = world.fails().await;
        assert!(why.contains("it is nowhere"), "{why}");
        world.order(Orders {
            allow_downgrade: Some(old.digest.to_string()),
            ..Orders::default()
        });
        world.serves(&old).await;
        world.recorded("a person has named it", is("1.0.0")).await;
        // From there on versions increase again, and a person rolls back once more.
        world.order(Orders::default());
        let next = version("1.0.1");
        world.offer(&next);
        world.serves(&next).await;
        world.recorded("it is the highest", is("1.0.1")).await;
        world.order(Orders {
            roll_back: true,
            ..Orders::default()
        });
        world.serves(&old).await;
        world.recorded("a person has ordered it", is("1.0.0")).await;
    });
}

/// Whoever may annotate a Provider chooses among the versions that the configuration trusts.
fn a_person_who_names_an_older_version_does_not_overrule_the_minimum_version_of_the_file() {
    block_on(async {
        let key = KeyPair::generate().unwrap();
        let world = World::start(Start {
            trust: TrustPolicy {
                minimum_version: Some(MinimumVersion::parse("1.1.0").unwrap()),
                ..trusting(&key)
            },
            ..Start::default()
        });
        let version = |number| signed(&key, module(number, "honest"));
        let [old, new] = ["1.0.0", "1.1.0"].map(version);
        world.offer(&new);
        world.serves(&new).await;
        world.order(Orders {
            allow_downgrade: Some(old.digest.to_string()),
            ..Orders::default()
        });
        world.offer(&old);
        let refused = |record: &Record| says(record, "version 1.0.0 is older than 1.1.0");
        world.recorded("it is too old", refused).await;
        assert_eq!(world.serving().await, new.digest.to_string());
    });
}
