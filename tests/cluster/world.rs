//! The set-up of every test of this suite: an API server with the manifests of `deploy/`, a simulated cloud, and `ccm
//! run` between them. Asserts nothing about `ccm`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ccm_fixtures::TOKEN;
use ccm_sim::hetzner::{Hetzner, Options, Request};
use ccm_tests::apiserver::{ApiServer, StartOptions};
use ccm_tests::compiled_modules::CompiledModules;
use ccm_tests::counts::Count;
use ccm_tests::link::Link;
use ccm_tests::observed::Observed;
use ccm_tests::process::Process;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Event, Node, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use crate::chart_and_kustomize::is_right;
use crate::deploy::built;
use crate::kubelet::is_tainted;

/// Timeout for expected events. Only a failing test waits that long.
const TIMEOUT: Duration = Duration::from_secs(240);

/// A leader keeps its Lease while the API server restarts or stalls, however long that takes on this machine.
pub(crate) const LONG_LEASE: [&str; 2] = [
    "--leader-elect-lease-duration=180s",
    "--leader-elect-renew-deadline=150s",
];

/// What no `ccm` of this suite compiles by itself.
pub(crate) const COMPILED_MODULES: CompiledModules = CompiledModules {
    kept: env!("CARGO_TARGET_TMPDIR"),
    program: env!("CARGO_BIN_EXE_ccm"),
};

/// The namespace of the manifests.
const NAMESPACE: &str = "kube-system";

/// The settings of a world.
pub(crate) struct Setup {
    /// Options of the simulated cloud.
    pub(crate) cloud: Options,
    /// Whether the API server reaches its etcd over a link.
    pub(crate) etcd_link: bool,
    /// Whether pods get the token of their ServiceAccount mounted.
    pub(crate) pods_have_accounts: bool,
    /// Further flags of kube-apiserver.
    pub(crate) server_flags: Vec<String>,
    /// Files of rights beside those of the base in `deploy/kustomize`, relative to it.
    pub(crate) rights: &'static [&'static str],
    /// The folder of `deploy/kustomize` whose rights, as kustomize builds them, take the place of the base's; `rights` is then
    /// empty.
    pub(crate) overlay: Option<&'static str>,
    /// Objects to leave out, by kind and name.
    pub(crate) without: &'static [(&'static str, &'static str)],
    /// Of all roles, only the one with this name, as when one controller runs alone, and the one for Provider objects.
    pub(crate) only_role: Option<&'static str>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            cloud: Options::new(TOKEN),
            etcd_link: false,
            pods_have_accounts: false,
            server_flags: Vec::new(),
            rights: &[],
            overlay: None,
            without: &[],
            only_role: None,
        }
    }
}

/// A cluster without nodes and a cloud without servers.
pub(crate) struct World {
    pub(crate) api: ApiServer,
    pub(crate) cloud: Hetzner,
    /// The only connection to the cloud.
    pub(crate) cloud_link: Link,
    pub(crate) nodes: Api<Node>,
    events: Api<Event>,
    /// The objects of `deploy/` that grant rights here.
    pub(crate) rights: Vec<Value>,
    kubeconfig: PathBuf,
    folder: TempDir,
}

impl World {
    pub(crate) async fn start(setup: Setup) -> Self {
        assert!(
            setup.overlay.is_none() || setup.rights.is_empty(),
            "the rights of an overlay are in it"
        );
        let api = ApiServer::start_with(StartOptions {
            audit: true,
            etcd_link: setup.etcd_link,
            pods_have_accounts: setup.pods_have_accounts,
            flags: setup.server_flags,
            ..StartOptions::default()
        })
        .await
        .unwrap();
        let admin = api.client_for("admin").await.unwrap();
        let files = ["rbac.yaml"].iter().chain(setup.rights);
        let mut rights: Vec<Value> = match setup.overlay {
            // The account of the pod comes last, and with a token.
            Some(folder) => built(folder)
                .into_iter()
                .filter(|one| is_right(one) && one["metadata"]["name"] != "ccm")
                .collect(),
            None => files.flat_map(|file| manifests(file)).collect(),
        };
        rights.retain(|manifest| {
            let is_it = |(kind, name): &(&str, &str)| {
                manifest["kind"] == *kind && manifest["metadata"]["name"] == *name
            };
            !setup.without.iter().any(is_it)
        });
        if let Some(role) = setup.only_role {
            let kept = [role, "ccm:provider-status"];
            rights.retain(|manifest| {
                kept.iter()
                    .any(|kept| manifest["metadata"]["name"] == *kept)
            });
        }
        let token = deploy(&admin, &rights).await;
        let folder = TempDir::new().unwrap();
        let shipped = embedded_guests::HCLOUD.to_vec();
        COMPILED_MODULES.add(shipped).await.unwrap();
        let cloud = Hetzner::start(setup.cloud).await.unwrap();
        Self {
            kubeconfig: api.kubeconfig_with_token("ccm", &token).unwrap(),
            cloud_link: Link::to(cloud.address()).unwrap(),
            cloud,
            nodes: Api::all(admin.clone()),
            events: Api::default_namespaced(admin),
            rights,
            folder,
            api,
        }
    }

