//! A cluster that moves its controllers from one manager to another: two leases, and who does what under which.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use crate::oracle::{Timings, What};
use crate::rig::{LEASE, Load, Rig};

/// The Lease that both managers stand for.
const SHARED: &str = "cloud-provider-extraction-migration";

/// How long a process may take to end after it has lost either lease, and what a loaded machine adds.
const UNTIL_ENDED: Duration = Duration::from_millis(1500);

/// A rig in whose file the node controller belongs to whichever manager holds the second lease.
async fn rig() -> Rig {
    let mut rig = Rig::start(Timings::SHORT, Load::Steady).await;
    let file = rig.folder.path().join("migration.yaml");
    let migration = json!({
        "apiVersion": "controllermanager.config.k8s.io/v1",
        "kind": "LeaderMigrationConfiguration",
        "leaderName": SHARED,
        "controllerLeaders": [{"name": "cloud-node-controller", "component": "*"}],
    });
    std::fs::write(&file, migration.to_string()).unwrap();
    let file = format!("--leader-migration-config={}", file.display());
    rig.set_flags(&["--enable-leader-migration", &file]);
    rig
}

async fn takes_the_second(rig: &mut Rig, number: u32) {
    let what = format!("{number} to take the second lease");
    rig.until(&what, |rig| {
        rig.all_run();
        rig.recorder
            .did(number, SHARED, &What::Renewed)
            .then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proc_044_the_second_lease_is_tried_after_the_first_is_won_and_losing_either_ends_the_process()
 {
    let mut rig = rig().await;
    let first = rig.start_replica();
    assert_eq!(rig.leader().await, first);
    takes_the_second(&mut rig, first).await;
    rig.work.make_one().await;
    rig.converge().await;

    let second = rig.start_replica();
    rig.stands_by(second).await;
    for what in [What::Looked, What::Renewed] {
        assert!(!rig.recorder.did(second, SHARED, &what), "{}", rig.story());
    }

    // The other manager takes the second lease: whoever held it ends, and leaves the first one to its time.
    rig.hold_by_hand(SHARED, "kube-controller-manager").await;
    let stolen = Timestamp::now();
    let (ended, status) = rig.ended(first).await;
    assert_eq!(status.code(), Some(1), "{}", rig.story());
    let most = rig.timings.retry + UNTIL_ENDED;
    let took = ended.duration_since(stolen).unsigned_abs();
    assert!(took < most, "{took:?}\n{}", rig.story());
    assert!(rig.log(first).contains("migration leaderelection lost"));
    assert!(!rig.recorder.released(first));

    // The next one wins the first lease, and does nothing about nodes before it has the second.
    let node = rig.work.make_one().await;
    let (successor, _) = rig.successor(first).await;
    assert_eq!(successor, second);
    let looked = |rig: &mut Rig| {
        rig.recorder
            .did(second, SHARED, &What::Looked)
            .then_some(())
    };
    rig.until("a look at the second lease", looked).await;
    for _ in 0..5 {
        tokio::time::sleep(rig.timings.retry).await;
        rig.hold_by_hand(SHARED, "kube-controller-manager").await;
        rig.all_run();
        assert!(
            !rig.recorder.did(second, SHARED, &What::Renewed),
            "{}",
            rig.story()
        );
        assert_eq!(rig.work.waiting().await, 1);
    }
    rig.hold_by_hand(SHARED, "").await;
    takes_the_second(&mut rig, second).await;
    rig.converge().await;
    assert_eq!(rig.recorder.node_writes(&node).initialised, 1);

    // And losing the first one ends it as well.
    rig.steal(LEASE).await;
    let stolen = Timestamp::now();
    let (ended, status) = rig.ended(second).await;
    assert_eq!(status.code(), Some(1), "{}", rig.story());
    let took = ended.duration_since(stolen).unsigned_abs();
    assert!(took < most, "{took:?}\n{}", rig.story());
    assert!(rig.log(second).contains("leaderelection lost"));
    let findings = rig.judge().findings;
    assert!(findings.is_empty(), "{findings:?}");
}
