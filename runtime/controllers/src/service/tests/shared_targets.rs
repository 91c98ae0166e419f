//! How many lists of nodes are held: each is as long as the cluster has nodes, and there are as many Services.

use ccm_fixtures::provider::at_once;

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
    // One after the other: a pass takes twenty seconds, and another one begins every five.
    let mut settings = settings();
    settings.service.concurrent_syncs = NonZeroUsize::MIN;
    run_beside(&world, &cloud, settings, async {
        a_while().await;
        let mut most = 0;
        for number in 0..200 {
            world.join(&format!("n{number}")).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            most = most.max(cloud.held_target_lists());
        }
        assert!(most <= 8, "{most} lists");
    })
    .await;
}

/// Each Service was made when there was one node more, and its first update does not end.
#[tokio::test(start_paused = true)]
async fn services_that_know_different_nodes_share_those_that_several_know() {
    const SERVICES: usize = 100;
    let world = World::new();
    let cloud = ScriptedProvider::new("sim").balancing();
    let cloud = cloud.scripted(|asked| match asked.call.function {
        "ensure" => at_once(Ok(())),
        _ => Box::pin(std::future::pending()),
    });
    let cloud = Arc::new(cloud);
    let mut settings = settings();
    settings.service.concurrent_syncs = NonZeroUsize::new(4 * SERVICES).unwrap();
    run_beside(&world, &cloud, settings, async {
        for number in 0..SERVICES {
            world.join(&format!("n{number:03}")).await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            world.serve(&format!("s{number:03}")).await;
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        assert_eq!(cloud.balanced().len(), SERVICES);
        let lists = cloud.held_target_lists();
        assert!(lists >= SERVICES, "{lists} lists");
        assert_eq!(cloud.held_targets(), SERVICES, "as many as nodes");
    })
    .await;
}

/// Runs the controllers with this cloud while `script` lasts.
async fn run_beside(
    world: &World,
    cloud: &Arc<ScriptedProvider>,
    settings: Settings,
    script: impl Future<Output = ()>,
) {
    let (over, shutdown) = oneshot::channel::<()>();
    let shutdown = async {
        let _ = shutdown.await;
    };
    let client = world.cluster.client_as("ccm");
    let metrics = Metrics::default();
    let running = fixtures::run_one(client, cloud.clone(), settings, metrics, shutdown);
    let script = async {
        script.await;
        over.send(()).unwrap();
    };
    let (ended, ()) = tokio::join!(running, script);
    ended.unwrap();
}
