//! Commands of `deploy/docs/operations.md` that change an installation.

use ccm_tests::documents::Page;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::migration::run;
use super::{Reader, copy};
use crate::world::root;

/// The block of the page with this text.
fn commands(with: &str) -> String {
    let page = Page::read(&root(), "deploy/docs/operations.md").unwrap();
    let mut texts = page.blocks.into_iter().map(|block| block.text);
    texts.find(|text| text.contains(with)).unwrap()
}

#[tokio::test]
async fn pods_with_another_lease_begin_when_those_with_the_former_one_have_ended() {
    // Nobody waits a minute here for a pod that stays.
    let commands = commands("--for=delete").replace("--timeout=60s", "--timeout=2s");
    let reader = Reader::start().await;
    let overlay = reader.folder.path().join("my-cluster");
    copy(&root().join("deploy/kustomize/base"), &overlay);
    run(&reader, 0, "kubectl apply -k my-cluster")
        .await
        .unwrap();
    let sets: Api<DaemonSet> = Api::namespaced(reader.admin.clone(), "kube-system");
    let pods: Api<Pod> = Api::namespaced(reader.admin.clone(), "kube-system");
    let set = sets.get("ccm").await.unwrap().spec.unwrap();
    let mut pod = json!(set.template);
    pod["metadata"]["name"] = json!("ccm-1");
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();

    let waited = run(&reader, 1, &commands).await;
    let why = waited.map_err(|error| error.to_string()).unwrap_err();
    assert!(why.contains("timed out waiting"), "{why}");
    assert!(sets.get_opt("ccm").await.unwrap().is_none());
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete("ccm-1", &at_once).await.unwrap();
    run(&reader, 2, &commands).await.unwrap();
    assert!(sets.get_opt("ccm").await.unwrap().is_some());
}

#[tokio::test]
async fn nodes_and_services_of_a_renamed_provider_get_the_new_name_and_no_others() {
    const OWNER: &str = "wasm-ccm.dev/provider";
    let reader = Reader::start().await;
    let nodes: Api<Node> = Api::all(reader.admin.clone());
    let services: Api<Service> = Api::namespaced(reader.admin.clone(), "kube-system");
    let params = PostParams::default();
    let owners = [
        ("former", Some("OLD"), Some("NEW")),
        ("another", Some("another"), Some("another")),
        ("nobodys", None, None),
    ];
    for (name, owner, _) in owners {
        let marks = owner.map_or(json!({}), |owner| json!({OWNER: owner}));
        let node = json!({"metadata": {"name": name, "labels": marks}});
        let node = serde_json::from_value(node).unwrap();
        nodes.create(&params, &node).await.unwrap();
        let service = json!({
            "metadata": {"name": name, "annotations": marks},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        });
        let service = serde_json::from_value(service).unwrap();
        services.create(&params, &service).await.unwrap();
    }
    run(&reader, 0, &commands("wasm-ccm.dev/provider=NEW"))
        .await
        .unwrap();
    for (name, _, expected) in owners {
        let labels = nodes.get(name).await.unwrap().metadata.labels;
        let annotations = services.get(name).await.unwrap().metadata.annotations;
        for marks in [labels, annotations] {
            let owner = marks.and_then(|mut marks| marks.remove(OWNER));
            assert_eq!(owner.as_deref(), expected, "{name}");
        }
    }
}
