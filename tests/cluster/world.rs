//! What every test of this suite stands on: an API server with the manifests of `deploy/`, a simulated cloud, and
//! `ccm run` between them. It asserts nothing about what `ccm` does.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ccm_sim::hetzner::{Hetzner, Options};
use ccm_tests::apiserver::{ApiServer, AuditEntry, StartOptions};
use ccm_tests::process::Process;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Event, Node, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// Who `ccm` is in the audit log.
pub(crate) const ACCOUNT: &str = "system:serviceaccount:kube-system:ccm";

/// How long anything may take that is bound to happen. Only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(90);

const TOKEN: &str = "the-clouds-token";

/// What a test chooses about its world.
pub(crate) struct Setup {
    /// Of the simulated cloud.
    pub(crate) cloud: Options,
    /// Further flags of kube-apiserver.
    pub(crate) server_flags: Vec<String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            cloud: Options::new(TOKEN),
            server_flags: Vec::new(),
        }
    }
}

/// A cluster without nodes and a cloud without servers.
pub(crate) struct World {
    pub(crate) api: ApiServer,
    pub(crate) cloud: Hetzner,
    pub(crate) nodes: Api<Node>,
    events: Api<Event>,
    kubeconfig: PathBuf,
    folder: TempDir,
}

impl World {
    pub(crate) async fn start(setup: Setup) -> Self {
        let api = ApiServer::start_with(StartOptions {
            audit: true,
            flags: setup.server_flags,
            ..StartOptions::default()
        })
        .await
        .unwrap();
        let admin = api.client_for("admin").await.unwrap();
        let token = deploy(&admin).await;
        Self {
            kubeconfig: api.kubeconfig_with_token("ccm", &token).unwrap(),
            cloud: Hetzner::start(setup.cloud).await.unwrap(),
            nodes: Api::all(admin.clone()),
            events: Api::default_namespaced(admin),
            folder: TempDir::new().unwrap(),
            api,
        }
    }

    /// Creates a node as a kubelet under `--cloud-provider=external` does: tainted, with its host name.
    pub(crate) async fn add_node(&self, name: &str, metadata: Value) {
        let taints = json!([uninitialized(), other_taint()]);
        self.register(name, metadata, taints).await;
        let hostname = json!([{"type": "Hostname", "address": name}]);
        self.set_addresses(name, hostname).await;
    }

    /// Creates a node with these taints, and nothing in its status.
    pub(crate) async fn register(&self, name: &str, mut metadata: Value, taints: Value) {
        metadata["name"] = json!(name);
        let node = json!({"metadata": metadata, "spec": {"taints": taints}});
        let node = serde_json::from_value(node).unwrap();
        self.nodes
            .create(&PostParams::default(), &node)
            .await
            .unwrap();
    }

    /// Stores addresses as a kubelet does.
    pub(crate) async fn set_addresses(&self, name: &str, addresses: Value) {
        let patch = Patch::Merge(json!({"status": {"addresses": addresses}}));
        let params = PatchParams::default();
        self.nodes
            .patch_status(name, &params, &patch)
            .await
            .unwrap();
    }

    /// Changes anything else about a node.
    pub(crate) async fn change(&self, name: &str, patch: Value) {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.nodes.patch(name, &params, &patch).await.unwrap();
    }

    /// The configuration of the shipped guest: the rules that it requests, granted for the simulated cloud, whose
    /// address is named because it is a loopback one.
    pub(crate) fn configuration(&self, values: Value) -> Value {
        let manifest = root().join("guests/hcloud/manifest.json");
        let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
        let mut target = json!({
            "name": "api",
            "endpoint": self.cloud.endpoint(),
            "addresses": ["127.0.0.1", "::1"],
            "credential": {"bearer": {"env": "CLOUD_TOKEN"}},
            "rules": manifest["targets"][0]["rules"],
        });
        if let Some(authority) = self.cloud.ca_pem() {
            let path = self.folder.path().join("cloud-ca.crt");
            std::fs::write(&path, authority).unwrap();
            target["caFile"] = json!(path);
        }
        json!({
            "apiVersion": "config.wasm-ccm.dev/v1alpha1",
            "kind": "ProviderConfiguration",
            "providers": [{"name": "hcloud", "config": values, "grants": {"targets": [target]}}],
        })
    }

