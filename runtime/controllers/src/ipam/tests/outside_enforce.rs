//! The controller outside enforce mode, where nobody asks who else allocates.

use super::*;
use crate::Controllers;

/// This controller, which needs no provider.
pub(super) const ALONE: Controllers = Controllers {
    node_ipam: true,
    ..fixtures::NO_CONTROLLERS
};

#[tokio::test]
async fn the_names_of_nodes_that_another_allocator_served_are_not_collected() {
    for mode in [Mode::Plan, Mode::Observe] {
        let settings = settings("10.0.0.0/16", 24, mode);
        let ipam = settings.ipam.clone().unwrap();
        let memory = Memory::new(&ipam).unwrap();
        let nodes = NodeStore::default();
        let client = cluster::Cluster::new().client();
        let cluster = Cluster::new(client.into(), &settings, Metrics::default(), nodes);
        let executor = Arc::new(ClusterExecutor::new(Arc::new(cluster)));
        let (_sender, changes) = mpsc::unbounded_channel();
        let mut controller = IpamController::new(executor, ipam, memory, changes);
        let new = || node("a").uid("1");
        for node in [new(), new().pod_cidrs(&["10.0.1.0/24"])] {
            controller.see_nodes(NodeChange::Applied(Arc::new(node.build())));
        }
        assert_eq!(controller.memory.clone().take_foreign(), ["a"], "{mode:?}");
        controller.start_due();
        assert_eq!(controller.memory.take_foreign(), [""; 0], "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_awaits_a_provider_where_a_controller_needs_one() {
    for (controllers, is_whole) in [(Controllers::ALL, false), (ALONE, true)] {
        let cluster = cluster::Cluster::new();
        create(&cluster, "a", "10.0.0.0/24").await;
        let mut settings = settings("10.0.0.0/22", 24, Mode::Plan);
        settings.controllers = controllers;
        let plan = settings.plan.clone();
        run_while(&cluster, settings, Metrics::default(), async || {
            seconds(10).await;
            assert_eq!(plan.snapshot().is_whole(), is_whole, "{controllers:?}");
        })
        .await;
    }
}