    /// The cloud's endpoint, over the link.
    pub(crate) fn endpoint(&self) -> String {
        let (there, here) = (self.cloud.address(), self.cloud_link.address());
        let port = |address: std::net::SocketAddr| format!(":{}/", address.port());
        self.cloud.endpoint().replace(&port(there), &port(here))
    }

    /// The configuration of the shipped guest: the rules that it requests, granted for the simulated cloud, whose
    /// loopback address has to be named.
    pub(crate) fn configuration(&self, values: Value) -> Value {
        let manifest = root().join("guests/hcloud/manifest.json");
        let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
        let mut target = json!({
            "name": "api",
            "endpoint": self.endpoint(),
            "addresses": ["127.0.0.1", "::1"],
            "credential": {"bearer": {"env": "CLOUD_TOKEN"}},
            "rules": manifest["targets"][0]["rules"],
        });
        if let Some(authority) = self.cloud.ca_pem() {
            target["caFile"] = json!(self.file("cloud-ca.crt", authority));
        }
        json!({
            "apiVersion": "wasm-ccm.dev/v1alpha1",
            "kind": "ProviderConfiguration",
            "providers": [{"name": "hcloud", "config": values, "grants": {"targets": [target]}}],
        })
    }

    /// Starts `ccm run` with a configuration and further flags.
    pub(crate) fn ccm(&self, configuration: &Value, flags: &[&str]) -> Process {
        self.ccm_with_token(TOKEN, configuration, flags)
    }

    /// The same with another token of the cloud.
    pub(crate) fn ccm_with_token(
        &self,
        token: &str,
        configuration: &Value,
        flags: &[&str],
    ) -> Process {
        let configuration = self.file("ccm.json", configuration.to_string());
        let mut arguments = vec![
            "run".to_owned(),
            "--cloud-provider=hcloud".to_owned(),
            format!("--config={}", configuration.display()),
        ];
        arguments.extend(flags.iter().copied().map(str::to_owned));
        self.spawn(&arguments, &[("CLOUD_TOKEN", token)])
    }

    /// Starts the binary with these arguments and variables, as the service account that `deploy/` makes.
    pub(crate) fn spawn(&self, arguments: &[String], variables: &[(&str, &str)]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccm"));
        command.args(arguments);
        let has = |flag: &str| arguments.iter().any(|argument| argument.starts_with(flag));
        if !has("-v=") {
            command.arg("-v=4");
        }
        // Many managers run at the same time on this machine.
        if !has("--secure-port=") {
            command.arg("--secure-port=0");
        }
        // Compiling is not the subject of cluster tests.
        let mut folders = arguments
            .iter()
            .filter_map(|argument| argument.strip_prefix("--compiled-cache-dir="));
        if let Some(folder) = folders.next() {
            COMPILED_MODULES.fill(Path::new(folder)).unwrap();
        } else if arguments.first().is_some_and(|first| first == "run") {
            let folder = self.folder.path().join("compiled-modules");
            COMPILED_MODULES.fill(&folder).unwrap();
            command.arg(format!("--compiled-cache-dir={}", folder.display()));
        }
        command
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .env_clear()
            .envs(variables.iter().copied());
        Process::spawn(command, &self.folder.path().join("ccm.log")).unwrap()
    }

    /// The complete lines that every `ccm` of this world has written.
    pub(crate) fn log(&self) -> String {
        let mut log = std::fs::read(self.folder.path().join("ccm.log")).unwrap();
        // The last line may still be being written, and end within a character.
        let whole = log.iter().rposition(|&byte| byte == b'\n');
        log.truncate(whole.map_or(0, |newline| newline + 1));
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Writes a file that is deleted with the world.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// The kubeconfig of every `ccm` of this world.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The token that the cloud accepts.
    pub(crate) fn token(&self) -> &'static str {
        TOKEN
    }

    /// The shipped module as a file.
    pub(crate) fn module_file(&self) -> PathBuf {
        let guests = embedded_guests::ALL;
        let guest = guests.iter().find(|guest| guest.name == "hcloud").unwrap();
        self.file("hcloud.wasm", guest.wasm)
    }

    /// All Events about nodes.
    pub(crate) async fn events(&self) -> Vec<Event> {
        let params = ListParams::default().fields("involvedObject.kind=Node");
        self.events.list(&params).await.unwrap().items
    }

    /// The Events about one node.
    pub(crate) async fn events_about(&self, name: &str) -> Vec<Event> {
        let about = format!("involvedObject.kind=Node,involvedObject.name={name}");
        let params = ListParams::default().fields(&about);
        self.events.list(&params).await.unwrap().items
    }

