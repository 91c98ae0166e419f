//! `ccm` in place of Go's managers: their own manifests, applied to a real API server with only the image changed, and
//! the resulting containers, started. Each leads, does its work with exactly the rights that its file grants, and ends
//! in order.
//!
//! One variable is added, the endpoint of the simulated cloud. Ports are the managers' defaults, so each test has a
//! network and processes of its own.

use std::collections::BTreeSet;
use std::future::Future;
use std::process::Command;

use ccm_fixtures::kubernetes::service;
use ccm_sim::hetzner::Options;
use ccm_tests::apiserver::AuditEntry;
use ccm_tests::controllers::create;
use ccm_tests::log::severity;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::container::{Kubelet, Running, log_of};
use crate::deploy::apply;
use crate::go_managers::{
    CHART, CHART_OF_A_DAEMON_SET, HCLOUD, MANIFEST, MANIFEST_WITH_NETWORKS, documented,
};
use crate::pod_network::{DOCUMENTED_CIDR, Network, names};
use crate::services::Services;
use crate::world::{Setup, World, until};

/// Variable that marks a process as running in its namespaces already.
const INSIDE: &str = "CCM_INSIDE_NAMESPACES";

/// The network of hcloud's files.
const CLUSTER_CIDR: &str = "10.244.0.0/16";

/// A token of the vendor's length: `ccm` warns about others.
const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The prefix of the users that are ServiceAccounts.
const ACCOUNTS: &str = "system:serviceaccount:kube-system:";

/// The port of the managers' probes.
const SECURE_PORT: u16 = 10258;

/// Runs the test of this name in a network and among processes of its own, of which none outlives it.
fn apart(name: &str, test: impl Future<Output = ()>) {
    apart_in("drop_in", name, test);
}

/// The same for a test of this module.
pub(crate) fn apart_in(module: &str, name: &str, test: impl Future<Output = ()>) {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build();
        return runtime.unwrap().block_on(test);
    }
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    let name = format!("{module}::{name}");
    let output = command
        .args([
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ])
        .args(["sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "yes")
        .output()
        .expect("unshare, of util-linux, makes the namespaces");
    let (reported, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success() && reported.contains("1 passed"),
        "{}: {reported}\n{errors}",
        output.status
    );
    println!("{reported}");
}

/// A cluster in which a manager is deployed, and its container.
pub(crate) struct Deployment {
    pub(crate) world: World,
    network: Network,
    pod: Pod,
    pub(crate) running: Running,
}

/// A cluster of two nodes that wait for their manager, with this network at the cloud and with all objects that the
/// guides require.
pub(crate) async fn cluster(network: fn(&World) -> Network) -> (World, Network) {
    let mut cloud = Options::new(TOKEN);
    cloud.rate_limit = None;
    let world = World::start(Setup {
        cloud,
        pods_have_accounts: true,
        // Only the rights that the files bring.
        only_role: Some("none"),
        ..Setup::default()
    })
    .await;
    let network = network(&world);
    let nodes = [names("control-plane", 1), names("worker", 1)].concat();
    network.populate(&world, &nodes).await;
    let admin = world.api.client_for("admin").await.unwrap();
    for object in [
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "hcloud", "namespace": "kube-system"},
            "stringData": {"token": TOKEN, "network": "cluster"},
        }),
        // kube-controller-manager publishes this ConfigMap in every namespace.
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "kube-root-ca.crt", "namespace": "kube-system"},
            "data": {"ca.crt": world.api.ca_pem().unwrap()},
        }),
    ] {
        apply(&admin, &object).await.unwrap();
    }
    (world, network)
}

/// Applies these objects, with our image, and starts their pod on the first node.
pub(crate) async fn start(objects: Vec<Value>, (world, network): (World, Network)) -> Deployment {
    let admin = world.api.client_for("admin").await.unwrap();
    let mut workload = None;
    for mut object in objects {
        if let Some(image) = object.pointer_mut("/spec/template/spec/containers/0/image") {
            *image = json!("wasm-ccm.dev/ccm:0.2.0");
        }
        let applied = apply(&admin, &object).await.unwrap();
        if object["spec"]["template"].is_object() {
            workload = Some(applied);
        }
    }
    let workload = workload.expect("there is a Deployment or a DaemonSet");
    let pod = create_pod(&admin, &workload, &world).await;
    let port = world.api.url().rsplit(':').next().unwrap().parse().unwrap();
    let kubelet = Kubelet {
        client: admin,
        port,
        entry_point: "/ccm",
    };
    let running = kubelet.start(&pod).await;
    Deployment {
        world,
        network,
        pod,
        running,
    }
}

