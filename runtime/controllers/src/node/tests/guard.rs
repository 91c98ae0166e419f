//! Wrong answers of a provider about other nodes, or about all of them at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use ccm_core::cloud::Instance;

use super::*;

type Answer = dyn Fn(&CloudNode) -> Instance + Send + Sync;

/// An initialised node, Ready, with the number as the last part of its InternalIP.
async fn create_ready(cluster: &Cluster, number: usize) {
    let name = format!("worker-{number}");
    let node = node(&name)
        .label("wasm-ccm.dev/provider", "sim")
        .label("topology.kubernetes.io/zone", "a")
        .label("failure-domain.beta.kubernetes.io/zone", "a")
        .provider_id(&format!("sim://{name}"))
        .address("InternalIP", &format!("10.0.0.{number}"))
        .ready();
    fixtures::create(&nodes(cluster), node).await;
}

async fn run(cluster: &Cluster, answer: Box<Answer>, settings: Settings, seconds: u64) {
    let shutdown = tokio::time::sleep(Duration::from_secs(seconds));
    let cloud = ScriptedProvider::new("sim").finding(move |node| found(answer(node)));
    let (client, cloud) = (cluster.client_as("ccm"), Arc::new(cloud));
    fixtures::run_one(client, cloud, settings, Metrics::default(), shutdown)
        .await
        .unwrap();
}

/// How many nodes have each first InternalIP's third part.
async fn thirds(cluster: &Cluster) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for node in nodes(cluster).list(&ListParams::default()).await.unwrap() {
        let address = node.status.unwrap().addresses.unwrap()[0].address.clone();
        let third = address.split('.').nth(2).unwrap().to_owned();
        *counts.entry(third).or_default() += 1;
    }
    counts
}

async fn reasons(cluster: &Cluster) -> BTreeMap<String, usize> {
    let events: Api<NodeEvent> = Api::all(cluster.client());
    let mut counts = BTreeMap::new();
    for event in events.list(&ListParams::default()).await.unwrap() {
        *counts.entry(event.reason.unwrap()).or_default() += 1;
    }
    counts
}

fn number(node: &CloudNode) -> &str {
    node.name.trim_start_matches("worker-")
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_moves_every_internal_ip_changes_a_tenth_of_the_nodes_in_ten_minutes() {
    let cluster = Cluster::new();
    for number in 0..40 {
        create_ready(&cluster, number).await;
    }
    let moved = |node: &CloudNode| {
        let internal = format!("10.0.9.{}", number(node));
        instance(format!("sim://{}", node.name), internal)
    };
    run(&cluster, Box::new(moved), settings(), 9).await;
    assert_eq!(
        thirds(&cluster).await["0"],
        40,
        "one answer changes nothing"
    );
    run(&cluster, Box::new(moved), settings(), 590).await;
    assert_eq!(thirds(&cluster).await["9"], 4, "a tenth of forty");
    assert_eq!(
        reasons(&cluster).await["BrakeEngaged"],
        36,
        "all others say so"
    );
}

#[tokio::test(start_paused = true)]
async fn an_internal_ip_that_flips_at_every_look_never_changes() {
    let cluster = Cluster::new();
    create_ready(&cluster, 1).await;
    let looks = AtomicUsize::new(0);
    let flips = move |node: &CloudNode| {
        let third = 1 + looks.fetch_add(1, Ordering::SeqCst) % 2;
        instance(format!("sim://{}", node.name), format!("10.0.{third}.1"))
    };
    run(&cluster, Box::new(flips), settings(), 3_600).await;
    assert_eq!(thirds(&cluster).await["0"], 1);
}

#[tokio::test(start_paused = true)]
async fn one_machine_for_two_new_nodes_initialises_neither_until_one_is_deleted() {
    let cluster = Cluster::new();
    create(&cluster, "worker-1").await;
    create(&cluster, "worker-2").await;
    let same =
        |node: &CloudNode| instance("sim://1".to_owned(), format!("10.0.0.{}", number(node)));
    let delete = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(left(&cluster).await, 2);
        let params = kube::api::DeleteParams::default();
        nodes(&cluster).delete("worker-2", &params).await.unwrap();
    };
    tokio::join!(run(&cluster, Box::new(same), settings(), 600), delete);
    assert_eq!(left(&cluster).await, 0);
    let reasons = reasons(&cluster).await;
    assert_eq!((reasons["DuplicateProviderID"], reasons["Synced"]), (2, 1));
}

