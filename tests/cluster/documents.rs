//! The pages whose commands run here, from top to bottom, in one shell each: on a real API server, beside a simulated
//! cloud, with Kubernetes' own kubectl and kubeadm. A step that one machine cannot do has a stand-in.
//!
//! - `deploy/docs/tutorial-kubeadm.md`
//! - `deploy/README.md`
//! - `deploy/docs/providers.md`
//! - of `deploy/docs/operations.md` and `deploy/docs/migration.md` single commands
#![allow(clippy::print_stdout, reason = "how much of a page is run")]

#[path = "documents/changes.rs"]
mod changes;
#[path = "documents/migration.rs"]
mod migration;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ccm_sim::hetzner::{Hetzner, Location, Options, ServerSpec};
use ccm_tests::apiserver::{ApiServer, StartOptions};
use ccm_tests::counts::{Depth, depth};
use ccm_tests::documents::shell::Shell;
use ccm_tests::documents::{Block, Mark, Page, is_as_shown};
use ccm_tests::kubernetes;
use ccm_tests::process::Process;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret, ServiceAccount};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kubelet::uninitialized;
use crate::world::root;

/// A token of the vendor's length.
const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The network of the tutorial.
const NETWORK: &str = "kubernetes";

/// The reader of a page: a shell, with the cluster and the cloud that its commands meet.
struct Reader {
    shell: Shell,
    api: ApiServer,
    admin: Client,
    cloud: Hetzner,
    network: u64,
    folder: TempDir,
    /// The processes that stand in for pods.
    processes: Vec<Process>,
    /// How many pod CIDRs were given to nodes, if no kube-controller-manager does it.
    allocated: usize,
}

impl Reader {
    async fn start() -> Reader {
        let api = ApiServer::start_with(StartOptions {
            // kubeadm's default.
            flags: vec!["--service-cluster-ip-range=10.96.0.0/12".to_owned()],
            ..StartOptions::default()
        })
        .await
        .unwrap();
        let admin = api.client_for("admin").await.unwrap();
        let cloud = Hetzner::start(Options::new(TOKEN)).await.unwrap();
        let (range, machines) = (
            "10.0.0.0/8".parse().unwrap(),
            "10.1.0.0/16".parse().unwrap(),
        );
        let network = cloud.add_network_with_subnet(NETWORK, range, machines, Location::default());
        let folder = TempDir::new().unwrap();
        let tools = tokio::task::spawn_blocking(kubernetes::command_line_tools)
            .await
            .unwrap()
            .unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ccm"), bin.join("ccm")).unwrap();
        let path = format!(
            "{}:{}:{}",
            bin.display(),
            tools.display(),
            std::env::var("PATH").unwrap()
        );
        // The part of the clone that commands read.
        let clone = folder.path().join("wasm-ccm");
        copy(
            &root().join("deploy/kustomize"),
            &clone.join("deploy/kustomize"),
        );
        let kubeconfig = api.kubeconfig("admin").unwrap();
        let variables = [
            ("PATH", path.as_str()),
            ("KUBECONFIG", kubeconfig.to_str().unwrap()),
            ("HCLOUD_TOKEN", TOKEN),
            ("LC_ALL", "C.UTF-8"),
        ];
        let shell = Shell::start(&clone, &folder.path().join("commands"), &variables).unwrap();
        Reader {
            shell,
            api,
            admin,
            cloud,
            network,
            folder,
            processes: Vec::new(),
            allocated: 0,
        }
    }

    /// Runs the commands of a page; `stand_in` replaces those that one machine cannot run.
    async fn follow(&mut self, path: &str, stand_in: impl AsyncFn(&mut Reader, &str)) {
        let page = Page::read(&root(), path).unwrap();
        let mut run = 0;
        for block in &page.blocks {
            match &block.mark {
                Some(Mark::StandIn { name, .. }) => stand_in(self, name).await,
                Some(_) => {}
                None => {
                    self.execute(path, block).await;
                    run += 1;
                }
            }
        }
        assert!(run > 0, "{path}: nothing is run");
        println!(
            "{path}: {run} of {} blocks of commands are run",
            page.blocks.len()
        );
    }

    async fn execute(&mut self, path: &str, block: &Block) {
        for step in block.steps().unwrap() {
            let place = format!("{path}:{}", block.line);
            let output = match self.shell.run(&step.command).await {
                Ok(output) => output,
                Err(error) => panic!("{place}: {error:#}\n{}", self.logs()),
            };
            if let Some(shown) = &step.output {
                assert!(
                    is_as_shown(shown, &output),
                    "{place}: {}\nThe page shows:\n{shown}\nIt printed:\n{output}\n{}",
                    step.command,
                    self.logs()
                );
            }
        }
    }

    fn logs(&self) -> String {
        let tails = self.processes.iter().map(Process::tail);
        tails.collect::<Vec<_>>().join("\n")
    }

