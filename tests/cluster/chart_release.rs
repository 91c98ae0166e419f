//! A release of the chart from its installation to its end, by helm itself on a real API server, with `ccm` started
//! from the workload in the cluster: nodes, Services and the cloud notice nothing of the upgrade, the roll-back and the
//! end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ccm_sim::hetzner::ServerSpec;
use ccm_tests::apiserver::{ApiServer, AuditEntry};
use ccm_tests::helm::Helm;
use ccm_tests::process::Process;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::chart::chart;
use crate::chart_of_hcloud::{NAME, cases};
use crate::services::{Services, load_balancer};
use crate::world::{Setup, World, until};

/// A release in kube-system.
pub(crate) struct Release {
    helm: Helm,
}

impl Release {
    /// A world whose rights come from an installation of the chart, and from nowhere else.
    pub(crate) async fn install(values: &Value) -> (World, Release) {
        let setup = Setup {
            // An API server that does not stream lists: listing needs one verb more.
            server_flags: vec!["--feature-gates=WatchList=false".to_owned()],
            only_role: Some("nothing of the base"),
            ..Setup::default()
        };
        let mut world = World::start(setup).await;
        // The rights on Provider objects come from the base everywhere, and equal the chart's.
        assert!(world.rights.len() <= 2);
        let helm = Helm::with_cluster(world.api.kubeconfig("admin").unwrap()).unwrap();
        let release = Release { helm };
        // The account is there already, because the world has a token of it.
        release.run(&["install", "--take-ownership"], values);
        let file = release.file(values);
        let more = ["--values", file.to_str().unwrap()];
        world.rights = release.helm.template(&chart(), &more).unwrap();
        (world, release)
    }

    fn file(&self, values: &Value) -> PathBuf {
        self.helm.values("values.json", values).unwrap()
    }

    /// A command that takes the chart; returns what helm tells the user.
    fn run(&self, command: &[&str], values: &Value) -> String {
        self.run_in("kube-system", command, values)
    }

    /// The same about a release in this namespace.
    fn run_in(&self, namespace: &str, command: &[&str], values: &Value) -> String {
        let (chart, file) = (chart(), self.file(values));
        let mut all = command.to_vec();
        all.extend(["ccm", chart.to_str().unwrap(), "--namespace", namespace]);
        all.extend(["--values", file.to_str().unwrap()]);
        self.helm.run(&all).unwrap()
    }

    /// A command about the release that takes no chart.
    fn order(&self, command: &[&str]) {
        let all = [command, &["--namespace", "kube-system"]].concat();
        self.helm.run(&all).unwrap();
    }
}

/// Starts `ccm` as the Deployment in the cluster describes it, with the folders of this machine in place of the pod's.
async fn start(world: &World) -> (Process, Vec<String>) {
    let admin = world.api.client_for("admin").await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(admin, "kube-system");
    let deployment = deployments.get("ccm").await.unwrap();
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let container = &pod.containers[0];
    let compiled = world.file(".here", "").with_file_name("compiled");
    let arguments = container.args.clone().unwrap().into_iter();
    let arguments = arguments.map(|one| one.replace("/var/cache/ccm", compiled.to_str().unwrap()));
    let arguments: Vec<String> = arguments.collect();
    let endpoint = world.endpoint();
    let mut variables = vec![("HCLOUD_ENDPOINT", endpoint.as_str())];
    for variable in container.env.iter().flatten() {
        let from = variable.value_from.as_ref();
        let key = from.map(|from| from.secret_key_ref.as_ref().unwrap());
        match (&variable.value, key) {
            (Some(value), None) => variables.push((&variable.name, value)),
            // Of the keys of the Secret, only the token is there.
            (None, Some(key)) if key.key == "token" => {
                variables.push((&variable.name, world.token()))
            }
            (None, Some(key)) => assert_eq!(key.optional, Some(true), "{}", variable.name),
            other => panic!("{}: {other:?}", variable.name),
        }
    }
    (world.spawn(&arguments, &variables), arguments)
}

/// The identity in the Lease's `holderIdentity`.
async fn holder(world: &World) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(world.nodes.clone().into_client(), "kube-system");
    let lease = leases.get_opt("cloud-controller-manager").await.unwrap()?;
    lease
        .spec?
        .holder_identity
        .filter(|holder| !holder.is_empty())
}

