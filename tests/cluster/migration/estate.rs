//! The cluster and the cloud before any manager runs: servers, networks and certificates, nodes as their kubelets
//! register them, and Services. Asserts nothing.

use std::collections::{BTreeMap, BTreeSet};

use ccm_sim::hetzner::ServerSpec;
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::kubelet::uninitialized;
use crate::pod_network::Network;
use crate::world::World;

/// The prefix of the annotations of load balancers.
const PREFIX: &str = "load-balancer.hetzner.cloud/";

/// The two ways in which clusters are set up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Variant {
    /// A private network with routes to the pods, as in the manifest `ccm-networks.yaml` of the Go manager.
    Network,
    /// Public addresses alone, as in its `ccm.yaml`.
    Public,
}

impl Variant {
    pub(super) fn name(self) -> &'static str {
        match self {
            Variant::Network => "network",
            Variant::Public => "public",
        }
    }

    /// The arguments of the Go manager's own manifest.
    pub(super) fn arguments(self) -> &'static [&'static str] {
        match self {
            Variant::Network => &[
                "--allow-untagged-cloud",
                "--cloud-provider=hcloud",
                "--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=true",
                "--route-reconciliation-period=30s",
                "--webhook-secure-port=0",
                "--allocate-node-cidrs=true",
                "--cluster-cidr=10.244.0.0/16",
                "--leader-elect=false",
            ],
            Variant::Public => &[
                "--allow-untagged-cloud",
                "--cloud-provider=hcloud",
                "--route-reconciliation-period=30s",
                "--webhook-secure-port=0",
                "--leader-elect=false",
            ],
        }
    }

    /// What of all this means something else to this manager: flags, and imports of load balancers.
    pub(super) fn differences(self) -> BTreeSet<&'static str> {
        let mut all = BTreeSet::from([
            "--leader-elect=false",
            "service/default/imported",
            "service/default/named",
        ]);
        if self == Variant::Network {
            all.insert("--allocate-node-cidrs");
        }
        all
    }

    /// The variables of the Go manager's own manifest, apart from token and endpoint.
    pub(super) fn variables(self) -> Vec<(&'static str, &'static str)> {
        let mut variables = vec![
            ("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1"),
            // Many managers run side by side on this machine.
            ("HCLOUD_METRICS_ENABLED", "false"),
        ];
        if self == Variant::Network {
            variables.push(("HCLOUD_NETWORK", "cluster"));
            // There is no metadata service.
            variables.push(("HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK", "true"));
        }
        variables
    }

    /// Name, annotations and changes of the spec of each Service of type LoadBalancer.
    fn services(self) -> Vec<(&'static str, Value, Value)> {
        let mut services = vec![
            ("web", json!({}), json!({})),
            (
                "proxy",
                json!({
                    "uses-proxyprotocol": "true", "algorithm-type": "least_connections", "type": "lb21",
                    "health-check-protocol": "http", "health-check-http-path": "/health",
                    "health-check-http-domain": "example.com", "http-status-codes": "200,3xx",
                    "health-check-interval": "7s", "health-check-timeout": "5s", "health-check-retries": "2",
                }),
                json!({}),
            ),
            (
                "https",
                json!({
                    "protocol": "https", "http-certificates": "shop,blog", "http-redirect-http": "true",
                    "http-sticky-sessions": "true", "http-cookie-name": "seat", "http-cookie-lifetime": "10m",
                }),
                json!({"ports": [{"name": "https", "port": 443, "nodePort": 30_021}]}),
            ),
            (
                "named",
                json!({
                    "name": "front-door", "hostname": "door.example.com", "ipv6-disabled": "true",
                    "ipv4-rdns": "door.example.com", "location": "nbg1",
                }),
                json!({}),
            ),
            (
                "local",
                json!({"health-check-port": "32002", "network-zone": "eu-central", "location": ""}),
                json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32_001}),
            ),
            (
                "nearby",
                json!({}),
                json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32_003}),
            ),
            ("imported", json!({"name": "made-by-hand"}), json!({})),
            (
                "some",
                json!({"node-selector": "role=edge", "protocol": "http"}),
                json!({}),
            ),
        ];
        if self == Variant::Network {
            services.extend([
                ("private", json!({"use-private-ip": "true"}), json!({})),
                (
                    "internal",
                    json!({
                        "use-private-ip": "true", "disable-public-network": "true",
                        "private-subnet-ip-range": "10.1.0.0/16", "private-ipv4": "10.1.200.1",
                    }),
                    json!({}),
                ),
                (
                    "outward",
                    json!({"disable-private-ingress": "true"}),
                    json!({}),
                ),
            ]);
        }
        services
    }
}

