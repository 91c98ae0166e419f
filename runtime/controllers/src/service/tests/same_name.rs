//! Several Services of one name, one after the other: none waits for what the cloud asked about another.

use super::*;
use alone::{Alone, claims};

#[tokio::test(start_paused = true)]
async fn svc_023_a_service_does_not_wait_for_the_throttled_removal_of_the_one_before() {
    let world = World::new();
    world.serve("web").await;
    world
        .run_while(settings(), async {
            let throttled = ProviderError::Throttled {
                message: "later".to_owned(),
                retry_after: Some(Duration::from_secs(600)),
            };
            world.cloud.fail("delete", throttled);
            world.remove_by_force("web").await;
            let new = world.serve("web").await;
            a_while().await;
            let uid = new.metadata.uid.unwrap();
            assert!(world.cloud.provider.balanced().contains(&uid));
            assert_eq!(world.cloud.provider.balanced().len(), 2);
            // The throttled one is not forgotten, and not asked about too early.
            tokio::time::sleep(Duration::from_secs(500)).await;
            let deletions = |calls: Vec<Call>| {
                calls
                    .iter()
                    .filter(|call| call.function == "delete")
                    .count()
            };
            assert_eq!(deletions(world.cloud.take()), 1);
            tokio::time::sleep(Duration::from_secs(200)).await;
            assert_eq!(deletions(world.cloud.take()), 1);
            assert_eq!(world.cloud.provider.balanced(), [uid]);
        })
        .await;
}

/// The watch was interrupted: a list shows only the later one.
#[tokio::test(start_paused = true)]
async fn the_load_balancer_of_the_one_before_is_removed_also_if_its_end_was_missed() {
    let world = World::new();
    let old = world.serve("web").await;
    let mut alone = Alone::new(&world, claims(&["sim"], "sim"));
    alone.list(&old);
    alone.run().await;
    world
        .edit("web", json!({ "metadata": { "finalizers": null } }))
        .await;
    world.remove("web").await;
    let new = world.serve("web").await;
    alone.list(&new);
    alone.run().await;
    let uid = new.metadata.uid.unwrap();
    assert_eq!(world.cloud.provider.balanced(), [uid.as_str()]);
    // An event about the one before ends nothing of the later one.
    let deleted = ServiceChange::Deleted(Arc::new(old));
    alone.controller.see_services(deleted);
    assert_eq!(alone.run().await, 0);
    assert_eq!(world.cloud.provider.balanced(), [uid.as_str()]);
}
