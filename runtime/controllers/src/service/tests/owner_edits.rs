//! A recorded owner that another client edits while its load balancer exists: nothing moves, and nothing is left behind.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use ccm_core::cloud_provider::CloudProvider as _;
use ccm_core::node::ownership::NodeClaim;
use ccm_core::settings::ServiceRules;
use ccm_fixtures::provider::{ScriptedProvider, at_once};
use kube::runtime::watcher::Event;
use tokio::sync::watch;

use super::*;
use crate::{Provided, run_all};
use alone::{Alone, claims};

const OWNER: &str = "wasm-ccm.dev/provider";

/// A provider of this name; only the default one serves Services without a class.
fn provided(cloud: &Arc<ScriptedProvider>, is_default: bool) -> Provided {
    Provided {
        cloud: cloud.clone(),
        nodes: NodeClaim::default(),
        service: ServiceRules {
            classes: BTreeSet::from([format!("{}/lb", cloud.name())]),
            is_default,
            ..ServiceRules::default()
        },
    }
}

/// Runs the providers `one`, which is the default, and `two`, with the Service `web` that `one` serves.
async fn with_two(
    script: impl AsyncFnOnce(&World, [&Arc<ScriptedProvider>; 2], &watch::Sender<Arc<[Provided]>>),
) {
    with_providers(ScriptedProvider::new("one").balancing(), script).await;
}

/// As [`with_two`], with this provider as `one`.
async fn with_providers(
    one: ScriptedProvider,
    script: impl AsyncFnOnce(&World, [&Arc<ScriptedProvider>; 2], &watch::Sender<Arc<[Provided]>>),
) {
    let world = World::new();
    let two = ScriptedProvider::new("two").balancing();
    let (one, two) = (Arc::new(one), Arc::new(two));
    world.serve("web").await;
    let list: Arc<[Provided]> = [provided(&one, true), provided(&two, false)].into();
    let (list, received) = watch::channel(list);
    let (over, shutdown) = oneshot::channel::<()>();
    let shutdown = async {
        let _ = shutdown.await;
    };
    let client = world.cluster.client_as("ccm");
    let running = run_all(client, received, settings(), Metrics::default(), shutdown);
    let script = async {
        a_while().await;
        assert_eq!((one.balanced().len(), two.balanced().len()), (1, 0));
        script(&world, [&one, &two], &list).await;
        over.send(()).unwrap();
    };
    let (ended, ()) = tokio::join!(running, script);
    ended.unwrap();
}

async fn owner(world: &World) -> Option<String> {
    let web = world.services().get("web").await.unwrap();
    web.metadata.annotations.unwrap_or_default().remove(OWNER)
}

