//! The role in `deploy/` is what the node controller needs: nothing missing, nothing spare.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_sim::hetzner::{Fault, ServerSpec, Trouble};
use ccm_tests::apiserver::AuditEntry;
use k8s_openapi::api::rbac::v1::ClusterRole;
use serde_json::json;

use crate::world::{Setup, World, manifests, uninitialized, until};

/// API group, resource with subresource, verb.
type Right = (String, String, String);

fn granted() -> BTreeSet<Right> {
    let mut manifests = manifests("rbac.yaml").into_iter();
    let role = manifests
        .find(|manifest| manifest["kind"] == "ClusterRole")
        .unwrap();
    let role: ClusterRole = serde_json::from_value(role).unwrap();
    let mut rights = BTreeSet::new();
    for rule in role.rules.unwrap() {
        for group in rule.api_groups.unwrap() {
            for resource in rule.resources.clone().unwrap() {
                for verb in &rule.verbs {
                    rights.insert((group.clone(), resource.clone(), verb.clone()));
                }
            }
        }
    }
    rights
}

fn used(log: &[AuditEntry]) -> BTreeSet<Right> {
    let right = |entry: &AuditEntry| {
        let resource = match entry.subresource.as_str() {
            "" => entry.resource.clone(),
            subresource => format!("{}/{subresource}", entry.resource),
        };
        (entry.group.clone(), resource, entry.verb.clone())
    };
    log.iter().map(right).collect()
}

#[tokio::test]
async fn the_role_in_deploy_is_exactly_what_the_node_controller_uses() {
    let mut setup = Setup {
        // An API server that does not stream lists: the older way needs one verb more.
        server_flags: vec!["--feature-gates=WatchList=false".to_owned()],
        ..Setup::default()
    };
    setup.cloud.latency = Duration::from_secs(3);
    let world = World::start(setup).await;
    // The same Event twice within minutes is counted up, which is a patch. A refusal is told at once.
    let refusal = Trouble::Refuse {
        status: 403,
        code: "forbidden".to_owned(),
    };
    world.cloud.inject(Fault::new(refusal).times(2));
    world.cloud.add_server(ServerSpec::named("worker-1"));
    world.add_node("worker-1", json!({})).await;

    let mut ccm = world.ccm(&world.configuration(json!({})), &[]);
    until(&mut ccm, "the same Event again", async || {
        let mut events = world.events_about("worker-1").await.into_iter();
        events.find(|event| event.count >= Some(2))
    })
    .await;
    world.initialised(&mut ccm, "worker-1").await;

    // A node that changes while the cloud is asked, and whose addresses are right already: the one write meets a
    // conflict, and the node has to be read again.
    world.cloud.add_server(ServerSpec::named("worker-2"));
    world.register("worker-2", json!({}), json!([])).await;
    let addresses = json!([
        {"type": "Hostname", "address": "worker-2"},
        {"type": "ExternalIP", "address": "198.18.0.2"},
    ]);
    world.set_addresses("worker-2", addresses).await;
    world.cloud.clear_requests();
    let taint = json!({"spec": {"taints": [uninitialized()]}});
    world.change("worker-2", taint).await;
    until(&mut ccm, "a question to the cloud", async || {
        (!world.cloud.requests().is_empty()).then_some(())
    })
    .await;
    let note = json!({"metadata": {"annotations": {"note": "meanwhile"}}});
    world.change("worker-2", note).await;
    world.initialised(&mut ccm, "worker-2").await;

    let log = world.asked();
    let refused: Vec<_> = log.iter().filter(|entry| entry.code == 403).collect();
    assert!(refused.is_empty(), "not granted: {refused:?}");
    assert_eq!(used(&log), granted());
}
