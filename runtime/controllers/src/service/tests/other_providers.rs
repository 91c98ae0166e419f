//! Services of other providers in the same manager: each controller sees the changes of all, and runs for its own.

use ccm_core::reconciliation::effect::ObjectKind;
use ccm_core::safety::audit::{AuditSink as _, Author, Refused, Subject};
use ccm_core::safety::permit::{CloudRequest, Refusal};

use super::*;
use alone::{Alone, claims};

const BOTH: [&str; 2] = ["east", "sim"];
const OWNER: &str = "wasm-ccm.dev/provider";

/// The Service of another provider, which has marked it or not.
async fn anothers(world: &World, is_marked: bool) -> Service {
    let service = service("web").with(|service| {
        service["spec"]["ports"] = json!([{ "port": 80 }]);
        if is_marked {
            let finalizer = "service.kubernetes.io/load-balancer-cleanup";
            service["metadata"]["finalizers"] = json!([finalizer]);
            service["metadata"]["annotations"] = json!({ OWNER: "east" });
        }
    });
    fixtures::create(&world.services(), service).await
}

#[tokio::test(start_paused = true)]
async fn a_change_of_another_providers_service_starts_nothing_here_and_keeps_no_targets() {
    for is_marked in [true, false] {
        let world = World::new();
        let web = anothers(&world, is_marked).await;
        let mut alone = Alone::new(&world, claims(&BOTH, "east"));
        alone.list(&web);
        assert_eq!(alone.run().await, 0);
        for edit in [
            json!({ "spec": { "ports": [{ "port": 81 }] } }),
            json!({ "metadata": { "annotations": { "a": "b" } } }),
        ] {
            world.edit("web", edit).await;
            alone.watch(&world, "web").await;
            assert_eq!(alone.run().await, 0);
        }
        let three = claims(&["east", "north", "sim"], "east");
        alone
            .controller
            .see_services(ServiceChange::Reassigned(three));
        // Not for drift, either.
        tokio::time::sleep(Duration::from_secs(7200)).await;
        assert_eq!(alone.run().await, 0);
        let controller = &alone.controller;
        assert!(controller.slots.is_empty() && controller.nodes.shared().is_empty());
        let web = Arc::new(world.services().get("web").await.unwrap());
        alone.controller.see_services(ServiceChange::Deleted(web));
        assert!(alone.controller.others.is_empty());
    }
}

/// What gives a Service of another provider to this one.
enum Given {
    /// Edits of the Service.
    Edits(Vec<Value>),
    /// Only these providers, and this default one.
    Providers(&'static [&'static str], &'static str),
}

