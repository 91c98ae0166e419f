//! `deploy/kustomize` as users apply it: built by kustomize itself, and accepted by a real API server, field by field.

use std::collections::BTreeMap;
use std::process::Command;

use ccm_core::rollout::{Phase, RolloutState};
use ccm_tests::apiserver::ApiServer;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::world::{manifests, root};

/// The folders for each way of delivering a provider's module, the embedded one first.
const FOLDERS: [&str; 6] = [
    "base",
    "examples/identities",
    "variants/configmap",
    "variants/configmap-volume",
    "variants/image-volume",
    "variants/registry",
];

/// The variant whose providers are objects: the only one without a configuration file.
const PROVIDER_OBJECTS: &str = "variants/provider-objects";

/// The only folder whose pods have no part in the network of their node.
const POD_NETWORK: &str = "examples/deployment";

/// The only folder for another cloud than hcloud.
pub(crate) const OTHER_CLOUD: &str = "examples/another-cloud";

/// Needs an API server that mounts images as volumes.
const IMAGE_VOLUME: &str = "variants/image-volume";

/// The output of the kustomize in kubectl for a folder.
pub(crate) fn built(folder: &str) -> Vec<Value> {
    let output = Command::new(ccm_tests::kubernetes::kubectl().unwrap())
        .arg("kustomize")
        .arg(root().join("deploy/kustomize").join(folder))
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{folder}: {reported}");
    serde_saphyr::from_multiple(std::str::from_utf8(&output.stdout).unwrap()).unwrap()
}

/// The API for an object's kind and namespace.
pub(crate) fn api(client: &Client, object: &Value) -> Api<DynamicObject> {
    let kind = object["kind"].as_str().unwrap();
    let (group, version) = match object["apiVersion"].as_str().unwrap().split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", object["apiVersion"].as_str().unwrap()),
    };
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    // kustomize sets a namespace on every kind that it does not know; kubectl and the API server ignore it.
    let is_the_clusters = kind.starts_with("ValidatingAdmissionPolicy");
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) if !is_the_clusters => {
            Api::namespaced_with(client.clone(), namespace, &resource)
        }
        _ => Api::all_with(client.clone(), &resource),
    }
}

/// Applies it as `kubectl apply --server-side --validate=strict` does: an unknown field is an error.
pub(crate) async fn apply(client: &Client, object: &Value) -> Result<DynamicObject, kube::Error> {
    let name = object["metadata"]["name"].as_str().unwrap();
    let params = PatchParams::apply("a-person").validation_strict();
    let patch = Patch::Apply(object);
    api(client, object).patch(name, &params, &patch).await
}

/// Applies the definition of `Provider`, and waits until the API server serves it.
pub(crate) async fn define_providers(admin: &Client) {
    define(admin, &manifests("crd.yaml").remove(0)).await;
}

