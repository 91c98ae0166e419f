//! A fresh kube-apiserver with etcd for one run, the rights of `deploy/` in it, and the client that fills it. What it
//! does is never part of a measured time.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use ccm_tests::apiserver::{ApiServer, StartOptions};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Event, Node, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::Value;
use tempfile::TempDir;

use crate::audit::{self, Entry};
use crate::fat;

/// How many requests fill the cluster side by side.
const FILLING: usize = 16;

/// The field manager of a kubelet's writes.
const KUBELET: &str = "kubelet";

pub(crate) struct Cluster {
    // Dropped in this order.
    _server: ApiServer,
    pub(crate) folder: TempDir,
    pub(crate) admin: Client,
    /// Of the service account under test: ccm's, and the bare client's.
    pub(crate) kubeconfig: PathBuf,
    /// Of a user who may do everything: the vendor's manager wants rights that ours does not have.
    pub(crate) admin_kubeconfig: PathBuf,
}

impl Cluster {
    pub(crate) async fn start() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("ccm-bench-").tempdir()?;
        let policy = folder.path().join("audit-policy.json");
        std::fs::write(&policy, audit::POLICY)?;
        let log = folder.path().join("audit.log");
        let server = ApiServer::start_with(StartOptions {
            flags: vec![
                format!("--audit-policy-file={}", policy.display()),
                format!("--audit-log-path={}", log.display()),
                // One file, however much is written.
                "--audit-log-maxsize=100000".to_owned(),
            ],
            ..StartOptions::default()
        })
        .await?;
        let admin = server.client_for("admin").await?;
        let token = deploy(&admin).await.context("cannot apply deploy/")?;
        Ok(Self {
            kubeconfig: server.kubeconfig_with_token("ccm", &token)?,
            admin_kubeconfig: server.kubeconfig("admin")?,
            _server: server,
            folder,
            admin,
        })
    }

    /// Another client of the service account under test, with connections of its own.
    pub(crate) async fn client(&self) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }

    /// Makes nodes that have been up for a while: registered, and reported on once more.
    pub(crate) async fn fill(&self, names: &[String]) -> Result<()> {
        stream::iter(names)
            .map(|name| async move {
                self.register(name).await?;
                let params = kubelets();
                let report = Patch::Strategic(fat::heartbeat());
                self.nodes().patch_status(name, &params, &report).await?;
                anyhow::Ok(())
            })
            .buffer_unordered(FILLING)
            .try_collect()
            .await
    }

    /// Makes one node as a kubelet registers itself: everything in one request.
    pub(crate) async fn register(&self, name: &str) -> Result<()> {
        let node: Node = serde_json::from_value(fat::node(name))?;
        let params = PostParams {
            field_manager: Some(KUBELET.to_owned()),
            ..PostParams::default()
        };
        self.nodes().create(&params, &node).await?;
        Ok(())
    }

    /// Has the kubelet of one node fall silent.
    pub(crate) async fn silence(&self, name: &str) -> Result<()> {
        let patch = Patch::Strategic(fat::silence());
        self.nodes().patch_status(name, &kubelets(), &patch).await?;
        Ok(())
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.admin.clone())
    }

    /// Every node as it is now.
    pub(crate) async fn all_nodes(&self) -> Result<Vec<Node>> {
        Ok(self.nodes().list(&ListParams::default()).await?.items)
    }

    /// How many Events there are.
    pub(crate) async fn events(&self) -> Result<usize> {
        let events = Api::<Event>::default_namespaced(self.admin.clone());
        Ok(events
            .list_metadata(&ListParams::default())
            .await?
            .items
            .len())
    }

    /// What the service account under test has asked so far.
    pub(crate) fn asked(&self) -> Result<Vec<Entry>> {
        audit::read(&self.folder.path().join("audit.log"))
    }
}

fn kubelets() -> PatchParams {
    PatchParams {
        field_manager: Some(KUBELET.to_owned()),
        ..PatchParams::default()
    }
}

/// Applies the rights of `deploy/` and returns a token of its service account.
async fn deploy(admin: &Client) -> Result<String> {
    let params = PostParams::default();
    for manifest in manifests("rbac.yaml")? {
        if manifest["kind"] == "ClusterRole" {
            let role: ClusterRole = serde_json::from_value(manifest)?;
            Api::all(admin.clone()).create(&params, &role).await?;
        } else if manifest["kind"] == "ClusterRoleBinding" {
            let binding: ClusterRoleBinding = serde_json::from_value(manifest)?;
            Api::all(admin.clone()).create(&params, &binding).await?;
        }
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "kube-system");
    let account: ServiceAccount =
        serde_json::from_value(manifests("serviceaccount.yaml")?.remove(0))?;
    accounts.create(&params, &account).await?;
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: vec!["https://kubernetes.default.svc".to_owned()],
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request("ccm", &params, &request)
        .await?;
    Ok(answer
        .status
        .context("a token request without an answer")?
        .token)
}

fn manifests(file: &str) -> Result<Vec<Value>> {
    let path = repository().join("deploy/kustomize/base").join(file);
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(serde_saphyr::from_multiple(&text)?)
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
