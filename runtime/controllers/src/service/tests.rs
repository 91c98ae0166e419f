//! The whole controller against the in-memory API server and a scripted cloud: which Services wake, how often the cloud
//! is called, and which failures it survives. Reconciliations themselves are tested in `ccm-core` and in the scenarios.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::num::NonZeroUsize;
use std::time::Duration;

use ccm_core::cloud::ProviderError;
use ccm_core::safety::permit::Mode;
use ccm_core::service::has_finalizer;
use ccm_fixtures::kubernetes::{node, service};
use ccm_fixtures::provider::{Call, ScriptedProvider};
use ccm_sim::cluster::{Cluster, Fault, FaultEffect, Verb};
use k8s_openapi::api::core::v1::{Event as Recorded, Node};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::*;
use crate::{Controllers, Metrics, Settings, SharedPlan, fixtures};
use balancers::Balancers;

/// Longer than any debounce and any reconciliation here, shorter than a drift check.
const A_WHILE: Duration = Duration::from_secs(20);

fn settings() -> Settings {
    Settings {
        controllers: Controllers {
            service: true,
            ..fixtures::NO_CONTROLLERS
        },
        call_time: Duration::from_secs(600),
        ..fixtures::settings()
    }
}

/// A cluster, and the changes that a user makes to it.
struct World {
    cluster: Cluster,
    cloud: Balancers,
}

impl World {
    fn new() -> World {
        World {
            cluster: Cluster::new(),
            cloud: Balancers::new(),
        }
    }

    fn services(&self) -> Api<Service> {
        Api::namespaced(self.cluster.client_as("person"), "default")
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.cluster.client_as("person"))
    }

    async fn serve(&self, name: &str) -> Service {
        self.serve_as(name, json!({ "type": "LoadBalancer" })).await
    }

    async fn serve_as(&self, name: &str, mut spec: Value) -> Service {
        spec["ports"] = json!([{ "port": 80 }]);
        let service = service(name).with(|service| service["spec"] = spec);
        fixtures::create(&self.services(), service).await
    }

    async fn edit(&self, name: &str, patch: Value) {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.services().patch(name, &params, &patch).await.unwrap();
    }

    async fn remove(&self, name: &str) {
        let params = DeleteParams::default();
        self.services().delete(name, &params).await.unwrap();
    }

    async fn join(&self, name: &str) {
        let node = node(name).provider_id(&format!("sim://{name}"));
        fixtures::create(&self.nodes(), node).await;
    }

    async fn join_all(&self, names: &[&str]) {
        for name in names {
            self.join(name).await;
        }
    }

    async fn edit_node(&self, name: &str, patch: Value) {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.nodes().patch(name, &params, &patch).await.unwrap();
    }

    /// Runs the controllers while `script` lasts, and a while before it.
    async fn run_while(&self, settings: Settings, script: impl Future<Output = ()>) {
        self.run_with(self.cluster.client_as("ccm"), settings, script)
            .await;
    }

    /// The same with this client.
    async fn run_with(&self, client: Client, settings: Settings, script: impl Future<Output = ()>) {
        let metrics = Metrics::register(&mut Registry::default());
        self.run_counting(client, settings, metrics, script).await;
    }

    /// The same with these metrics.
    async fn run_counting(
        &self,
        client: Client,
        settings: Settings,
        metrics: Metrics,
        script: impl Future<Output = ()>,
    ) {
        let (over, shutdown) = oneshot::channel::<()>();
        let shutdown = async {
            let _ = shutdown.await;
        };
        let running = fixtures::run_one(
            client,
            self.cloud.provider.clone(),
            settings,
            metrics,
            shutdown,
        );
        let script = async {
            a_while().await;
            script.await;
            over.send(()).unwrap();
        };
        let (ended, ()) = tokio::join!(running, script);
        ended.unwrap();
    }

    /// The manager's writes since the request with this number.
    fn written(&self, after: usize) -> Vec<String> {
        let requests = self.cluster.requests().into_iter().skip(after);
        let reads = ["get", "list", "watch"];
        let ours = requests.filter(|request| request.identity == "ccm");
        ours.filter(|request| !reads.contains(&request.verb))
            .map(|request| format!("{} {} {}", request.verb, request.resource, request.name))
            .collect()
    }

    async fn reasons(&self) -> Vec<String> {
        let events: Api<Recorded> = Api::all(self.cluster.client());
        let events = events.list(&ListParams::default()).await.unwrap();
        let reasons = events.iter().filter_map(|event| event.reason.clone());
        reasons.collect()
    }
}

async fn a_while() {
    tokio::time::sleep(A_WHILE).await;
}

fn ip(service: &Service) -> Option<String> {
    let status = service.status.as_ref()?.load_balancer.as_ref()?;
    status.ingress.as_ref()?.first()?.ip.clone()
}