#[tokio::test(start_paused = true)]
async fn a_service_that_another_provider_loses_is_picked_up() {
    let owned = |name: &str| json!({ "metadata": { "annotations": { OWNER: name } } });
    // A class is chosen once for each time with this type.
    let inside = json!({ "spec": { "type": "ClusterIP" } });
    let outside = json!({ "spec": { "type": "LoadBalancer", "loadBalancerClass": "sim/lb" } });
    for (is_marked, given, calls) in [
        (false, Given::Edits(vec![inside, outside]), 1),
        (false, Given::Providers(&["sim"], "sim"), 1),
        (false, Given::Providers(&BOTH, "sim"), 1),
        // It was made for another provider, which is not here any more: that is reported.
        (true, Given::Providers(&["sim"], "sim"), 0),
        // The other provider may have a load balancer, and sets the owner back.
        (true, Given::Edits(vec![owned("sim")]), 0),
    ] {
        let world = World::new();
        let web = anothers(&world, is_marked).await;
        let mut alone = Alone::new(&world, claims(&BOTH, "east"));
        if is_marked {
            let mut service_index = alone.controller.executor.cluster.service_index();
            service_index.apply(&web);
        }
        alone.list(&web);
        assert_eq!(alone.run().await, 0);
        match given {
            Given::Edits(edits) => {
                for edit in edits {
                    world.edit("web", edit).await;
                    alone.watch(&world, "web").await;
                }
            }
            Given::Providers(names, default) => {
                let change = ServiceChange::Reassigned(claims(names, default));
                alone.controller.see_services(change);
            }
        }
        assert_eq!(alone.run().await, 1);
        assert_eq!(world.cloud.take().len(), calls);
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_went_to_another_provider_is_let_go_when_nothing_is_left() {
    let world = World::new();
    let spec = json!({ "type": "LoadBalancer", "loadBalancerClass": "sim/lb" });
    let web = world.serve_as("web", spec).await;
    let mut alone = Alone::new(&world, claims(&BOTH, "east"));
    alone
        .controller
        .executor
        .cluster
        .service_index()
        .apply(&web);
    alone.list(&web);
    alone.run().await;
    assert_eq!(world.cloud.asked(), ["ensure default/web"]);
    let spec = json!({ "type": "ClusterIP", "loadBalancerClass": null });
    world.edit("web", json!({ "spec": spec })).await;
    alone.watch(&world, "web").await;
    alone.run().await;
    world.cloud.removed("default/web");
    // An older event could follow until the watch shows that it is released.
    assert_eq!(alone.controller.slots.len(), 1);
    alone.watch(&world, "web").await;
    assert!(alone.controller.slots.is_empty());
}

/// Otherwise a plan without it would be called empty.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_removal_leaves_the_plan_of_another_providers_service_of_that_name() {
    let world = World::new();
    let of_class = |class: &str| json!({ "type": "LoadBalancer", "loadBalancerClass": class });
    let old = world.serve_as("web", of_class("sim/lb")).await;
    let plan = SharedPlan::default();
    let settings = Settings {
        mode: Mode::Plan,
        plan: plan.clone(),
        ..settings()
    };
    let mut alone = Alone::with(&world, claims(&BOTH, "east"), settings);
    alone.list(&old);
    world.remove("web").await;
    world.serve_as("web", of_class("east/lb")).await;
    let deleted = ServiceChange::Deleted(Arc::new(old));
    alone.controller.see_services(deleted);
    alone.watch(&world, "web").await;
    // The other provider's controllers have planned its load balancer meanwhile.
    let request = CloudRequest {
        author: Author {
            provider: "east".to_owned(),
            digest: String::new(),
        },
        ..ccm_fixtures::permits::change("POST", "/load_balancers")
    };
    let subject = Subject {
        kind: Some(ObjectKind::Service),
        namespace: Some("default".to_owned()),
        name: "web".to_owned(),
        ..Subject::default()
    };
    alone.controller.executor.planner().refused(&Refused {
        subject: &subject,
        request: &request,
        refusal: Refusal::Mode("plan"),
        log_line: None,
    });
    assert_eq!(alone.run().await, 1);
    assert!(alone.controller.slots.is_empty());
    let plan = plan.snapshot();
    let planned = plan.changes().map(|one| (&*one.object, &*one.provider));
    let planned: Vec<_> = planned.collect();
    assert_eq!(planned, [("service/default/web", "east")]);
}

/// The finalizer has the same name whoever writes it (SVC-011, EDGE-067).
#[tokio::test(start_paused = true)]
async fn the_finalizer_of_another_providers_class_survives_a_change_of_the_type_that_gives_the_service_here()
 {
    let world = World::new();
    let foreign = service("web").with(|service| {
        service["spec"]["ports"] = json!([{ "port": 80 }]);
        service["spec"]["loadBalancerClass"] = json!("east/lb");
        let finalizer = "service.kubernetes.io/load-balancer-cleanup";
        service["metadata"]["finalizers"] = json!([finalizer]);
    });
    let web = fixtures::create(&world.services(), foreign).await;
    let mut alone = Alone::new(&world, claims(&BOTH, "sim"));
    alone.list(&web);
    assert_eq!(alone.run().await, 0);
    let spec = json!({ "type": "ClusterIP", "loadBalancerClass": null });
    world.edit("web", json!({ "spec": spec })).await;
    alone.watch(&world, "web").await;
    assert_eq!(alone.run().await, 1);
    assert_eq!(world.cloud.asked(), [""; 0]);
    let web = world.services().get("web").await.unwrap();
    assert!(has_finalizer(&web));
}