/// The resource version of every node and Service.
async fn versions(world: &World, services: &Services<'_>) -> BTreeMap<String, String> {
    let nodes = world.nodes.list(&Default::default()).await.unwrap();
    let services = services.api.list(&Default::default()).await.unwrap();
    let nodes = nodes.items.into_iter().map(|one| one.metadata);
    let all = nodes.chain(services.items.into_iter().map(|one| one.metadata));
    all.map(|one| (one.name.unwrap(), one.resource_version.unwrap()))
        .collect()
}

/// Writes to nodes and Services, by any client.
fn writes(world: &World, since: usize) -> Vec<AuditEntry> {
    let log = world.api.audit_log().unwrap().into_iter().skip(since);
    let is_about = |entry: &AuditEntry| ["nodes", "services"].contains(&entry.resource.as_str());
    let is_write = |entry: &AuditEntry| !["get", "list", "watch"].contains(&entry.verb.as_str());
    log.filter(|entry| is_about(entry) && is_write(entry))
        .collect()
}

/// The next pod comes up beside the old one, which then goes; returns once it leads and has looked at nodes and load
/// balancers.
async fn replace(world: &World, old: Process) -> (Process, Vec<String>) {
    let before = holder(world).await;
    let (mut new, arguments) = start(world).await;
    world.stop(old).await;
    world.cloud.clear_requests();
    until(&mut new, "the next leader", async || {
        holder(world)
            .await
            .filter(|now| Some(now) != before.as_ref())
    })
    .await;
    until(&mut new, "a look at the load balancers", async || {
        let requests = world.cloud.requests();
        let mut paths = requests.iter().map(|one| &one.path);
        paths
            .any(|path| path.starts_with("/load_balancers"))
            .then_some(())
    })
    .await;
    (new, arguments)
}

fn values(image: &str, verbosity: u32) -> Value {
    json!({
        "args": {"v": verbosity},
        "env": {"HCLOUD_LOAD_BALANCERS_LOCATION": {"value": "fsn1"}},
        "image": {"tag": image},
        // Its port would be the same for all tests on this machine.
        "monitoring": {"enabled": false, "podMonitor": {"enabled": true, "secure": true}},
    })
}

#[tokio::test]
async fn an_upgrade_and_the_way_back_and_the_end_leave_nodes_services_and_the_cloud_alone() {
    let (world, release) = Release::install(&values("0.2.0", 4)).await;
    world.cloud.add_server(ServerSpec::named("worker-1"));
    world.add_node("worker-1", json!({})).await;
    let (mut ccm, first) = start(&world).await;
    world.initialised(&mut ccm, "worker-1").await;
    let services = Services::of(&world).await;
    services.create("web", load_balancer(&[80])).await;
    services.has_address(&mut ccm, "web").await;
    services.event(&mut ccm, "web", "EnsuredLoadBalancer").await;

    let before = versions(&world, &services).await;
    assert_eq!(before.len(), 3, "with the Service `kubernetes`: {before:?}");
    let log = world.api.audit_log().unwrap().len();
    let reported = release.run(&["upgrade"], &values("0.2.1", 5));
    for part in [
        "kubectl -n kube-system rollout status deployment/ccm",
        "kubectl -n kube-system exec deployment/ccm -- /ccm status",
        "set hostNetwork=true",
        "WARNING: no PodMonitor was made",
    ] {
        assert!(reported.contains(part), "{part}: {reported}");
    }
    let (ccm, upgraded) = replace(&world, ccm).await;
    assert!(upgraded.contains(&"--v=5".to_owned()), "{upgraded:?}");
    let requests = world.cloud.requests();
    release.order(&["rollback", "ccm", "1"]);
    let (mut ccm, back) = replace(&world, ccm).await;
    assert_eq!(back, first);
    let requests = [requests, world.cloud.requests()].concat();
    assert_eq!(versions(&world, &services).await, before);
    let written = writes(&world, log);
    assert!(written.is_empty(), "{written:#?}");
    let changes: Vec<_> = requests
        .iter()
        .filter(|one| one.method != http::Method::GET)
        .collect();
    assert!(!requests.is_empty() && changes.is_empty(), "{changes:?}");

    // The new version works: a new node is initialised.
    world.cloud.add_server(ServerSpec::named("worker-2"));
    world.add_node("worker-2", json!({})).await;
    world.initialised(&mut ccm, "worker-2").await;
    world.stop(ccm).await;

    let (before, log) = (
        versions(&world, &services).await,
        world.api.audit_log().unwrap().len(),
    );
    release.order(&["uninstall", "ccm"]);
    assert_eq!(versions(&world, &services).await, before);
    assert!(writes(&world, log).is_empty());
    let admin = world.api.client_for("admin").await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "kube-system");
    assert!(accounts.get_opt("ccm").await.unwrap().is_none());
    let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
    let kept = definitions.get("providers.wasm-ccm.dev").await.unwrap();
    assert_eq!(kept.spec.names.kind, "Provider");
    let nodes: Api<Node> = Api::all(admin);
    assert_eq!(
        nodes.list(&Default::default()).await.unwrap().items.len(),
        2
    );

    // A release of the same name finds the definition that was kept, and one in another namespace can take it over.
    release.run(&["install"], &values("0.2.0", 4));
    release.order(&["uninstall", "ccm"]);
    let install = ["install", "--create-namespace", "--take-ownership"];
    release.run_in("elsewhere", &install, &values("0.2.0", 4));
    let taken = definitions.get("providers.wasm-ccm.dev").await.unwrap();
    assert_eq!(taken.metadata.uid, kept.metadata.uid);
    let annotations = taken.metadata.annotations.unwrap();
    assert_eq!(annotations["meta.helm.sh/release-namespace"], "elsewhere");
}

