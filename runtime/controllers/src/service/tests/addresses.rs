//! Addresses that other Services name.

use super::*;

/// Whoever may write Services can name any address there.
#[tokio::test(start_paused = true)]
async fn f31_an_external_ip_of_another_service_is_kept_from_no_load_balancer() {
    let world = World::new();
    let elsewhere = Api::namespaced(world.cluster.client_as("person"), "kube-public");
    // The address that the first load balancer gets.
    let spec = json!({
        "externalIPs": ["198.51.100.1"], "externalTrafficPolicy": "Cluster", "ports": [{ "port": 80 }]
    });
    let greedy = service("greedy").with(|service| service["spec"] = spec);
    fixtures::create(&elsewhere, greedy).await;
    world.serve("web").await;
    world
        .run_while(settings(), async {
            let web = world.services().get("web").await.unwrap();
            assert_eq!(ip(&web).as_deref(), Some("198.51.100.1"));
        })
        .await;
}
