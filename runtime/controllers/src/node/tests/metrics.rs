//! Upstream's metrics after a run of the controllers.

use super::*;
use crate::metrics::tests::encoded;

#[tokio::test(start_paused = true)]
async fn a_run_counts_its_queues_and_says_which_controllers_run() {
    let cluster = Cluster::new();
    for name in ["worker-1", "worker-2"] {
        create(&cluster, name).await;
    }
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let mut meanwhile = String::new();
    let shutdown = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        meanwhile = encoded(&registry);
    };
    let client = cluster.client_as("ccm");
    let mut settings = settings();
    settings.controllers.node_lifecycle = true;
    fixtures::run_one(client, Arc::new(finds_all()), settings, metrics, shutdown)
        .await
        .unwrap();
    let running = |name| {
        format!(
            "running_managed_controllers{{name=\"{name}\",manager=\"cloud-controller-manager\"}}"
        )
    };
    for line in [
        format!("{} 1", running("cloud-node")),
        format!("{} 1", running("cloud-node-lifecycle")),
        "workqueue_depth{name=\"Nodes\"} 0.0".to_owned(),
        "workqueue_unfinished_work_seconds{name=\"Nodes\"} 0.0".to_owned(),
        "workqueue_retries_total{name=\"Nodes\"} 0".to_owned(),
    ] {
        assert!(
            meanwhile.lines().any(|one| one == line),
            "{line}: {meanwhile}"
        );
    }
    let count = |name: &str| {
        let line = meanwhile.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    let adds = count("workqueue_adds_total{name=\"Nodes\"}");
    assert!(adds >= 2, "{meanwhile}");
    assert_eq!(
        count("workqueue_queue_duration_seconds_count{name=\"Nodes\"}"),
        adds
    );
    assert_eq!(
        count("workqueue_work_duration_seconds_count{name=\"Nodes\"}"),
        adds
    );
    for name in [
        "node_controller_cloud_provider_taint_removal_delay_seconds_count",
        "node_controller_initial_node_sync_delay_seconds_count",
    ] {
        assert_eq!(count(name), 2, "one for each initialised node");
    }
    let after = encoded(&registry);
    assert!(
        after.contains(&format!("{} 0\n", running("cloud-node"))),
        "{after}"
    );
    assert!(!after.contains("workqueue_depth{"), "{after}");
}
