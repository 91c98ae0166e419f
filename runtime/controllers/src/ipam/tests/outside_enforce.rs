//! The controller outside enforce mode, where nobody asks who else allocates.

use super::*;

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