/// Applies a definition, and waits until the API server serves its kind.
pub(crate) async fn define(admin: &Client, definition: &Value) {
    apply(admin, definition).await.unwrap();
    let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
    loop {
        let now = json!(api(admin, definition).get(&name).await.unwrap());
        let conditions = now["status"]["conditions"].as_array().into_iter().flatten();
        let mut met = conditions.filter(|one| one["status"] == "True");
        if met.any(|one| one["type"] == "Established") {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// The pod of the DaemonSet or Deployment.
fn pod(objects: &[Value]) -> Pod {
    let mut templates = objects
        .iter()
        .filter_map(|one| one.pointer("/spec/template"));
    serde_json::from_value(templates.next().unwrap().clone()).unwrap()
}

/// The files that are mounted at `/etc/ccm`, by name.
fn files(objects: &[Value]) -> BTreeMap<String, String> {
    let mut maps = objects.iter().filter(|one| one["kind"] == "ConfigMap");
    let map: ConfigMap = serde_json::from_value(maps.next().unwrap().clone()).unwrap();
    map.data.unwrap()
}

fn configuration(objects: &[Value]) -> String {
    files(objects).remove("ccm.yaml").unwrap()
}

/// Whether this API server mounts images; before Kubernetes 1.35 only with a feature gate. The oldest one of this
/// suite, built from its module, does not even report its version.
async fn mounts_images(admin: &Client) -> bool {
    let version = admin.apiserver_version().await.unwrap();
    let minor = version.minor.trim_end_matches('+').parse::<u32>();
    minor.is_ok_and(|minor| minor >= 35)
}

#[tokio::test]
async fn every_way_to_deploy_applies_to_a_real_api_server() {
    let server = ApiServer::start().await.unwrap();
    let admin = server.client_for("admin").await.unwrap();
    let others = [PROVIDER_OBJECTS, POD_NETWORK, OTHER_CLOUD];
    for folder in FOLDERS.into_iter().chain(others) {
        let objects = built(folder);
        assert!(objects.len() > 10, "{folder}: {}", objects.len());
        for object in &objects {
            let is_image = folder == IMAGE_VOLUME && object["kind"] == "DaemonSet";
            let applied = apply(&admin, object).await;
            if is_image && !mounts_images(&admin).await {
                let refusal = applied.unwrap_err().to_string();
                assert!(refusal.contains("volumes"), "{folder}: {refusal}");
                continue;
            }
            let applied = applied.unwrap_or_else(|error| {
                panic!(
                    "{folder}: {} {}: {error}",
                    object["kind"], object["metadata"]["name"]
                )
            });
            if is_image {
                let volumes = json!(applied.data)["spec"]["template"]["spec"]["volumes"].take();
                let image = volumes.as_array().unwrap().last().unwrap();
                assert!(image["image"]["reference"].is_string(), "{volumes}");
            }
        }
    }
}

/// Waits until the API server enforces the policy of the definition of `Provider`, and returns what it says. Users delete
/// what they applied much later.
pub(crate) async fn refused_deletion(admin: &Client, definition: &Value) -> String {
    let dry = DeleteParams {
        dry_run: true,
        ..DeleteParams::default()
    };
    let name = definition["metadata"]["name"].as_str().unwrap();
    loop {
        match api(admin, definition).delete(name, &dry).await {
            Ok(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            Err(refusal) => return refusal.to_string(),
        }
    }
}

/// Sends the deletions of `kubectl delete -k`, in its order.
#[tokio::test]
async fn the_base_goes_without_the_definition_of_provider_and_its_objects() {
    let server = ApiServer::start().await.unwrap();
    let admin = server.client_for("admin").await.unwrap();
    let objects = built("base");
    for object in &objects {
        apply(&admin, object).await.unwrap();
    }
    define_providers(&admin).await;
    let provider = json!({
        "apiVersion": "wasm-ccm.dev/v1alpha1", "kind": "Provider", "metadata": {"name": "hcloud"},
    });
    apply(&admin, &provider).await.unwrap();
    let definition = objects.iter().find(|one| is_definition(one)).unwrap();
    let refusal = refused_deletion(&admin, definition).await;
    assert!(
        refusal.contains("wasm-ccm.dev/allow-deletion=true"),
        "{refusal}"
    );
    let delete = async |object: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap();
        let params = DeleteParams::default();
        api(&admin, object).delete(name, &params).await.map(drop)
    };
    for object in &objects {
        let deleted = delete(object).await;
        assert_eq!(
            deleted.is_err(),
            is_definition(object),
            "{object}: {deleted:?}"
        );
    }
    assert!(api(&admin, &provider).get("hcloud").await.is_ok());
    // A person who deletes the definition on purpose, while the policy exists.
    for object in &objects {
        apply(&admin, object).await.unwrap();
    }
    let mut meant = definition.clone();
    meant["metadata"]["annotations"] = json!({"wasm-ccm.dev/allow-deletion": "true"});
    apply(&admin, &meant).await.unwrap();
    delete(definition).await.unwrap();
}

fn is_definition(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

/// The command is in `deploy/docs/providers.md` and in the variants.
#[tokio::test]
async fn the_documented_command_brings_the_first_module_and_every_later_one() {
    let folders = ["deploy/docs", "deploy/kustomize/variants"];
    let mut commands = 0;
    for folder in folders {
        for text in texts(&root().join(folder)) {
            // As after `kubectl create` alone, the next apply would conflict: see below.
            assert!(!text.contains("kubectl replace"), "{folder}: {text}");
            for (at, _) in text.match_indices("create configmap ccm-provider") {
                let command: String = text[at..].chars().take(240).collect();
                for part in ["--dry-run=client", "kubectl apply --server-side -f -"] {
                    assert!(command.contains(part), "{part}: {command}");
                }
                commands += 1;
            }
        }
    }
    assert!(commands >= 3, "{commands}");

    // The request that kubectl sends for the command, under kubectl's field manager.
    let server = ApiServer::start().await.unwrap();
    let admin = server.client_for("admin").await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(admin, "kube-system");
    let map = |content: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ccm-provider"},
            "binaryData": {"provider.wasm": content},
        })
    };
    let apply = async |content: &str| {
        let params = PatchParams::apply("kubectl");
        let patch = Patch::Apply(map(content));
        maps.patch("ccm-provider", &params, &patch).await
    };
    for content in ["AGFzbQ==", "AGFzbTE=", "AGFzbTI="] {
        apply(content).await.unwrap();
    }
    // After `kubectl create` alone the fields would be another manager's.
    maps.delete("ccm-provider", &Default::default())
        .await
        .unwrap();
    let params = PostParams {
        field_manager: Some("kubectl-create".to_owned()),
        ..PostParams::default()
    };
    let made = serde_json::from_value(map("AGFzbQ==")).unwrap();
    maps.create(&params, &made).await.unwrap();
    let conflict = apply("AGFzbTE=").await.unwrap_err();
    assert!(conflict.to_string().contains("conflict"), "{conflict}");
}

/// All texts below a folder.
fn texts(folder: &std::path::Path) -> Vec<String> {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => texts.extend(self::texts(&path)),
            // Pictures are not texts.
            false => texts.extend(std::fs::read_to_string(&path)),
        }
    }
    texts
}

