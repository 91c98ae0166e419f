//! Two providers in one process: the acts of one must not affect the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccm_core::cloud_provider::CloudProvider as _;
use ccm_delivery::active::Active;
use ccm_fixtures::objects::ready_node;
use tokio::time::Instant;

use crate::swap::cloud::Cloud;
use crate::swap::world::{self, behaving, block_on, percentile, permit, permit_for};
use ccm_tests::counts::Count;
use ccm_tests::harness::Test;
use ccm_tests::harness::figure;

pub(crate) const TESTS: &[Test] = &[(
    "a_hostile_neighbour_does_no_harm",
    a_hostile_neighbour_does_no_harm,
)];

/// The behaviours of the neighbour.
const HOSTILE: &[&str] = &[
    "spin",
    "panic",
    "sleep",
    "memory-bomb",
    "log-flood",
    "huge-string",
];
/// Quiet and hostile rounds alternate, so that other load of the machine concerns both.
const ROUNDS: usize = 3;
/// Number of calls of a round. Enough for a 99th percentile with full counts only.
const CALLS: Count = Count {
    variable: "CCM_NEIGHBOUR_CALLS",
    default: 20,
    ci: 50,
    full: 200,
};
/// Number of callers: more than a provider takes at once.
const CALLERS: usize = 12;
/// Timeout of a hostile call.
const SHORT: Duration = Duration::from_millis(500);

/// Every call of the one provider is answered, whatever the other does meanwhile. The durations are printed and not
/// judged: the host's own tests check how much a hostile provider may compute between two calls of another one.
fn a_hostile_neighbour_does_no_harm() {
    block_on(async {
        let cloud = Cloud::start().await;
        let load = async |name, number, behaviour| {
            let (module, config) = (world::version(number), behaving(behaviour));
            let generation = world::generation(name, module, cloud.endpoint(), &config).await;
            Active::new(name, generation)
        };
        let good = load("good", "0.1.0", "honest-requests").await;
        calls(&good).await;
        for behaviour in HOSTILE {
            let bad = load("bad", "0.2.0", behaviour).await;
            let (mut quiet, mut beside, mut ended) = (Vec::new(), Vec::new(), 0);
            for _ in 0..ROUNDS {
                quiet.extend(calls(&good).await);
                let over = Arc::new(AtomicBool::new(false));
                let callers: Vec<_> = (0..CALLERS)
                    .map(|_| tokio::spawn(call_continuously(bad.clone(), over.clone())))
                    .collect();
                beside.extend(calls(&good).await);
                over.store(true, Ordering::SeqCst);
                for caller in callers {
                    ended += caller.await.unwrap();
                }
            }
            assert!(ended > 0, "{behaviour}: there was no neighbour");
            let [before, after] = [&mut quiet, &mut beside]
                .map(|waits| [50, 99].map(|percent| percentile(waits, percent)));
            figure(format!(
                "neighbour that does {behaviour}, {ended} calls of it beside {}: p50 {:.1} ms, quiet {:.1} ms ({:.1} times); p99 {:.1} ms, quiet {:.1} ms ({:.1} times)",
                beside.len(),
                after[0],
                before[0],
                after[0] / before[0],
                after[1],
                before[1],
                after[1] / before[1],
            ));
        }
    });
}

/// Makes calls, one after the other, and returns their durations.
async fn calls(good: &Arc<Active>) -> Vec<Duration> {
    let good = good.clone();
    // As controllers do, on the runtime's own threads.
    let calls = tokio::spawn(async move {
        let nodes = [ready_node("one", None)];
        let mut waits = Vec::new();
        for _ in 0..CALLS.get().unwrap() {
            let since = Instant::now();
            good.find(&nodes, permit()).await.unwrap();
            waits.push(since.elapsed());
        }
        waits
    });
    calls.await.unwrap()
}

/// Makes calls without a pause, and returns their number.
async fn call_continuously(bad: Arc<Active>, over: Arc<AtomicBool>) -> usize {
    let nodes = [ready_node("one", None)];
    let mut ended = 0;
    while !over.load(Ordering::SeqCst) {
        // Most of these fail, as intended.
        let _ = bad.find(&nodes, permit_for(SHORT)).await;
        ended += 1;
    }
    ended
}