    /// A kubelet under `--cloud-provider=external` registers its node; the server exists already.
    async fn register(&mut self, name: &str, more: Value, has_taint: bool) {
        let server = self.cloud.add_servers([ServerSpec::named(name)]).remove(0);
        self.cloud.attach(server, self.network, None).unwrap();
        let taints = match has_taint {
            true => json!([uninitialized()]),
            false => json!([]),
        };
        let node = json!({
            "metadata": {"name": name, "labels": more},
            "spec": {"taints": taints},
            "status": {
                "addresses": [{"type": "Hostname", "address": name}],
                "nodeInfo": {
                    "kubeletVersion": "v1.36.3", "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "containerd://2.2.0",
                    "kernelVersion": "6.12.0", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "linux",
                    "osImage": "Debian GNU/Linux 13 (trixie)", "systemUUID": "",
                },
                "conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}],
            },
        });
        let nodes: Api<Node> = Api::all(self.admin.clone());
        let node = serde_json::from_value(node).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
        if !runs_controller_manager() {
            let cidr = format!("10.244.{}.0/24", self.allocated);
            self.allocated += 1;
            let patch = Patch::Merge(json!({"spec": {"podCIDR": cidr, "podCIDRs": [cidr]}}));
            nodes
                .patch(name, &PatchParams::default(), &patch)
                .await
                .unwrap();
        }
    }

    /// The network plugin runs, so all kubelets report Ready.
    async fn all_ready(&self) {
        let nodes: Api<Node> = Api::all(self.admin.clone());
        for node in nodes.list(&Default::default()).await.unwrap() {
            let name = node.metadata.name.unwrap();
            let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady"});
            let patch = Patch::Strategic(json!({"status": {"conditions": [ready]}}));
            nodes
                .patch_status(&name, &PatchParams::default(), &patch)
                .await
                .unwrap();
        }
    }

    /// kube-controller-manager with the flags that kubeadm has just written for it; paths, and files that need
    /// kubeadm's keys, are this cluster's.
    async fn controller_manager(&mut self) {
        let file = self
            .folder
            .path()
            .join("wasm-ccm/dry-run/kube-controller-manager.yaml");
        let pod: Value = serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let words = pod["spec"]["containers"][0]["command"].as_array().unwrap();
        let words: Vec<&str> = words.iter().map(|word| word.as_str().unwrap()).collect();
        assert_eq!(words[0], "kube-controller-manager");
        let program = tokio::task::spawn_blocking(kubernetes::controller_manager)
            .await
            .unwrap()
            .unwrap();
        let mut command = Command::new(program.join(words[0]));
        let kubeconfig = self.api.kubeconfig("admin").unwrap();
        for word in &words[1..] {
            let (name, _) = word.split_once('=').unwrap();
            if name.ends_with("kubeconfig") {
                command.arg(format!("{name}={}", kubeconfig.display()));
            } else if !word.contains("/etc/kubernetes/")
                && name != "--use-service-account-credentials"
            {
                command.arg(word);
            }
        }
        command.arg("--secure-port=0");
        let log = self.folder.path().join("kube-controller-manager.log");
        self.processes.push(Process::spawn(command, &log).unwrap());
    }

    /// A pod of the DaemonSet: `ccm` with its arguments, variables and mounted files. The cloud's address and two ports
    /// are this machine's.
    async fn pod(&mut self) {
        let sets: Api<DaemonSet> = Api::namespaced(self.admin.clone(), "kube-system");
        let set = json!(sets.get("ccm").await.unwrap());
        let pod = &set["spec"]["template"]["spec"];
        assert_eq!(pod["hostNetwork"], true);
        let container = &pod["containers"][0];
        let mut files = Vec::new();
        for mount in container["volumeMounts"].as_array().unwrap() {
            let volumes = pod["volumes"].as_array().unwrap();
            let volume = volumes
                .iter()
                .find(|volume| volume["name"] == mount["name"])
                .unwrap();
            let here = self
                .folder
                .path()
                .join("pod")
                .join(mount["name"].as_str().unwrap());
            std::fs::create_dir_all(&here).unwrap();
            for (name, content) in self.content(volume).await {
                std::fs::write(here.join(name), content).unwrap();
            }
            files.push((mount["mountPath"].as_str().unwrap().to_owned(), here));
        }
        // Paths in the container, alone or as the value of a flag.
        let here = |text: &str| {
            let (flag, path) = text.split_once('=').unwrap_or(("", text));
            let mounted = files.iter().find_map(|(mount, here)| {
                let rest = Path::new(path).strip_prefix(mount).ok()?;
                Some(here.join(rest))
            });
            match mounted {
                Some(here) if flag.is_empty() => here.display().to_string(),
                Some(here) => format!("{flag}={}", here.display()),
                None => text.to_owned(),
            }
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), "kube-system");
        let account = pod["serviceAccountName"].as_str().unwrap();
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: vec!["https://kubernetes.default.svc".to_owned()],
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let token = accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await
            .unwrap();
        let kubeconfig = self
            .api
            .kubeconfig_with_token("pod", &token.status.unwrap().token)
            .unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccm"));
        command.env_clear();
        for argument in container["args"].as_array().unwrap() {
            command.arg(here(argument.as_str().unwrap()));
        }
        for variable in container["env"].as_array().unwrap() {
            command.env(
                variable["name"].as_str().unwrap(),
                here(variable["value"].as_str().unwrap()),
            );
        }
        command
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg("--secure-port=0")
            .env("HCLOUD_METRICS_ENABLED", "false")
            .env("HCLOUD_ENDPOINT", self.cloud.endpoint());
        self.processes
            .push(Process::spawn(command, &self.folder.path().join("ccm.log")).unwrap());
    }

    /// Writes a module and its bundle, both with this content.
    fn write_module(&self, name: &str, content: &str) {
        for end in ["", ".sigstore.json"] {
            let file = self.folder.path().join(format!("wasm-ccm/{name}{end}"));
            std::fs::write(file, content).unwrap();
        }
    }

    /// The content of the ConfigMap in which modules are delivered.
    async fn delivered(&self) -> BTreeMap<String, String> {
        let maps: Api<ConfigMap> = Api::namespaced(self.admin.clone(), "kube-system");
        maps.get("ccm-provider").await.unwrap().data.unwrap()
    }

    /// The files of a volume.
    async fn content(&self, volume: &Value) -> Vec<(String, Vec<u8>)> {
        if let Some(name) = volume["configMap"]["name"].as_str() {
            let maps: Api<ConfigMap> = Api::namespaced(self.admin.clone(), "kube-system");
            let data = maps.get(name).await.unwrap().data.unwrap_or_default();
            return data
                .into_iter()
                .map(|(name, text)| (name, text.into_bytes()))
                .collect();
        }
        if let Some(name) = volume["secret"]["secretName"].as_str() {
            let secrets: Api<Secret> = Api::namespaced(self.admin.clone(), "kube-system");
            let data = secrets.get(name).await.unwrap().data.unwrap_or_default();
            return data
                .into_iter()
                .map(|(name, bytes)| (name, bytes.0))
                .collect();
        }
        assert!(volume["emptyDir"].is_object(), "{volume}");
        Vec::new()
    }

    /// Ends the processes that stand in for the pods, as a deletion does.
    async fn end_pod(&mut self) {
        let mut ccm = self.processes.pop().unwrap();
        ccm.terminate().unwrap();
        let status = ccm.ended(Duration::from_secs(30)).await.unwrap();
        assert!(status.success(), "{}", ccm.tail());
    }
}

