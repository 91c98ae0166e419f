//! What runs the controllers in a test. The suites have the same file as `ccm_tests::controllers`: what they run is not
//! this crate as its own tests see it.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use ccm_controllers::{
    Clients, Controllers, Metrics, Pace, Provided, Reports, RunError, Settings, SharedPlan,
    Stopped, run_all,
};
use ccm_core::cloud_provider::CloudProvider;
use ccm_core::node::ownership::NodeClaim;
use ccm_core::safety::audit::NoAudit;
use ccm_core::safety::brake::Allowances;
use ccm_core::safety::permit::Mode;
use ccm_core::safety::tenure::Tenure;
use ccm_core::settings::{
    LifecycleSettings, NodeRules, NodeSettings, RouteSettings, ServiceRules, ServiceSettings,
};
use ccm_fixtures::kubernetes::ObjectBuilder;
use k8s_openapi::serde::{Serialize, de::DeserializeOwned};
use kube::Api;
use kube::api::PostParams;

/// A set without any controller.
pub const NO_CONTROLLERS: Controllers = Controllers {
    node: false,
    node_lifecycle: false,
    service: false,
    route: false,
    node_ipam: false,
};

/// All controllers in enforce mode, one write at a time, under a tenure without end.
pub fn settings() -> Settings {
    Settings {
        controllers: Controllers::ALL,
        node: NodeSettings {
            status_update_frequency: Duration::from_secs(300),
            concurrent_syncs: NonZeroUsize::MIN,
            concurrent_status_updates: None,
            rules: NodeRules::default(),
        },
        lifecycle: LifecycleSettings::default(),
        service: ServiceSettings::default(),
        route: RouteSettings::default(),
        ipam: None,
        allowances: Allowances::default(),
        budget_lease: None,
        audit: Arc::new(NoAudit),
        plan: SharedPlan::default(),
        mode: Mode::Enforce,
        reports: Reports::default(),
        pace: Pace::REAL,
        call_time: Duration::from_secs(60),
        drain: Duration::from_secs(10),
        tenure: Arc::new(Tenure::unlimited()),
    }
}

/// Runs the controllers of one provider, which may claim every node, until `shutdown` completes.
///
/// # Errors
/// See [`RunError`].
pub async fn run_one(
    client: impl Into<Clients>,
    provider: Arc<dyn CloudProvider>,
    settings: Settings,
    metrics: Metrics,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<Stopped, RunError> {
    let rules = ServiceRules::default();
    run_with_rules(client, provider, rules, settings, metrics, shutdown).await
}

/// The same with these rules for its Services.
///
/// # Errors
/// See [`RunError`].
pub async fn run_with_rules(
    client: impl Into<Clients>,
    provider: Arc<dyn CloudProvider>,
    service: ServiceRules,
    settings: Settings,
    metrics: Metrics,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<Stopped, RunError> {
    let provided = Provided {
        cloud: provider,
        nodes: NodeClaim::default(),
        service,
    };
    // The sender is kept until the end, so that the channel stays open.
    let (_kept, provided) = tokio::sync::watch::channel(Arc::from([provided]));
    run_all(client, provided, settings, metrics, shutdown).await
}

/// Creates this object in the cluster.
pub async fn create<K>(api: &Api<K>, object: ObjectBuilder<K>) -> K
where
    K: Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let created = api.create(&PostParams::default(), &object.build()).await;
    created.unwrap()
}
