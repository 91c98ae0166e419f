//! Nodes that stay although the cloud calls their machines gone, each with its reason in an Event.

use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::lifecycle::YOUNG;
use crate::world::{Setup, World, until};

const HELD: &str = "NodeDeletionHeld";

#[tokio::test]
async fn e13_the_token_of_another_project_deletes_no_node() {
    let world = World::start(Setup::default()).await;
    let machines = world.machines(4).await;
    let other = world.cloud.project("the-token-of-another-project");
    for machine in &machines[..2] {
        world.report(&machine.node, "Unknown").await;
    }
    let configuration = world.configuration(json!({}));
    let mut ccm = world.ccm_with_token("the-token-of-another-project", &configuration, YOUNG);
    for machine in &machines[..2] {
        let event = world.event(&mut ccm, &machine.node, HELD).await;
        let message = event.message.unwrap();
        assert!(message.contains("another account"), "{message}");
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert_eq!(
            event.source.unwrap().component.as_deref(),
            Some("cloud-node-lifecycle-controller")
        );
    }
    world.stop(ccm).await;
    assert!(other.requests().len() >= 2, "it was asked, and answered");
    assert_eq!(world.deletions(), []);
}

#[tokio::test]
async fn e12_a_token_that_is_revoked_before_the_second_answer_deletes_no_node() {
    let world = World::start(Setup::default()).await;
    let machines = world.machines(8).await;
    world.lose(&machines[0]).await;
    let mut ccm = world.ccm(&world.configuration(json!({})), YOUNG);
    let asked_for = format!("/servers/{}", machines[0].server);
    until(&mut ccm, "the first answer", async || {
        let requests = world.cloud.requests();
        let is_answered = |path: &str| path == asked_for;
        requests
            .iter()
            .any(|one| is_answered(&one.path) && one.status == Some(404))
            .then_some(())
    })
    .await;
    world.cloud.set_token("another-one");
    // The refusals come ever more slowly: after three of them the node has been NotReady for long enough.
    until(&mut ccm, "refusals", async || {
        let requests = world.cloud.requests();
        let refused = requests.iter().filter(|one| one.status == Some(401));
        (refused.count() >= 3).then_some(())
    })
    .await;
    assert_eq!(world.deletions(), []);

    // With the token accepted again, there is a second answer.
    world.cloud.set_token(world.token());
    let name = &machines[0].node;
    world
        .nodes_until(&mut ccm, "the node to go", |nodes| {
            !nodes.contains_key(name)
        })
        .await;
    world.stop(ccm).await;
}

#[tokio::test]
async fn the_only_node_stays_until_a_person_says_that_it_may_go() {
    let world = World::start(Setup::default()).await;
    let machines = world.machines(1).await;
    let name = &machines[0].node;
    world.lose(&machines[0]).await;
    let mut ccm = world.ccm(&world.configuration(json!({})), YOUNG);
    let event = world.event(&mut ccm, name, HELD).await;
    let message = event.message.unwrap();
    assert!(message.contains("wasm-ccm.dev/delete-until"), "{message}");
    assert_eq!(world.deletions(), []);

    let until = Timestamp::now() + SignedDuration::from_hours(1);
    let annotations = json!({"wasm-ccm.dev/delete-until": until.to_string()});
    let patch = json!({"metadata": {"annotations": annotations}});
    world.change(name, patch).await;
    world
        .nodes_until(&mut ccm, "the node to go", |nodes| nodes.is_empty())
        .await;
    world.stop(ccm).await;
}

#[tokio::test]
async fn the_only_node_goes_when_it_has_been_drained_to_the_end() {
    let world = World::start(Setup::default()).await;
    let machines = world.machines(1).await;
    let name = &machines[0].node;
    let admin = world.api.client_for("admin").await.unwrap();
    let params = PostParams::default();
    let account = json!({"metadata": {"name": "default"}});
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "default");
    let account = serde_json::from_value(account).unwrap();
    accounts.create(&params, &account).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(admin, "default");
    let daemon_set = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": true}]);
    for (pod, owners) in [("agent", daemon_set), ("web", json!([]))] {
        let container = json!({"name": "main", "image": "registry.invalid/main"});
        let pod = json!({
            "metadata": {"name": pod, "ownerReferences": owners},
            "spec": {"nodeName": name, "containers": [container]},
        });
        let pod = serde_json::from_value(pod).unwrap();
        pods.create(&params, &pod).await.unwrap();
    }
    let cordon = json!({"spec": {"unschedulable": true}});
    world.change(name, cordon).await;
    world.lose(&machines[0]).await;
    let mut ccm = world.ccm(&world.configuration(json!({})), YOUNG);
    world.event(&mut ccm, name, HELD).await;
    assert_eq!(world.deletions(), []);

    let at_once = DeleteParams::default().grace_period(0);
    pods.delete("web", &at_once).await.unwrap();
    world
        .nodes_until(&mut ccm, "the node to go", |nodes| nodes.is_empty())
        .await;
    world.stop(ccm).await;
}

