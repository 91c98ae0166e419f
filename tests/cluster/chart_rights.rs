//! A release of the chart with one controller: Helm grants exactly what that controller, the election and the rest of
//! the process use.

use std::collections::{BTreeMap, BTreeSet};

use ccm_sim::hetzner::ServerStatus;
use ccm_tests::helm::Helm;
use serde_json::json;

use crate::chart::{OPERATOR, chart, kind_and_name};
use crate::chart_release::Release;
use crate::lifecycle::YOUNG;
use crate::machines::is_shut_down;
use crate::record::{granted, used};
use crate::rights::{SMALL_BUDGET, first_node, nodes_join, services_come_and_go};
use crate::services::PLACE;
use crate::world::{World, until};

/// A release with this list of controllers, and without the secure port, whose rights are Kubernetes' own roles.
async fn only(controllers: &str) -> World {
    let values = json!({"args": {"controllers": controllers, "secure-port": 0}});
    let (world, _) = Release::install(&values).await;
    world
}

/// Every right is used and no other. Patching a repeated Event, which all controllers do, is tested for one of them.
fn assert_exact(world: &World) {
    let mut log = world.asked();
    // No client may create an Event in a namespace that is being deleted.
    log.retain(|entry| {
        !(entry.code == 403 && entry.namespace == "leaving" && entry.resource == "events")
    });
    let refused: Vec<_> = log.iter().filter(|entry| entry.code == 403).collect();
    assert!(refused.is_empty(), "not granted: {refused:?}");
    let mut used = used(&log);
    used.insert((String::new(), "events".to_owned(), "patch".to_owned()));
    assert_eq!(used, granted(&world.rights));
}

#[tokio::test]
async fn a_release_with_the_controller_of_nodes_has_exactly_its_rights() {
    let world = only("cloud-node").await;
    first_node(&world).await;
    let mut ccm = world.ccm(
        &world.configuration(json!({})),
        &["--controllers=cloud-node"],
    );
    nodes_join(&world, &mut ccm).await;
    world.stop(ccm).await;
    assert_exact(&world);
}

#[tokio::test]
async fn a_release_with_the_controller_of_services_has_exactly_its_rights() {
    let world = only("service").await;
    world.machines(1).await;
    let flags = [SMALL_BUDGET, &["--controllers=service"]].concat();
    let place = json!(BTreeMap::from([PLACE]));
    let mut ccm = world.ccm(&world.configuration(place), &flags);
    services_come_and_go(&world, &mut ccm).await;
    world.stop(ccm).await;
    assert_exact(&world);
}

#[tokio::test]
async fn a_release_with_the_controller_of_nodes_that_go_has_exactly_its_rights() {
    let world = only("-*,cloud-node-lifecycle-controller").await;
    let machines = world.machines(3).await;
    let [off, drained, _] = machines.as_slice() else {
        panic!("three machines");
    };
    let flags = [
        YOUNG,
        &[
            "--brake=node-deletion=0:0:0",
            "--controllers=cloud-node-lifecycle",
        ],
    ]
    .concat();
    let mut ccm = world.ccm(&world.configuration(json!({})), &flags);

    // The node changes while the cloud is asked about it: the write conflicts, and the node is read again.
    world.cloud.set_status(off.server, ServerStatus::Off);
    world.report(&off.node, "Unknown").await;
    world.cloud_link.hold();
    world.cloud.clear_requests();
    world.cloud_is_asked(&mut ccm).await;
    let note = json!({"metadata": {"annotations": {"note": "meanwhile"}}});
    world.change(&off.node, note).await;
    world.cloud_link.release();
    world
        .nodes_until(&mut ccm, "the taint", |nodes| {
            is_shut_down(&nodes[&off.node])
        })
        .await;

    // The brake has no budget; the deletion of a drained node does not need any.
    let cordon = json!({"spec": {"unschedulable": true}});
    world.change(&drained.node, cordon).await;
    world.lose(drained).await;
    world
        .nodes_until(&mut ccm, "the drained one to go", |nodes| nodes.len() == 2)
        .await;
    until(&mut ccm, "an Event about it", async || {
        let reported = world.events_about(&drained.node).await;
        let mut reported = reported.iter().map(|event| event.reason.as_deref());
        reported
            .any(|reason| reason == Some("DeletingNode"))
            .then_some(())
    })
    .await;
    world.stop(ccm).await;
    assert_exact(&world);
}