#[tokio::test(start_paused = true)]
async fn svc_031_the_finalizer_is_there_before_the_cloud_is_asked_and_our_own_writes_wake_nobody() {
    let world = World::new();
    world.join("a").await;
    world
        .run_while(settings(), async {
            world.serve("web").await;
            a_while().await;
            assert_eq!(world.cloud.asked(), ["ensure default/web"]);
            let service = world.services().get("web").await.unwrap();
            assert_eq!(ip(&service).as_deref(), Some("198.51.100.1"));
            assert!(has_finalizer(&service));
            let patches: Vec<_> = world
                .cluster
                .requests()
                .into_iter()
                .filter(|request| request.identity == "ccm" && request.verb == "patch")
                .map(|request| (request.resource, request.subresource, request.code))
                .collect();
            let status = || ("services", "status".to_owned(), Some(200));
            assert_eq!(patches, [status(), status()], "SVC-080: before and after");
        })
        .await;
}

/// The account of the new credential is unproven: with the old one's proof a second load balancer could be made in it.
#[tokio::test(start_paused = true)]
async fn nothing_is_made_with_a_credential_that_came_after_the_reconciliation_began() {
    let world = World::new();
    world
        .run_while(settings(), async {
            // The first generation is proven by now.
            world.serve("first").await;
            a_while().await;
            world.cloud.take();
            let second = Duration::from_secs(1);
            let slow = FaultEffect::Delayed(second * 2);
            let finalizer = Fault::next(Verb::Patch, "services", slow).on("status");
            world.cluster.inject(finalizer);
            world.serve("web").await;
            tokio::time::sleep(second).await;
            world.cloud.provider.replace();
            tokio::time::sleep(second * 3 / 2).await;
            assert_eq!(world.cloud.asked(), [""; 0]);
            a_while().await;
            assert_eq!(world.cloud.asked(), ["ensure default/web"]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn svc_043_a_deleted_service_goes_when_its_load_balancer_is_proven_gone() {
    let world = World::new();
    world.serve("web").await;
    world
        .run_while(settings(), async {
            world.cloud.take();
            world.remove("web").await;
            a_while().await;
            assert_eq!(
                world.cloud.asked(),
                ["delete default/web", "get default/web"]
            );
            assert!(world.services().get_opt("web").await.unwrap().is_none());
            let reasons = world.reasons().await;
            assert!(
                reasons.contains(&"DeletedLoadBalancer".to_owned()),
                "{reasons:?}"
            );
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn edge_066_a_service_that_vanishes_without_its_finalizer_leaks_no_load_balancer() {
    let world = World::new();
    world.serve("web").await;
    world
        .run_while(settings(), async {
            world.cloud.take();
            world.remove_by_force("web").await;
            a_while().await;
            world.cloud.removed("default/web");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn svc_023_a_service_that_was_made_again_gets_its_own_load_balancer_after_the_old_one_is_gone()
 {
    let world = World::new();
    let old = world.serve("web").await;
    world
        .run_while(settings(), async {
            world.cloud.take();
            world.remove_by_force("web").await;
            let new = world.serve("web").await;
            a_while().await;
            let calls = world.cloud.take();
            let of = |what, uid: &Option<String>| {
                let is = |call: &Call| call.function == what && Some(&call.uid) == uid.as_ref();
                calls.iter().position(is).expect(what)
            };
            let deleted = of("delete", &old.metadata.uid);
            assert!(deleted < of("ensure", &new.metadata.uid), "{calls:?}");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn svc_008_after_a_restart_everybody_is_looked_at_once_and_nothing_is_written() {
    let world = World::new();
    world.join("a").await;
    for name in ["one", "two", "three"] {
        world.serve(name).await;
    }
    world.serve_as("inside", json!({})).await;
    world.run_while(settings(), async {}).await;
    world.cloud.take();
    let before = world.cluster.requests().len();
    world
        .run_while(settings(), async {
            let mut asked = world.cloud.asked();
            asked.sort();
            let all = [
                "ensure default/one",
                "ensure default/three",
                "ensure default/two",
            ];
            assert_eq!(asked, all);
            a_while().await;
            assert_eq!(world.cloud.asked(), [""; 0]);
            assert_eq!(world.written(before), [""; 0]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn edge_065_a_load_balancer_is_looked_at_every_hour_more_or_less() {
    let world = World::new();
    for name in ["one", "two", "three"] {
        world.serve(name).await;
    }
    world
        .run_while(settings(), async {
            world.cloud.take();
            tokio::time::sleep(Duration::from_secs(1700)).await;
            assert_eq!(world.cloud.asked(), [""; 0], "not before half of it");
            tokio::time::sleep(Duration::from_secs(3800)).await;
            let asked = world.cloud.asked();
            for name in ["one", "two", "three"] {
                let about = asked.iter().filter(|one| one.ends_with(name)).count();
                assert!((1..=3).contains(&about), "{asked:?}");
            }
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn svc_012_what_nobody_needs_to_know_wakes_nobody_and_a_port_does() {
    let world = World::new();
    world.serve("web").await;
    world
        .run_while(settings(), async {
            world.cloud.take();
            world
                .edit("web", json!({ "metadata": { "labels": { "a": "b" } } }))
                .await;
            world
                .edit("web", json!({ "spec": { "selector": { "app": "web" } } }))
                .await;
            a_while().await;
            assert_eq!(world.cloud.asked(), [""; 0]);
            world
                .edit("web", json!({ "spec": { "ports": [{ "port": 81 }] } }))
                .await;
            a_while().await;
            assert_eq!(world.cloud.asked(), ["ensure default/web"]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn svc_007_no_more_services_are_worked_on_at_once_than_the_flag_says() {
    let world = World::new();
    world.cloud.hold("ensure", "default/one");
    let mut settings = settings();
    settings.service.concurrent_syncs = NonZeroUsize::MIN;
    world.serve("one").await;
    world
        .run_while(settings, async {
            world.serve("two").await;
            a_while().await;
            assert_eq!(world.cloud.asked(), [""; 0], "one is under way");
            world.cloud.let_go();
            a_while().await;
            assert_eq!(
                world.cloud.asked(),
                ["ensure default/one", "ensure default/two"]
            );
        })
        .await;
}

/// The next process finds what was made.
#[tokio::test(start_paused = true)]
async fn svc_009_a_call_that_is_on_the_wire_at_the_end_is_waited_for_and_nothing_follows_it() {
    let world = World::new();
    world.cloud.hold("ensure", "default/web");
    let run = world.run_while(settings(), async {
        world.serve("web").await;
        a_while().await;
        assert_eq!(world.cloud.asked(), [""; 0], "it is held");
    });
    let answer = async {
        tokio::time::sleep(2 * A_WHILE + Duration::from_secs(8)).await;
        world.cloud.release();
    };
    tokio::join!(run, answer);
    assert_eq!(world.cloud.asked(), ["ensure default/web"]);
    assert_eq!(world.cloud.provider.balanced().len(), 1);
    let web = world.services().get("web").await.unwrap();
    assert_eq!((has_finalizer(&web), ip(&web)), (true, None));
}

#[tokio::test(start_paused = true)]
async fn iface_004_without_load_balancers_no_service_is_watched_and_nobody_complains() {
    let world = World {
        cluster: Cluster::new(),
        cloud: Balancers::of(ScriptedProvider::new("sim")),
    };
    world.serve("web").await;
    world.run_while(settings(), async {}).await;
    let requests = world.cluster.requests();
    let ours = requests.iter().filter(|request| request.identity == "ccm");
    assert!(ours.clone().all(|request| request.resource == "nodes"));
    assert!(ours.count() > 0);
}

#[tokio::test(start_paused = true)]
async fn in_plan_mode_nothing_is_written_and_the_plan_names_the_service() {
    let world = World::new();
    world.serve("web").await;
    let before = world.cluster.requests().len();
    let plan = SharedPlan::default();
    let settings = Settings {
        mode: Mode::Plan,
        plan: plan.clone(),
        ..settings()
    };
    world.run_while(settings, async {}).await;
    assert_eq!(world.written(before), [""; 0]);
    let plan = plan.snapshot();
    let objects: Vec<_> = plan
        .changes()
        .map(|change| change.object.as_str())
        .collect();
    assert_eq!(objects, ["service/default/web"]);
    assert!(plan.is_sure());
}

#[tokio::test(start_paused = true)]
async fn in_plan_mode_a_service_that_the_provider_refuses_is_not_judged() {
    let world = World::new();
    world.serve("web").await;
    for _ in 0..9 {
        let error = ProviderError::Invalid("no such algorithm".to_owned());
        world.cloud.fail("ensure", error);
    }
    let plan = SharedPlan::default();
    let settings = Settings {
        mode: Mode::Plan,
        plan: plan.clone(),
        ..settings()
    };
    world.run_while(settings, async {}).await;
    let plan = plan.snapshot();
    let unsure: Vec<_> = plan.unsure().collect();
    assert_eq!(
        unsure,
        [(
            "service/default/web",
            "failed to ensure load balancer: invalid: no such algorithm"
        )]
    );
}

impl World {
    /// Removes the finalizer as an impatient user does. The manager would put it back if it could.
    async fn remove_by_force(&self, name: &str) {
        let away = FaultEffect::Refused {
            code: 503,
            retry_after: None,
        };
        let fault = Fault::next(Verb::Patch, "services", away);
        self.cluster.inject(fault.on("status").sent_by("ccm"));
        self.edit(name, json!({ "metadata": { "finalizers": null } }))
            .await;
        self.remove(name).await;
    }
}

mod account_proof;
mod addresses;
mod alone;
mod balancers;
mod hand_over;
mod late_answers;
mod late_lists;
mod nodes;
mod other_providers;
mod owner_edits;
mod same_name;
mod shared_targets;
mod upstream;
