//! A fresh kube-apiserver with etcd for one run, the rights of `deploy/` in it, and the client that fills it. Its work
//! is never part of a measured time.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use ccm_tests::apiserver::{ApiServer, StartOptions};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::Value;
use tempfile::TempDir;

use crate::audit::{self, Entry};
use crate::fat;

/// Number of parallel requests that fill the cluster.
const FILLING: usize = 16;

/// The Lease of every cloud-controller-manager.
const LEASE: &str = "cloud-controller-manager";

/// The user of the vendor's manager; its requests are in the audit log, too.
const PEER: &str = "peer";

/// The field manager of a kubelet's writes.
const KUBELET: &str = "kubelet";

pub(crate) struct Cluster {
    // Dropped in this order.
    _server: ApiServer,
    pub(crate) folder: TempDir,
    pub(crate) admin: Client,
    /// Kubeconfig of the service account under test: ccm's, and the bare client's.
    pub(crate) kubeconfig: PathBuf,
    /// Kubeconfig of a user with all rights: the vendor's manager needs rights that ours does not have.
    pub(crate) peer_kubeconfig: PathBuf,
}

impl Cluster {
    pub(crate) async fn start() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("ccm-bench-").tempdir()?;
        let policy = folder.path().join("audit-policy.json");
        std::fs::write(&policy, audit::POLICY)?;
        let log = folder.path().join("audit.log");
        let server = ApiServer::start_with(StartOptions {
            users: vec![(PEER.to_owned(), vec!["system:masters".to_owned()])],
            flags: vec![
                format!("--audit-policy-file={}", policy.display()),
                format!("--audit-log-path={}", log.display()),
                // One file, however large.
                "--audit-log-maxsize=100000".to_owned(),
            ],
            default_gc: true,
            ..StartOptions::default()
        })
        .await?;
        let admin = server.client_for("admin").await?;
        let token = deploy(&admin).await.context("cannot apply deploy/")?;
        Ok(Self {
            kubeconfig: server.kubeconfig_with_token("ccm", &token)?,
            peer_kubeconfig: server.kubeconfig(PEER)?,
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

    /// The part that fills the cluster, for tasks of their own.
    pub(crate) fn handle(&self) -> Kubelets {
        Kubelets {
            nodes: self.nodes(),
        }
    }

    /// Creates nodes that have been up for a while: registered, and reported on once more.
    pub(crate) async fn fill(&self, names: &[String]) -> Result<()> {
        let kubelets = self.handle();
        stream::iter(names)
            .map(|name| async {
                kubelets.register(name).await?;
                kubelets.patch(name, fat::heartbeat()).await
            })
            .buffer_unordered(FILLING)
            .try_collect()
            .await
    }

    /// Creates one node as a kubelet registers itself.
    pub(crate) async fn register(&self, name: &str) -> Result<Node> {
        self.handle().register(name).await
    }

    /// Marks one node as a node whose kubelet has stopped reporting.
    pub(crate) async fn silence(&self, name: &str) -> Result<()> {
        self.handle().patch(name, fat::silence()).await
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.admin.clone())
    }

    /// Every node as it is now.
    pub(crate) async fn all_nodes(&self) -> Result<Vec<Node>> {
        Ok(self.nodes().list(&ListParams::default()).await?.items)
    }

    pub(crate) fn services(&self) -> Api<Service> {
        Api::default_namespaced(self.admin.clone())
    }

    /// The holder of the manager's Lease, if it has one.
    pub(crate) async fn leader(&self) -> Result<Option<String>> {
        let leases: Api<Lease> = Api::namespaced(self.admin.clone(), "kube-system");
        let lease = leases.get_opt(LEASE).await?;
        let holder = lease.and_then(|lease| lease.spec?.holder_identity);
        Ok(holder.filter(|holder| !holder.is_empty()))
    }

    /// Number of Events about nodes: others in the namespace may be the API server's own.
    pub(crate) async fn node_events(&self) -> Result<usize> {
        let events = Api::<Event>::default_namespaced(self.admin.clone());
        let about_nodes = ListParams::default().fields("involvedObject.kind=Node");
        Ok(events.list_metadata(&about_nodes).await?.items.len())
    }

    /// The requests of the manager under test so far.
    pub(crate) fn asked(&self) -> Result<Vec<Entry>> {
        audit::read(&self.folder.path().join("audit.log"))
    }
}

/// The kubelets of a cluster.
#[derive(Clone)]
pub(crate) struct Kubelets {
    nodes: Api<Node>,
}

impl Kubelets {
    /// Creates one node as a kubelet registers itself: all fields in one request.
    pub(crate) async fn register(&self, name: &str) -> Result<Node> {
        let node: Node = serde_json::from_value(fat::node(name))?;
        let params = PostParams {
            field_manager: Some(KUBELET.to_owned()),
            ..PostParams::default()
        };
        Ok(self.nodes.create(&params, &node).await?)
    }

    /// Reports as a kubelet does every few seconds; `number` makes this report differ from the others.
    pub(crate) async fn report(&self, name: &str, number: usize) -> Result<()> {
        self.patch(name, fat::report(number)).await
    }

    async fn patch(&self, name: &str, status: Value) -> Result<()> {
        let params = PatchParams {
            field_manager: Some(KUBELET.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Strategic(status);
        self.nodes.patch_status(name, &params, &patch).await?;
        Ok(())
    }
}

/// Applies the rights of `deploy/` and returns a token of its service account.
async fn deploy(admin: &Client) -> Result<String> {
    let params = PostParams::default();
    for manifest in manifests("rbac.yaml")? {
        let admin = admin.clone();
        // The namespace of the Lease, and of the API server's own settings.
        let namespace = manifest["metadata"]["namespace"].as_str();
        let namespace = namespace.unwrap_or("kube-system").to_owned();
        match manifest["kind"].as_str() {
            Some("ClusterRole") => {
                let role: ClusterRole = serde_json::from_value(manifest)?;
                Api::all(admin).create(&params, &role).await?;
            }
            Some("ClusterRoleBinding") => {
                let binding: ClusterRoleBinding = serde_json::from_value(manifest)?;
                Api::all(admin).create(&params, &binding).await?;
            }
            Some("Role") => {
                let role: Role = serde_json::from_value(manifest)?;
                Api::namespaced(admin, &namespace)
                    .create(&params, &role)
                    .await?;
            }
            Some("RoleBinding") => {
                let binding: RoleBinding = serde_json::from_value(manifest)?;
                Api::namespaced(admin, &namespace)
                    .create(&params, &binding)
                    .await?;
            }
            kind => bail!("rbac.yaml has a {kind:?}"),
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