#[tokio::test]
async fn the_pod_is_restricted_in_everything_but_the_hosts_network() {
    let server = ApiServer::start().await.unwrap();
    let admin = server.client_for("admin").await.unwrap();
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "strict", "labels": {
            "pod-security.kubernetes.io/enforce": "restricted",
            "pod-security.kubernetes.io/enforce-version": "latest",
        }},
    });
    let namespace: Namespace = serde_json::from_value(namespace).unwrap();
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    let params = PostParams::default();
    namespaces.create(&params, &namespace).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(admin.clone(), "strict");
    for folder in FOLDERS.into_iter().chain([POD_NETWORK]) {
        if folder == IMAGE_VOLUME && !mounts_images(&admin).await {
            continue;
        }
        let mut pod = pod(&built(folder));
        pod.metadata.name = Some("ccm".to_owned());
        // The priority class exists in kube-system alone.
        pod.spec.as_mut().unwrap().priority_class_name = None;
        if folder == POD_NETWORK {
            pods.create(&params, &pod).await.unwrap();
            pods.delete("ccm", &Default::default()).await.unwrap();
            continue;
        }
        let refusal = match pods.create(&params, &pod).await.unwrap_err() {
            kube::Error::Api(status) => status.message.clone(),
            other => panic!("{folder}: {other}"),
        };
        let (_, violations) = refusal.split_once("PodSecurity").unwrap_or_else(|| {
            panic!("{folder}: {refusal}");
        });
        assert!(
            violations.contains(r#""restricted:latest": host namespaces (hostNetwork=true)"#),
            "{folder}: {violations}"
        );
        for other in ["must set", "must not", "unrestricted", "hostPort", ", "] {
            assert!(!violations.contains(other), "{folder}: {violations}");
        }
        pod.spec.as_mut().unwrap().host_network = None;
        pods.create(&params, &pod).await.unwrap();
        pods.delete("ccm", &Default::default()).await.unwrap();
    }
}

#[test]
fn the_keys_that_a_variants_configuration_names_are_brought_with_it() {
    let mut brought = 0;
    for folder in FOLDERS {
        let objects = built(folder);
        let configuration: Value = serde_saphyr::from_str(&configuration(&objects)).unwrap();
        let keys = configuration["providers"][0]["trust"]["keys"].as_array();
        for key in keys.into_iter().flatten() {
            let file = key["file"].as_str().unwrap();
            let name = file.strip_prefix("/etc/ccm/").unwrap();
            assert!(files(&objects).contains_key(name), "{folder}: {file}");
            brought += 1;
        }
    }
    assert!(brought >= 3, "{brought}");
}

#[test]
fn the_grants_in_every_variant_are_what_the_shipped_module_requests() {
    let inspection = ccm_host::inspect("hcloud", embedded_guests::HCLOUD).unwrap();
    let target = &inspection.manifest.targets[0];
    let manifest = root().join("guests/hcloud/manifest.json");
    let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
    let variants = FOLDERS
        .into_iter()
        .filter(|folder| folder.starts_with("variants/"));
    for folder in variants {
        let text = configuration(&built(folder));
        let configuration: Value = serde_saphyr::from_str(&text).unwrap();
        let granted = &configuration["providers"][0]["grants"]["targets"][0];
        assert_eq!(granted["name"], target.name.as_str(), "{folder}");
        let requested = &manifest["targets"][0];
        assert_eq!(granted["rules"], requested["rules"], "{folder}");
        assert_eq!(granted["endpoint"], requested["endpoint"], "{folder}");
    }
}

