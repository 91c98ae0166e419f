//! That the oracle condemns what it is there for, on real traffic: processes of which nobody was elected, and one that
//! gives itself more time than the others give it.

use ccm_tests::link::Cut;

use crate::oracle::{Rule, Timings, Who};
use crate::rig::{Load, Rig};

/// Waits until a process is found to break a rule.
async fn is_condemned(rig: &mut Rig, number: u32, rule: Rule) {
    let what = format!("{number} to be condemned for {rule:?}");
    rig.until(&what, |rig| {
        rig.all_run();
        let findings = rig.judge().findings;
        let mut findings = findings.iter();
        findings
            .any(|one| one.record.by == Who::Replica(number) && one.rule == rule)
            .then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_that_hold_no_election_are_condemned() {
    let mut rig = Rig::start(Timings::SHORT, Load::Steady).await;
    rig.set_flags(&["--leader-elect=false"]);
    rig.work.start();
    for number in [rig.start_replica(), rig.start_replica()] {
        is_condemned(&mut rig, number, Rule::WithoutLease).await;
    }
    assert_eq!(rig.recorder.holder(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_gives_itself_more_time_than_it_has_is_condemned() {
    let mut rig = Rig::start(Timings::SHORT, Load::Steady).await;
    rig.set_flags(&[
        "--leader-elect-lease-duration=30s",
        "--leader-elect-renew-deadline=20s",
    ]);
    let number = rig.start_replica();
    assert_eq!(rig.leader().await, number);
    // A node that is initialised needs nothing of the API server, and is asked for at the cloud all the same.
    let node = rig.work.make_one().await;
    rig.until("the node's initialisation", |rig| {
        (rig.recorder.node_writes(&node).synced > 0).then_some(())
    })
    .await;
    assert!(rig.judge().findings.is_empty());

    rig.replica(number).api.cut(Cut::Silent);
    is_condemned(&mut rig, number, Rule::AfterRenewDeadline).await;
    is_condemned(&mut rig, number, Rule::AfterLease).await;
}
