//! The law of plan mode for Services: worlds of Services whose load balancers are missing, wrong, right or unwanted,
//! and a cloud that refuses calls or look-ups, played in each mode from the same start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ccm_controllers::{Controllers, Metrics, Settings, SharedPlan};
use ccm_core::safety::permit::Mode;
use ccm_core::safety::plan::{ChangePlace, PlanVerdict};
use ccm_core::well_known::{LOAD_BALANCER_FINALIZER, SERVICE_OWNER};
use ccm_fixtures::kubernetes::{node, service};
use ccm_sim::cluster::Cluster;
use ccm_tests::controllers::{NO_CONTROLLERS, create, run_one};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::balancers::{Balancer, Balancers};

/// The user of the controllers at the API server.
const CONTROLLERS: &str = "ccm";
/// Time in which the Services get their load balancers, before their fates happen.
const BEFORE: Duration = Duration::from_secs(30 * 60);
/// Duration of a play: the brake allows three deletions of load balancers in ten minutes.
const LONG: Duration = Duration::from_secs(90 * 60);

/// The event that has happened to a Service and to its load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was created a moment ago.
    New,
    /// Its load balancer is right.
    Well,
    /// The load balancer is right, and the Service lacks the owner's annotation.
    Unowned,
    /// The same, and the load balancer has other settings.
    UnownedAndOther,
    /// A person has changed the load balancer.
    Other,
    /// A person has deleted the load balancer.
    Lost,
    /// As `Lost`, and the provider does not report that its request was refused.
    LostInSilence,
    /// Another client has written another address into the status.
    OtherStatus,
    /// It is being deleted.
    Deleted,
    /// It is being deleted, and its load balancer does not exist.
    DeletedAndLost,
    /// Its type is not LoadBalancer any more.
    Retyped,
    /// The provider refuses it.
    Refused,
    /// The same, and it was made a moment ago.
    NewAndRefused,
    /// The provider cannot look up its load balancer.
    Unseen,
    /// The same, and it is being deleted.
    DeletedAndUnseen,
}

impl Fate {
    pub(crate) const ALL: [Fate; 15] = [
        Fate::New,
        Fate::Well,
        Fate::Unowned,
        Fate::UnownedAndOther,
        Fate::Other,
        Fate::Lost,
        Fate::LostInSilence,
        Fate::OtherStatus,
        Fate::Deleted,
        Fate::DeletedAndLost,
        Fate::Retyped,
        Fate::Refused,
        Fate::NewAndRefused,
        Fate::Unseen,
        Fate::DeletedAndUnseen,
    ];

    fn is_new(self) -> bool {
        matches!(self, Fate::New | Fate::NewAndRefused)
    }
}

pub(crate) fn any_world() -> impl Strategy<Value = Vec<Fate>> {
    prop::collection::vec(prop::sample::select(Fate::ALL.to_vec()), 1..6)
}

/// The first changes of one object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct First {
    /// The verb of the first write to the cluster.
    pub(crate) cluster: Option<String>,
    /// Method and path of the first request to the cloud.
    pub(crate) cloud: Option<String>,
}

/// The result of a play.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) planned: BTreeMap<String, First>,
    /// The objects about which the plan has no definite statement.
    pub(crate) unsure: BTreeSet<String>,
    pub(crate) verdict: PlanVerdict,
    pub(crate) made: BTreeMap<String, First>,
    /// Number of writes to the cluster.
    pub(crate) requests: usize,
}

pub(crate) fn object(index: usize) -> String {
    format!("service/default/s{index}")
}

/// Plays a world in this mode.
pub(crate) fn play(fates: &[Fate], mode: Mode) -> Played {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(played(fates, mode))
}