#[test]
fn rights_to_read_objects_of_others_are_for_one_name_each() {
    for folder in FOLDERS.into_iter().chain([PROVIDER_OBJECTS, POD_NETWORK]) {
        for role in built(folder) {
            for rule in role["rules"].as_array().into_iter().flatten() {
                // A rule about paths has no resources.
                let resources = rule["resources"].as_array().cloned().unwrap_or_default();
                let of = |word: &str| resources.contains(&json!(word));
                if of("secrets") || of("configmaps") {
                    assert_eq!(role["kind"], "Role", "{folder}: {role}");
                    let names = rule["resourceNames"].as_array().unwrap();
                    assert_eq!(names.len(), 1, "{folder}: {role}");
                }
                let text = rule.to_string();
                assert!(!text.contains('*'), "{folder}: {text}");
            }
        }
    }
}

/// A status with every field set.
fn status() -> Value {
    let digest = format!("sha256:{}", "0f".repeat(32));
    let at = "2026-01-02T03:04:05Z";
    let release = json!({"digest": digest, "version": "1.2.3", "origin": "configmap://a/b/c"});
    let with = |more: Value| {
        let mut object = release.clone();
        let more = more.as_object().unwrap().clone();
        object.as_object_mut().unwrap().extend(more);
        object
    };
    json!({
        "state": RolloutState::Canary.as_str(),
        "shortDigest": "0f0f0f0f0f0f",
        "observedSource": "configmap://a/b/c",
        "active": with(json!({"since": at, "requests": "{}", "highestVersion": "1.2.3", "untried": "1.2.2 is gone"})),
        "previous": release,
        "trial": with(json!({"since": at, "phase": "Canary", "lines": ["+ GET /x"]})),
        "rejected": [{"digest": digest, "version": "1.2.4", "reason": "it trapped", "hasAnswered": true, "at": at}],
        "approved": [digest],
        "trouble": "the registry is down",
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "Serving", "message": "",
            "lastTransitionTime": at,
        }],
    })
}

#[tokio::test]
async fn a_provider_holds_what_is_written_down_and_shows_it_as_a_table() {
    let server = ApiServer::start().await.unwrap();
    let admin = server.client_for("admin").await.unwrap();
    define_providers(&admin).await;
    let object = json!({
        "apiVersion": "wasm-ccm.dev/v1alpha1", "kind": "Provider", "metadata": {"name": "hcloud"},
    });
    apply(&admin, &object).await.unwrap();
    let providers = api(&admin, &object);
    let write = async |status: Value| {
        let patch = Patch::Merge(json!({"status": status}));
        let params = PatchParams::default();
        let written = providers.patch_status("hcloud", &params, &patch).await;
        written.map(|object| json!(object)["status"].take())
    };
    assert_eq!(write(status()).await.unwrap(), status());

    // The schema lists exactly the phases that the code knows.
    let words = manifests("crd.yaml").remove(0);
    let schema = &words["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let words = schema["status"]["properties"]["trial"]["properties"]["phase"]["enum"].clone();
    assert_eq!(words, json!(Phase::ALL.map(|phase| format!("{phase:?}"))));

    for (place, bad) in [
        ("/active/digest", json!("sha256:short")),
        ("/active/since", json!("yesterday")),
        ("/trial/phase", json!("Guessing")),
        ("/approved", json!(["latest"])),
        ("/rejected/0/reason", json!("x".repeat(1025))),
        ("/active/requests", json!("x".repeat(131_073))),
    ] {
        let mut status = status();
        *status.pointer_mut(place).unwrap() = bad;
        assert!(write(status).await.is_err(), "{place}");
    }

    // As `kubectl get providers` asks for it.
    let request = http::Request::get("/apis/wasm-ccm.dev/v1alpha1/providers")
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
    let table: Value = admin.request(request).await.unwrap();
    let columns = table["columnDefinitions"].as_array().unwrap();
    let first = columns.iter().filter(|one| one["priority"] == 0);
    let first: Vec<_> = first.map(|one| one["name"].as_str().unwrap()).collect();
    let names = ["Name", "Version", "Ready", "State", "Candidate", "Age"];
    assert_eq!(first, names);
    let cells = &table["rows"][0]["cells"];
    for (at, expected) in ["hcloud", "1.2.3", "True", "Canary", "1.2.3"]
        .iter()
        .enumerate()
    {
        assert_eq!(cells[at], *expected);
    }
}
