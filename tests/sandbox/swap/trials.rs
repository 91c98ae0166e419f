//! Bad versions, tried in the real sandbox: the findings of a trial about each, and how fast a bad one is taken back.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::cloud::Lookup;
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::rollout::{TrialKind, TrialTally};
use ccm_delivery::active::{Active, Generation};
use ccm_fixtures::objects::ready_node;
use tokio::time::Instant;

use crate::swap::cloud::Cloud;
use crate::swap::world::{self, behaving, block_on, permit, permit_for};
use ccm_tests::harness::Test;
use ccm_tests::harness::figure;

pub(crate) const TESTS: &[Test] = &[
    (
        "a_canary_shows_every_bad_version",
        a_canary_shows_every_bad_version,
    ),
    ("a_shadow_shows_other_answers", a_shadow_shows_other_answers),
    (
        "without_traffic_a_bad_version_is_seen_as_well",
        without_traffic_a_bad_version_is_seen_as_well,
    ),
    (
        "a_bad_version_is_taken_back_at_once",
        a_bad_version_is_taken_back_at_once,
    ),
];

/// Number of a canary's calls, by the rules.
const CANARY: u32 = 20;
/// Timeout of a call of a guest that never ends by itself.
const SHORT: Duration = Duration::from_millis(300);

async fn generation(cloud: &Cloud, number: &str, behaviour: &str) -> Arc<Generation> {
    let module = world::version(number);
    world::generation("entry", module, cloud.endpoint(), &behaving(behaviour)).await
}

/// A behaviour, the beginning of the fatal message about it, and the kind of its errors.
const BAD: &[(&str, &str, &str)] = &[
    ("panic", "instances.find: trapped: ", "trapped"),
    ("memory-bomb", "instances.find: trapped: ", "trapped"),
    ("exit", "instances.find: trapped: ", "trapped"),
    ("spin", "instances.find: timed out: ", "timed-out"),
    ("sleep", "instances.find: timed out: ", "timed-out"),
    (
        "too-few-lookups",
        "instances.find: internal error of the provider: ",
        "internal",
    ),
    (
        "many-addresses",
        "instances.find: internal error of the provider: ",
        "internal",
    ),
    (
        "foreign-scheme",
        "instances.find answers what cannot be: node one: the provider ID aws://",
        "",
    ),
    ("fails-sometimes", "", "unavailable"),
    ("honest-requests", "", ""),
];

fn a_canary_shows_every_bad_version() {
    block_on(async {
        let cloud = Cloud::start().await;
        let serving = generation(&cloud, "0.1.0", "honest-requests").await;
        for (behaviour, fatal, kind) in BAD {
            let active = Active::new("entry", serving.clone());
            let tried = Some((
                TrialKind::Canary,
                generation(&cloud, "0.2.0", behaviour).await,
            ));
            active.set_roles(active.serving(), tried);
            let nodes = [ready_node("one", None)];
            let ends_by_its_deadline = *kind == "timed-out";
            let mut unanswered = 0;
            while active.tally().fatal.is_none() && active.tally().candidate.calls < CANARY {
                let permit = if ends_by_its_deadline {
                    permit_for(SHORT)
                } else {
                    permit()
                };
                match active.find(&nodes, permit).await {
                    Ok(reply) => {
                        assert!(matches!(reply.lookups[0], Lookup::Found(_)), "{behaviour}")
                    }
                    Err(_) => unanswered += 1,
                }
            }
            let tally = active.tally();
            assert_eq!(
                unanswered,
                u32::from(ends_by_its_deadline),
                "{behaviour}: callers without an answer"
            );
            let reported = tally.fatal.clone().unwrap_or_default();
            assert!(
                reported.starts_with(fatal) && reported.is_empty() == fatal.is_empty(),
                "{behaviour}: {reported}"
            );
            let kinds: Vec<_> = tally.candidate.errors.keys().copied().collect();
            let expected: Vec<_> = [*kind]
                .into_iter()
                .filter(|kind| !kind.is_empty())
                .collect();
            assert_eq!(kinds, expected, "{behaviour}");
            assert!(
                tally.serving.errors.is_empty(),
                "{behaviour}: {:?}",
                tally.serving
            );
            if fatal.is_empty() {
                let failed: u32 = tally.candidate.errors.values().sum();
                assert_eq!(
                    failed,
                    if kind.is_empty() { 0 } else { CANARY / 10 },
                    "{behaviour}"
                );
            }
        }
    });
}

