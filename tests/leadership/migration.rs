//! A cluster that moves its controllers from one manager to another: two Leases, and the controllers that run under
//! each.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use crate::defaults::{asks, with_stall};
use crate::oracle::{Timings, What};
use crate::world::{LEASE, Load, World};

/// The second Lease, which both managers compete for.
const SHARED: &str = "cloud-provider-extraction-migration";

/// Maximum time until a process has ended after the loss of either Lease, with an allowance for a loaded machine.
const UNTIL_ENDED: Duration = Duration::from_millis(1500);

/// A world with a migration configuration: the node controller runs in the manager that holds the second Lease.
async fn world() -> World {
    let mut world = World::start(Timings::SHORT, Load::Steady).await;
    let file = world.folder.path().join("migration.yaml");
    let migration = json!({
        "apiVersion": "controllermanager.config.k8s.io/v1",
        "kind": "LeaderMigrationConfiguration",
        "leaderName": SHARED,
        "controllerLeaders": [{"name": "cloud-node-controller", "component": "*"}],
    });
    std::fs::write(&file, migration.to_string()).unwrap();
    let file = format!("--leader-migration-config={}", file.display());
    world.set_flags(&["--enable-leader-migration", &file]);
    world
}

async fn takes_the_second(world: &mut World, number: u32) {
    let what = format!("{number} to take the second lease");
    world
        .until(&what, |world| {
            world.all_run();
            world
                .recorder
                .did(number, SHARED, &What::Renewed)
                .then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proc_044_the_second_lease_is_tried_after_the_first_is_won_and_losing_either_ends_the_process()
 {
    let mut world = world().await;
    let first = world.start_replica();
    assert_eq!(world.leader().await, first);
    takes_the_second(&mut world, first).await;
    world.work.make_one().await;
    world.converge().await;

    let second = world.start_replica();
    world.stands_by(second).await;
    for what in [What::Looked, What::Renewed] {
        assert!(
            !world.recorder.did(second, SHARED, &what),
            "{}",
            world.report()
        );
    }

    // The other manager takes the second Lease: its former holder ends, and leaves the first one to expire.
    world.stalls.take();
    world.hold_by_hand(SHARED, "kube-controller-manager").await;
    let stolen = Timestamp::now();
    let (ended, status) = world.ended(first).await;
    assert_eq!(status.code(), Some(1), "{}", world.report());
    let most = world.timings.retry + UNTIL_ENDED;
    let took = ended.duration_since(stolen).unsigned_abs();
    let is_prompt = took < with_stall(&world, most);
    assert!(is_prompt, "{took:?}\n{}", world.report());
    assert!(world.log(first).contains("migration leaderelection lost"));
    assert!(!world.recorder.released(first));

    // The next process wins the first Lease, and does nothing about nodes before it has the second.
    let node = world.work.make_one().await;
    let (successor, _) = world.successor(first).await;
    assert_eq!(successor, second);
    let looked = |world: &mut World| {
        world
            .recorder
            .did(second, SHARED, &What::Looked)
            .then_some(())
    };
    world.until("a look at the second lease", looked).await;
    for _ in 0..5 {
        tokio::time::sleep(world.timings.retry).await;
        world.hold_by_hand(SHARED, "kube-controller-manager").await;
        world.all_run();
        assert!(
            !world.recorder.did(second, SHARED, &What::Renewed),
            "{}",
            world.report()
        );
        assert_eq!(world.work.waiting().await, 1);
    }
    world.hold_by_hand(SHARED, "").await;
    takes_the_second(&mut world, second).await;
    world.converge().await;
    assert_eq!(world.recorder.node_writes(&node).initialised, 1);

    // The loss of the first Lease ends it as well.
    world.stalls.take();
    world.steal(LEASE).await;
    let stolen = Timestamp::now();
    let (ended, status) = world.ended(second).await;
    assert_eq!(status.code(), Some(1), "{}", world.report());
    let took = ended.duration_since(stolen).unsigned_abs();
    let is_prompt = took < with_stall(&world, most);
    assert!(is_prompt, "{took:?}\n{}", world.report());
    assert!(world.log(second).contains("leaderelection lost"));
    let findings = world.judge().findings;
    assert!(findings.is_empty(), "{findings:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_told_to_stop_holds_the_first_lease_until_requests_under_the_second_have_ended()
 {
    let mut world = world().await;
    // No controller under the first Lease asks the cloud.
    world.set_flags(&["--controllers=*,-cloud-node-lifecycle-controller"]);
    let replica = world.start_replica();
    assert_eq!(world.leader().await, replica);
    takes_the_second(&mut world, replica).await;
    world.work.make_one().await;
    world.converge().await;

    // The cloud answers the node controller late.
    world.replica(replica).cloud.hold();
    asks(&mut world).await;
    world.replica(replica).process.terminate().unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.all_run();
    world.recorder.refresh(&world.api, &world.cloud);
    let holder = world.recorder.holder().map(|(holder, _)| holder);
    assert_eq!(holder, Some(replica), "{}", world.report());

    world.replica(replica).cloud.release();
    let (_, status) = world.ended(replica).await;
    world.recorder.refresh(&world.api, &world.cloud);
    assert!(status.success(), "{status}\n{}", world.report());
    assert!(world.recorder.released(replica), "{}", world.report());
    assert!(
        world.recorder.did(replica, SHARED, &What::Released),
        "{}",
        world.report()
    );
    let findings = world.judge().findings;
    assert!(findings.is_empty(), "{findings:?}");
}
