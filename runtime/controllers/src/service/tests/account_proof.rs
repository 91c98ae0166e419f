//! The look-ups of nodes that confirm an account: Services that begin together share one.

use std::collections::BTreeSet;

use ccm_fixtures::provider::{found, instance};

use super::*;

/// Services before the Ready node `a`, whose machine the cloud knows.
async fn world(services: &[&str]) -> World {
    let provider = ScriptedProvider::new("sim").balancing();
    let provider = provider.finding(|_| found(instance("sim://a", "10.0.0.1")));
    let world = World {
        cluster: Cluster::new(),
        cloud: Balancers::of(provider),
    };
    let node = node("a").provider_id("sim://a").ready();
    fixtures::create(&world.nodes(), node).await;
    for name in services {
        world.serve(name).await;
    }
    world
}

#[tokio::test(start_paused = true)]
async fn while_no_node_can_be_looked_up_the_services_do_not_wait_for_each_others_failures() {
    const CALL: Duration = Duration::from_secs(15);
    let names = ["one", "two", "three", "four"];
    let world = world(&names).await;
    world.run_while(settings(), async {}).await;
    // Host names do not confirm the account either.
    let ingress = json!([{ "hostname": "web.example" }]);
    let patch = Patch::Merge(json!({ "status": { "loadBalancer": { "ingress": ingress } } }));
    let (services, params) = (world.services(), PatchParams::default());
    for name in names {
        services.patch_status(name, &params, &patch).await.unwrap();
    }
    world.cloud.take();
    world.cloud.slow_down("find_fresh", CALL);
    world
        .run_while(settings(), async {
            tokio::time::sleep(2 * CALL - A_WHILE).await;
            let calls = world.cloud.take();
            let updates = calls.iter().filter(|call| call.function == "update");
            let updated: BTreeSet<String> = updates.map(|call| call.object.clone()).collect();
            let all = names.map(|name| format!("default/{name}"));
            assert_eq!(updated, BTreeSet::from(all), "{calls:?}");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn services_that_waited_for_another_do_not_ask_a_generation_that_is_gone() {
    let world = world(&[]).await;
    world
        .run_while(settings(), async {
            world.cloud.hold("find_fresh", "");
            for name in ["one", "two", "three"] {
                world.serve(name).await;
            }
            a_while().await;
            world.cloud.provider.replace();
            world.cloud.release();
            // Less than until they try again.
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(world.cloud.asked(), ["find_fresh"]);
            a_while().await;
            let calls = world.cloud.asked();
            let look_ups = calls.iter().filter(|call| *call == "find_fresh");
            assert_eq!(look_ups.count(), 1, "{calls:?}");
            assert_eq!(world.cloud.provider.balanced().len(), 3);
        })
        .await;
}