/// The pod that a controller makes of a template, on the node that a scheduler chooses, as the API server returns it.
async fn create_pod(admin: &Client, workload: &DynamicObject, world: &World) -> Pod {
    let template = &workload.data["spec"]["template"];
    let mut pod = json!({"metadata": template["metadata"], "spec": template["spec"]});
    pod["metadata"]["generateName"] = json!("manager-");
    pod["spec"]["nodeName"] = json!("control-plane-1");
    let variables = &mut pod["spec"]["containers"][0]["env"];
    let endpoint = json!({"name": "HCLOUD_ENDPOINT", "value": world.endpoint()});
    variables.as_array_mut().unwrap().push(endpoint);
    let pods: Api<Pod> = Api::namespaced(admin.clone(), "kube-system");
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap()
}

impl Deployment {
    /// Waits until the nodes are initialised and, if the pods have a network, have routes to their pods.
    pub(crate) async fn works(&mut self, cidr: Option<&str>) {
        let (world, process) = (&self.world, &mut self.running.process);
        match cidr {
            None => {
                world.all_initialised(process, 2).await;
            }
            Some(cidr) => {
                let nodes = self.network.all_routed(world, process, 2).await;
                self.network.assert_whole(world, &nodes, cidr);
            }
        }
        let services = Services::of(world).await;
        let service = service("web").annotation("load-balancer.hetzner.cloud/location", "fsn1");
        create(&services.api, service.port(80)).await;
        services.has_address(process, "web").await;
        services.event(process, "web", "EnsuredLoadBalancer").await;
    }

    /// The ports that the pod names answer, and so does the port of probes and scrapes.
    async fn answers(&mut self) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .tls_danger_accept_invalid_certs(true)
            .build()
            .unwrap();
        let container = &self.pod.spec.as_ref().unwrap().containers[0];
        let ports = container.ports.iter().flatten();
        let metrics = ports.map(|port| {
            (
                format!("http://127.0.0.1:{}/metrics", port.container_port),
                "hcloud_api_requests_total",
            )
        });
        let health = ["healthz", "livez", "readyz"];
        let health = health.map(|path| (format!("https://127.0.0.1:{SECURE_PORT}/{path}"), "ok"));
        for (url, holds) in metrics.chain(health) {
            until(&mut self.running.process, &url, async || {
                let answer = client.get(&url).send().await.ok()?;
                let text = answer.error_for_status().ok()?.text().await.ok()?;
                text.contains(holds).then_some(())
            })
            .await;
        }
    }

    async fn lease_holder(&self) -> Option<String> {
        let admin = self.world.api.client_for("admin").await.unwrap();
        let leases: Api<Lease> = Api::namespaced(admin, "kube-system");
        let lease = leases.get_opt("cloud-controller-manager").await.unwrap()?;
        lease
            .spec?
            .holder_identity
            .filter(|holder| !holder.is_empty())
    }

    /// The requests of all ServiceAccounts.
    pub(crate) fn asked(&self) -> Vec<AuditEntry> {
        let mut log = self.world.api.audit_log().unwrap();
        log.retain(|entry| entry.user.starts_with(ACCOUNTS));
        log
    }

    /// The ServiceAccounts that have made requests.
    fn accounts(&self) -> BTreeSet<String> {
        let asked = self.asked().into_iter();
        asked
            .map(|entry| entry.user.replace(ACCOUNTS, ""))
            .collect()
    }

    /// Ends the container in order: none of its requests was refused, and it logged no warning.
    async fn ends(self) {
        let (failures, log) = self.stop().await;
        assert!(failures.is_empty(), "{failures:#?}\n{log}");
    }

    /// Ends the container in order: none of its requests was refused. Returns the lines at WARN and ERROR, and the
    /// whole log.
    pub(crate) async fn stop(self) -> (Vec<String>, String) {
        let mut refused = self.asked();
        refused.retain(|entry| entry.code == 403);
        // No Go manager's role grants the kind `Provider`, in which ours writes its status. It asks once.
        let shown = refused.extract_if(.., |entry| entry.resource == "providers");
        assert!(shown.count() <= 1);
        assert_eq!(refused, []);
        let (code, log) = self.running.stop().await;
        assert_eq!(code, Some(0), "{log}");
        let failures = log.lines().filter(|line| severity(line) != Some('I'));
        (failures.map(str::to_owned).collect(), log)
    }
}