    /// Waits for an Event about a node with this reason.
    pub(crate) async fn event(&self, ccm: &mut Process, name: &str, reason: &str) -> Event {
        let what = format!("an Event {reason} about {name}");
        until(ccm, &what, async || {
            let mut events = self.events_about(name).await.into_iter();
            events.find(|event| event.reason.as_deref() == Some(reason))
        })
        .await
    }

    /// Waits until a node is initialised and the Event about that is recorded.
    pub(crate) async fn initialised(&self, ccm: &mut Process, name: &str) -> Node {
        self.event(ccm, name, "Synced").await;
        let node = self.nodes.get(name).await.unwrap();
        assert!(
            !is_tainted(&node),
            "{name} is said to be synced and is still tainted"
        );
        node
    }

    /// The requests of controllers to the cloud: all but those of the self-check, which has no fixed time.
    pub(crate) fn questions(&self) -> Vec<Request> {
        let requests = self.cloud.requests().into_iter();
        requests.filter(|one| one.path != "/locations").collect()
    }

    /// Waits until a controller has asked the cloud something.
    pub(crate) async fn cloud_is_asked(&self, ccm: &mut Process) {
        until(ccm, "a question to the cloud", async || {
            (!self.questions().is_empty()).then_some(())
        })
        .await;
    }

    /// Watches the nodes until they satisfy a condition; fails when `ccm` has ended or nothing changes any more.
    pub(crate) async fn nodes_until(
        &self,
        ccm: &mut Process,
        what: &str,
        is_so: impl Fn(&BTreeMap<String, Node>) -> bool,
    ) -> BTreeMap<String, Node> {
        let mut observed = Observed::new(self.nodes.clone());
        loop {
            let change = timeout(TIMEOUT, observed.changed()).await;
            ccm.check().unwrap();
            match change {
                Ok(nodes) if is_so(nodes) => return nodes.clone(),
                Ok(_) => {}
                Err(_) => panic!("waited for {what}:\n{}", ccm.tail()),
            }
        }
    }

    /// Waits until `count` nodes are initialised.
    pub(crate) async fn all_initialised(
        &self,
        ccm: &mut Process,
        count: usize,
    ) -> BTreeMap<String, Node> {
        let what = format!("{count} initialised nodes");
        self.nodes_until(ccm, &what, |nodes| untainted(nodes) == count)
            .await
    }

    /// Ends `ccm` as a rolling update does, and waits until it has ended.
    pub(crate) async fn stop(&self, mut ccm: Process) {
        ccm.terminate().unwrap();
        let status = ccm.ended(Duration::from_secs(30)).await.unwrap();
        assert!(status.success(), "{status}: {}", ccm.tail());
    }
}

/// How many nodes are without the taint.
pub(crate) fn untainted(nodes: &BTreeMap<String, Node>) -> usize {
    nodes.values().filter(|node| !is_tainted(node)).count()
}

/// Calls `ask` until it returns something; fails when `ccm` has ended or the timeout has passed.
pub(crate) async fn until<T>(ccm: &mut Process, what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
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
        // Eight tests that poll much more often would take half of the machine.
        sleep(Duration::from_millis(200)).await;
    }
}

/// A number that a variable may raise: large counts take long and belong to `.ci/full`.
pub(crate) fn size(variable: &'static str, usual: u64, full: u64) -> usize {
    let count = Count {
        variable,
        default: usual,
        ci: usual,
        full,
    };
    usize::try_from(count.get().unwrap()).unwrap()
}

/// The manifests in one file of `deploy/`.
pub(crate) fn manifests(file: &str) -> Vec<Value> {
    let path = root().join("deploy/kustomize/base").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

/// Applies these rights and returns a token of the service account of `deploy/`.
async fn deploy(admin: &Client, rights: &[Value]) -> String {
    let params = PostParams::default();
    for manifest in rights.iter().cloned() {
        match manifest["kind"].as_str() {
            Some("ClusterRole") => create(&Api::<ClusterRole>::all(admin.clone()), manifest).await,
            Some("ClusterRoleBinding") => {
                create(&Api::<ClusterRoleBinding>::all(admin.clone()), manifest).await;
            }
            Some("Role") => {
                create(&Api::<Role>::namespaced(admin.clone(), NAMESPACE), manifest).await;
            }
            Some("RoleBinding") => {
                create(
                    &Api::<RoleBinding>::namespaced(admin.clone(), NAMESPACE),
                    manifest,
                )
                .await;
            }
            Some("ServiceAccount") => {
                let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), NAMESPACE);
                create(&accounts, manifest).await;
            }
            other => panic!("a file of rights holds {other:?}"),
        }
    }
    let account = manifests("serviceaccount.yaml").remove(0);
    let account: ServiceAccount = serde_json::from_value(account).unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), NAMESPACE);
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

async fn create<K>(api: &Api<K>, manifest: Value)
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let object: K = serde_json::from_value(manifest).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