async fn played(fates: &[Fate], mode: Mode) -> Played {
    let cluster = Cluster::with_clock(SystemTime::now);
    let world = World {
        services: Api::namespaced(cluster.client_as("somebody"), "default"),
        cloud: Arc::new(Balancers::default()),
    };
    let nodes: Api<Node> = Api::all(cluster.client_as("somebody"));
    create(&nodes, node("a").provider_id("sim://a")).await;
    let each = || fates.iter().copied().enumerate();
    for (index, _) in each().filter(|(_, fate)| !fate.is_new()) {
        world.serve(index).await;
    }
    world
        .run(
            &cluster,
            settings(Mode::Enforce, SharedPlan::default()),
            BEFORE,
        )
        .await;
    for (index, fate) in each() {
        world.apply(index, fate).await;
    }
    world.cloud.forget();
    cluster.keep_writes();
    let shared_plan = SharedPlan::default();
    world
        .run(&cluster, settings(mode, shared_plan.clone()), LONG)
        .await;

    let plan = shared_plan.snapshot();
    let mut planned: BTreeMap<String, First> = BTreeMap::new();
    for change in plan.changes() {
        let first = planned.entry(change.object.clone()).or_default();
        match &change.place {
            ChangePlace::Cluster => first.cluster = Some(change.verb.clone()),
            ChangePlace::Cloud {
                target,
                method,
                path,
            } => {
                assert_eq!(target, "api");
                first.cloud = Some(format!("{method} {path}"));
            }
        }
    }
    let mut made: BTreeMap<String, First> = BTreeMap::new();
    for (name, request) in world.cloud.made() {
        made.entry(format!("service/default/{name}"))
            .or_default()
            .cloud = Some(request);
    }
    let mut requests = 0;
    for write in cluster.writes() {
        let request = write.request;
        if request.identity != CONTROLLERS {
            continue;
        }
        requests += 1;
        let is_done = request.code.is_some_and(|code| (200..300).contains(&code));
        if request.resource == "services" && is_done {
            let first = made
                .entry(format!("service/default/{}", request.name))
                .or_default();
            first.cluster.get_or_insert(request.verb.to_string());
        }
    }
    Played {
        planned,
        unsure: plan.unsure().map(|(object, _)| object.to_owned()).collect(),
        verdict: plan.verdict(),
        made,
        requests,
    }
}

struct World {
    services: Api<Service>,
    cloud: Arc<Balancers>,
}

impl World {
    async fn run(&self, cluster: &Cluster, settings: Settings, time: Duration) {
        let (client, cloud) = (cluster.client_as(CONTROLLERS), self.cloud.clone());
        let over = tokio::time::sleep(time);
        let result = run_one(client, cloud, settings, Metrics::default(), over);
        result.await.expect("the provider makes load balancers");
    }

    async fn serve(&self, index: usize) {
        let ports = json!([{ "port": 80, "nodePort": 30_000 + index }]);
        let service = service(&format!("s{index}"));
        let service = service.with(|service| service["spec"]["ports"] = ports);
        create(&self.services, service).await;
    }

    /// Lets the fate of a Service happen while no controller runs.
    async fn apply(&self, index: usize, fate: Fate) {
        let name = format!("s{index}");
        let disown =
            json!({ "metadata": { "finalizers": null, "annotations": { SERVICE_OWNER: null } } });
        let cloud = &self.cloud;
        match fate {
            Fate::New => self.serve(index).await,
            Fate::Well => {}
            Fate::Unowned => self.edit(&name, disown).await,
            Fate::UnownedAndOther => {
                self.edit(&name, disown).await;
                cloud.set(&name, Some(Balancer::Other));
            }
            Fate::Other => cloud.set(&name, Some(Balancer::Other)),
            Fate::Lost => cloud.set(&name, None),
            Fate::LostInSilence => {
                cloud.set(&name, None);
                cloud.ignore_refusals(&name);
            }
            Fate::OtherStatus => {
                let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "198.51.100.7" }] } } });
                let (params, patch) = (PatchParams::default(), Patch::Merge(status));
                let written = self.services.patch_status(&name, &params, &patch).await;
                written.expect("the status can be written");
            }
            Fate::Deleted => self.delete(&name).await,
            Fate::DeletedAndLost => {
                self.delete(&name).await;
                cloud.set(&name, None);
            }
            Fate::Retyped => {
                let retyped = json!({ "spec": { "type": "ClusterIP" } });
                self.edit(&name, retyped).await;
            }
            Fate::Refused => cloud.refuse(&name),
            Fate::NewAndRefused => {
                self.serve(index).await;
                cloud.refuse(&name);
            }
            Fate::Unseen => cloud.hide(&name),
            Fate::DeletedAndUnseen => {
                self.delete(&name).await;
                cloud.hide(&name);
            }
        }
        let service = self.services.get(&name).await.expect("the Service");
        let finalizers = service.metadata.finalizers.unwrap_or_default();
        let is_marked = finalizers.iter().any(|one| one == LOAD_BALANCER_FINALIZER);
        let is_unmarked = fate.is_new() || matches!(fate, Fate::Unowned | Fate::UnownedAndOther);
        assert_ne!(is_marked, is_unmarked, "{fate:?}");
    }

    async fn edit(&self, name: &str, patch: Value) {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let edited = self.services.patch(name, &params, &patch).await;
        edited.expect("the Service can be edited");
    }

    async fn delete(&self, name: &str) {
        let deleted = self.services.delete(name, &DeleteParams::default()).await;
        deleted.expect("the Service can be deleted");
    }
}

fn settings(mode: Mode, plan: SharedPlan) -> Settings {
    Settings {
        controllers: Controllers {
            service: true,
            ..NO_CONTROLLERS
        },
        plan,
        mode,
        ..ccm_tests::controllers::settings()
    }
}