#[tokio::test]
async fn half_of_the_cluster_is_held_although_it_is_really_gone() {
    let world = World::start(Setup::default()).await;
    let machines = world.machines(6).await;
    for machine in &machines[..3] {
        world.lose(machine).await;
    }
    let mut ccm = world.ccm(&world.configuration(json!({})), YOUNG);
    for machine in &machines[..3] {
        let event = world.event(&mut ccm, &machine.node, HELD).await;
        let message = event.message.unwrap();
        assert!(message.contains("more than a third"), "{message}");
    }
    world.stop(ccm).await;
    assert_eq!(world.deletions(), []);
}

#[tokio::test]
async fn a_restart_in_the_middle_does_not_refill_the_budget() {
    let world = World::start(Setup::default()).await;
    let machines = world.machines(13).await;
    for machine in &machines[..4] {
        world.lose(machine).await;
    }
    let configuration = world.configuration(json!({}));
    let mut ccm = world.ccm(&configuration, YOUNG);
    let nodes = world
        .nodes_until(&mut ccm, "three nodes to go", |nodes| nodes.len() == 10)
        .await;
    let last = machines[..4].iter().map(|machine| &machine.node);
    let last = last.clone().find(|name| nodes.contains_key(*name)).unwrap();
    let event = world.event(&mut ccm, last, HELD).await;
    assert!(event.message.unwrap().contains("node-deletion"));
    let reported = world.event_count(last, HELD).await;
    ccm.kill();

    let mut ccm = world.ccm(&configuration, YOUNG);
    let event = until(&mut ccm, "the same from the next process", async || {
        let again = world.event_count(last, HELD).await > reported;
        match again {
            true => world.events_about(last).await.pop(),
            false => None,
        }
    })
    .await;
    assert!(event.message.unwrap().contains("node-deletion"));
    world.stop(ccm).await;
    assert_eq!(world.deletions().len(), 3);
    assert!(world.nodes.get(last).await.is_ok());
}

#[tokio::test]
async fn a_deletion_that_is_forbidden_is_said_once_and_tried_ever_more_seldom() {
    let world = World::start(Setup::default()).await;
    let machines = world.machines(4).await;
    let name = &machines[0].node;
    let admin = world.api.client_for("admin").await.unwrap();
    let roles: Api<k8s_openapi::api::rbac::v1::ClusterRole> = Api::all(admin);
    let rules = |verbs: &[&str]| {
        json!({"rules": [
            {"apiGroups": [""], "resources": ["nodes"], "verbs": verbs},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
        ]})
    };
    let set = async |verbs: &[&str]| {
        let (params, patch) = (PatchParams::default(), Patch::Merge(rules(verbs)));
        let role = "ccm:cloud-node-lifecycle-controller";
        roles.patch(role, &params, &patch).await.unwrap();
    };
    set(&["get", "list", "watch", "patch"]).await;
    world.lose(&machines[0]).await;
    let mut ccm = world.ccm(&world.configuration(json!({})), YOUNG);
    let event = world.event(&mut ccm, name, "DeletingNodeFailed").await;
    let message = event.message.unwrap();
    assert!(message.contains("forbidden"), "{message}");
    until(&mut ccm, "a third try", async || {
        (world.deletions().len() >= 3).then_some(())
    })
    .await;
    assert_eq!(world.event_count(name, "DeletingNode").await, 1);
    assert_eq!(world.event_count(name, "DeletingNodeFailed").await, 1);
    assert_eq!(world.event_count(name, HELD).await, 0);
    let events = world.events_about(name).await;
    assert_eq!(events.len(), 2, "{events:#?}");

    set(&["get", "list", "watch", "patch", "delete"]).await;
    let what = "the node to go";
    world
        .nodes_until(&mut ccm, what, |nodes| !nodes.contains_key(name))
        .await;
    world.stop(ccm).await;
    let codes: Vec<_> = world.deletions().iter().map(|entry| entry.code).collect();
    let (last, refused) = codes.split_last().unwrap();
    assert_eq!(*last, 200);
    assert!(refused.iter().all(|code| *code == 403), "{codes:?}");
    assert!(refused.len() <= 12, "{codes:?}");
}
