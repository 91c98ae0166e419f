//! Parts that fail in the middle and come back.

use std::time::Duration;

use ccm_sim::hetzner::ServerSpec;
use serde_json::json;

use crate::world::{Setup, World, until};

#[tokio::test]
async fn an_api_server_that_crashes_during_a_look_up_comes_back_to_a_finished_job() {
    let mut setup = Setup::default();
    // Slow enough that the API server is gone when the answer of the cloud comes.
    setup.cloud.latency = Duration::from_secs(3);
    let mut world = World::start(setup).await;
    for name in ["worker-1", "worker-2"] {
        world.cloud.add_server(ServerSpec::named(name));
    }
    world.add_node("worker-1", json!({})).await;
    let mut ccm = world.ccm(&world.configuration(json!({})), &[]);
    until(&mut ccm, "a question to the cloud", async || {
        (!world.cloud.requests().is_empty()).then_some(())
    })
    .await;
    assert!(
        world.writes_to("worker-1").is_empty(),
        "the crash would come too late"
    );

    world.api.restart().await.unwrap();

    world.initialised(&mut ccm, "worker-1").await;
    // The watch is there again, too.
    world.add_node("worker-2", json!({})).await;
    world.initialised(&mut ccm, "worker-2").await;
    for name in ["worker-1", "worker-2"] {
        // A server that has just started knows no roles yet and may refuse once or twice.
        let mut writes = world.writes_to(name);
        writes.retain(|write| write.code != 403);
        assert_eq!(writes.len(), 2, "{name}: {writes:#?}");
    }
}
