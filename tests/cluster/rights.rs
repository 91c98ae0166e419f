//! The roles in `deploy/` are what the controllers need: nothing missing, nothing spare.

use std::collections::BTreeMap;

use ccm_sim::hetzner::{Fault, ServerSpec, Trouble};
use serde_json::json;

use crate::kubelet::uninitialized;
use crate::lifecycle::YOUNG;
use crate::record::{granted, used};
use crate::services::{PLACE, Services, load_balancer};
use crate::world::{Setup, World, until};

#[tokio::test]
async fn the_roles_in_deploy_are_exactly_what_the_controllers_use() {
    let world = World::start(Setup {
        // An API server that does not stream lists: the older way needs one verb more.
        server_flags: vec!["--feature-gates=WatchList=false".to_owned()],
        ..Setup::default()
    })
    .await;
    // The same Event twice within minutes is counted up, which is a patch. A refusal is told at once.
    let refusal = Trouble::Refuse {
        status: 403,
        code: "forbidden".to_owned(),
    };
    world.cloud.inject(Fault::new(refusal));
    let server = world.cloud.add_server(ServerSpec::named("worker-1"));
    world.add_node("worker-1", json!({})).await;

    let mut ccm = world.ccm(&world.configuration(json!(BTreeMap::from([PLACE]))), YOUNG);
    until(&mut ccm, "the same Event again", async || {
        let mut events = world.events_about("worker-1").await.into_iter();
        events.find(|event| event.count >= Some(2))
    })
    .await;
    world.cloud.clear_faults();
    world.initialised(&mut ccm, "worker-1").await;

    // A node that changes while the cloud is asked, and whose addresses are right already: the one write meets a
    // conflict, and the node has to be read again.
    world.cloud.add_server(ServerSpec::named("worker-2"));
    let addresses = json!([
        {"type": "Hostname", "address": "worker-2"},
        {"type": "ExternalIP", "address": "198.18.0.2"},
    ]);
    world
        .register("worker-2", json!({}), json!([]), addresses)
        .await;
    world.cloud.clear_requests();
    world.cloud_link.hold();
    let taint = json!({"spec": {"taints": [uninitialized()]}});
    world.change("worker-2", taint).await;
    world.cloud_is_asked(&mut ccm).await;
    let note = json!({"metadata": {"annotations": {"note": "meanwhile"}}});
    world.change("worker-2", note).await;
    world.cloud_link.release();
    world.initialised(&mut ccm, "worker-2").await;

    // A node goes with its machine; the other one vouches for the answers.
    world.cloud.remove_server(server);
    world
        .nodes_until(&mut ccm, "worker-1 to go", |nodes| nodes.len() == 1)
        .await;

    // A Service gets a load balancer, and leaves without a trace.
    let services = Services::of(&world).await;
    services.create("web", load_balancer(&[80])).await;
    services.has_address(&mut ccm, "web").await;
    services.delete("web").await;
    services.is_gone(&mut ccm, "web").await;

    // One that is another one by the time that the cloud has answered: the write is refused, and it is read again.
    services.create("swift", load_balancer(&[80])).await;
    services.has_address(&mut ccm, "swift").await;
    world.cloud.clear_requests();
    world.cloud_link.hold();
    let hostname = json!({"load-balancer.hetzner.cloud/hostname": "swift.example.com"});
    let shown = json!({"metadata": {"annotations": hostname}});
    services.change("swift", shown).await;
    until(&mut ccm, "a question about it", async || {
        let requests = world.cloud.requests();
        let mut paths = requests.iter().map(|request| &request.path);
        paths
            .any(|path| path.starts_with("/load_balancers"))
            .then_some(())
    })
    .await;
    let unkept = json!({"metadata": {"finalizers": null}});
    services.change("swift", unkept).await;
    services.delete("swift").await;
    services.create("swift", load_balancer(&[80])).await;
    world.cloud_link.release();
    services.has_address(&mut ccm, "swift").await;

    let log = world.asked();
    let refused: Vec<_> = log.iter().filter(|entry| entry.code == 403).collect();
    assert!(refused.is_empty(), "not granted: {refused:?}");
    assert_eq!(used(&log), granted(&world.rights));
}
