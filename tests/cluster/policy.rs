//! An admission policy of the cluster that refuses the writes of `ccm`, and the state of the node then.

use ccm_sim::hetzner::ServerSpec;
use ccm_tests::process::Process;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::kubelet::{addresses, is_tainted, uid};
use crate::record::meant_for;
use crate::world::{Setup, World, until};

const POLICY: &str = "the-taint-stays";

/// A node without machine, on which a test finds out whether the policy is in force.
const TRIAL: &str = "trial";

/// Forbids removing the taint, and returns when that is in force.
async fn forbid(world: &World) {
    let key = "node.cloudprovider.kubernetes.io/uninitialized";
    let has = |object: &str| {
        format!("has({object}.spec.taints) && {object}.spec.taints.exists(t, t.key == '{key}')")
    };
    let policy: ValidatingAdmissionPolicy = serde_json::from_value(json!({
        "metadata": {"name": POLICY},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["UPDATE"],
                "resources": ["nodes"],
            }]},
            "validations": [{"expression": format!("!({}) || ({})", has("oldObject"), has("object"))}],
        },
    }))
    .unwrap();
    let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(json!({
        "metadata": {"name": POLICY},
        "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
    }))
    .unwrap();
    let (client, params) = (world.nodes.clone().into_client(), PostParams::default());
    Api::all(client.clone())
        .create(&params, &policy)
        .await
        .unwrap();
    Api::all(client).create(&params, &binding).await.unwrap();
    world.add_node(TRIAL, json!({})).await;
    while is_allowed(world).await {}
}

/// Removes the policy, and returns when it is no longer in force.
async fn allow(world: &World) {
    let client = world.nodes.clone().into_client();
    let policies: Api<ValidatingAdmissionPolicyBinding> = Api::all(client);
    policies
        .delete(POLICY, &DeleteParams::default())
        .await
        .unwrap();
    while !is_allowed(world).await {}
}

/// Whether the taint could be removed now.
async fn is_allowed(world: &World) -> bool {
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({"spec": {"taints": null}}));
    match world.nodes.patch(TRIAL, &params, &patch).await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.code == 422 => false,
        Err(error) => panic!("{error}"),
    }
}

/// Waits for an Event about the node with this UID that says that the API server refused the write.
async fn refusal(world: &World, ccm: &mut Process, uid: &str) {
    until(ccm, "an Event NodeUpdateFailed", async || {
        let events = world.events_about("worker-1").await;
        events.into_iter().find(|event| {
            event.reason.as_deref() == Some("NodeUpdateFailed")
                && event.involved_object.uid.as_deref() == Some(uid)
        })
    })
    .await;
}

#[tokio::test]
async fn a_node_that_is_made_again_while_its_last_write_is_refused_is_initialised_when_it_no_longer_is()
 {
    let world = World::start(Setup::default()).await;
    world.cloud.add_server(ServerSpec::named("worker-1"));
    forbid(&world).await;
    let old = world.add_node("worker-1", json!({})).await;
    let mut ccm = world.ccm(&world.configuration(json!({})), &[]);
    refusal(&world, &mut ccm, uid(&old)).await;

    // The addresses are stored, and nothing that is written after them.
    let half = world.nodes.get("worker-1").await.unwrap();
    assert!(is_tainted(&half));
    assert_eq!(addresses(&half)[1]["type"], "ExternalIP");
    assert_eq!(half.metadata.labels, None);
    assert_eq!(half.spec.unwrap().provider_id, None);

    world.delete("worker-1").await;
    let new = world.add_node("worker-1", json!({})).await;
    refusal(&world, &mut ccm, uid(&new)).await;
    allow(&world).await;
    let node = world.initialised(&mut ccm, "worker-1").await;
    world.stop(ccm).await;

    assert_eq!(uid(&node), uid(&new));
    let writes = world.writes_to("worker-1");
    // A retry after the old node has gone changes nothing.
    let gone = json!(["", 404]);
    let shape = |uid: &str| -> Vec<Value> {
        let writes = writes.iter().filter(|write| meant_for(write) == uid);
        writes
            .map(|write| json!([write.subresource, write.code]))
            .filter(|write| *write != gone)
            .collect()
    };
    let refused = json!(["", 422]);
    for (uid, last) in [(uid(&old), None), (uid(&new), Some(json!(["", 200])))] {
        let shape = shape(uid);
        assert_eq!(shape[0], json!(["status", 200]), "{shape:?}");
        // Retries with growing delays: a few times in the duration of a test.
        let tries = shape.iter().filter(|write| **write == refused).count();
        assert!((1..=10).contains(&tries), "{shape:?}");
        assert_eq!(
            shape.len(),
            1 + tries + usize::from(last.is_some()),
            "{shape:?}"
        );
        assert_eq!(shape.last(), Some(&last.unwrap_or(refused.clone())));
    }
    assert!(world.writes_to(TRIAL).is_empty());
}
