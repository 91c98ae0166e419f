//! A controller that a test drives by itself, without its loop and its watches.

use std::collections::BTreeSet;

use ccm_core::node::object::PrunedNode;
use ccm_core::node::ownership::OwnershipContext;
use ccm_core::service::Claim;
use kube::runtime::watcher::Event;
use tokio::task::JoinSet;

use super::*;
use crate::cluster::Cluster as SharedState;
use crate::node_store::NodeStore;

/// The controller of the world's cloud.
pub(super) struct Alone {
    pub(super) controller: ServiceController,
    _background: JoinSet<()>,
}

/// Services without a class are served by `default`, and those of the class `NAME/lb` by each of `names`.
pub(super) fn claims(names: &[&str], default: &str) -> Arc<Claims> {
    let claim = |name: &&str| Claim {
        name: (*name).to_owned(),
        classes: BTreeSet::from([format!("{name}/lb")]),
        is_default: *name == default,
        prefixes: Vec::new(),
    };
    Arc::new(Claims::new(names.iter().map(claim).collect()).unwrap())
}

impl Alone {
    /// It knows that there is the node `a`, and no Service yet.
    pub(super) fn new(world: &World, claims: Arc<Claims>) -> Alone {
        Alone::with(world, claims, settings())
    }

    /// The same with these settings.
    pub(super) fn with(world: &World, claims: Arc<Claims>, settings: Settings) -> Alone {
        let nodes = NodeStore::default();
        let client = world.cluster.client_as("ccm");
        let cluster = SharedState::new(client.into(), &settings, Metrics::default(), nodes.clone());
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
        let node: PrunedNode = node("a").provider_id("sim://a").build();
        for event in [
            Event::Init,
            Event::InitApply(Arc::new(node)),
            Event::InitDone,
        ] {
            nodes.apply(&event);
            filter.see(&event, &nodes);
        }
        let targets = NodeSet::new(executor.clone(), receiver, &settings.service);
        let (_, changes) = mpsc::unbounded_channel();
        let settings = settings.service.clone();
        let rules = ServiceRules::default();
        Alone {
            controller: ServiceController::new(executor, settings, rules, claims, changes, targets),
            _background: background,
        }
    }

    /// Sees the list of this Service alone.
    pub(super) fn list(&mut self, service: &Service) {
        let service = Arc::new(service.clone());
        let all = BTreeMap::from([(key(&service), service)]);
        self.controller
            .see_services(ServiceChange::Listed(Arc::new(all)));
    }

    /// Sees the Service as it is stored now.
    pub(super) async fn watch(&mut self, world: &World, name: &str) {
        let service = Arc::new(world.services().get(name).await.unwrap());
        self.controller
            .see_services(ServiceChange::Applied(service));
    }

    /// Runs all reconciliations that are due; returns how many there were.
    pub(super) async fn run(&mut self) -> usize {
        let mut ran = 0;
        self.controller.start_due();
        while !self.controller.reconciliations.is_empty() {
            let (running, ended) = self.controller.reconciliations.next().await;
            self.controller.conclude(running, ended);
            ran += 1;
            self.controller.start_due();
        }
        ran
    }
}
