//! The oracle condemns real traffic: of processes without an election, and of a process that allows itself more time
//! than the others allow it.

use ccm_tests::link::Cut;

use crate::oracle::{Rule, Timings, Who};
use crate::world::{Load, World};

/// Waits until a process is found to break a rule.
async fn is_condemned(world: &mut World, number: u32, rule: Rule) {
    let what = format!("{number} to be condemned for {rule:?}");
    world
        .until(&what, |world| {
            world.all_run();
            let findings = world.judge().findings;
            let mut findings = findings.iter();
            findings
                .any(|one| one.record.by == Who::Replica(number) && one.rule == rule)
                .then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_that_hold_no_election_are_condemned() {
    let mut world = World::start(Timings::SHORT, Load::Steady).await;
    world.set_flags(&["--leader-elect=false"]);
    world.work.start();
    for number in [world.start_replica(), world.start_replica()] {
        is_condemned(&mut world, number, Rule::WithoutLease).await;
    }
    assert_eq!(world.recorder.holder(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_gives_itself_more_time_than_it_has_is_condemned() {
    let mut world = World::start(Timings::SHORT, Load::Steady).await;
    world.set_flags(&[
        "--leader-elect-lease-duration=30s",
        "--leader-elect-renew-deadline=20s",
    ]);
    let number = world.start_replica();
    assert_eq!(world.leader().await, number);
    // An initialised node needs no request to the API server, and is looked up at the cloud all the same.
    let node = world.work.make_one().await;
    world
        .until("the node's initialisation", |world| {
            (world.recorder.node_writes(&node).synced > 0).then_some(())
        })
        .await;
    assert!(world.judge().findings.is_empty());

    world.replica(number).api.cut(Cut::Silent);
    is_condemned(&mut world, number, Rule::AfterRenewDeadline).await;
    is_condemned(&mut world, number, Rule::AfterLease).await;
}
