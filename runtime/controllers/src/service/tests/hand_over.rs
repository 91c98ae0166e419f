//! A leader takes over, and does not know what its predecessor has sent.

use super::*;

/// The predecessor's last call may have got no answer, and the cloud may still carry it out.
#[tokio::test(start_paused = true)]
async fn a_service_without_an_address_is_let_go_only_when_nothing_can_appear_any_more() {
    let world = World::new();
    let marked = service("web").with(|service| {
        service["spec"] = json!({ "type": "LoadBalancer", "ports": [{ "port": 80 }] });
        service["metadata"]["finalizers"] = json!(["service.kubernetes.io/load-balancer-cleanup"]);
        service["metadata"]["annotations"] = json!({ "wasm-ccm.dev/provider": "sim" });
    });
    fixtures::create(&world.services(), marked).await;
    world.remove("web").await;
    world
        .run_while(settings(), async {
            // The first look has not found anything.
            assert_eq!(
                world.cloud.asked(),
                ["get default/web", "delete default/web", "get default/web"]
            );
            assert!(world.services().get_opt("web").await.unwrap().is_some());
            a_while().await;
            assert_eq!(
                world.cloud.asked(),
                ["delete default/web", "get default/web"]
            );
            assert!(world.services().get_opt("web").await.unwrap().is_none());
        })
        .await;
}
