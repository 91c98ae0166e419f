//! Upstream's cases about the periodic pass, each row under its ID in `tests/conformance.md`.

use super::*;

/// Number of nodes in upstream's test.
const NODES: usize = 100;

#[tokio::test(start_paused = true)]
async fn upstream_update_node_status_every_node_is_asked_about_once_with_any_number_of_workers() {
    for (id, workers) in [
        ("TestUpdateNodeStatus/01", 1),
        ("TestUpdateNodeStatus/02", 5),
        ("TestUpdateNodeStatus/03", 10),
        ("TestUpdateNodeStatus/04", 30),
    ] {
        let cluster = Cluster::new();
        for number in 0..NODES {
            create_known(&cluster, &format!("node0{number}")).await;
        }
        let cloud = Arc::new(finds_all());
        let mut settings = settings();
        settings.node.concurrent_syncs = NonZeroUsize::new(workers).unwrap();
        settings.node.concurrent_status_updates = NonZeroUsize::new(workers);
        run_for(&cluster, cloud.clone(), settings, 250).await;
        let asked: usize = cloud.lookup_sizes().iter().sum();
        assert_eq!(asked, NODES, "{id}: in the pass at the beginning");
    }
}

/// An initialised node whose addresses are not stored yet.
async fn create_known(cluster: &Cluster, name: &str) {
    let node = node(name).provider_id(&format!("sim://{name}"));
    fixtures::create(&nodes(cluster), node).await;
}
