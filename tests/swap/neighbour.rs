//! Two providers in one process: what the one does, the other must not feel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccm_core::cloud::CloudProvider as _;
use ccm_delivery::active::Active;
use tokio::time::Instant;

use crate::cloud::Cloud;
use crate::say;
use crate::stage::{self, BALANCING, Test, block_on, node, percentile, permit, permit_for};

pub(crate) const TESTS: &[Test] = &[(
    "a_hostile_neighbour_is_not_felt",
    a_hostile_neighbour_is_not_felt,
)];

/// What the neighbour does.
const HOSTILE: &[&str] = &[
    "spin",
    "panic",
    "sleep",
    "memory-bomb",
    "log-flood",
    "huge-string",
];
/// Quiet and hostile by turns, so that whatever else the machine does concerns both.
const ROUNDS: usize = 3;
/// The most rounds, where the machine did something else in one of the two: that evens out, and what a neighbour does
/// stays.
const MOST_ROUNDS: usize = 15;
/// Calls of a round.
const CALLS: usize = 100;
/// Its callers: more than a provider takes at once.
const CALLERS: usize = 12;
/// A hostile call's time.
const SHORT: Duration = Duration::from_millis(500);
/// Of the medians, on a machine that has other things to do and with a host that is not optimised: it is sixteen where
/// hostile guests compute as they like. The goal is two for the 99th per cent; what it is here is printed.
const MOST: f64 = 8.0;

fn a_hostile_neighbour_is_not_felt() {
    block_on(async {
        let cloud = Cloud::start().await;
        let load = async |name, behaviour| {
            let module = stage::version("0.1.0", behaviour);
            let generation = stage::generation(name, module, cloud.endpoint(), BALANCING).await;
            Active::new(name, generation)
        };
        let good = load("good", "honest-requests").await;
        calls(&good).await;
        for behaviour in HOSTILE {
            let bad = load("bad", behaviour).await;
            let (mut quiet, mut beside) = (Vec::new(), Vec::new());
            let mut rounds = 0;
            let [before, after] = loop {
                quiet.extend(calls(&good).await);
                let over = Arc::new(AtomicBool::new(false));
                let callers: Vec<_> = (0..CALLERS)
                    .map(|_| tokio::spawn(harass(bad.clone(), over.clone())))
                    .collect();
                beside.extend(calls(&good).await);
                over.store(true, Ordering::SeqCst);
                for caller in callers {
                    caller.await.unwrap();
                }
                rounds += 1;
                let both = [&mut quiet, &mut beside]
                    .map(|waits| [50, 99].map(|percent| percentile(waits, percent)));
                let is_felt = both[1][0] > MOST * both[0][0];
                if rounds >= MOST_ROUNDS || rounds >= ROUNDS && !is_felt {
                    break both;
                }
            };
            say(format!(
                "neighbour that does {behaviour}, {rounds} rounds: p50 {:.1} ms, quiet {:.1} ms ({:.1} times); p99 {:.1} ms, quiet {:.1} ms ({:.1} times)",
                after[0],
                before[0],
                after[0] / before[0],
                after[1],
                before[1],
                after[1] / before[1],
            ));
            assert!(
                after[0] <= MOST * before[0],
                "{behaviour}: {after:?}, quiet {before:?}, {rounds} rounds"
            );
        }
    });
}

/// Calls, one after the other, and how long each took.
async fn calls(good: &Arc<Active>) -> Vec<Duration> {
    let good = good.clone();
    // As controllers do, on the runtime's own threads.
    let calls = tokio::spawn(async move {
        let nodes = [node("one", None)];
        let mut waits = Vec::new();
        for _ in 0..CALLS {
            let since = Instant::now();
            good.find(&nodes, permit()).await.unwrap();
            waits.push(since.elapsed());
        }
        waits
    });
    calls.await.unwrap()
}

async fn harass(bad: Arc<Active>, over: Arc<AtomicBool>) {
    let nodes = [node("one", None)];
    while !over.load(Ordering::SeqCst) {
        // Most of these fail, which is the point.
        let _ = bad.find(&nodes, permit_for(SHORT)).await;
    }
}
