//! Pod CIDRs on a real API server, which allows them to be set once and never changed: which nodes get them, which keep
//! them, and when they are free again.

use std::collections::{BTreeMap, BTreeSet};

use ccm_tests::process::Process;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::pod_network::{
    Network, assert_given_once, has_route, names, pod_cidrs, routed, setup, unavailable,
};
use crate::world::{World, until};

/// Four blocks of the default size.
const FOUR: &str = "10.244.0.0/22";

fn cidrs(text: &[&str]) -> Value {
    json!({"podCIDR": text[0], "podCIDRs": text})
}

/// Waits until a node has these pod CIDRs.
async fn has(world: &World, ccm: &mut Process, name: &str, wanted: &[&str]) {
    until(ccm, &format!("{name} with {wanted:?}"), async || {
        let node = world.nodes.get(name).await.unwrap();
        (pod_cidrs(&node) == wanted).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_removed_node_leaves_its_pod_cidr_and_its_route_to_the_next_one_that_waits() {
    let world = World::start(setup()).await;
    let network = Network::add(&world);
    network.populate(&world, &names("worker", 4)).await;
    let mut ccm = network.ccm(&world, FOUR, &[]);
    network.all_routed(&world, &mut ccm, 4).await;

    // One node too many: an Event reports it, and the node is initialised otherwise.
    network.populate(&world, &names("next", 1)).await;
    let event = world.event(&mut ccm, "next-1", "CIDRNotAvailable").await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let source = event.source.unwrap().component;
    assert_eq!(source.as_deref(), Some("cidrAllocator"));
    world.all_initialised(&mut ccm, 5).await;
    let waiting = world.nodes.get("next-1").await.unwrap();
    assert_eq!(pod_cidrs(&waiting), Vec::<String>::new());
    assert_eq!(unavailable(&waiting), None, "nobody promised it a route");

    let gone = pod_cidrs(&world.nodes.get("worker-3").await.unwrap());
    world.delete("worker-3").await;
    let nodes = network.all_routed(&world, &mut ccm, 4).await;
    world.stop(ccm).await;
    assert_eq!(pod_cidrs(&nodes["next-1"]), gone);
    network.assert_whole(&world, &nodes, FOUR);
}

#[tokio::test]
async fn nodes_that_have_pod_cidrs_keep_them_and_bad_ones_hold_up_nobody_else() {
    let world = World::start(setup()).await;
    let network = Network::add(&world);
    let rows = [
        ("kept", cidrs(&["10.244.1.0/24"])),
        ("outside", cidrs(&["192.168.7.0/24"])),
        ("wider", cidrs(&["10.244.2.0/23"])),
        ("new", json!({})),
    ];
    let names = rows.each_ref().map(|row| row.0.to_owned());
    network.servers(&world, &names);
    for (name, spec) in rows {
        world.join_tainted(name, spec, json!([])).await;
    }
    // Blocks 1, 2 and 3 are taken, so only the first one is left.
    let mut ccm = network.ccm(&world, FOUR, &[]);
    has(&world, &mut ccm, "new", &["10.244.0.0/24"]).await;
    world
        .nodes_until(&mut ccm, "the routes that can be", |nodes| {
            ["kept", "wider", "new"]
                .iter()
                .all(|name| unavailable(&nodes[*name]) == has_route())
        })
        .await;
    // An Event names the node, and no route is made to addresses outside the cluster's.
    let events = until(&mut ccm, "an Event about the bad one", async || {
        let events = world.events_about("outside").await;
        let mut reported = events.iter().filter_map(|event| event.message.as_ref());
        reported
            .any(|message| message.contains("192.168.7.0/24"))
            .then_some(events)
    })
    .await;
    let warning =
        |event: &k8s_openapi::api::core::v1::Event| event.type_.as_deref() == Some("Warning");
    assert!(events.iter().any(warning), "{events:#?}");
    world.all_initialised(&mut ccm, 4).await;
    world.stop(ccm).await;
    let routes: Vec<_> = network.routes(&world).into_keys().collect();
    assert_eq!(routes, ["10.244.0.0/24", "10.244.1.0/24", "10.244.2.0/23"]);
    let outside = world.nodes.get("outside").await.unwrap();
    assert_eq!(pod_cidrs(&outside), ["192.168.7.0/24"]);
    assert_ne!(unavailable(&outside), has_route());
    let given = world.pod_cidr_writes();
    assert_eq!(given.len(), 1, "{given:#?}");
}

/// An admission policy that forbids a write to nodes with the label `contended`.
pub(crate) struct WriteBan {
    /// The resource of the forbidden writes: `nodes` or `nodes/status`.
    pub(crate) resource: &'static str,
    /// A CEL expression that must hold of `object` in every write, those of `ccm` included.
    pub(crate) unless: &'static str,
    /// A patch that the policy refuses, to find out whether it is in force.
    pub(crate) trial: Value,
}

impl WriteBan {
    /// Forbids pod CIDRs other than 10.244.3.0/24.
    pub(crate) fn on_pod_cidrs() -> WriteBan {
        WriteBan {
            resource: "nodes",
            unless: "!has(object.spec.podCIDR) || object.spec.podCIDR == '10.244.3.0/24'",
            trial: json!({"spec": cidrs(&["192.168.0.0/24"])}),
        }
    }

    /// Forbids the condition NetworkUnavailable.
    pub(crate) fn on_conditions() -> WriteBan {
        WriteBan {
            resource: "nodes/status",
            unless: "!object.status.conditions.exists(one, one.type == 'NetworkUnavailable')",
            trial: json!({"status": {"conditions": [{"type": "NetworkUnavailable", "status": "True"}]}}),
        }
    }

    /// Creates the policy, and returns when it is in force.
    pub(crate) async fn begin(&self, world: &World) {
        let name = "contended";
        let expression = format!(
            "!has(object.metadata.labels) || !('contended' in object.metadata.labels) || {}",
            self.unless
        );
        let policy: ValidatingAdmissionPolicy = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
                    "resources": [self.resource],
                }]},
                "validations": [{"expression": expression}],
            },
        }))
        .unwrap();
        let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }))
        .unwrap();
        let (client, params) = (world.nodes.clone().into_client(), PostParams::default());
        let policies = Api::all(client.clone());
        policies.create(&params, &policy).await.unwrap();
        Api::all(client).create(&params, &binding).await.unwrap();
        // A separate node on which the trial patch is tried.
        world.add_node("trial", contended()).await;
        while self.allows(world).await {}
        world.delete("trial").await;
    }

    /// Removes the policy, and returns when it is no longer in force.
    pub(crate) async fn end(&self, world: &World) {
        let client = world.nodes.clone().into_client();
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client);
        let params = DeleteParams::default();
        bindings.delete("contended", &params).await.unwrap();
        world.add_node("trial", contended()).await;
        while !self.allows(world).await {}
        world.delete("trial").await;
    }

    async fn allows(&self, world: &World) -> bool {
        let params = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let patch = Patch::Merge(&self.trial);
        let written = match self.resource {
            "nodes" => world.nodes.patch("trial", &params, &patch).await,
            _ => world.nodes.patch_status("trial", &params, &patch).await,
        };
        written.is_ok()
    }
}

