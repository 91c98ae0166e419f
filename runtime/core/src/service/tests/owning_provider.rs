//! The owner of a Service: the recorded one, the one by class, or none (SVC-010, SVC-011, SVC-046, EDGE-067).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::world::*;
use crate::cloud::load_balancer::Progress;
use crate::moment::{Moment, Now};
use crate::node::ownership::OwnershipContext;
use crate::reconciliation::effect::{Decision, When};
use crate::safety::permit::Mode;
use crate::service::{
    self, Account, Addresses, Claim, Claims, ClaimsError, Facts, Owner, RetainedState, Targets,
    decide,
};

fn claim(name: &str, classes: &[&str], is_default: bool) -> Claim {
    Claim {
        name: name.to_owned(),
        classes: classes.iter().map(|class| (*class).to_owned()).collect(),
        is_default,
        prefixes: vec![format!("{name}.example.com/")],
    }
}

/// A Service with this class and this recorded owner; empty is none, `-` an empty class.
fn service(class: &str, owner: &str) -> Service {
    let mut service = world().stored;
    match class {
        "" => {}
        "-" => service["spec"]["loadBalancerClass"] = json!(""),
        class => service["spec"]["loadBalancerClass"] = json!(class),
    }
    if !owner.is_empty() {
        service["metadata"]["annotations"][OWNER] = json!(owner);
        service["metadata"]["finalizers"] = json!([FINALIZER]);
    }
    serde_json::from_value(service).unwrap()
}

#[test]
fn svc_010_what_is_written_down_decides_then_the_class_then_the_default() {
    let claims = Claims::new(vec![
        claim("one", &["one", "fast"], true),
        claim("two", &["two"], false),
    ])
    .unwrap();
    let said = |owner: Owner<'_>| match owner {
        Owner::Recorded(claim) => format!("recorded {}", claim.name),
        Owner::Implied(claim) => format!("implied {}", claim.name),
        Owner::Absent(name) => format!("absent {name}"),
        Owner::Unserved => "nobody".to_owned(),
    };
    let owner = |class: &str, recorded: &str| said(claims.owner(&service(class, recorded)));
    for (class, recorded, expected) in [
        ("", "", "implied one"),
        ("fast", "", "implied one"),
        ("two", "", "implied two"),
        ("three", "", "nobody"),
        // An empty class counts as a class.
        ("-", "", "nobody"),
        ("", "two", "recorded two"),
        ("one", "two", "recorded two"),
        ("three", "one", "recorded one"),
        ("", "three", "absent three"),
        ("one", "three", "absent three"),
    ] {
        assert_eq!(owner(class, recorded), expected, "{class:?} {recorded:?}");
    }
    // Without the finalizer that is written with it, the annotation is only a tenant's wish.
    for (class, wished, expected) in [
        ("", "two", "implied one"),
        ("two", "one", "implied two"),
        ("three", "one", "nobody"),
        ("two", "two", "recorded two"),
    ] {
        let mut requested = service(class, wished);
        requested.metadata.finalizers = None;
        let said = said(claims.owner(&requested));
        assert_eq!(said, expected, "{class:?} {wished:?}");
    }
    let without_default = Claims::new(vec![claim("two", &["two"], false)]).unwrap();
    assert_eq!(without_default.owner(&service("", "")), Owner::Unserved);
}

#[test]
fn claims_that_would_give_a_service_two_providers_are_refused() {
    let two = |left: Claim, right: Claim| Claims::new(vec![left, right]).unwrap_err();
    assert_eq!(
        two(claim("a", &[], true), claim("b", &[], true)),
        ClaimsError::TwoDefaults("a".to_owned(), "b".to_owned())
    );
    assert_eq!(
        two(claim("a", &["x"], false), claim("b", &["y", "x"], false)),
        ClaimsError::TwoOfAClass("a".to_owned(), "b".to_owned(), "x".to_owned())
    );
    assert_eq!(
        two(claim("a", &[], false), claim("a", &[], true)),
        ClaimsError::TwoOfAName("a".to_owned())
    );
}

