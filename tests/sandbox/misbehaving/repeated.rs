//! Guests that are called again and again leave nothing behind, however their calls end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccm_core::cloud::{Lookup, ProviderError};
use ccm_core::cloud_provider::CloudProvider as _;
use ccm_fixtures::objects::cloud_node;
use ccm_tests::counts::Count;
use ccm_tests::harness::{Test, figure};
use guest_misbehaving::behaviour::Behaviour;

use crate::misbehaving::behaviours::SHORT;
use crate::misbehaving::memory::grown;
use crate::misbehaving::target::{Target, TargetMode};
use crate::misbehaving::world::{self, TIMEOUT, block_on};
use crate::permits;

pub(crate) const TESTS: &[Test] = &[
    ("b7_what_each_call_leaks_goes_with_the_call", b7),
    ("b9_calls_that_are_dropped_on_their_way_leave_nothing", b9),
];

/// Tests that need all processors.
pub(crate) const ALONE: &[Test] = &[("b18_a_call_ends_although_all_processors_are_busy", b18)];

/// Number of calls that leak a mebibyte each.
const LEAKS: Count = Count {
    variable: "CCM_LEAKING_CALLS",
    default: 200,
    ci: 300,
    full: 10_000,
};
/// Maximum growth of the host meanwhile: enough for its allocator, and less than a tenth of what the fewest calls leak.
const MOST_KIB: u64 = 16 << 10;
/// Number of dropped calls of each behaviour.
const DROPS: Count = Count {
    variable: "CCM_DROPPED_CALLS",
    default: 200,
    ci: 300,
    full: 10_000,
};

fn b7() {
    let calls = LEAKS.get().unwrap();
    let grown = grown(Behaviour::Leak, calls);
    figure(format!(
        "{calls} calls that leak 1 MiB each: the host grew by {} MiB",
        grown >> 10
    ));
    assert!(grown <= MOST_KIB, "{grown} KiB in {calls} calls");
}

/// Calls dropped in the middle of computing, of waiting for the host, and of waiting for a cloud.
fn b9() {
    let drops = DROPS.get().unwrap();
    block_on(async {
        let cloud = Target::start(TargetMode::Well).await;
        let nodes = [cloud_node("one")];
        for behaviour in [Behaviour::HonestRequests, Behaviour::Sleep, Behaviour::Spin] {
            let provider = world::load(behaviour, &cloud.endpoint()).await.unwrap();
            let mut dropped = 0;
            for number in 0..drops {
                let mut call = provider.find(&nodes, permits::reads_for(TIMEOUT));
                // The call gets this far, and the next one begins at once.
                let mut is_over = false;
                for _ in 0..=number % 4 {
                    is_over = is_over || futures::poll!(&mut call).is_ready();
                    tokio::task::yield_now().await;
                }
                dropped += u64::from(!is_over);
            }
            assert!(
                dropped >= drops / 4,
                "{behaviour:?}: {dropped} were dropped"
            );
            let last = provider.find(
                &nodes,
                permits::reads_for(match behaviour {
                    Behaviour::HonestRequests => TIMEOUT,
                    _ => SHORT,
                }),
            );
            match (behaviour, last.await) {
                (Behaviour::HonestRequests, Ok(reply)) => {
                    assert!(matches!(reply.lookups[0], Lookup::Found(_)));
                }
                // It had its turn: a dropped call holds no place.
                (_, Err(ProviderError::TimedOut(text))) => {
                    assert!(text.contains("did not end within"), "{text}");
                }
                (_, end) => panic!("{behaviour:?}: {end:?}"),
            }
        }
    });
}

/// The thread that interrupts guests must get its turn among many that never yield. Judged by the guest's processor
/// time, which no other work on the machine makes longer.
fn b18() {
    const TIME: Duration = Duration::from_secs(1);
    let over = Arc::new(AtomicBool::new(false));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let busy: Vec<_> = (0..4 * processors)
        .map(|_| {
            let over = over.clone();
            std::thread::spawn(move || while !over.load(Ordering::Relaxed) {})
        })
        .collect();
    let (end, computed) = block_on(async {
        let provider = world::load(Behaviour::Spin, "http://127.0.0.1:9/v1").await;
        let provider = provider.unwrap();
        let before = on_processor();
        let end = provider
            .find(&[cloud_node("one")], permits::reads_for(TIME))
            .await;
        (end, on_processor() - before)
    });
    over.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|thread| thread.join().unwrap());
    let Err(ProviderError::TimedOut(text)) = end else {
        panic!("{end:?}");
    };
    assert!(text.contains("did not end within"), "{text}");
    assert!(computed <= 2 * TIME, "it computed for {computed:?}");
}

/// How long this thread has had a processor.
fn on_processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = text.split(' ').next().unwrap().parse().unwrap();
    Duration::from_nanos(nanoseconds)
}