#[tokio::test(start_paused = true)]
async fn svc_012_an_edited_owner_is_set_back_and_no_load_balancer_is_left_behind() {
    with_two(async |world, [one, two], _| {
        for edited in [json!("two"), json!(null)] {
            world
                .edit(
                    "web",
                    json!({ "metadata": { "annotations": { OWNER: edited } } }),
                )
                .await;
            a_while().await;
            assert_eq!(owner(world).await.as_deref(), Some("one"));
            assert_eq!((one.balanced().len(), two.balanced().len()), (1, 0));
        }
        assert_eq!(two.take_asked(), [""; 0]);
        let restored = world.reasons().await;
        let restored = restored
            .iter()
            .filter(|reason| *reason == "LoadBalancerOwnerRestored");
        assert_eq!(restored.count(), 1, "a removal is no attempt to move it");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_owner_before_an_edit_removes_the_load_balancer_of_a_service_that_goes() {
    with_two(async |world, [one, two], _| {
        let edit = json!({ "metadata": { "annotations": { OWNER: "two" } }, "spec": { "type": "ClusterIP" } });
        world.edit("web", edit).await;
        a_while().await;
        assert_eq!(owner(world).await, None);
        assert_eq!((one.balanced().len(), two.balanced().len()), (0, 0));
        // Nobody keeps it now: the class decides.
        let edit = json!({ "spec": { "type": "LoadBalancer", "loadBalancerClass": "two/lb" } });
        world.edit("web", edit).await;
        a_while().await;
        assert_eq!(owner(world).await.as_deref(), Some("two"));
        assert_eq!((one.balanced().len(), two.balanced().len()), (0, 1));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_goes_in_the_write_that_drops_both_marks_keeps_no_load_balancer() {
    with_two(async |world, [one, two], _| {
        let spec = json!({ "type": "LoadBalancer", "loadBalancerClass": "two/lb" });
        world.serve_as("api", spec).await;
        a_while().await;
        assert_eq!((one.balanced().len(), two.balanced().len()), (1, 1));
        for name in ["web", "api"] {
            let metadata = json!({ "annotations": { OWNER: null }, "finalizers": null });
            let spec = json!({ "type": "ClusterIP", "loadBalancerClass": null });
            world
                .edit(name, json!({ "metadata": metadata, "spec": spec }))
                .await;
        }
        a_while().await;
        assert_eq!((one.balanced().len(), two.balanced().len()), (0, 0));
        let reasons = world.reasons().await;
        let deleted = reasons
            .iter()
            .filter(|reason| *reason == "DeletedLoadBalancer");
        assert_eq!(deleted.count(), 2);
        // Nobody keeps it now: the class decides.
        let spec = json!({ "type": "LoadBalancer" });
        world.edit("api", json!({ "spec": spec })).await;
        a_while().await;
        assert_eq!((one.balanced().len(), two.balanced().len()), (1, 0));
    })
    .await;
}

/// The index of Services has forgotten it by then, and its last state names no provider.
#[tokio::test(start_paused = true)]
async fn a_service_that_drops_both_marks_and_vanishes_at_once_keeps_no_load_balancer() {
    let world = World::new();
    let spec = json!({ "type": "LoadBalancer", "loadBalancerClass": "sim/lb" });
    let web = world.serve_as("web", spec).await;
    let mut alone = Alone::new(&world, claims(&["east", "sim"], "east"));
    let cluster = alone.controller.executor.cluster.clone();
    cluster.service_index().apply(&web);
    alone.list(&web);
    alone.run().await;
    let metadata = json!({ "annotations": { OWNER: null }, "finalizers": null });
    let spec = json!({ "type": "ClusterIP", "loadBalancerClass": null });
    world
        .edit("web", json!({ "metadata": metadata, "spec": spec }))
        .await;
    alone.watch(&world, "web").await;
    let unmarked = world.services().get("web").await.unwrap();
    world.remove("web").await;
    cluster.service_index().forget(&unmarked);
    let deleted = ServiceChange::Deleted(Arc::new(unmarked));
    alone.controller.see_services(deleted);
    alone.run().await;
    world.cloud.removed("default/web");
}

/// It may have a manager of its own.
#[tokio::test(start_paused = true)]
async fn an_owner_that_is_not_configured_here_is_not_set_back() {
    with_two(async |world, [one, two], _| {
        for (edited, expected) in [("elsewhere", "elsewhere"), ("two", "one")] {
            let annotations = json!({ OWNER: edited });
            world
                .edit("web", json!({ "metadata": { "annotations": annotations } }))
                .await;
            a_while().await;
            assert_eq!(owner(world).await.as_deref(), Some(expected));
            assert_eq!((one.balanced().len(), two.balanced().len()), (1, 0));
        }
    })
    .await;
}

/// A Service that vanished, and one that dropped both marks in the write that wants no load balancer any more.
#[tokio::test(start_paused = true)]
async fn edge_066_the_controllers_of_other_settings_remove_what_was_left_without_a_mark() {
    for is_gone in [true, false] {
        the_controllers_of_other_settings_remove_what_was_left(is_gone).await;
    }
}

async fn the_controllers_of_other_settings_remove_what_was_left(is_gone: bool) {
    let may_delete = Arc::new(AtomicBool::new(false));
    let allowed = may_delete.clone();
    let one = ScriptedProvider::new("one").balancing();
    let one = one.scripted(move |asked| {
        let is_refused = asked.call.function == "delete" && !allowed.load(Ordering::Relaxed);
        at_once(match is_refused {
            true => Err(ProviderError::Denied("protected".to_owned())),
            false => Ok(()),
        })
    });
    with_providers(one, async |world, [one, two], list| {
        if is_gone {
            world.remove_by_force("web").await;
        } else {
            let metadata = json!({ "annotations": { OWNER: null }, "finalizers": null });
            let edit = json!({ "metadata": metadata, "spec": { "type": "ClusterIP" } });
            world.edit("web", edit).await;
        }
        a_while().await;
        assert_eq!(one.balanced().len(), 1);
        let mut settings = provided(one, true);
        settings.service.confirm_removal = Duration::from_secs(1);
        list.send_replace([settings, provided(two, false)].into());
        a_while().await;
        may_delete.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(one.balanced(), [""; 0]);
        drop(one.take_asked());
        list.send_replace([provided(one, true), provided(two, false)].into());
        a_while().await;
        assert_eq!(one.take_asked(), [""; 0], "nothing is left to remove");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_owner_of_a_provider_that_is_not_configured_any_more_can_be_edited() {
    with_two(async |world, [_, two], list| {
        let cloud = Arc::new(ScriptedProvider::new("two").balancing());
        drop(two.take_asked());
        list.send_replace([provided(&cloud, true)].into());
        a_while().await;
        world
            .edit(
                "web",
                json!({ "metadata": { "annotations": { OWNER: "two" } } }),
            )
            .await;
        // It has an address and no node is a target: that is confirmed first.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(owner(world).await.as_deref(), Some("two"));
        assert_eq!(cloud.balanced().len(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn who_may_have_a_load_balancer_is_known_by_both_marks_and_not_by_a_later_list() {
    let world = World::new();
    let alone = Alone::new(&world, claims(&["one", "two"], "one"));
    let cluster = &alone.controller.executor.cluster;
    let mut filter = ServiceChangeFilter::default();
    for (name, owner, is_marked, holder) in [
        // Without the finalizer it is a user's wish.
        ("new", "two", false, None),
        ("web", "one", true, Some("one")),
        ("web", "two", true, Some("one")),
        ("web", "two", false, Some("one")),
    ] {
        let mut listed = service(name).uid(name).annotation(OWNER, owner);
        if is_marked {
            let finalizers = json!(["service.kubernetes.io/load-balancer-cleanup"]);
            listed = listed.with(|service| service["metadata"]["finalizers"] = finalizers);
        }
        for event in [
            Event::Init,
            Event::InitApply(listed.build()),
            Event::InitDone,
        ] {
            filter.see(event, cluster);
        }
        let known = cluster.service_index().holder(name);
        assert_eq!(known.as_deref(), holder, "{name} {owner} {is_marked}");
    }
}