/// Sets all of it up.
pub(super) async fn prepare(world: &World, variant: Variant) {
    certificates(world).await;
    let network = (variant == Variant::Network).then(|| Network::add(world));
    let by_hand = json!({"name": "made-by-hand", "load_balancer_type": "lb11", "location": "fsn1"});
    world
        .ask_cloud("POST", "/load_balancers", Some(&by_hand))
        .await;
    for (index, name) in ["control-1", "worker-1", "worker-2"]
        .into_iter()
        .enumerate()
    {
        let server = world.cloud.add_server(ServerSpec::named(name));
        if let Some(network) = network {
            network.attach(world, server);
        }
        let cidr = network.map(|_| format!("10.244.{index}.0/24"));
        register(world, name, cidr.as_deref()).await;
    }
    // A machine that is no server of the cloud, whose node was initialised before.
    let cidr = network.map(|_| "10.244.8.0/24");
    let node = json!({
        "metadata": {
            "name": "bare-1",
            "labels": {"node.kubernetes.io/exclude-from-external-load-balancers": ""},
        },
        "spec": {"providerID": "metal://bare-1", "podCIDR": cidr},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "192.0.2.7"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    let node = serde_json::from_value(node).unwrap();
    world
        .nodes
        .create(&PostParams::default(), &node)
        .await
        .unwrap();
    for (index, (name, annotations, more)) in variant.services().into_iter().enumerate() {
        create(world, index, name, annotations, more).await;
    }
    let services = services(world).await;
    let class = "example.com/other";
    let node_port = json!([{"port": 80, "nodePort": 30_099}]);
    for (name, spec) in [
        (
            "inside",
            json!({"type": "ClusterIP", "ports": [{"port": 80}]}),
        ),
        (
            "elsewhere",
            json!({"type": "LoadBalancer", "loadBalancerClass": class, "ports": node_port}),
        ),
    ] {
        let service = json!({"metadata": {"name": name}, "spec": spec});
        let service = serde_json::from_value(service).unwrap();
        services
            .create(&PostParams::default(), &service)
            .await
            .unwrap();
    }
}

/// A kubelet registers its node, which has this pod CIDR from kube-controller-manager.
pub(super) async fn register(world: &World, name: &str, pod_cidr: Option<&str>) {
    let mut spec = json!({"taints": [uninitialized()]});
    if let Some(cidr) = pod_cidr {
        spec["podCIDR"] = json!(cidr);
        spec["podCIDRs"] = json!([cidr]);
    }
    let role = if name == "worker-1" { "edge" } else { "core" };
    let node = json!({
        "metadata": {"name": name, "labels": {"role": role, "kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {
            "addresses": [{"type": "Hostname", "address": name}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    });
    let node = serde_json::from_value(node).unwrap();
    world
        .nodes
        .create(&PostParams::default(), &node)
        .await
        .unwrap();
}

/// Creates a Service of type LoadBalancer with ports of its own.
pub(super) async fn create(
    world: &World,
    index: usize,
    name: &str,
    annotations: Value,
    more: Value,
) {
    let annotations = annotations.as_object().unwrap().iter();
    let annotations: BTreeMap<String, Value> = annotations
        .map(|(key, value)| (format!("{PREFIX}{key}"), value.clone()))
        .collect();
    let mut spec = json!({
        "type": "LoadBalancer",
        "ports": [
            {"name": "first", "port": 80, "nodePort": 30_100 + 2 * index},
            {"name": "second", "port": 8443, "nodePort": 30_101 + 2 * index},
        ],
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let service = json!({"metadata": {"name": name, "annotations": annotations}, "spec": spec});
    let service: Service = serde_json::from_value(service).unwrap();
    services(world)
        .await
        .create(&PostParams::default(), &service)
        .await
        .unwrap();
}

pub(super) async fn services(world: &World) -> Api<Service> {
    Api::default_namespaced(world.api.client_for("admin").await.unwrap())
}

/// Uploads the certificates of the Services.
async fn certificates(world: &World) {
    for name in ["shop", "blog"] {
        let body = json!({
            "name": name, "type": "uploaded",
            "certificate": "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n",
            "private_key": "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n",
        });
        world.ask_cloud("POST", "/certificates", Some(&body)).await;
    }
}

impl World {
    /// Sends a request to the cloud with the token, as a person does, and returns the answer.
    pub(super) async fn ask_cloud(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let url = format!("{}{path}", self.cloud.endpoint());
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = reqwest::Client::new()
            .request(method.clone(), url)
            .bearer_auth(self.token());
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body.to_string());
        }
        let response = request.send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        assert!(status.is_success(), "{method} {path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }
}