#[test]
fn edge_067_a_class_of_our_own_is_served() {
    let mut world = world();
    world.stored["spec"]["loadBalancerClass"] = json!("fast");
    world.rules.classes = ["fast".to_owned()].into();
    world.rules.is_default = false;
    assert_eq!(world.reconcile().end, When::AwaitChange);
    assert_eq!(world.addresses(), ["192.0.2.1"]);
}

#[test]
fn svc_046_a_service_with_somebody_elses_class_is_never_touched() {
    let changes: [fn(&mut Value); 4] = [
        |_| {},
        |service| service["metadata"]["finalizers"] = json!([FINALIZER]),
        |service| {
            service["metadata"]["finalizers"] = json!([FINALIZER]);
            service["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        },
        |service| {
            service["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": "1.2.3.4" }] } })
        },
    ];
    for change in changes {
        for is_gone in [false, true] {
            let mut world = world();
            world.stored["spec"]["loadBalancerClass"] = json!("io.cilium/node");
            world.is_gone = is_gone;
            change(&mut world.stored);
            assert_eq!(does_nothing(&mut world).end, When::AwaitChange);
        }
    }
}

#[test]
fn svc_011_the_finalizer_of_somebody_elses_class_survives_a_change_of_the_type() {
    let mut world = world();
    world.stored["spec"]["loadBalancerClass"] = json!("io.cilium/node");
    world.stored["metadata"]["finalizers"] = json!([FINALIZER]);
    does_nothing(&mut world);
    world.stored["spec"] = json!({ "type": "ClusterIP" });
    does_nothing(&mut world);
    does_nothing(&mut world);
    world.delete_object();
    does_nothing(&mut world);
    // The other controller has released the object, and the Service becomes ours.
    world.stored["metadata"] = json!({ "namespace": "default", "name": "web", "uid": "u0" });
    does_nothing(&mut world);
    world.stored["spec"] = json!({ "type": "LoadBalancer" });
    world.reconcile();
    assert!(world.has_finalizer());
    world.stored["spec"]["type"] = json!("ClusterIP");
    world.reconcile();
    assert!(!world.has_finalizer());
}

