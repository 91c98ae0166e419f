//! The vendor's Go manager as a process; CCM_GO_HCLOUD names its binary. A proxy between it and the simulated cloud
//! records its changes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use ccm_tests::apiserver::AuditEntry;
use ccm_tests::process::Process;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::estate::Variant;
use crate::world::World;

/// The name of its service account.
const NAME: &str = "hcloud-cloud-controller-manager";

/// The binary that CCM_GO_HCLOUD names, if it is set.
pub(super) fn binary() -> Option<PathBuf> {
    std::env::var_os("CCM_GO_HCLOUD").map(PathBuf::from)
}

/// What the Go manager needs to run in a world: a kubeconfig, and the proxy.
pub(super) struct GoManager {
    kubeconfig: PathBuf,
    endpoint: String,
    written: Arc<Mutex<Vec<Value>>>,
}

impl GoManager {
    pub(super) async fn of(world: &World) -> GoManager {
        let written = Arc::default();
        GoManager {
            kubeconfig: account(world).await,
            endpoint: proxy(world.cloud.endpoint(), Arc::clone(&written)).await,
            written,
        }
    }

    pub(super) fn start(&self, world: &World, binary: &Path, variant: Variant) -> Process {
        let mut command = Command::new(binary);
        command
            .args(variant.arguments())
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .args(["--secure-port=0", "--bind-address=127.0.0.1", "-v=2"])
            .env_clear()
            .envs(variant.variables())
            .env("HCLOUD_TOKEN", world.token())
            .env("HCLOUD_ENDPOINT", &self.endpoint);
        Process::spawn(command, &world.file("go.log", "")).unwrap()
    }

    /// Its requests for changes at the cloud: method, path and body.
    pub(super) fn written(&self) -> Vec<Value> {
        self.written.lock().unwrap().clone()
    }
}

/// Method and path of each of these changes, sorted.
pub(super) fn named(requests: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all = requests.iter();
    let mut all: Vec<_> = all
        .map(|one| format!("{} {}", text(&one["method"]), text(&one["path"])))
        .collect();
    all.sort();
    all
}

/// Its requests to the API server, apart from reads.
pub(super) fn cluster_writes(world: &World) -> Vec<AuditEntry> {
    let mut log = world.api.audit_log().unwrap();
    log.retain(|entry| {
        let is_read = ["get", "list", "watch"].contains(&entry.verb.as_str());
        entry.user.ends_with(NAME) && !is_read
    });
    log
}

/// Makes a kubeconfig of its own, so that the audit log distinguishes it from others.
async fn account(world: &World) -> PathBuf {
    let admin = world.api.client_for("admin").await.unwrap();
    let params = PostParams::default();
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "kube-system");
    let account = serde_json::from_value(json!({"metadata": {"name": NAME}})).unwrap();
    accounts.create(&params, &account).await.unwrap();
    let binding = json!({
        "metadata": {"name": NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": "kube-system"}],
    });
    let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
    Api::all(admin).create(&params, &binding).await.unwrap();
    let request = TokenRequest::default();
    let token = accounts
        .create_token_request(NAME, &params, &request)
        .await
        .unwrap();
    let token = token.status.unwrap().token;
    world.api.kubeconfig_with_token(NAME, &token).unwrap()
}

#[derive(Clone)]
struct Proxy {
    endpoint: String,
    client: reqwest::Client,
    written: Arc<Mutex<Vec<Value>>>,
}

/// Starts the proxy and returns its endpoint.
async fn proxy(endpoint: String, written: Arc<Mutex<Vec<Value>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = reqwest::Client::new();
    let proxy = Proxy {
        endpoint,
        client,
        written,
    };
    let router = Router::new().fallback(pass).with_state(proxy);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    format!("http://{address}")
}

async fn pass(State(proxy): State<Proxy>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let path = head.uri.path_and_query().unwrap().to_string();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let url = format!("{}{path}", proxy.endpoint);
    let sent = proxy
        .client
        .request(head.method.clone(), url)
        .headers(
            head.headers
                .iter()
                .filter(|(name, _)| *name != "host")
                .map(|(n, v)| (n.clone(), v.clone()))
                .collect(),
        )
        .body(body.clone())
        .send()
        .await
        .unwrap();
    let mut response = Response::builder().status(sent.status());
    for (name, value) in sent
        .headers()
        .iter()
        .filter(|(name, _)| *name != "transfer-encoding")
    {
        response = response.header(name, value);
    }
    if head.method != http::Method::GET {
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let request = json!({
            "method": head.method.as_str(), "path": path, "body": body, "status": sent.status().as_u16(),
        });
        proxy.written.lock().unwrap().push(request);
    }
    response
        .body(Body::from(sent.bytes().await.unwrap()))
        .unwrap()
}