    /// Starts `ccm run` with a configuration and further flags.
    pub(crate) fn ccm(&self, configuration: &Value, flags: &[&str]) -> Process {
        let path = self.folder.path().join("ccm.json");
        std::fs::write(&path, configuration.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccm"));
        command
            .args(["run", "--cloud-provider=hcloud", "-v=4"])
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .arg(format!("--config={}", path.display()))
            .args(flags)
            .env_clear()
            .env("CLOUD_TOKEN", TOKEN);
        Process::spawn(command, &self.folder.path().join("ccm.log")).unwrap()
    }

    /// The shipped module as a file.
    pub(crate) fn module_file(&self) -> PathBuf {
        let guests = embedded_guests::all();
        let guest = guests.iter().find(|guest| guest.name == "hcloud").unwrap();
        let path = self.folder.path().join("hcloud.wasm");
        std::fs::write(&path, guest.wasm).unwrap();
        path
    }

    /// What `ccm` asked of the API server so far.
    pub(crate) fn asked(&self) -> Vec<AuditEntry> {
        let mut log = self.api.audit_log().unwrap();
        log.retain(|entry| entry.user == ACCOUNT);
        log
    }

    /// The writes to one node among them.
    pub(crate) fn writes_to(&self, name: &str) -> Vec<AuditEntry> {
        let mut log = self.asked();
        log.retain(|entry| entry.resource == "nodes" && entry.name == name && entry.verb != "get");
        log
    }

    /// The Events about a node, by reason.
    pub(crate) async fn events_about(&self, name: &str) -> Vec<Event> {
        let about = format!("involvedObject.kind=Node,involvedObject.name={name}");
        let params = ListParams::default().fields(&about);
        self.events.list(&params).await.unwrap().items
    }

    /// Waits for an Event with this reason about a node.
    pub(crate) async fn event(&self, ccm: &mut Process, name: &str, reason: &str) -> Event {
        let what = format!("an Event {reason} about {name}");
        until(ccm, &what, async || {
            let mut events = self.events_about(name).await.into_iter();
            events.find(|event| event.reason.as_deref() == Some(reason))
        })
        .await
    }

    /// Waits until a node is initialised and everything about it has been said.
    pub(crate) async fn initialised(&self, ccm: &mut Process, name: &str) -> Node {
        self.event(ccm, name, "Synced").await;
        let node = self.nodes.get(name).await.unwrap();
        assert!(
            !is_tainted(&node),
            "{name} is said to be synced and is still tainted"
        );
        node
    }
}

/// Asks again and again until there is an answer; fails when `ccm` has ended or nothing comes.
pub(crate) async fn until<T>(ccm: &mut Process, what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        ccm.check().unwrap();
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(
            Instant::now() < deadline,
            "waited for {what}:\n{}",
            ccm.tail()
        );
        sleep(Duration::from_millis(50)).await;
    }
}

/// Whether the node still waits for its cloud provider.
pub(crate) fn is_tainted(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let mut keys = taints.into_iter().flatten().map(|taint| taint.key.as_str());
    keys.any(|key| key == "node.cloudprovider.kubernetes.io/uninitialized")
}

/// The taint that a cloud provider removes.
pub(crate) fn uninitialized() -> Value {
    json!({
        "key": "node.cloudprovider.kubernetes.io/uninitialized",
        "value": "true",
        "effect": "NoSchedule",
    })
}

/// A taint that is none of its business.
pub(crate) fn other_taint() -> Value {
    json!({"key": "example.com/drained", "effect": "NoSchedule"})
}

/// The manifests of `deploy/` that carry rights.
pub(crate) fn manifests(file: &str) -> Vec<Value> {
    let path = root().join("deploy/kustomize/base").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

/// Applies the rights of `deploy/` and returns a token of its service account.
async fn deploy(admin: &Client) -> String {
    let params = PostParams::default();
    for manifest in manifests("rbac.yaml") {
        if manifest["kind"] == "ClusterRole" {
            let role: ClusterRole = serde_json::from_value(manifest).unwrap();
            Api::all(admin.clone())
                .create(&params, &role)
                .await
                .unwrap();
        } else {
            let binding: ClusterRoleBinding = serde_json::from_value(manifest).unwrap();
            Api::all(admin.clone())
                .create(&params, &binding)
                .await
                .unwrap();
        }
    }
    let account = manifests("serviceaccount.yaml").remove(0);
    let account: ServiceAccount = serde_json::from_value(account).unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "kube-system");
    accounts.create(&params, &account).await.unwrap();
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: vec!["https://kubernetes.default.svc".to_owned()],
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let token = accounts
        .create_token_request("ccm", &params, &request)
        .await
        .unwrap();
    token.status.unwrap().token
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