/// kube-controller-manager takes two minutes to build: only the full counts use it, and only if the API server's
/// version is the same.
fn runs_controller_manager() -> bool {
    let version = std::env::var("CCM_KUBERNETES").unwrap_or_default();
    depth().unwrap() == Depth::Full && matches!(version.as_str(), "" | "newest")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

#[tokio::test]
async fn the_tutorial_for_kubeadm_works_from_top_to_bottom() {
    let mut reader = Reader::start().await;
    let control_plane = json!({"node-role.kubernetes.io/control-plane": ""});
    reader
        .follow(
            "deploy/docs/tutorial-kubeadm.md",
            async |reader, name| match name {
                "control-plane" => {
                    if runs_controller_manager() {
                        reader.controller_manager().await;
                    }
                    reader
                        .register("control-1", control_plane.clone(), true)
                        .await;
                }
                "manager" => reader.pod().await,
                "network-plugin" => reader.all_ready().await,
                "worker" => {
                    reader.register("worker-1", json!({}), true).await;
                    reader.all_ready().await;
                }
                "worker-without-taint" => {
                    reader.register("worker-2", json!({}), false).await;
                    reader.all_ready().await;
                }
                "removed" => reader.end_pod().await,
                other => panic!("there is no stand-in {other}"),
            },
        )
        .await;
    // Nothing that costs money is left at the cloud.
    let left = reader.cloud.load_balancers();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn the_page_about_installing_works() {
    let mut reader = Reader::start().await;
    let none = async |_: &mut Reader, name: &str| panic!("there is no stand-in {name}");
    reader.follow("deploy/README.md", none).await;
}

/// For the first delivery only the module and its bundle exist.
#[tokio::test]
async fn the_command_that_delivers_modules_works_each_time() {
    let path = "deploy/docs/providers.md";
    let page = Page::read(&root(), path).unwrap();
    let is_later = |block: &&Block| matches!(&block.mark, Some(Mark::StandIn { name, .. }) if name == "later-version");
    let later = page.blocks.iter().find(is_later).unwrap();
    let mut reader = Reader::start().await;
    reader.write_module("provider.wasm", "the first");
    reader
        .follow(path, async |reader, name| {
            assert_eq!(name, "later-version");
            let first = reader.delivered().await;
            assert_eq!(first.len(), 2, "{first:?}");
            assert!(
                first.values().all(|stored| stored == "the first"),
                "{first:?}"
            );
            for (before, new) in [("the first", "the second"), ("the second", "the third")] {
                reader.write_module("before.wasm", before);
                reader.write_module("provider.wasm", new);
                reader.execute(path, later).await;
                let data = reader.delivered().await;
                assert_eq!(data.len(), 4, "{data:?}");
                for (key, stored) in &data {
                    let expected = if key.starts_with("before") {
                        before
                    } else {
                        new
                    };
                    assert_eq!(stored, expected, "{key}");
                }
            }
        })
        .await;
}