#[test]
fn the_documentations_daemon_set_works_with_another_image() {
    apart(
        "the_documentations_daemon_set_works_with_another_image",
        async {
            let mut deployment = start(documented(), cluster(Network::documented).await).await;
            deployment.works(Some(DOCUMENTED_CIDR)).await;
            deployment.answers().await;
            assert!(deployment.lease_holder().await.is_some());
            let accounts = [
                "cloud-controller-manager",
                "node-controller",
                "route-controller",
                "service-controller",
            ];
            assert_eq!(deployment.accounts(), accounts.map(str::to_owned).into());
            deployment.ends().await;
        },
    );
}

#[test]
fn hclouds_manifest_works_with_another_image() {
    apart("hclouds_manifest_works_with_another_image", async {
        let mut deployment = start(MANIFEST.objects(), cluster(Network::add).await).await;
        deployment.works(None).await;
        deployment.answers().await;
        assert_eq!(deployment.lease_holder().await, None);
        deployment.ends().await;
    });
}

#[test]
fn hclouds_manifest_with_networks_works_with_another_image() {
    apart(
        "hclouds_manifest_with_networks_works_with_another_image",
        async {
            let objects = MANIFEST_WITH_NETWORKS.objects();
            let mut deployment = start(objects, cluster(Network::add).await).await;
            deployment.works(Some(CLUSTER_CIDR)).await;
            deployment.answers().await;
            assert_eq!(deployment.lease_holder().await, None);
            deployment.ends().await;
        },
    );
}

#[test]
fn hclouds_chart_works_with_another_image() {
    apart("hclouds_chart_works_with_another_image", async {
        let mut deployment = start(CHART.objects(), cluster(Network::add).await).await;
        deployment.works(None).await;
        deployment.answers().await;
        assert_eq!(deployment.lease_holder().await, None);
        deployment.ends().await;
    });
}

#[test]
fn hclouds_chart_of_a_daemon_set_works_with_another_image() {
    apart(
        "hclouds_chart_of_a_daemon_set_works_with_another_image",
        async {
            let objects = CHART_OF_A_DAEMON_SET.objects();
            let mut deployment = start(objects, cluster(Network::add).await).await;
            deployment.works(Some(CLUSTER_CIDR)).await;
            deployment.answers().await;
            assert!(deployment.lease_holder().await.is_some());
            deployment.ends().await;
        },
    );
}

/// SIGTERM does nothing to the first process of a container until the process handles it.
#[test]
fn proc_055_a_manager_that_still_loads_its_provider_ends_in_order() {
    apart(
        "proc_055_a_manager_that_still_loads_its_provider_ends_in_order",
        async {
            let mut deployment =
                start(CHART_OF_A_DAEMON_SET.objects(), cluster(Network::add).await).await;
            // The next step of the process is to compile the module.
            let running = &mut deployment.running;
            until(&mut running.process, "its start", async || {
                log_of(&running.folder)
                    .contains("\"starting\"")
                    .then_some(())
            })
            .await;
            let (code, log) = deployment.running.stop().await;
            let audit = deployment.world.api.audit_log().unwrap();
            let own = audit
                .iter()
                .filter(|entry| entry.user == format!("{ACCOUNTS}{HCLOUD}"));
            let mut leases = own.filter(|entry| entry.resource == "leases");
            assert_eq!(leases.next(), None, "{log}");
            assert_eq!(code, Some(0), "{log}");
            assert!(log.contains("stopped before the controllers ran"), "{log}");
        },
    );
}