#[test]
fn a_service_of_the_go_manager_is_taken_over_without_a_change_at_the_cloud() {
    let mut world = world();
    world.stored["metadata"]["finalizers"] = json!([FINALIZER]);
    world.stored["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } });
    world.ensure = [ready(&["192.0.2.1"], 0)].into();
    let run = world.reconcile();
    assert_eq!(
        run.acts(),
        [
            "patch annotations(1)",
            "ensure targets(2)",
            "patch wasm-ccm.dev/LoadBalancer=true"
        ]
    );
    assert_eq!(world.annotation(OWNER), Some("sim"));

    // A Service that the Go manager left behind with its finalizer.
    let mut world = super::world::world();
    world.stored["metadata"]["finalizers"] = json!([FINALIZER]);
    world.stored["spec"]["type"] = json!("NodePort");
    world.reconcile();
    assert!(!world.has_finalizer());
}

#[test]
fn an_owner_is_kept_when_defaults_and_classes_change() {
    let mut world = made();
    world.rules.is_default = false;
    does_nothing(&mut world);
    world.past = Default::default();
    assert_eq!(world.reconcile().acts(), ["ensure targets(2)"]);

    let mut world = super::world::world();
    world.stored["spec"]["loadBalancerClass"] = json!("fast");
    world.rules.classes = ["fast".to_owned()].into();
    world.reconcile();
    world.rules.classes.clear();
    does_nothing(&mut world);
    assert!(world.has_finalizer());
}

#[test]
fn what_has_got_somebody_elses_class_by_way_of_another_type_is_let_go() {
    let mut world = made();
    // The removal lasts longer than one reconciliation.
    world.delete = [Ok(Progress::Pending(pending("h")))].into();
    // The watch delivered both changes as one.
    world.stored["spec"]["loadBalancerClass"] = json!("io.cilium/node");
    world.stored["status"]["loadBalancer"] = json!({ "ingress": [{ "ip": "198.51.100.9" }] });
    assert_eq!(world.reconcile().event_reasons(), ["DeletingLoadBalancer"]);
    world.delete = [Ok(Progress::Done)].into();
    world.wait(10);
    assert_eq!(world.reconcile().event_reasons(), ["DeletedLoadBalancer"]);
    assert_eq!(world.annotation(OWNER), None);
    assert!(world.has_finalizer(), "the other one needs it");
    assert_eq!(world.addresses(), ["198.51.100.9"], "and it is its status");
    does_nothing(&mut world);
}

#[test]
fn who_evidently_waits_for_us_is_told_once_that_nobody_comes() {
    type Change = fn(&mut World);
    let changes: [(Change, &str); 4] = [
        (
            |world| world.stored["metadata"]["annotations"][OWNER] = json!("aws"),
            "the Service belongs to the provider \"aws\", which does not serve here: it is not configured, no version of it serves, or it contradicts another provider; its load balancer is not changed",
        ),
        (
            |world| world.stored["spec"]["loadBalancerClass"] = json!("lb.example.com/fast"),
            "no provider here serves the load balancer class \"lb.example.com/fast\"",
        ),
        (
            |world| world.stored["spec"]["loadBalancerClass"] = json!("sim"),
            "no provider here serves the load balancer class \"sim\"",
        ),
        (
            |world| {
                world.rules.is_default = false;
                world.stored["metadata"]["annotations"]["lb.example.com/type"] = json!("x");
            },
            "no provider here serves Services without a load balancer class",
        ),
    ];
    for (change, why) in changes {
        let mut world = world();
        change(&mut world);
        let run = world.reconcile();
        assert_eq!(run.acts(), ["event Warning LoadBalancerNotServed"], "{why}");
        assert_eq!(run.events[0].1, why);
        assert_eq!(run.why(), why);
        assert!(world.patches.is_empty());
        does_nothing(&mut world);
    }
}

#[test]
fn an_address_is_in_use_by_whoever_else_has_it() {
    let of = |name: &str, uid: &str, spec: Value, ingress: Value| -> Service {
        serde_json::from_value(json!({
            "metadata": { "namespace": "ns", "name": name, "uid": uid },
            "spec": spec, "status": { "loadBalancer": { "ingress": ingress } }
        }))
        .unwrap()
    };
    let mut addresses = Addresses::default();
    let dns = of(
        "dns",
        "u1",
        json!({ "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10", "fd00::a"] }),
        json!(null),
    );
    let web = of(
        "web",
        "u2",
        json!({ "clusterIP": "None" }),
        json!([{ "ip": "192.0.2.1" }, { "hostname": "x" }]),
    );
    let ext = of(
        "ext",
        "u3",
        json!({ "clusterIP": "nonsense", "externalIPs": ["192.0.2.4"] }),
        json!([{ "ip": "192.0.2.3" }]),
    );
    for service in [&dns, &web, &ext] {
        addresses.apply(service);
    }
    let who = |addresses: &Addresses, uid: &str, ip: &str| {
        let used = addresses.in_use(uid, [ip.parse().unwrap()]);
        used.first().map(|one| one.by.clone())
    };
    for (uid, ip, expected) in [
        ("u2", "10.96.0.10", Some("service/ns/dns")),
        ("u2", "::ffff:10.96.0.10", Some("service/ns/dns")),
        ("u2", "fd00::a", Some("service/ns/dns")),
        ("u2", "192.0.2.3", Some("service/ns/ext")),
        ("u2", "192.0.2.4", None),
        ("u1", "192.0.2.1", Some("service/ns/web")),
        ("u2", "192.0.2.1", None),
        ("u2", "192.0.2.9", None),
    ] {
        assert_eq!(who(&addresses, uid, ip).as_deref(), expected, "{uid} {ip}");
    }
    // Two Services have the IP: the other one is reported.
    addresses.apply(&of("ext", "u3", json!({}), json!([{ "ip": "192.0.2.1" }])));
    assert_eq!(
        who(&addresses, "u2", "192.0.2.1").as_deref(),
        Some("service/ns/ext")
    );
    assert_eq!(
        who(&addresses, "u2", "192.0.2.3"),
        None,
        "what it does not have any more"
    );
    addresses.forget(&service::service_ref(&dns));
    assert_eq!(who(&addresses, "u2", "10.96.0.10"), None);
    // The Service is recreated under the same name.
    addresses.apply(&of("web", "u9", json!({}), json!([{ "ip": "192.0.2.1" }])));
    assert_eq!(
        who(&addresses, "u2", "192.0.2.1").as_deref(),
        Some("service/ns/ext")
    );
    assert_eq!(
        who(&addresses, "u3", "192.0.2.1").as_deref(),
        Some("service/ns/web")
    );
}

