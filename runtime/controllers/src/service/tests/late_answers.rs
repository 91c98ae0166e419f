//! Answers of the API server and of the cloud that arrive after the watch has told more.

use http::{Method, Request};
use kube::client::Body;

use super::*;
use alone::{Alone, claims};

/// A client whose writes to Services are answered this much later. They are made at once.
fn answered_late(cluster: &Cluster, late: Duration) -> Client {
    let inner = cluster.client_as("ccm");
    let service = tower::service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        async move {
            let is_late =
                request.method() == Method::PATCH && request.uri().path().contains("/services/");
            let answer = inner.send(request).await?;
            if is_late {
                tokio::time::sleep(late).await;
            }
            Ok::<_, tower::BoxError>(answer)
        }
    });
    Client::new(service, "default")
}

/// The API server deletes a Service with its last finalizer, and the watch may tell so before that write is answered.
#[tokio::test(start_paused = true)]
async fn a_deleted_service_holds_no_address_even_if_the_last_write_to_it_is_answered_late() {
    let world = World::new();
    world.serve("web").await;
    let client = answered_late(&world.cluster, Duration::from_secs(1));
    world
        .run_with(client, settings(), async {
            world.remove("web").await;
            a_while().await;
            assert!(world.services().get_opt("web").await.unwrap().is_none());
            // It gets the same address.
            world.serve("other").await;
            a_while().await;
            let other = world.services().get("other").await.unwrap();
            assert_eq!(ip(&other).as_deref(), Some("198.51.100.1"));
        })
        .await;
}

/// The Service is another manager's by then, which has written the address.
#[tokio::test(start_paused = true)]
async fn an_address_is_in_use_even_if_our_last_write_to_its_service_is_answered_late() {
    let world = World::new();
    world.serve("web").await;
    let client = answered_late(&world.cluster, Duration::from_secs(1));
    world
        .run_with(client, settings(), async {
            let spec = json!({ "type": "ClusterIP" });
            world.edit("web", json!({ "spec": spec })).await;
            // The write that lets it go is made, and not answered yet.
            while has_finalizer(&world.services().get("web").await.unwrap()) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            let spec = json!({ "type": "LoadBalancer", "loadBalancerClass": "elsewhere/lb" });
            world.edit("web", json!({ "spec": spec })).await;
            let ingress = json!([{ "ip": "198.51.100.1" }]);
            let status = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
            let (params, patch) = (PatchParams::default(), Patch::Merge(status));
            let services = world.services();
            services.patch_status("web", &params, &patch).await.unwrap();
            a_while().await;
            // Its load balancer gets the same address.
            world.serve("other").await;
            a_while().await;
            let other = world.services().get("other").await.unwrap();
            assert_eq!(ip(&other), None);
        })
        .await;
}

/// The last state that the watch has shown has both marks, and wants a load balancer.
#[tokio::test(start_paused = true)]
async fn a_load_balancer_whose_service_vanishes_while_it_is_made_is_removed() {
    let world = World::new();
    let web = world.serve("web").await;
    let mut alone = Alone::new(&world, claims(&["sim"], "sim"));
    alone.list(&web);
    world.cloud.hold("ensure", "default/web");
    alone.controller.start_due();
    a_while().await;
    alone.watch(&world, "web").await;
    let marked = world.services().get("web").await.unwrap();
    world
        .edit("web", json!({ "metadata": { "finalizers": null } }))
        .await;
    world.remove("web").await;
    let deleted = ServiceChange::Deleted(Arc::new(marked));
    alone.controller.see_services(deleted);
    world.cloud.release();
    alone.run().await;
    world.cloud.removed("default/web");
}