#[tokio::test]
async fn an_account_that_another_component_made_stays_its_own() {
    let setup = Setup {
        only_role: Some("nothing of the base"),
        ..Setup::default()
    };
    let world = World::start(setup).await;
    let admin = world.api.client_for("admin").await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(admin, "kube-system");
    // The ServiceAccount as kube-controller-manager makes it.
    let mut account = ServiceAccount::default();
    account.metadata.name = Some("node-controller".to_owned());
    let made = accounts
        .create(&Default::default(), &account)
        .await
        .unwrap();
    let helm = Helm::with_cluster(world.api.kubeconfig("admin").unwrap()).unwrap();
    let release = Release { helm };
    let values = json!({
        "nameOverride": "other", "args": {"use-service-account-credentials": true},
    });
    release.run(&["install"], &values);
    release.run(&["upgrade"], &values);
    let is = accounts.get("node-controller").await.unwrap();
    assert_eq!(is.metadata.resource_version, made.metadata.resource_version);
    let own = accounts.get("service-controller").await.unwrap();
    release.order(&["uninstall", "ccm"]);
    // Tokens of the ServiceAccount may be in use elsewhere by now.
    let kept = accounts.get("service-controller").await.unwrap();
    assert_eq!(kept.metadata.uid, own.metadata.uid);
    // They stay as they are for a release that comes in another namespace.
    let mut values = values;
    values["crd"] = json!({"create": false});
    release.run_in("elsewhere", &["install", "--create-namespace"], &values);
    let left = accounts.get("service-controller").await.unwrap();
    assert_eq!(
        left.metadata.resource_version,
        kept.metadata.resource_version
    );
}

/// The patches are in `deploy/chart/README.md`.
#[tokio::test]
async fn a_release_goes_on_without_an_election_and_with_one_again_after_the_documented_patches() {
    let server = ApiServer::start().await.unwrap();
    let admin = server.client_for("admin").await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(admin, "kube-system");
    let helm = Helm::with_cluster(server.kubeconfig("admin").unwrap()).unwrap();
    let release = Release { helm };
    let page = std::fs::read_to_string(chart().join("README.md")).unwrap();
    let patches: Vec<Value> = page
        .split("patch deployment ccm -p '")
        .skip(1)
        .map(|patch| serde_json::from_str(patch.split('\'').next().unwrap()).unwrap())
        .collect();
    let rolling =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    let expected = [json!({"type": "Recreate"}), rolling];
    release.run(&["install"], &json!({}));
    // In the pod's network, the chart leaves the strategy to the API server's defaults; in the node's, it sets one.
    for host_network in [false, true] {
        assert_eq!(patches.len(), expected.len());
        for (patch, (has_election, expected)) in
            patches.iter().zip([false, true].iter().zip(&expected))
        {
            let params = PatchParams::default();
            let patch = Patch::Strategic(patch);
            deployments.patch("ccm", &params, &patch).await.unwrap();
            let values =
                json!({"args": {"leader-elect": has_election}, "hostNetwork": host_network});
            release.run(&["upgrade"], &values);
            let upgraded = deployments.get("ccm").await.unwrap().spec.unwrap();
            assert_eq!(json!(upgraded.strategy), *expected, "{values}");
        }
    }
}

