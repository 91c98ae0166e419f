//! Compares the cloud with the cluster: exactly one load balancer for each existing Service of ours, with its ports,
//! targets and settings, and none for any other. Judged from outside, by the objects alone.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::ListParams;
use serde_json::{Value, json};

use crate::load_balancers::tenants::MISTAKE;
use crate::load_balancers::world::World;

/// The label of the load balancer's owner, as the Go manager writes it.
pub(crate) const OWNER: &str = "hcloud-ccm/service-uid";
/// The finalizer of Services with a load balancer.
pub(crate) const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// The annotation that records which provider owns a Service.
pub(crate) const PROVIDER: &str = "wasm-ccm.dev/provider";
/// The prefix of the annotations that configure a load balancer.
pub(crate) const PREFIX: &str = "load-balancer.hetzner.cloud";
/// The label that keeps a node out of load balancers.
pub(crate) const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// The autoscaler's taint, which does the same.
pub(crate) const LEAVING: &str = "ToBeDeletedByClusterAutoscaler";

/// The differences between cloud and cluster.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Load balancers with the label of a Service that does not exist, or wants none.
    pub(crate) leaked: Vec<String>,
    /// Services with more than one load balancer.
    pub(crate) duplicated: Vec<String>,
    /// All other differences.
    pub(crate) wrong: Vec<String>,
}

impl Findings {
    pub(crate) fn is_empty(&self) -> bool {
        self.leaked.is_empty() && self.duplicated.is_empty() && self.wrong.is_empty()
    }
}

/// The owners with more than one load balancer: there must never be one, whatever fails.
pub(crate) fn duplicated(world: &World) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let all = world.cloud.load_balancers();
    let owners = all.iter().filter_map(owner);
    owners
        .filter(|owner| !seen.insert(*owner))
        .map(str::to_owned)
        .collect()
}

/// The UID of the Service that a load balancer belongs to.
pub(crate) fn owner(balancer: &Value) -> Option<&str> {
    balancer["labels"][OWNER].as_str()
}

/// Compares all load balancers with all Services. Load balancers in `foreign`, by ID, do not count.
pub(crate) async fn findings(world: &World, foreign: &BTreeSet<u64>) -> Findings {
    let services = world.services.list(&ListParams::default()).await.unwrap();
    let services: Vec<Value> = services.into_iter().map(|one| json!(one)).collect();
    let nodes = world.nodes.list(&ListParams::default()).await.unwrap();
    let nodes: Vec<Value> = nodes.into_iter().map(|one| json!(one)).collect();
    let all = world.cloud.load_balancers();
    let (others, ours): (Vec<&Value>, Vec<&Value>) = all
        .iter()
        .partition(|one| foreign.contains(&one["id"].as_u64().unwrap_or_default()));
    let taken: BTreeSet<&str> = others
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    let mut found = Findings::default();
    let mut wanted = BTreeSet::new();
    for service in &services {
        let name = service["metadata"]["name"].as_str().unwrap_or_default();
        let uid = service["metadata"]["uid"].as_str().unwrap_or_default();
        let mine: Vec<&&Value> = ours.iter().filter(|one| owner(one) == Some(uid)).collect();
        if mine.len() > 1 {
            found.duplicated.push(format!("{name} has {}", mine.len()));
        }
        let is_ours = is_ours(service);
        let is_refused = annotation(service, "name").is_some_and(|name| taken.contains(name));
        if is_ours {
            wanted.insert(uid);
        }
        let mut wrong = metadata(service, is_ours);
        match mine.first() {
            // A Service with a mistake in its settings: its load balancer's targets follow the nodes all the same.
            Some(_) if is_ours && has_mistake(service) && ingress(service).is_null() => {}
            Some(balancer) if is_ours && has_mistake(service) => wrong.extend(unequal(
                "targets",
                &json!(wanted_targets(service, &nodes)),
                &json!(targets(balancer)),
            )),
            None if is_ours && has_mistake(service) => {}
            Some(balancer) if is_ours => {
                wrong.extend(differences(service, balancer, &nodes, world));
            }
            None if is_ours && !is_refused => wrong.push("it has no load balancer".to_owned()),
            // Another load balancer has its name. The Service may show one of another account until that is corrected.
            None if is_ours => {
                let shown = ingress(service).to_string();
                let has_it = |one: &Value| ips(one).any(|ip| shown.contains(&format!("\"{ip}\"")));
                wrong.extend(all.iter().filter(|one| has_it(one)).map(|one| {
                    let owner = &one["name"];
                    format!("it shows an address of {owner}")
                }));
            }
            _ => wrong.extend(unequal("status", &Value::Null, &ingress(service))),
        }
        found
            .wrong
            .extend(wrong.into_iter().map(|what| format!("{name}: {what}")));
    }
    for balancer in ours {
        if !owner(balancer).is_some_and(|owner| wanted.contains(owner)) {
            found.leaked.push(balancer.to_string());
        }
    }
    found
}

/// The public addresses of a load balancer.
pub(crate) fn ips(balancer: &Value) -> impl Iterator<Item = &str> {
    let public = &balancer["public_net"];
    let ips = [&public["ipv4"]["ip"], &public["ipv6"]["ip"]];
    ips.into_iter().filter_map(Value::as_str)
}

/// Whether the Service wants a load balancer of the default provider.
fn is_ours(service: &Value) -> bool {
    service["spec"]["type"] == "LoadBalancer"
        && service["spec"]["loadBalancerClass"].is_null()
        && service["metadata"]["deletionTimestamp"].is_null()
}

fn has_mistake(service: &Value) -> bool {
    annotation(service, "algorithm-type") == Some(MISTAKE)
}