/// The initial facts about `service` for the provider `sim`, while `holder` may have its load balancer.
fn facts(claims: Arc<Claims>, holder: &str, service: Service, is_gone: bool) -> Facts {
    let ownership = OwnershipContext::alone("sim", vec!["sim".to_owned()]);
    let world = service::World {
        claims,
        ..service::World::new(
            Arc::new(ownership),
            Arc::default(),
            Arc::default(),
            Mode::Enforce,
        )
    };
    let (service, world) = (Arc::new(service), Arc::new(world));
    let targets = Targets::of([].iter(), true);
    let (past, account) = (RetainedState::default(), Account::default());
    Facts {
        holder: Some(holder.to_owned()),
        ..Facts::new(service, is_gone, world, targets, past, account)
    }
}

/// The entry `former` was renamed to `sim`, and a person writes the new name. While both serve, the one that has the load
/// balancer keeps the Service.
#[test]
fn a_name_that_is_not_configured_keeps_no_service_from_the_provider_that_a_person_names() {
    for (other, holder, recorded, is_owned) in [
        (Some("former"), "former", "sim", false),
        (None, "former", "sim", true),
        (None, "sim", "former", false),
    ] {
        let other = other.map(|name| claim(name, &[name], false));
        let claims = other.into_iter().chain([claim("sim", &[], true)]);
        let claims = Claims::new(claims.collect()).unwrap();
        let facts = facts(Arc::new(claims), holder, service("", recorded), false);
        assert_eq!(facts.is_owned(), is_owned, "{holder} {recorded}");
    }
}

/// A Service whose recorded owner was edited to this provider waits for the one that has its load balancer. When the
/// Service wants none any more, that one removes it, and nobody waits.
#[test]
fn nobody_waits_for_a_service_that_wants_no_load_balancer() {
    let claims = vec![claim("one", &[], true), claim("sim", &["two"], false)];
    let claims = Arc::new(Claims::new(claims).unwrap());
    type Change = fn(&mut Service);
    let other_type: Change =
        |service| service.spec.as_mut().unwrap().type_ = Some("ClusterIP".to_owned());
    let deletion: Change =
        |service| service.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    for (is_gone, change, waits) in [
        (false, (|_| {}) as Change, true),
        (true, |_| {}, false),
        (false, other_type, false),
        (false, deletion, false),
    ] {
        let mut service = service("", "sim");
        change(&mut service);
        let facts = facts(claims.clone(), "one", service, is_gone);
        let now = Now {
            moment: Moment(Duration::from_secs(1_000)),
            wall: Timestamp::UNIX_EPOCH,
        };
        let Decision::Done((end, _)) = decide(&facts, now) else {
            panic!("there is nothing to do");
        };
        assert_eq!(matches!(end, When::Retry { .. }), waits);
    }
}
