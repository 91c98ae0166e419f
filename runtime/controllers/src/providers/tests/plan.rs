//! Plan mode while the set of providers changes.

use ccm_core::cloud::ProviderError;
use ccm_core::moment::Moment;
use ccm_core::safety::audit::Author;
use ccm_core::safety::permit::{Access, CloudRequest, Mode};
use ccm_core::well_known::{LOAD_BALANCER_FINALIZER, SERVICE_OWNER};
use ccm_fixtures::kubernetes::service;
use ccm_fixtures::provider::{Asked, at_once};
use serde_json::json;

use super::*;
use crate::SharedPlan;

fn planning(plan: &SharedPlan) -> Settings {
    Settings {
        mode: Mode::Plan,
        plan: plan.clone(),
        ..settings()
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_does_not_wait_for_a_provider_that_is_gone_or_was_replaced() {
    let (east, west) = (
        cloud("east", CloudMode::Good),
        cloud("west", CloudMode::Good),
    );
    let nothing = able("nothing", Capabilities::default());
    for (then, is_whole) in [
        (list(&[&east, &west]), true),
        (list(&[&west]), true),
        (list(&[&west, &nothing]), true),
        (list(&[]), false),
    ] {
        let cluster = cluster::Cluster::new();
        post(&cluster, node("east-1").provider_id("east://1")).await;
        let plan = SharedPlan::default();
        let endless = cloud("east", CloudMode::Endless);
        let clouds = [&endless, &west];
        let ended = run_while(&cluster, &clouds, planning(&plan), async |told| {
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert!(!plan.snapshot().is_whole(), "a pass is under way");
            told.send_replace(then);
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert_eq!(plan.snapshot().is_whole(), is_whole);
        })
        .await;
        ended.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_has_nothing_of_a_provider_that_has_left() {
    let silent = scripted("east", CloudMode::Good).scripted(|_| {
        let why = "overloaded".to_owned();
        at_once(Err(ProviderError::Unavailable(why)))
    });
    for (east, is_judged) in [
        (cloud("east", CloudMode::Good), true),
        (Arc::new(silent), false),
    ] {
        let cluster = cluster::Cluster::new();
        create(&cluster, "east", 1).await;
        let plan = SharedPlan::default();
        let ended = run_while(&cluster, &[&east], planning(&plan), async |told| {
            tokio::time::sleep(Duration::from_secs(4)).await;
            let before = plan.snapshot();
            assert_eq!(before.changes().count() > 0, is_judged, "{before}");
            assert_eq!(before.unsure().count() > 0, !is_judged, "{before}");
            // Nobody is left who could judge the node anew.
            told.send_replace(list(&[]));
            tokio::time::sleep(Duration::from_secs(4)).await;
            let after = plan.snapshot();
            let open = after.changes().count() + after.unsure().count();
            assert_eq!(open, 0, "{}", after.table());
            assert!(!after.is_whole(), "nobody looks any more");
        })
        .await;
        ended.unwrap();
    }
}

/// A cloud at which the load balancer of each Service has to be changed.
fn outdated(name: &str) -> Arc<ScriptedProvider> {
    let cloud = scripted(name, CloudMode::Good).balancing();
    let cloud = cloud.scripted(|Asked { call, permit, .. }| {
        if call.function == "ensure" {
            let change = CloudRequest {
                author: Author::default(),
                target: "api".to_owned(),
                host: "cloud.test".to_owned(),
                method: "PUT".to_owned(),
                path: "/load_balancers/1".to_owned(),
                template: "/load_balancers/{id}".to_owned(),
                rule: "PUT /load_balancers/{id} (write)".to_owned(),
                sha256: String::new(),
                access: Access::Write,
            };
            permit.ask(Moment(Duration::ZERO), &change).unwrap_err();
        }
        at_once(Ok(()))
    });
    Arc::new(cloud)
}

#[tokio::test(start_paused = true)]
async fn a_planned_change_of_a_service_stays_in_the_plan_when_another_provider_comes() {
    let cluster = cluster::Cluster::new();
    let web = service("web").with(|web| {
        web["metadata"]["finalizers"] = json!([LOAD_BALANCER_FINALIZER]);
        web["metadata"]["annotations"] = json!({ SERVICE_OWNER: "east" });
        web["spec"] = json!({
            "type": "LoadBalancer", "loadBalancerClass": "east", "ports": [{ "port": 80 }]
        });
    });
    let services = Api::namespaced(cluster.client_as("test"), "default");
    fixtures::create::<Service>(&services, web).await;
    let plan = SharedPlan::default();
    let mut settings = planning(&plan);
    settings.controllers.service = true;
    let (mut east, first) = (provided(&outdated("east")), provided(&outdated("a")));
    east.service.classes = ["east".to_owned()].into();
    let ended = run_while(&cluster, &[], settings, async |told| {
        for list in [vec![east.clone()], vec![first, east]] {
            let count = list.len();
            told.send_replace(list.into());
            tokio::time::sleep(Duration::from_secs(10)).await;
            let plan = plan.snapshot();
            let objects: Vec<&str> = plan.changes().map(|one| &*one.object).collect();
            assert_eq!(objects, ["service/default/web"], "{count} providers");
            assert!(plan.is_sure());
        }
    })
    .await;
    ended.unwrap();
}
