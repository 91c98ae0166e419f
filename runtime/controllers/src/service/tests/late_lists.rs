//! Lists that are older than the manager's own writes, as after an etcd was restored from a backup.

use std::collections::BTreeSet;

use ccm_core::node::ownership::OwnershipContext;
use ccm_core::service::Claim;
use kube::runtime::watcher::Event;
use tokio::task::JoinSet;

use super::*;
use crate::node_store::NodeStore;

/// The list of this Service alone.
fn list(service: &Service) -> ServiceChange {
    let service = Arc::new(service.clone());
    ServiceChange::Listed(Arc::new(BTreeMap::from([(key(&service), service)])))
}

#[tokio::test(start_paused = true)]
async fn an_older_list_is_believed_after_ten_seconds_although_nothing_else_happens() {
    let world = World::new();
    let restored = world.serve("web").await;
    let nodes = NodeStore::default();
    let settings = settings();
    let client = world.cluster.client_as("ccm");
    let cluster =
        crate::cluster::Cluster::new(client.into(), &settings, Metrics::default(), nodes.clone());
    let ownership = Arc::new(OwnershipContext::alone("sim", vec!["sim".to_owned()]));
    let mut background = JoinSet::new();
    let executor = EffectExecutor::new(
        Arc::new(cluster),
        world.cloud.provider.clone(),
        ownership.clone(),
        &settings,
        &mut background,
    );
    let executor = Arc::new(executor);
    let (mut filter, receiver) = node_changes(ownership);
    filter.see(&Event::InitDone, &nodes);
    let targets = NodeSet::new(executor.clone(), receiver, &settings.service);
    let claims = Claims::of(Claim {
        name: "sim".to_owned(),
        classes: BTreeSet::new(),
        is_default: true,
        prefixes: Vec::new(),
    });
    let (_sender, changes) = mpsc::unbounded_channel();
    let settings = settings.service.clone();
    let mut controller =
        ServiceController::new(executor, settings, Arc::new(claims), changes, targets);
    controller.see_services(list(&restored));
    controller.start_due();
    let (running, ended) = controller.reconciliations.next().await;
    controller.conclude(running, ended);
    assert_eq!(world.cloud.asked(), ["ensure default/web"]);

    controller.see_services(list(&restored));
    controller.start_due();
    assert!(controller.reconciliations.is_empty());
    let believed = controller.clock.now().after(Duration::from_secs(10));
    let next = controller.start_due();
    assert!(next.is_some_and(|next| next <= believed), "{next:?}");
    a_while().await;
    controller.start_due();
    assert_eq!(controller.reconciliations.len(), 1);
}
