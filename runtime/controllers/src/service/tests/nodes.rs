//! Changes of nodes: which of them reach a cloud, how often, and in what order.

use std::collections::BTreeSet;

use super::*;
use crate::metrics::tests::encoded;

/// The targets of every `update` since the last time, by Service.
fn updates(world: &World) -> BTreeMap<String, Vec<Vec<String>>> {
    let mut sent: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    for call in world.cloud.take() {
        assert_eq!(call.function, "update", "{call:?}");
        sent.entry(call.object).or_default().push(call.nodes);
    }
    sent
}

fn assert_updates(world: &World, services: &[&str], targets: &[&str]) {
    let sent = updates(world);
    let expected: BTreeMap<String, Vec<Vec<String>>> = services
        .iter()
        .map(|name| (format!("default/{name}"), vec![owned(targets)]))
        .collect();
    assert_eq!(sent, expected);
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn ready(status: &str) -> Value {
    json!([{ "type": "Ready", "status": status }])
}

async fn set_ready(world: &World, name: &str, status: &str) {
    let patch = Patch::Merge(json!({ "status": { "conditions": ready(status) } }));
    let params = PatchParams::default();
    let nodes = world.nodes();
    nodes.patch_status(name, &params, &patch).await.unwrap();
}

fn taint(key: &str) -> Value {
    json!({ "spec": { "taints": [{ "key": key, "effect": "NoSchedule" }] } })
}

const SERVICES: [&str; 3] = ["one", "three", "two"];

/// Three Services, two of them with a local policy, before five nodes.
async fn world() -> World {
    let world = World::new();
    world.join_all(&["a", "b", "c", "d", "e"]).await;
    for (name, policy) in [("one", "Local"), ("two", "Local"), ("three", "Cluster")] {
        let spec = json!({ "type": "LoadBalancer", "externalTrafficPolicy": policy });
        world.serve_as(name, spec).await;
    }
    world
}

#[tokio::test(start_paused = true)]
async fn a_service_after_a_time_without_services_gets_the_nodes_of_now() {
    let world = World::new();
    world.join("a").await;
    world.serve("one").await;
    world
        .run_while(settings(), async {
            world.remove("one").await;
            a_while().await;
            // No Service exists while these nodes join, and no list of them is kept.
            world.join_all(&["b", "c"]).await;
            a_while().await;
            world.cloud.take();
            world.serve("two").await;
            a_while().await;
            let calls = world.cloud.take().into_iter();
            let ensured: Vec<_> = calls.filter(|call| call.function == "ensure").collect();
            let nodes: Vec<_> = ensured.into_iter().map(|call| call.nodes).collect();
            assert_eq!(nodes, [owned(&["a", "b", "c"])]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn test_node_changes_for_stable_node_set_enabled() {
    let world = world().await;
    world
        .run_while(settings(), async {
            world.cloud.take();
            // No change.
            a_while().await;
            assert_updates(&world, &[], &[]);
            // A node is added.
            world.join("f").await;
            a_while().await;
            assert_updates(&world, &SERVICES, &["a", "b", "c", "d", "e", "f"]);
            // Readiness is for health checks.
            set_ready(&world, "f", "False").await;
            a_while().await;
            assert_updates(&world, &[], &[]);
            set_ready(&world, "f", "True").await;
            a_while().await;
            assert_updates(&world, &[], &[]);
            // Taints of other components do not matter.
            world.edit_node("b", taint("example.com/foo")).await;
            a_while().await;
            assert_updates(&world, &[], &[]);
            // The autoscaler is about to remove a node: it goes with the next change (SVC-064).
            world
                .edit_node("f", taint("ToBeDeletedByClusterAutoscaler"))
                .await;
            a_while().await;
            assert_updates(&world, &[], &[]);
            // A node is excluded, with an empty value.
            let label = json!({ "metadata": { "labels": {
                "node.kubernetes.io/exclude-from-external-load-balancers": ""
            } } });
            world.edit_node("e", label).await;
            a_while().await;
            assert_updates(&world, &SERVICES, &["a", "b", "c", "d"]);
            // A node is deleted.
            let (nodes, params) = (world.nodes(), DeleteParams::default());
            nodes.delete("d", &params).await.unwrap();
            a_while().await;
            assert_updates(&world, &SERVICES, &["a", "b", "c"]);
            // A node is being deleted, and then is gone.
            let finalizers = |all: Value| json!({ "metadata": { "finalizers": all } });
            world
                .edit_node("c", finalizers(json!(["example.com/held"])))
                .await;
            nodes.delete("c", &params).await.unwrap();
            a_while().await;
            assert_updates(&world, &[], &[]);
            world.edit_node("c", finalizers(Value::Null)).await;
            a_while().await;
            assert_updates(&world, &SERVICES, &["a", "b"]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn svc_070_a_failed_update_is_repaired_and_costs_the_others_nothing() {
    let world = world().await;
    world
        .run_while(settings(), async {
            world.cloud.take();
            let away = ProviderError::Unavailable("on purpose".to_owned());
            world.cloud.fail("update", away);
            world.join("f").await;
            a_while().await;
            let calls = world.cloud.take();
            let updates = calls
                .iter()
                .filter(|call| call.function == "update")
                .count();
            let sent: HashSet<&str> = calls
                .iter()
                .filter(|call| call.nodes.contains(&"f".to_owned()))
                .map(|call| call.object.as_str())
                .collect();
            assert_eq!(sent.len(), 3);
            assert!((3..=4).contains(&updates), "{calls:?}");
            assert_eq!(
                calls.len(),
                4,
                "one more for the one that failed: {calls:?}"
            );
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn test_node_changes_in_external_load_balancer() {
    // The two cases of a failing list have no counterpart: the list is in memory.
    for nodes in [1, 2, 4] {
        let world = World::new();
        world.join("a").await;
        for name in ["one", "two", "three", "four"] {
            world.serve(name).await;
        }
        world
            .run_while(settings(), async {
                world.cloud.take();
                let names: Vec<String> = (0..nodes).map(|index| format!("new-{index}")).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                world.join_all(&names).await;
                a_while().await;
                let all = [&["a"], names.as_slice()].concat();
                assert_updates(&world, &["four", "one", "three", "two"], &all);
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn test_nodes_not_equal() {
    let world = World::new();
    let names = ["a", "b", "c", "d", "e"];
    world.join_all(&names).await;
    world.serve("one").await;
    world
        .run_while(settings(), async {
            world.cloud.take();
            // A machine appears. A node without one is no target (EDGE-072).
            fixtures::create(&world.nodes(), node("f")).await;
            a_while().await;
            assert_updates(&world, &[], &[]);
            world
                .edit_node("f", json!({ "spec": { "providerID": "sim://f" } }))
                .await;
            a_while().await;
            assert_updates(&world, &["one"], &["a", "b", "c", "d", "e", "f"]);
            // The same change again.
            world
                .edit_node("f", json!({ "metadata": { "labels": { "x": "y" } } }))
                .await;
            a_while().await;
            assert_updates(&world, &[], &[]);
            // One node replaces another.
            world
                .nodes()
                .delete("f", &DeleteParams::default())
                .await
                .unwrap();
            world.join("g").await;
            a_while().await;
            assert_updates(&world, &["one"], &["a", "b", "c", "d", "e", "g"]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn test_update_nodes_in_external_load_balancer() {
    // Services of each kind, and the number of them that are updated.
    let balanced = || json!({ "type": "LoadBalancer" });
    let cases: [(&str, Vec<Value>, usize, usize); 6] = [
        ("none", vec![], 16, 0),
        (
            "no load balancers",
            vec![json!({}), json!({ "type": "NodePort" })],
            16,
            0,
        ),
        ("one", vec![balanced()], 16, 1),
        ("three", vec![balanced(), balanced(), balanced()], 16, 3),
        (
            "two of four",
            vec![
                balanced(),
                json!({ "type": "NodePort" }),
                json!({}),
                balanced(),
            ],
            16,
            2,
        ),
        (
            "four with two workers",
            vec![balanced(), balanced(), balanced(), balanced()],
            2,
            4,
        ),
    ];
    for (case, specs, workers, calls) in cases {
        let world = World::new();
        world.join("a").await;
        for (index, spec) in specs.into_iter().enumerate() {
            world.serve_as(&format!("s{index}"), spec).await;
        }
        let mut settings = settings();
        settings.service.concurrent_syncs = NonZeroUsize::new(workers).unwrap();
        world
            .run_while(settings, async {
                world.cloud.take();
                world.join("b").await;
                a_while().await;
                let sent = updates(&world);
                assert_eq!(sent.len(), calls, "{case}");
                let is_whole = |sent: &Vec<Vec<String>>| *sent == [owned(&["a", "b"])];
                assert!(sent.values().all(is_whole), "{case}: {sent:?}");
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn test_slow_node_sync() {
    let world = World::new();
    world.join("node1").await;
    world.serve("slow").await;
    world
        .run_while(settings(), async {
            world.cloud.take();
            world.cloud.hold("update", "default/slow");
            world.join("node2").await;
            a_while().await;
            // During that call, another node and another Service appear.
            world.join("node3").await;
            world.serve("quick").await;
            a_while().await;
            let three = owned(&["node1", "node2", "node3"]);
            let calls = world.cloud.take();
            assert_eq!(calls.len(), 1, "{calls:?}");
            assert_eq!((calls[0].function, &calls[0].nodes), ("ensure", &three));
            world.cloud.release();
            a_while().await;
            let calls = world.cloud.take();
            let sent: Vec<_> = calls
                .iter()
                .map(|call| (call.function, &call.nodes))
                .collect();
            let two = owned(&["node1", "node2"]);
            // The slow Service gets the third node in a call of its own; the quick one in no other.
            assert_eq!(sent, [("update", &two), ("update", &three)]);
            assert!(calls.iter().all(|call| call.object == "default/slow"));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_latency_of_a_change_ends_when_the_load_balancers_have_it_however_many_changes_follow()
{
    let world = World::new();
    world.join("node1").await;
    world.serve("slow").await;
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let measured = |what: &str| -> f64 {
        let text = encoded(&registry);
        let name = format!("service_controller_nodesync_latency_seconds_{what} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&*name));
        value.unwrap().parse().unwrap()
    };
    let client = world.cluster.client_as("ccm");
    world
        .run_counting(client, settings(), metrics, async {
            let (count, sum) = (measured("count"), measured("sum"));
            world.cloud.hold("update", "default/slow");
            world.join("node2").await;
            a_while().await;
            // Another change, which the call in progress does not know.
            world.join("node3").await;
            a_while().await;
            world.cloud.let_go();
            a_while().await;
            assert!(measured("count") < count + 0.5, "it has two of three nodes");
            world.cloud.release();
            a_while().await;
            assert!(measured("count") > count + 0.5, "all have all nodes");
            // All three waits, but for the time that a change may be held back.
            let took = measured("sum") - sum;
            assert!(took > 2.5 * A_WHILE.as_secs_f64(), "{took}");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn edge_060_a_storm_of_nodes_costs_one_call_for_each_service() {
    let world = world().await;
    world
        .run_while(settings(), async {
            world.cloud.take();
            for number in 0..100 {
                world.join(&format!("n{number:03}")).await;
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
            a_while().await;
            let sent = updates(&world);
            assert_eq!(sent.len(), 3);
            assert!(sent.values().all(|sent| sent.len() == 1), "{sent:?}");
            // Changes that never end are passed on all the same, every five seconds.
            for number in 100..160 {
                world.join(&format!("n{number:03}")).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            a_while().await;
            let sent = updates(&world);
            assert!(
                sent.values().all(|sent| (6..=8).contains(&sent.len())),
                "{sent:?}"
            );
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_taken_back_while_the_cloud_is_told_is_told_too() {
    let world = World::new();
    let names = ["a", "b", "c", "d", "e"];
    world.join_all(&names).await;
    world.serve("one").await;
    world
        .run_while(settings(), async {
            world.cloud.take();
            world.cloud.hold("update", "default/one");
            world.join("f").await;
            a_while().await;
            let nodes = world.nodes();
            nodes.delete("f", &DeleteParams::default()).await.unwrap();
            a_while().await;
            world.cloud.release();
            a_while().await;
            let sent: Vec<usize> = world
                .cloud
                .take()
                .iter()
                .map(|call| call.nodes.len())
                .collect();
            assert_eq!(sent, [6, 5]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_service_that_is_taken_back_while_the_cloud_is_told_is_told_too() {
    let world = World::new();
    world.join_all(&["a"]).await;
    world.serve("one").await;
    world
        .run_while(settings(), async {
            a_while().await;
            world.cloud.take();
            world.cloud.hold("ensure", "default/one");
            for ranges in [json!(["10.0.0.0/8"]), json!(null)] {
                let edit = json!({ "spec": { "loadBalancerSourceRanges": ranges } });
                world.edit("one", edit).await;
                a_while().await;
            }
            world.cloud.release();
            a_while().await;
            let calls = world.cloud.take();
            let ensured = calls.iter().filter(|call| call.function == "ensure");
            assert_eq!(ensured.count(), 2, "{calls:?}");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn new_services_whose_calls_time_out_keep_no_node_that_is_gone_behind_the_others() {
    const CALL: Duration = Duration::from_secs(60);
    let world = world().await;
    let mut settings = settings();
    settings.service.concurrent_syncs = NonZeroUsize::new(8).unwrap();
    world
        .run_while(settings, async {
            world.cloud.slow_down("new", CALL);
            for number in 0..200 {
                world.serve(&format!("new-{number}")).await;
            }
            a_while().await;
            world.cloud.take();
            let params = DeleteParams::default();
            world.nodes().delete("a", &params).await.unwrap();
            tokio::time::sleep(2 * CALL).await;
            let mut calls = world.cloud.take();
            calls.retain(|call| call.function == "update");
            let sent: BTreeSet<String> = calls.iter().map(|call| call.object.clone()).collect();
            let wanted = SERVICES.map(|name| format!("default/{name}"));
            assert_eq!(sent, BTreeSet::from(wanted), "{calls:?}");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_new_service_does_not_wait_for_a_pass_at_a_slow_cloud() {
    let world = World::new();
    world.join("a").await;
    for number in 0..8 {
        world.serve(&format!("old-{number}")).await;
    }
    let mut settings = settings();
    settings.service.concurrent_syncs = NonZeroUsize::new(4).unwrap();
    world
        .run_while(settings, async {
            world.cloud.slow_down("old", 3 * A_WHILE);
            world.join("b").await;
            a_while().await;
            world.cloud.take();
            world.serve("new").await;
            a_while().await;
            assert_eq!(world.cloud.asked(), ["ensure default/new"]);
        })
        .await;
}