/// Role and binding of each controller that a list switches on, with the pod network's flags.
#[test]
fn only_controllers_that_run_have_rights() {
    let nodes = ["cloud-node-controller", "cloud-node-lifecycle-controller"];
    let network = ["node-route-controller", "node-ipam-controller"];
    let service = ["service-lb-controller"];
    let every = [&nodes[..], &network, &service].concat();
    let lb_only = "args.controllers=*\\,-cloud-node\\,-cloud-node-lifecycle";
    let table: [(&[&str], Vec<&str>); 9] = [
        (&[], [&nodes[..], &service].concat()),
        (&["networking.enabled=true"], every.clone()),
        (
            &["args.cluster-cidr=10.0.0.0/8"],
            [&nodes[..], &service, &network[..1]].concat(),
        ),
        (
            &["args.allocate-node-cidrs="],
            [&nodes[..], &service, &network[1..]].concat(),
        ),
        (
            &["networking.enabled=true", "args.allocate-node-cidrs=false"],
            [&nodes[..], &service, &network[..1]].concat(),
        ),
        (
            &[
                "networking.enabled=true",
                "args.configure-cloud-routes=false",
            ],
            [&nodes[..], &service, &network[1..]].concat(),
        ),
        (&[lb_only], service.to_vec()),
        (
            &["args.controllers=service\\,-*\\,nodeipam"],
            service.to_vec(),
        ),
        // The first entry that names a controller counts.
        (
            &[
                "networking.enabled=true",
                "args.controllers=-route\\,node-route-controller\\,nodeipam",
            ],
            network[1..].to_vec(),
        ),
    ];
    let helm = Helm::new().unwrap();
    for (set, expected) in table {
        let set: Vec<_> = set.iter().flat_map(|one| ["--set", one]).collect();
        let objects = helm.template(&chart(), &set).unwrap();
        for kind in ["ClusterRole", "ClusterRoleBinding"] {
            let names = objects
                .iter()
                .map(kind_and_name)
                .filter(|(of, _)| of == kind);
            let names = names.filter_map(|(_, name)| Some(name.strip_prefix("ccm:")?.to_owned()));
            let found: BTreeSet<String> = names
                .filter(|name| every.contains(&name.as_str()))
                .collect();
            let expected: BTreeSet<String> = expected.iter().map(|&name| name.to_owned()).collect();
            assert_eq!(found, expected, "{kind}: {set:?}");
        }
    }
    // Rules follow other flags, too: settings, and a text that the rules must, or must not, contain.
    for (set, word, is_there) in [
        ("args.leader-elect=true", "ccm:leader-election", true),
        ("args.leader-elect=false", "ccm:leader-election", false),
        // The Lease still keeps what the brakes count.
        ("args.leader-elect=false", "ccm:deletion-budgets", true),
        ("args.leader-elect=true", "ccm:deletion-budgets", false),
        ("args.leader-elect-resource-name=other", "\"other\"", true),
        (
            "args.leader-elect-resource-namespace=other",
            "\"namespace\":\"other\"",
            true,
        ),
        (
            "args.enable-leader-migration=true",
            "cloud-provider-extraction-migration",
            true,
        ),
        (
            "args.enable-leader-migration=true,rbac.migrationLease=other",
            "[\"cloud-controller-manager\",\"other\"]",
            true,
        ),
        (
            "args.enable-leader-migration=false",
            "cloud-provider-extraction-migration",
            false,
        ),
        ("args.secure-port=10258", "system:auth-delegator", true),
        ("args.secure-port=0", "system:auth-delegator", false),
        ("args.secure-port=0", "livenessProbe", false),
        (
            "args.use-service-account-credentials=",
            "serviceaccounts/token",
            true,
        ),
        (
            "args.use-service-account-credentials=false",
            "serviceaccounts/token",
            false,
        ),
        // Only what acts has accounts of its own.
        (
            "args.use-service-account-credentials=,args.mode=plan",
            "serviceaccounts/token",
            false,
        ),
        ("crd.create=false", "CustomResourceDefinition", false),
        (
            "nameOverride=hcloud-cloud-controller-manager",
            "\"ccm:status-page",
            false,
        ),
        (
            "nameOverride=hcloud-cloud-controller-manager",
            "\"hcloud-cloud-controller-manager:status-page",
            true,
        ),
    ] {
        let objects = helm.template(&chart(), &["--set", set]).unwrap();
        assert_eq!(
            json!(objects).to_string().contains(word),
            is_there,
            "{set}: {word}"
        );
    }
}

#[test]
fn without_rbac_create_nothing_is_granted_whatever_else_is_on() {
    let helm = Helm::new().unwrap();
    for monitor in [
        "podMonitor.secure=true,monitoring.podMonitor",
        "serviceMonitor",
    ] {
        let all = format!(
            "networking.enabled=true,args.enable-provider-objects=,args.enable-leader-migration=,\
             args.use-service-account-credentials=,providerObjects.secrets={{one}},monitoring.{monitor}.enabled=true"
        );
        let more = [OPERATOR, &["--set", &all]].concat();
        let grants = |more: &[&str]| {
            let objects = helm.template(&chart(), more).unwrap();
            let groups = objects.iter().filter(|one| {
                let group = one["apiVersion"].as_str().unwrap_or_default();
                group.starts_with("rbac.authorization.k8s.io/")
            });
            groups.map(kind_and_name).collect::<Vec<_>>()
        };
        let granted = grants(&more);
        let reads = ("ClusterRoleBinding", "ccm:metrics-reader");
        let reads = (reads.0.to_owned(), reads.1.to_owned());
        assert!(granted.contains(&reads), "{granted:?}");
        let without = [&more[..], &["--set", "rbac.create=false"]].concat();
        assert_eq!(grants(&without), [], "{monitor}");
    }
}
