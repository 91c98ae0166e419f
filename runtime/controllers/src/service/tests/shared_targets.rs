//! How many lists of nodes are held: each is as large as the cluster's nodes, and there are as many Services.

use super::*;

/// Drift checks come at different times, and kubelets and operators change labels in between.
#[tokio::test(start_paused = true)]
async fn services_share_their_list_of_nodes_whatever_happens_to_labels() {
    let world = World::new();
    world.join_all(&["a", "b"]).await;
    for name in ["one", "two", "three", "four"] {
        world.serve(name).await;
    }
    world
        .run_while(settings(), async {
            for hour in 0..6 {
                let labels = json!({ "metadata": { "labels": { "hour": hour.to_string() } } });
                world.edit_node("a", labels).await;
                tokio::time::sleep(Duration::from_secs(1200)).await;
            }
            let ensured = world.cloud.take().len();
            assert!(ensured > 8, "{ensured} calls");
            // The current one, and one that all Services keep.
            let lists = world.cloud.provider.held_target_lists();
            assert!(lists <= 2, "{lists} lists");
        })
        .await;
}

/// Updates take longer than it takes until the next node joins.
#[tokio::test(start_paused = true)]
async fn services_of_a_pass_share_a_list_while_nodes_join() {
    let world = World::new();
    world.join("a").await;
    for number in 0..20 {
        world.serve(&format!("s{number}")).await;
    }
    let cloud = ScriptedProvider::new("sim").balancing().scripted(|asked| {
        let is_update = asked.call.function == "update";
        Box::pin(async move {
            if is_update {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Ok(())
        })
    });
    let cloud = Arc::new(cloud);
    let script = async {
        a_while().await;
        let mut most = 0;
        for number in 0..200 {
            world.join(&format!("n{number}")).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            most = most.max(cloud.held_target_lists());
        }
        assert!(most <= 8, "{most} lists");
    };
    let (over, shutdown) = oneshot::channel::<()>();
    let shutdown = async {
        let _ = shutdown.await;
    };
    // One after the other: a pass takes twenty seconds, and another one begins every five.
    let mut settings = settings();
    settings.service.concurrent_syncs = NonZeroUsize::MIN;
    let client = world.cluster.client_as("ccm");
    let running = fixtures::run_one(
        client,
        cloud.clone(),
        settings,
        Metrics::default(),
        shutdown,
    );
    let script = async {
        script.await;
        over.send(()).unwrap();
    };
    let (ended, ()) = tokio::join!(running, script);
    ended.unwrap();
}