/// The metadata of a node that the policy covers.
pub(crate) fn contended() -> Value {
    json!({"labels": {"contended": ""}})
}

#[tokio::test]
async fn a_node_to_which_another_writer_was_faster_keeps_what_it_got_and_ours_is_free_again() {
    let world = World::start(setup()).await;
    let network = Network::add(&world);
    WriteBan::on_pod_cidrs().begin(&world).await;
    network.servers(&world, &names("contended", 1));
    world.add_node("contended-1", contended()).await;
    let mut ccm = network.ccm(&world, FOUR, &[]);
    // Our write is refused again and again; another client's is not.
    until(&mut ccm, "two refusals", async || {
        let writes = world.pod_cidr_writes();
        let refused = writes.iter().filter(|write| write.code == 422);
        (refused.count() >= 2).then_some(())
    })
    .await;
    let theirs = json!({"spec": cidrs(&["10.244.3.0/24"])});
    world.change("contended-1", theirs).await;
    network.populate(&world, &names("worker", 3)).await;
    let nodes = network.all_routed(&world, &mut ccm, 4).await;
    network.assert_whole(&world, &nodes, FOUR);
    assert_eq!(pod_cidrs(&nodes["contended-1"]), ["10.244.3.0/24"]);
    assert_given_once(&world.pod_cidr_writes());

    // The API server forbids a change: a node with other pod CIDRs has to be created anew.
    for spec in [
        cidrs(&["10.244.9.0/24"]),
        json!({"podCIDR": null, "podCIDRs": null}),
    ] {
        let (params, patch) = (PatchParams::default(), Patch::Merge(json!({"spec": spec})));
        let refusal = world.nodes.patch("worker-1", &params, &patch).await;
        match refusal.unwrap_err() {
            kube::Error::Api(status) => assert!([403, 422].contains(&status.code), "{status:?}"),
            other => panic!("{other}"),
        }
    }
    world.stop(ccm).await;
}

#[tokio::test]
async fn nodes_of_two_families_get_a_route_of_the_one_that_the_cloud_has() {
    let world = World::start(setup()).await;
    let network = Network::add(&world);
    network.populate(&world, &names("worker", 3)).await;
    let both = "10.244.0.0/16,fd00:10:244::/48";
    let mut ccm = network.ccm(&world, both, &["--node-cidr-mask-size-ipv4=26"]);
    let nodes = network.all_routed(&world, &mut ccm, 3).await;
    world.all_initialised(&mut ccm, 3).await;
    world.stop(ccm).await;
    let (mut first, mut second) = (BTreeSet::new(), BTreeSet::new());
    for (name, node) in &nodes {
        let given = pod_cidrs(node);
        let [v4, v6] = given.as_slice() else {
            panic!("{name}: {given:?}");
        };
        assert!(v4.starts_with("10.244.") && v4.ends_with("/26"), "{v4}");
        assert!(
            v6.starts_with("fd00:10:244:") && v6.ends_with("/64"),
            "{v6}"
        );
        assert!(second.insert(v6.clone()), "{v6} twice");
        first.insert(v4.clone());
        for event in world.events_about(name).await {
            assert_eq!(event.type_.as_deref(), Some("Normal"), "{event:?}");
        }
    }
    let routes: BTreeMap<_, _> = network.routes(&world);
    assert_eq!(routes.into_keys().collect::<BTreeSet<_>>(), first);
    let writes = world.cloud.requests().into_iter().filter(|one| one.write);
    assert_eq!(writes.count(), 3, "one change for each node");
    assert_eq!(routed(&nodes), 3);
}