/// Looks nodes up until an answer was compared.
async fn compared(active: &Active) -> TrialTally {
    let nodes = [ready_node("one", None)];
    while active.tally().compared == 0 {
        active.find(&nodes, permit()).await.unwrap();
        tokio::task::yield_now().await;
    }
    active.tally()
}

fn a_shadow_shows_other_answers() {
    block_on(async {
        let cloud = Cloud::start().await;
        let serving = generation(&cloud, "0.1.0", "honest-requests").await;
        for (behaviour, difference) in [
            ("honest-requests", None),
            (
                "other-zone",
                Some("node one: zone zone-1, and zone-2 by the candidate"),
            ),
            (
                "gone-without-asking",
                Some("node one: lookup found, and gone by the candidate"),
            ),
        ] {
            let active = Active::new("entry", serving.clone());
            let tried = Some((
                TrialKind::Shadow,
                generation(&cloud, "0.2.0", behaviour).await,
            ));
            active.set_roles(active.serving(), tried);
            let tally = compared(&active).await;
            assert_eq!(
                tally.differences.first().map(String::as_str),
                difference,
                "{behaviour}"
            );
        }
    });
}

fn without_traffic_a_bad_version_is_seen_as_well() {
    block_on(async {
        let cloud = Cloud::start().await;
        let serving = generation(&cloud, "0.1.0", "honest-requests").await;
        let active = Active::new("entry", serving);
        let tried = Some((
            TrialKind::Shadow,
            generation(&cloud, "0.2.0", "other-zone").await,
        ));
        active.set_roles(active.serving(), tried);
        active.read_each_capability(&permit()).await;
        let tally = active.tally();
        assert_eq!((tally.compared, tally.differences.len()), (2, 1));
        let tried = Some((
            TrialKind::Canary,
            generation(&cloud, "0.3.0", "panic").await,
        ));
        active.set_roles(active.serving(), tried);
        active.read_each_capability(&permit()).await;
        let tally = active.tally();
        assert!(tally.fatal.is_some_and(|fatal| fatal.contains("trapped")));
        assert_eq!(tally.candidate.calls, 2, "one for each capability");
    });
}

/// The test plays the controller's part: it waits for the tally, and takes back.
fn a_bad_version_is_taken_back_at_once() {
    block_on(async {
        let cloud = Cloud::start().await;
        let active = Active::new(
            "entry",
            generation(&cloud, "0.1.0", "honest-requests").await,
        );
        let bad = generation(&cloud, "0.2.0", "panic").await;
        let gone = Arc::downgrade(&bad);
        let tried = Some((TrialKind::Canary, bad));
        active.set_roles(active.serving(), tried);
        let began = Instant::now();
        let watching = active.clone();
        let world = tokio::spawn(async move {
            while watching.tally().fatal.is_none() {
                watching.tally_changed().await;
            }
            let verdict = Instant::now();
            watching.set_roles(watching.serving(), None);
            (verdict, Instant::now())
        });
        let nodes = [ready_node("one", None)];
        let mut calls = 0;
        while !world.is_finished() {
            active.find(&nodes, permit()).await.unwrap();
            calls += 1;
        }
        let (verdict, back) = world.await.unwrap();
        assert!(gone.upgrade().is_none(), "nobody can call it any more");
        for _ in 0..50 {
            active.find(&nodes, permit()).await.unwrap();
        }
        // A roll-back that a person orders: the previous version is loaded again, from cached code.
        let ordered = Instant::now();
        active.set_roles(generation(&cloud, "0.2.0", "panic").await, None);
        let placed = ordered.elapsed();
        active.set_roles(generation(&cloud, "0.1.0", "honest-requests").await, None);
        let returned = ordered.elapsed() - placed;
        active.find(&nodes, permit()).await.unwrap();
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        figure(format!(
            "roll-back: of a canary {:.1} ms after its first trap ({calls} calls, {:.1} ms after it began; all answered), by loading the previous version {:.0} ms",
            ms(back - verdict),
            ms(verdict - began),
            ms(returned),
        ));
        // A second is allowed; there is no call between verdict and end, so not one more may have been made.
        assert!(calls < 50, "{calls} calls");
    });
}
