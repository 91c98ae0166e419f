//! Unit tests of the in-memory API, through the real client.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;

use super::{Cluster, Fault, FaultEffect, Verb};

fn node(name: &str) -> Node {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

#[tokio::test]
async fn a_kube_api_can_create_get_list_patch_watch_and_delete() {
    let cluster = Cluster::new();
    let nodes: Api<Node> = Api::all(cluster.client_as("tester"));
    let made = nodes
        .create(&PostParams::default(), &node("a"))
        .await
        .unwrap();
    let version = made.metadata.resource_version.clone().unwrap();
    let mut events = nodes
        .watch(&WatchParams::default(), &version)
        .await
        .unwrap()
        .boxed();
    let patch = json!({"spec": {"providerID": "x://1"}});
    nodes
        .patch("a", &PatchParams::default(), &Patch::Strategic(patch))
        .await
        .unwrap();
    nodes.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(matches!(
        events.try_next().await.unwrap(),
        Some(WatchEvent::Modified(_))
    ));
    assert!(matches!(
        events.try_next().await.unwrap(),
        Some(WatchEvent::Deleted(_))
    ));
    assert!(
        nodes
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    let log = cluster.requests();
    let verbs: Vec<&str> = log.iter().map(|request| request.verb).collect();
    assert_eq!(verbs, ["create", "watch", "patch", "delete", "list"]);
    assert!(log.iter().all(|request| request.identity == "tester"));
}

#[tokio::test]
async fn a_request_lost_after_the_commit_was_done_and_one_lost_before_was_not() {
    let cluster = Cluster::new();
    let nodes: Api<Node> = Api::all(cluster.client());
    for (name, effect, done) in [
        ("before", FaultEffect::LostBeforeCommit, false),
        ("after", FaultEffect::LostAfterCommit, true),
    ] {
        cluster.inject(Fault::next(Verb::Create, "nodes", effect));
        let answer = nodes.create(&PostParams::default(), &node(name)).await;
        assert!(matches!(answer, Err(kube::Error::Service(_))), "{name}");
        assert_eq!(nodes.get_opt(name).await.unwrap().is_some(), done, "{name}");
    }
}

#[tokio::test]
async fn a_refusing_fault_hits_as_often_as_it_says_and_only_its_target() {
    let cluster = Cluster::new();
    let nodes: Api<Node> = Api::all(cluster.client());
    for name in ["a", "b"] {
        nodes
            .create(&PostParams::default(), &node(name))
            .await
            .unwrap();
    }
    let effect = FaultEffect::Refused {
        code: 429,
        retry_after: Some(7),
    };
    cluster.inject(Fault::next(Verb::Get, "nodes", effect).named("a").times(2));
    assert!(nodes.get("b").await.is_ok());
    for _ in 0..2 {
        match nodes.get("a").await {
            Err(kube::Error::Api(status)) => assert_eq!(status.code, 429),
            other => panic!("{other:?}"),
        }
    }
    assert!(nodes.get("a").await.is_ok());
    let codes: Vec<Option<u16>> = cluster.requests().iter().map(|one| one.code).collect();
    assert_eq!(codes, [201, 201, 200, 429, 429, 200].map(Some));
}

#[tokio::test]
async fn expired_watches_end_with_410_and_old_versions_stay_too_old() {
    let cluster = Cluster::new();
    let nodes: Api<Node> = Api::all(cluster.client());
    let list = nodes.list(&ListParams::default()).await.unwrap();
    let version = list.metadata.resource_version.unwrap();
    let mut open = nodes
        .watch(&WatchParams::default(), &version)
        .await
        .unwrap()
        .boxed();
    cluster.expire_watches();
    let mut late = nodes
        .watch(&WatchParams::default(), &version)
        .await
        .unwrap()
        .boxed();
    for events in [&mut open, &mut late] {
        match events.try_next().await.unwrap() {
            Some(WatchEvent::Error(status)) => {
                assert_eq!((status.code, status.reason.as_str()), (410, "Expired"))
            }
            other => panic!("{other:?}"),
        }
        assert!(events.try_next().await.unwrap().is_none());
    }
}

#[tokio::test]
async fn bookmarks_come_when_asked_for_and_only_where_allowed() {
    let cluster = Cluster::new();
    let nodes: Api<Node> = Api::all(cluster.client());
    let with = WatchParams::default();
    let without = WatchParams::default().disable_bookmarks();
    let mut allowed = nodes.watch(&with, "0").await.unwrap().boxed();
    let mut refused = nodes.watch(&without, "0").await.unwrap().boxed();
    cluster.send_bookmarks();
    assert!(matches!(
        allowed.try_next().await.unwrap(),
        Some(WatchEvent::Bookmark(_))
    ));
    nodes
        .create(&PostParams::default(), &node("a"))
        .await
        .unwrap();
    assert!(matches!(
        refused.try_next().await.unwrap(),
        Some(WatchEvent::Added(_))
    ));
}

#[tokio::test]
async fn a_reflector_survives_the_end_and_the_expiry_of_its_watches() {
    for streaming in [false, true] {
        let cluster = Cluster::new();
        let nodes: Api<Node> = Api::all(cluster.client());
        nodes
            .create(&PostParams::default(), &node("a"))
            .await
            .unwrap();
        let config = if streaming {
            watcher::Config::default().streaming_lists()
        } else {
            watcher::Config::default().page_size(1)
        };
        let mut names = watcher(nodes.clone(), config)
            .applied_objects()
            .filter_map(async |found| found.ok().and_then(|node| node.metadata.name))
            .boxed();
        assert_eq!(names.next().await.as_deref(), Some("a"));
        nodes
            .create(&PostParams::default(), &node("b"))
            .await
            .unwrap();
        assert_eq!(names.next().await.as_deref(), Some("b"));
        cluster.end_watches();
        nodes
            .create(&PostParams::default(), &node("c"))
            .await
            .unwrap();
        assert_eq!(names.next().await.as_deref(), Some("c"));
        cluster.expire_watches();
        // After an expiry all objects are listed again.
        let again: Vec<String> = names.by_ref().take(3).collect().await;
        assert_eq!(again, ["a", "b", "c"]);
    }
}

#[tokio::test]
async fn services_never_share_a_cluster_ip_or_a_node_port() {
    let cluster = Cluster::new();
    let services: Api<Service> = Api::namespaced(cluster.client(), "default");
    let mut seen = std::collections::BTreeSet::new();
    for name in ["a", "b", "c"] {
        let service = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "name": "x"}, {"port": 81, "name": "y"}]},
        }))
        .unwrap();
        let made = services
            .create(&PostParams::default(), &service)
            .await
            .unwrap();
        let spec = made.spec.unwrap();
        assert!(seen.insert(spec.cluster_ip.unwrap()));
        for port in spec.ports.unwrap() {
            assert!(seen.insert(port.node_port.unwrap().to_string()));
        }
    }
}