/// Finalizer and owner are on a Service exactly as long as it is ours.
fn metadata(service: &Value, is_ours: bool) -> Vec<String> {
    let finalizers = service["metadata"]["finalizers"].as_array();
    let is_kept = finalizers.is_some_and(|all| all.contains(&json!(FINALIZER)));
    let provider = &service["metadata"]["annotations"][PROVIDER];
    let expected = if is_ours {
        json!("hcloud")
    } else {
        Value::Null
    };
    let mut wrong = unequal("finalizer", &json!(is_ours), &json!(is_kept));
    wrong.extend(unequal("owner", &expected, provider));
    wrong
}

fn unequal(what: &str, expected: &Value, found: &Value) -> Vec<String> {
    match expected == found {
        true => Vec::new(),
        false => vec![format!("{what} should be {expected}, and is {found}")],
    }
}

/// The value of an annotation that configures a load balancer.
fn annotation<'a>(service: &'a Value, key: &str) -> Option<&'a str> {
    let annotations = &service["metadata"]["annotations"];
    annotations[format!("{PREFIX}/{key}")].as_str()
}

fn is_true(service: &Value, key: &str) -> bool {
    annotation(service, key) == Some("true")
}

/// The differences between a Service and its load balancer.
fn differences(service: &Value, balancer: &Value, nodes: &[Value], world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    wrong.extend(unequal(
        "ports",
        &json!(wanted_ports(service)),
        &json!(ports(balancer)),
    ));
    wrong.extend(unequal(
        "targets",
        &json!(wanted_targets(service, nodes)),
        &json!(targets(balancer)),
    ));
    if let Some(algorithm) = annotation(service, "algorithm-type") {
        let found = &balancer["algorithm"]["type"];
        wrong.extend(unequal("algorithm", &json!(algorithm), found));
    }
    if let Some(size) = annotation(service, "type") {
        let found = &balancer["load_balancer_type"]["name"];
        wrong.extend(unequal("type", &json!(size), found));
    }
    let uid = service["metadata"]["uid"].as_str().unwrap_or_default();
    let own: String = format!("a{}", uid.replace('-', ""))
        .chars()
        .take(32)
        .collect();
    let name = annotation(service, "name").unwrap_or(&own);
    wrong.extend(unequal("name", &json!(name), &balancer["name"]));
    let network = balancer["private_net"][0]["network"].as_u64();
    wrong.extend(unequal("network", &json!(world.network), &json!(network)));
    wrong.extend(unequal(
        "status",
        &wanted_ingress(service, balancer),
        &ingress(service),
    ));
    wrong
}

/// By listening port: the node port, and whether the PROXY protocol is used.
type Ports = BTreeMap<u64, (u64, bool)>;

fn wanted_ports(service: &Value) -> Ports {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let proxy = is_true(service, "uses-proxyprotocol");
    ports
        .filter(|port| port["protocol"] == "TCP")
        .filter_map(|port| Some((port["port"].as_u64()?, (port["nodePort"].as_u64()?, proxy))))
        .collect()
}

fn ports(balancer: &Value) -> Ports {
    let services = balancer["services"].as_array().into_iter().flatten();
    services
        .filter_map(|one| {
            let to = one["destination_port"].as_u64()?;
            let proxy = one["proxyprotocol"].as_bool()?;
            Some((one["listen_port"].as_u64()?, (to, proxy)))
        })
        .collect()
}

fn wanted_targets(service: &Value, nodes: &[Value]) -> BTreeSet<u64> {
    let pool = annotation(service, "node-selector").and_then(|text| text.strip_prefix("pool="));
    let is_wanted = |node: &&Value| {
        let labels = &node["metadata"]["labels"];
        let taints = node["spec"]["taints"].as_array().into_iter().flatten();
        let mut taints = taints.map(|taint| &taint["key"]);
        labels[EXCLUDE].is_null()
            && node["metadata"]["deletionTimestamp"].is_null()
            && !taints.any(|key| key == LEAVING)
            && pool.is_none_or(|pool| labels["pool"] == pool)
    };
    let server = |node: &Value| {
        let id = node["spec"]["providerID"].as_str()?;
        id.strip_prefix("hcloud://")?.parse().ok()
    };
    nodes.iter().filter(is_wanted).filter_map(server).collect()
}

fn targets(balancer: &Value) -> BTreeSet<u64> {
    let targets = balancer["targets"].as_array().into_iter().flatten();
    targets
        .filter_map(|target| target["server"]["id"].as_u64())
        .collect()
}

fn wanted_ingress(service: &Value, balancer: &Value) -> Value {
    if let Some(hostname) = annotation(service, "hostname") {
        return json!([{"hostname": hostname}]);
    }
    let mode = match is_true(service, "uses-proxyprotocol") {
        true => "Proxy",
        false => "VIP",
    };
    let public = &balancer["public_net"];
    let is_public = public["enabled"] == true;
    let mut all = Vec::new();
    if is_public {
        all.push(&public["ipv4"]["ip"]);
    }
    if is_public && !is_true(service, "ipv6-disabled") {
        all.push(&public["ipv6"]["ip"]);
    }
    let private = balancer["private_net"].as_array().into_iter().flatten();
    all.extend(private.map(|net| &net["ip"]));
    all.iter()
        .map(|ip| json!({"ip": ip, "ipMode": mode}))
        .collect()
}

/// `status.loadBalancer.ingress` of a Service; null if empty.
pub(crate) fn ingress(service: &Value) -> Value {
    match &service["status"]["loadBalancer"]["ingress"] {
        Value::Array(none) if none.is_empty() => Value::Null,
        ingress => ingress.clone(),
    }
}
