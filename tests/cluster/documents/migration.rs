//! Commands of `deploy/docs/migration.md`: the look for nodes of the control plane, the waits for the pods of both managers,
//! and the end of the way back.

use ccm_tests::documents::Page;
use ccm_tests::documents::shell::Shell;
use ccm_tests::kubernetes;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::Reader;
use crate::chart_of_hcloud::{NAME, cases};
use crate::deploy::{api, apply, built, refused_deletion};
use crate::world::root;

/// Runs commands in a shell of their own, which ends with the first that fails.
pub(super) async fn run(reader: &Reader, number: usize, commands: &str) -> anyhow::Result<String> {
    let folder = reader.folder.path().join(format!("commands-{number}"));
    let kubectl = tokio::task::spawn_blocking(kubernetes::command_line_tools);
    let path = format!(
        "{}:/usr/bin:/bin",
        kubectl.await.unwrap().unwrap().display()
    );
    let kubeconfig = reader.api.kubeconfig("admin").unwrap();
    let variables = [
        ("PATH", &*path),
        ("KUBECONFIG", kubeconfig.to_str().unwrap()),
    ];
    let mut shell = Shell::start(reader.folder.path(), &folder, &variables).unwrap();
    shell.run(commands).await
}

#[tokio::test]
async fn the_move_waits_for_the_pods_of_the_go_manager_whatever_their_labels_are() {
    let page = Page::read(&root(), "deploy/docs/migration.md").unwrap();
    let mut blocks = page.blocks.iter();
    let block = blocks.find(|block| block.text.contains("--for=delete"));
    let (_, commands) = block.unwrap().text.split_once("ccm migrate check").unwrap();
    // From the line after the check to the end of the pods. Nobody waits a minute here for a pod that stays.
    let (_, commands) = commands.split_once('\n').unwrap();
    let (commands, _) = commands.split_once("kubectl apply").unwrap();
    let commands = commands.replace("--timeout=60s", "--timeout=2s");

    let reader = Reader::start().await;
    let of_the_chart = cases()[0]["theirs"]["labels"].take();
    let deployments: Api<Deployment> = Api::namespaced(reader.admin.clone(), "kube-system");
    let pods: Api<Pod> = Api::namespaced(reader.admin.clone(), "kube-system");
    let (create, at_once) = (
        PostParams::default(),
        DeleteParams::default().grace_period(0),
    );
    // Those of Hetzner's manifest, and of Hetzner's chart.
    for (number, labels) in [json!({"app": NAME}), of_the_chart].iter().enumerate() {
        let container = json!({"name": "main", "image": "registry.invalid/main"});
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
        let mut pod = template.clone();
        pod["metadata"]["name"] = json!("go");
        let spec = json!({"selector": {"matchLabels": labels}, "template": template});
        let deployment = json!({"metadata": {"name": NAME}, "spec": spec});
        let deployment = serde_json::from_value(deployment).unwrap();
        deployments.create(&create, &deployment).await.unwrap();
        let pod = serde_json::from_value(pod).unwrap();
        pods.create(&create, &pod).await.unwrap();

        let waited = run(&reader, 2 * number, &commands).await;
        let why = waited.map_err(|error| error.to_string()).unwrap_err();
        assert!(why.contains("timed out waiting"), "{labels}: {why}");
        let scaled = deployments.get(NAME).await.unwrap().spec.unwrap();
        assert_eq!(scaled.replicas, Some(0));
        pods.delete("go", &at_once).await.unwrap();
        run(&reader, 2 * number + 1, &commands).await.unwrap();
        deployments.delete(NAME, &at_once).await.unwrap();
    }
}

/// The API server has no nodes and no pods, as a hosted control plane has none for the DaemonSet.
#[tokio::test]
async fn the_move_does_not_begin_without_nodes_for_the_pods_and_does_not_end_well_without_pods() {
    let page = Page::read(&root(), "deploy/docs/migration.md").unwrap();
    let mut blocks = page.blocks.iter();
    let block = blocks.find(|block| block.text.contains("--for=delete"));
    let text = &block.unwrap().text;
    let (look, _) = text.split_once("ccm migrate check").unwrap();
    let (_, wait) = text.split_once("rollout status daemonset/ccm\n").unwrap();
    let wait = wait.replace("--timeout=60s", "--timeout=10s");

    let mut reader = Reader::start().await;
    assert!(run(&reader, 0, look).await.is_err());
    let label = json!({"node-role.kubernetes.io/control-plane": ""});
    reader.register("control-1", label, true).await;
    run(&reader, 1, look).await.unwrap();

    let waited = run(&reader, 2, &wait).await;
    let why = waited.map_err(|error| error.to_string()).unwrap_err();
    assert!(why.contains("no matching resources"), "{why}");
    let pods: Api<Pod> = Api::namespaced(reader.admin.clone(), "kube-system");
    let container = json!({"name": "ccm", "image": "registry.invalid/ccm"});
    let pod = json!({
        "metadata": {"name": "ccm-1", "labels": {"app.kubernetes.io/name": "ccm"}},
        "spec": {"containers": [container]},
    });
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let params = PatchParams::default();
    pods.patch_status("ccm-1", &params, &Patch::Merge(ready))
        .await
        .unwrap();
    run(&reader, 3, &wait).await.unwrap();
}

#[tokio::test]
async fn the_way_back_ends_without_the_definition_of_provider() {
    let mut reader = Reader::start().await;
    let objects = built("base");
    for object in &objects {
        apply(&reader.admin, object).await.unwrap();
    }
    let mut all = objects.iter();
    let definition = all.find(|one| one["kind"] == "CustomResourceDefinition");
    let definition = definition.unwrap();
    refused_deletion(&reader.admin, definition).await;
    let page = Page::read(&root(), "deploy/docs/migration.md").unwrap();
    let mut blocks = page.blocks.iter().map(|block| &block.text);
    let text = blocks.find(|text| text.contains("kubectl delete -k"));
    let (_, commands) = text
        .unwrap()
        .split_once("wasm-ccm.dev/provider-\nkubectl delete")
        .unwrap();
    reader
        .shell
        .run(&format!("kubectl delete{commands}"))
        .await
        .unwrap();
    let name = definition["metadata"]["name"].as_str().unwrap();
    let left = api(&reader.admin, definition).get_opt(name).await;
    assert!(left.unwrap().is_none());
}