/// Without the end of the wait when `deleted` is deleted, the nodes would be tried again every five minutes by then.
async fn the_rest_is_initialised_as_soon_as_one_is_deleted(
    cluster: &Cluster,
    answer: Box<Answer>,
    waiting: usize,
    deleted: &str,
) {
    let delete = async {
        tokio::time::sleep(Duration::from_secs(900)).await;
        assert_eq!(left(cluster).await, waiting);
        let params = kube::api::DeleteParams::default();
        nodes(cluster).delete(deleted, &params).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(left(cluster).await, 0);
    };
    tokio::join!(run(cluster, answer, settings(), 1_000), delete);
}

#[tokio::test(start_paused = true)]
async fn the_other_node_of_a_machine_is_initialised_as_soon_as_one_is_deleted() {
    let cluster = Cluster::new();
    create(&cluster, "worker-1").await;
    create(&cluster, "worker-2").await;
    let same =
        |node: &CloudNode| instance("sim://1".to_owned(), format!("10.0.0.{}", number(node)));
    the_rest_is_initialised_as_soon_as_one_is_deleted(&cluster, Box::new(same), 2, "worker-2")
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_new_node_gets_its_address_as_soon_as_the_node_that_has_it_is_deleted() {
    let cluster = Cluster::new();
    create_ready(&cluster, 1).await;
    create(&cluster, "worker-2").await;
    let same = |node: &CloudNode| instance(format!("sim://{}", node.name), "10.0.0.1".to_owned());
    the_rest_is_initialised_as_soon_as_one_is_deleted(&cluster, Box::new(same), 1, "worker-1")
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_address_of_a_ready_node_is_not_given_to_a_new_one() {
    let cluster = Cluster::new();
    create_ready(&cluster, 1).await;
    create(&cluster, "worker-2").await;
    let first = |node: &CloudNode| instance(format!("sim://{}", node.name), "10.0.0.1".to_owned());
    let dies = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(left(&cluster).await, 1);
        assert_eq!(reasons(&cluster).await["InvalidProviderAnswer"], 1);
        // The machine is gone, and the cloud has given its address to the new one.
        let patch =
            json!({ "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] } });
        let params = PatchParams::default();
        let patch = Patch::Merge(patch);
        nodes(&cluster)
            .patch_status("worker-1", &params, &patch)
            .await
            .unwrap();
    };
    tokio::join!(run(&cluster, Box::new(first), settings(), 600), dies);
    assert_eq!(left(&cluster).await, 0);
}

#[tokio::test(start_paused = true)]
async fn labels_follow_a_move_only_when_that_is_asked_for_and_then_within_the_budget() {
    for reconcile_labels in [false, true] {
        let cluster = Cluster::new();
        for number in 0..10 {
            create_ready(&cluster, number).await;
        }
        let moved = |node: &CloudNode| Instance {
            zone: Some("b".to_owned()),
            ..instance(
                format!("sim://{}", node.name),
                format!("10.0.0.{}", number(node)),
            )
        };
        let mut settings = settings();
        settings.node.rules.reconcile_labels = reconcile_labels;
        run(&cluster, Box::new(moved), settings, 590).await;
        let mut in_b = 0;
        for node in nodes(&cluster).list(&ListParams::default()).await.unwrap() {
            let labels = node.metadata.labels.unwrap();
            assert_eq!(
                labels["topology.kubernetes.io/zone"],
                labels["failure-domain.beta.kubernetes.io/zone"]
            );
            in_b += usize::from(labels["topology.kubernetes.io/zone"] == "b");
        }
        assert_eq!(in_b, if reconcile_labels { 3 } else { 0 });
    }
}