/// Hetzner's chart from the folder that CCM_HCLOUD_CHART names; without it, a chart that renders the recorded output.
fn hetzners(folder: &Path) -> PathBuf {
    if let Some(theirs) = std::env::var_os("CCM_HCLOUD_CHART") {
        return PathBuf::from(theirs);
    }
    let theirs = cases()[0]["theirs"].take();
    let file = |name: &str, content: &Value| {
        std::fs::write(folder.join(name), content.to_string()).unwrap();
    };
    std::fs::create_dir(folder.join("templates")).unwrap();
    file(
        "Chart.yaml",
        &json!({"apiVersion": "v2", "name": NAME, "version": "1.35.0"}),
    );
    let metadata = json!({"name": NAME, "namespace": "kube-system"});
    file(
        "templates/account.yaml",
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
    );
    let container = json!({
        "name": NAME, "image": theirs["image"], "args": theirs["arguments"], "env": theirs["env"], "ports": theirs["ports"],
    });
    let template = json!({
        "metadata": {"labels": theirs["labels"]},
        "spec": {"serviceAccountName": NAME, "tolerations": theirs["tolerations"], "containers": [container]},
    });
    let spec = json!({"replicas": theirs["replicas"], "selector": theirs["selector"], "template": template});
    let deployment =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec});
    file("templates/deployment.yaml", &deployment);
    folder.to_owned()
}

#[tokio::test]
async fn a_release_of_hetzners_chart_is_upgraded_in_place_and_brought_back() {
    let server = ApiServer::start().await.unwrap();
    let helm = Helm::with_cluster(server.kubeconfig("admin").unwrap()).unwrap();
    let folder = TempDir::new().unwrap();
    let (theirs, ours) = (hetzners(folder.path()), chart());
    let deployments: Api<Deployment> =
        Api::namespaced(server.client_for("admin").await.unwrap(), "kube-system");
    // As `kubectl scale` does, so that the pods of one have ended before those of the other begin.
    let stop = async || {
        let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
        let params = PatchParams::default();
        let scaled = deployments.patch_scale(NAME, &params, &none).await;
        scaled.unwrap();
    };
    let now = async || {
        let deployment = deployments.get(NAME).await.unwrap();
        let spec = deployment.spec.unwrap();
        assert_eq!(spec.replicas, Some(1));
        let pod = spec.template.spec.unwrap();
        let container = pod.containers.into_iter().next().unwrap();
        (
            deployment.metadata.uid,
            container.args.unwrap(),
            container.ports,
        )
    };
    // The record is of a release named `ccm`, whose name is among the selecting labels.
    let place = ["--namespace", "kube-system"];
    let install = [&["install", "ccm", theirs.to_str().unwrap()], &place[..]].concat();
    helm.run(&install).unwrap();
    let (uid, arguments, ports) = now().await;
    assert_eq!(arguments.last().unwrap(), "--leader-elect=false");

    let name = format!("nameOverride={NAME}");
    let upgrade = ["upgrade", "ccm", ours.to_str().unwrap(), "--set", &name];
    stop().await;
    helm.run(&[&upgrade, &place[..]].concat()).unwrap();
    let upgraded = now().await;
    assert_eq!(upgraded.0, uid);
    assert_eq!(upgraded.1[0], "run");
    assert!(!upgraded.1.contains(&"--leader-elect=false".to_owned()));

    stop().await;
    helm.run(&[&["rollback", "ccm", "1"], &place[..]].concat())
        .unwrap();
    assert_eq!(now().await, (uid, arguments, ports));
}
