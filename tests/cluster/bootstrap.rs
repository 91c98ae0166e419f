//! The first node of a cluster: only pods that tolerate its taints run there, and it gets addresses only from such a
//! pod. So the manifest of `deploy/` is checked against such a node, and then run as it is.

use ccm_sim::hetzner::ServerSpec;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, PodSpec, Taint, Toleration};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::kubelet::{addresses, uninitialized};
use crate::world::{Setup, World, manifests};

const NAME: &str = "control-plane-1";

fn control_plane() -> Value {
    json!({"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"})
}

/// The API server's own taint, for nodes that have not been reported Ready.
fn not_ready() -> Value {
    json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"})
}

/// Whether a toleration tolerates a taint, by the scheduler's rules.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let is_about =
        |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|text| text == is);
    let exists = toleration.operator.as_deref() == Some("Exists");
    is_about(&toleration.key, &taint.key)
        && is_about(&toleration.effect, &taint.effect)
        && (exists
            || toleration.value.as_deref().unwrap_or_default()
                == taint.value.as_deref().unwrap_or_default())
}

/// The pod that `deploy/` starts on each node of the control plane.
fn pod() -> PodSpec {
    let daemon_set: DaemonSet =
        serde_json::from_value(manifests("daemonset.yaml").remove(0)).unwrap();
    daemon_set.spec.unwrap().template.spec.unwrap()
}

#[tokio::test]
async fn a_cluster_whose_only_node_waits_for_everything_becomes_usable() {
    let world = World::start(Setup::default()).await;
    let id = world.cloud.add_server(ServerSpec::named(NAME));
    let labels = json!({
        "kubernetes.io/hostname": NAME,
        "node-role.kubernetes.io/control-plane": "",
    });
    let taints = json!([control_plane(), uninitialized()]);
    let node = world
        .register(NAME, json!({"labels": labels}), taints, json!([]))
        .await;
    let ready =
        |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    let report = async |status: &str| {
        let (params, patch) = (PatchParams::default(), Patch::Strategic(ready(status)));
        world
            .nodes
            .patch_status(NAME, &params, &patch)
            .await
            .unwrap();
    };
    report("False").await;

    // The pod may run there: it tolerates every taint, also those added while a node is not Ready for long.
    let pod = pod();
    let mut taints = node.spec.unwrap().taints.unwrap();
    assert_eq!(
        json!(taints),
        json!([control_plane(), uninitialized(), not_ready()])
    );
    let evicting = |key: &str| Taint {
        key: key.to_owned(),
        effect: "NoExecute".to_owned(),
        ..Taint::default()
    };
    taints.push(evicting("node.kubernetes.io/not-ready"));
    // Rancher gives it to the control plane's machines of RKE2.
    taints.push(evicting("node-role.kubernetes.io/etcd"));
    let tolerations = pod.tolerations.unwrap();
    for taint in &taints {
        let is_tolerated = tolerations.iter().any(|one| tolerates(one, taint));
        assert!(is_tolerated, "the pod does not tolerate {taint:?}");
    }
    let labels = node.metadata.labels.unwrap();
    let affinity = pod.affinity.unwrap().node_affinity.unwrap();
    let required = affinity.required_during_scheduling_ignored_during_execution;
    let terms = required.unwrap().node_selector_terms;
    let expressions = terms
        .into_iter()
        .flat_map(|term| term.match_expressions.unwrap());
    for expression in expressions {
        assert_eq!(expression.operator, "Exists");
        assert!(labels.contains_key(&expression.key), "{}", expression.key);
    }
    // A node without addresses has no pod network, and so no cluster DNS.
    assert_eq!(pod.host_network, Some(true));
    assert_eq!(pod.dns_policy.as_deref(), Some("Default"));
    assert_eq!(
        pod.priority_class_name.as_deref(),
        Some("system-cluster-critical")
    );

    // Run as in the manifest, with the folders of this machine in place of the pod's.
    let configuration: ConfigMap =
        serde_json::from_value(manifests("configuration.yaml").remove(0)).unwrap();
    let configuration = world.file("ccm.yaml", &configuration.data.unwrap()["ccm.yaml"]);
    let container = &pod.containers[0];
    let compiled = configuration.with_file_name("compiled");
    let arguments: Vec<_> = container
        .args
        .iter()
        .flatten()
        .map(|argument| {
            argument
                .replace("/etc/ccm/ccm.yaml", configuration.to_str().unwrap())
                .replace("/var/cache/ccm", compiled.to_str().unwrap())
        })
        .collect();
    let variables: Vec<_> = container.env.iter().flatten().collect();
    let [variable] = variables.as_slice() else {
        panic!("{variables:?}");
    };
    assert_eq!(variable.name, "HCLOUD_TOKEN_FILE");
    let mounted = Some("/etc/ccm-credentials/token");
    assert_eq!(variable.value.as_deref(), mounted);
    let token = world.file("token", world.token());
    let endpoint = world.endpoint();
    let variables = [
        ("HCLOUD_TOKEN_FILE", token.to_str().unwrap()),
        ("HCLOUD_ENDPOINT", &endpoint),
    ];
    let mut ccm = world.spawn(&arguments, &variables);
    let node = world.initialised(&mut ccm, NAME).await;

    let spec = node.spec.as_ref().unwrap();
    assert_eq!(spec.provider_id, Some(format!("hcloud://{id}")));
    assert_eq!(json!(spec.taints), json!([control_plane(), not_ready()]));
    let expected = json!([
        {"type": "Hostname", "address": NAME},
        {"type": "ExternalIP", "address": "198.18.0.1"},
    ]);
    assert_eq!(addresses(&node), expected);

    // The pod network has what it lacked: the node becomes Ready, and only its role's taint is left.
    report("True").await;
    world
        .change(NAME, json!({"spec": {"taints": [control_plane()]}}))
        .await;
    world.stop(ccm).await;
    let node = world.nodes.get(NAME).await.unwrap();
    assert_eq!(json!(node.spec.unwrap().taints), json!([control_plane()]));
    assert_eq!(world.writes_to(NAME).len(), 2);
}