#[test]
fn history_is_bounded_and_knows_what_it_forgot() {
    let mut store = super::store::Store::default();
    for turn in 0..10_001 {
        store.put("nodes", "a".to_owned(), json!({"turn": turn}));
    }
    assert_eq!((store.revision(), store.compacted()), (10_001, 1));
    assert_eq!(store.changes_after(1, "nodes").count(), 10_000);
    assert!(store.scan_at(0, "nodes", "").is_none());
    let then = store.scan_at(7, "nodes", "").unwrap();
    assert_eq!(then["a"]["turn"], 6);
}

#[tokio::test]
async fn the_clock_is_the_callers() {
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(86_400);
    let cluster = Cluster::with_clock(move || long_ago);
    let nodes: Api<Node> = Api::all(cluster.client());
    let made = nodes
        .create(&PostParams::default(), &node("a"))
        .await
        .unwrap();
    let created = serde_json::to_value(made.metadata.creation_timestamp).unwrap();
    assert_eq!(created, "1970-01-02T00:00:00Z");
}

#[tokio::test]
async fn kept_writes_show_what_was_sent_and_what_it_did() {
    let cluster = Cluster::new();
    let nodes: Api<Node> = Api::all(cluster.client_as("somebody"));
    nodes
        .create(&PostParams::default(), &node("early"))
        .await
        .unwrap();
    assert!(cluster.writes().is_empty(), "nothing is kept unasked");
    cluster.keep_writes();
    let patch = json!({ "metadata": { "labels": { "a": "b" } } });
    nodes
        .patch("early", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    nodes.get("early").await.unwrap();
    nodes
        .delete("early", &DeleteParams::default())
        .await
        .unwrap();
    let writes = cluster.writes();
    assert_eq!(writes.len(), 2, "{writes:?}");
    let (changed, deleted) = (&writes[0], &writes[1]);
    assert_eq!(
        (changed.request.verb, &changed.body, changed.request.code),
        ("patch", &patch, Some(200))
    );
    let label = |object: &Option<std::sync::Arc<serde_json::Value>>| {
        object.as_ref().unwrap()["metadata"]["labels"]["a"].clone()
    };
    assert!(label(&changed.before).is_null());
    assert_eq!(label(&changed.after), "b");
    assert_eq!(deleted.request.verb, "delete");
    assert!(deleted.before.is_some() && deleted.after.is_none());
    assert!(changed.request.sequence < deleted.request.sequence);
}

#[tokio::test]
async fn a_kind_of_our_own_is_there_only_while_it_is_defined() {
    let cluster = Cluster::new();
    let gvk = GroupVersionKind::gvk("wasm-ccm.dev", "v1alpha1", "Provider");
    let resource = ApiResource::from_gvk(&gvk);
    let providers: Api<DynamicObject> = Api::all_with(cluster.client(), &resource);
    let one = DynamicObject::new("one", &resource);
    let found = async || {
        let code = match providers.get_opt("one").await {
            Ok(found) => found.map_or(404, |_| 200),
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => unreachable!("{error}"),
        };
        let groups = cluster.client().list_api_groups().await.unwrap().groups;
        (
            code,
            groups.iter().any(|group| group.name == "wasm-ccm.dev"),
        )
    };
    cluster.define_providers(false);
    assert_eq!(found().await, (404, false));
    let refused = providers.create(&PostParams::default(), &one).await;
    assert!(
        matches!(&refused, Err(kube::Error::Api(status)) if status.code == 404),
        "{refused:?}"
    );
    cluster.define_providers(true);
    providers
        .create(&PostParams::default(), &one)
        .await
        .unwrap();
    assert_eq!(found().await, (200, true));
    cluster.define_providers(false);
    assert_eq!(found().await, (404, false));
}
