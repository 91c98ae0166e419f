//! The cost of a neighbour of every behaviour for an honest provider: counted in turns, since durations depend on the
//! machine. On one thread, where nothing runs in parallel, more calls than a provider takes at once are repeated again
//! and again, while honest calls are made one after the other. For each turn of an honest call its neighbour has one at
//! most: every single call takes at most twice as long as in a quiet process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ccm_core::cloud_provider::CloudProvider as _;
use ccm_fixtures::objects::cloud_node;
use ccm_tests::counts::Count;
use ccm_tests::harness::trial;
use guest_misbehaving::behaviour::Behaviour;
use libtest_mimic::Trial;

use crate::misbehaving::behaviours::{self, SHORT};
use crate::misbehaving::target::Target;
use crate::misbehaving::world::{self, block_on};
use crate::permits;

/// Honest calls beside each behaviour.
const CALLS: Count = Count {
    variable: "CCM_HONEST_CALLS",
    default: 10,
    ci: 10,
    full: 1_000,
};
/// Number of callers: more than a provider takes at once.
const CALLERS: usize = 12;
/// One test for each behaviour that a module can be loaded with.
pub(crate) fn trials() -> Vec<Trial> {
    let loaded = Behaviour::ALL
        .iter()
        .filter(|behaviour| behaviours::is_loaded(**behaviour));
    let trial = |behaviour: &Behaviour| {
        let behaviour = *behaviour;
        trial(format!("neighbours::{}", behaviour.word()), move || {
            block_on(check(behaviour));
            Ok(())
        })
    };
    loaded.map(trial).collect()
}

async fn check(behaviour: Behaviour) {
    let cloud = Target::start(behaviours::target_mode(behaviour)).await;
    let honest = world::load(Behaviour::Honest, &cloud.endpoint())
        .await
        .unwrap();
    let honest = Arc::new(honest);
    let bad = world::load(behaviour, &cloud.endpoint()).await.unwrap();
    let (bad, over) = (Arc::new(bad), Arc::new(AtomicBool::new(false)));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (bad, over) = (bad.clone(), over.clone());
            tokio::spawn(async move {
                let nodes = [cloud_node("one"), cloud_node("two")];
                while !over.load(Ordering::SeqCst) {
                    // Most of these fail, as intended.
                    let _ = bad.find(&nodes, permits::reads_for(SHORT)).await;
                }
            })
        })
        .collect();
    for _ in 0..CALLS.get().unwrap() {
        let before = [&honest, &bad].map(|provider| provider.cpu_turns().unwrap());
        let (honest, bad) = (honest.clone(), bad.clone());
        // A task like the others: the runtime polls the future that it blocks on more rarely.
        let call = tokio::spawn(async move {
            let nodes = [cloud_node("neighbour")];
            let call = honest.find(&nodes, permits::reads_for(world::TIMEOUT));
            call.await.unwrap();
            [&honest, &bad].map(|provider| provider.cpu_turns().unwrap())
        });
        let after = call.await.unwrap();
        let [own, theirs] = [after[0] - before[0], after[1] - before[1]];
        assert!(own > 0 && theirs <= own, "{theirs} turns beside {own}");
    }
    over.store(true, Ordering::SeqCst);
    for caller in callers {
        caller.await.unwrap();
    }
    assert!(bad.cpu_turns() > Some(0), "there was no neighbour");
}
