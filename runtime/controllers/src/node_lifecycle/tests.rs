//! The whole controller against the in-memory API server.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use ccm_core::cloud::{Instance, Lookup};
use ccm_core::safety::permit::Mode;
use ccm_fixtures::kubernetes::node;
use ccm_fixtures::provider::{ScriptedProvider, found, instance};
use ccm_sim::cluster::{Cluster, Fault, FaultEffect, Verb};
use k8s_openapi::api::core::v1::{Event as Recorded, Node};
use kube::Api;
use kube::api::{Patch, PatchParams};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::sleep;

use super::*;
use crate::fixtures::{NO_CONTROLLERS, create, run_one, settings};
use crate::{Controllers, Metrics, Settings, SharedPlan};

/// This controller alone in plan mode.
fn plans(plan: &SharedPlan) -> Settings {
    Settings {
        controllers: Controllers {
            node_lifecycle: true,
            ..NO_CONTROLLERS
        },
        mode: Mode::Plan,
        plan: plan.clone(),
        ..settings()
    }
}

/// With this controller alone, nobody else reports a pass.
#[tokio::test(start_paused = true)]
async fn no_plan_is_whole_before_the_first_pass_over_all_nodes() {
    let cluster = Cluster::new();
    for verb in [Verb::List, Verb::Watch] {
        let slow = FaultEffect::Delayed(Duration::from_secs(5));
        cluster.inject(Fault::next(verb, "nodes", slow));
    }
    let plan = SharedPlan::default();
    let cloud = ScriptedProvider::new("sim").finding(|_| Lookup::NotMine);
    let shutdown = sleep(Duration::from_secs(30));
    let client = cluster.client_as("ccm");
    let run = run_one(
        client,
        Arc::new(cloud),
        plans(&plan),
        Metrics::default(),
        shutdown,
    );
    let look = async {
        sleep(Duration::from_secs(1)).await;
        let early = plan.snapshot().is_whole();
        sleep(Duration::from_secs(20)).await;
        (early, plan.snapshot().is_whole())
    };
    let (ended, looked) = tokio::join!(run, look);
    ended.unwrap();
    assert_eq!(looked, (false, true));
}

/// After which a node needs nothing any more.
#[derive(Debug, Clone, Copy)]
enum Change {
    Ready,
    Deleted,
    PowerUnknown,
}

#[tokio::test(start_paused = true)]
async fn a_node_that_needs_nothing_any_more_leaves_the_plan() {
    let machine = || instance("sim://1", "10.0.0.2");
    let off = || {
        found(Instance {
            shutdown: Some(true),
            ..machine()
        })
    };
    let (taint, unsure) = ((1, true), (0, false));
    for (answer, planned, change) in [
        (off(), taint, Change::Ready),
        (off(), taint, Change::Deleted),
        (off(), taint, Change::PowerUnknown),
        (Lookup::Gone, unsure, Change::Ready),
        (Lookup::Gone, unsure, Change::Deleted),
        (Lookup::Gone, unsure, Change::PowerUnknown),
    ] {
        let cluster = Cluster::new();
        let nodes: Api<Node> = Api::all(cluster.client_as("test"));
        create(&nodes, node("worker-1").provider_id("sim://1")).await;
        let answer = Arc::new(Mutex::new(answer));
        let answers = answer.clone();
        let cloud = ScriptedProvider::new("sim").finding(move |_| answers.lock().clone());
        let plan = SharedPlan::default();
        let run = run_one(
            cluster.client_as("ccm"),
            Arc::new(cloud),
            plans(&plan),
            Metrics::default(),
            sleep(Duration::from_secs(100)),
        );
        let look = || {
            let plan = plan.snapshot();
            (plan.changes().count(), plan.is_sure())
        };
        let watch = async {
            sleep(Duration::from_secs(22)).await;
            let before = look();
            match change {
                Change::Ready => {
                    let conditions = json!([{ "type": "Ready", "status": "True" }]);
                    let patch = Patch::Merge(json!({ "status": { "conditions": conditions } }));
                    let params = PatchParams::default();
                    let patched = nodes.patch_status("worker-1", &params, &patch).await;
                    patched.unwrap();
                }
                Change::Deleted => {
                    let deleted = nodes.delete("worker-1", &Default::default()).await;
                    deleted.unwrap();
                }
                Change::PowerUnknown => *answer.lock() = found(machine()),
            }
            sleep(Duration::from_secs(70)).await;
            (before, look())
        };
        let (ended, looked) = tokio::join!(run, watch);
        ended.unwrap();
        assert_eq!(looked, (planned, (0, true)), "{change:?}");
    }
}

/// Runs this controller until `stops_after` with the node `a`, whose machine is gone, and `b`, which is Ready. Returns when `a` is
/// deleted, if it is, and the reasons of all Events.
async fn deletes(cluster: &Cluster, stops_after: Duration) -> (Option<Duration>, Vec<String>) {
    let nodes: Api<Node> = Api::all(cluster.client_as("test"));
    create(&nodes, node("a").provider_id("sim://1")).await;
    create(&nodes, node("b").provider_id("sim://2")).await;
    let conditions = json!([{ "type": "Ready", "status": "True" }]);
    let patch = Patch::Merge(json!({ "status": { "conditions": conditions } }));
    let params = PatchParams::default();
    nodes.patch_status("b", &params, &patch).await.unwrap();
    let cloud = ScriptedProvider::new("sim").finding(|node| match node.name.as_str() {
        "a" => Lookup::Gone,
        _ => found(instance("sim://2", "10.0.0.2")),
    });
    let settings = Settings {
        mode: Mode::Enforce,
        ..plans(&SharedPlan::default())
    };
    let began = tokio::time::Instant::now();
    let run = run_one(
        cluster.client_as("ccm"),
        Arc::new(cloud),
        settings,
        Metrics::default(),
        sleep(stops_after),
    );
    let watch = async {
        while began.elapsed() < stops_after {
            sleep(Duration::from_millis(100)).await;
            if nodes.get_opt("a").await.unwrap().is_none() {
                return Some(began.elapsed());
            }
        }
        None
    };
    let (ended, deleted_at) = tokio::join!(run, watch);
    ended.unwrap();
    let events: Api<Recorded> = Api::all(cluster.client_as("test"));
    let events = events.list(&Default::default()).await.unwrap();
    let reasons = events.items.into_iter().filter_map(|event| event.reason);
    (deleted_at, reasons.collect())
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_stops_reports_no_deletion_as_failed() {
    let (deleted_at, _) = deletes(&Cluster::new(), Duration::from_secs(1200)).await;
    // It is told to stop while it writes the Event that comes before the deletion.
    let cluster = Cluster::new();
    let slow = FaultEffect::Delayed(Duration::from_secs(4));
    cluster.inject(Fault::next(Verb::Create, "events", slow).times(u32::MAX));
    let stops_after = deleted_at.unwrap() + Duration::from_secs(1);
    let (deleted_at, reasons) = deletes(&cluster, stops_after).await;
    assert_eq!(deleted_at, None);
    let about: Vec<&String> = reasons
        .iter()
        .filter(|reason| reason.starts_with("DeletingNode"))
        .collect();
    assert_eq!(about, ["DeletingNode"]);
}
