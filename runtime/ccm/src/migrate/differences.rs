//! Settings of the Go manager that mean something else here. They change nothing by themselves: their consequences are
//! in the plan. Reads Services' annotations and nodes' pod CIDRs; writes nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ccm_core::route::read_network;
use ccm_core::well_known::SOURCE_RANGES;
use ccm_host::list_first;
use ccm_proxy::from_environment;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::ListParams;
use kube::{Api, Config, ResourceExt as _};
use serde::Serialize;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use url::{Host, Url};

use crate::api_server_proxy::unbound_client;
use crate::flags::{RunFlags, go_bool};
use crate::provider_loading::PROCESS;

/// Annotations of Services that mean something else here than in the vendor's manager: the vendor, the annotation, and
/// what it means here. DigitalOcean's `load-balancer-id` is none of them: its manager writes it into every Service, and
/// by default names the load balancer after the Service's UID, which counts here, too.
const OF_SERVICES: [(&str, &str, &str); 4] = [
    (
        "hcloud",
        "load-balancer.hetzner.cloud/name",
        "imports a load balancer only if no Service owns it and all of its targets are the Service's nodes, and with a file of --config only if that has adoptUnownedLoadBalancers: true; one that the Go manager has labelled for this Service needs nothing, and one that still has the label of an older Service needs the UID of this one in it: up to 1.35.0 the Go manager does not replace it",
    ),
    (
        "hcloud",
        SOURCE_RANGES,
        "is not read by the vendor's manager; here it counts like spec.loadBalancerSourceRanges: an Event says that it restricts nobody, and ranges that cannot be read are an error",
    ),
    (
        "digitalocean",
        "service.beta.kubernetes.io/do-loadbalancer-name",
        "names a load balancer that no tag of this Service's is on yet: it is tagged first, and with a file of --config it is taken over only if that has adoptUnownedLoadBalancers: true",
    ),
    (
        "digitalocean",
        SOURCE_RANGES,
        "is not read by the vendor's manager; here it counts like spec.loadBalancerSourceRanges: all other clients are locked out, and allow-rules have no effect",
    ),
];

/// The host of the embedded module's endpoint, which is public.
const HOST_OF_HETZNER: &str = "api.hetzner.cloud";

/// How many pod CIDRs are named.
const NAMED: usize = 3;

/// A setting, and what it means here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    about: String,
    what: String,
}

impl Difference {
    fn new(about: &str, what: &str) -> Difference {
        Difference {
            about: about.to_owned(),
            what: what.to_owned(),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.about, self.what)
    }
}

/// All differences in these flags, the variables, the nodes and the Services. Each list of the cluster is awaited for
/// `limit`; one that fails adds nothing.
pub(super) async fn of(flags: &RunFlags, kubernetes: &Config, limit: Duration) -> Vec<Difference> {
    let mut differences = of_settings(flags, PROCESS.variable);
    let vendor = flags.cloud_provider.as_deref().unwrap_or_default();
    if OF_SERVICES.iter().any(|(of, ..)| *of == vendor) {
        let found = timeout(limit, of_services(vendor, kubernetes)).await;
        differences.extend(listed(found));
    }
    let network = &flags.pod_network;
    if network.configures_routes {
        let found = timeout(limit, of_nodes(&network.route.cluster_cidrs, kubernetes)).await;
        differences.extend(listed(found));
    }
    differences
}

/// What was found in a list, if it came in time.
fn listed<T: Default>(found: Result<T, Elapsed>) -> T {
    found.unwrap_or_else(|_| {
        tracing::warn!(
            "the cluster's objects were not listed within --timeout: what differs in them is not known"
        );
        T::default()
    })
}

fn of_settings(flags: &RunFlags, variable: &dyn Fn(&str) -> Option<String>) -> Vec<Difference> {
    let warnings = flags.warnings.iter();
    let mut differences: Vec<_> = warnings
        .map(|warning| Difference::new("flags", warning))
        .collect();
    if flags.leadership.election.is_none() {
        differences.push(Difference::new(
            "--leader-elect=false",
            "nothing but you keeps the two managers from acting together: stop the Go manager before this one starts",
        ));
    }
    let by_default = flags.safety.cloud_proxy.is_none();
    if let Some(proxy) = from_environment(false, variable).filter(|_| by_default) {
        differences.push(Difference::new(
            proxy.variable,
            "here, too, the cloud is reached through this proxy under the name of a Go manager and in the Helm chart; `ccm run` reaches it directly without --cloud-proxy=environment",
        ));
    }
    let vendor = flags.cloud_provider.as_deref();
    let firewall = variable("PUBLIC_ACCESS_FIREWALL_NAME").unwrap_or_default();
    if vendor == Some("digitalocean") && !firewall.is_empty() {
        differences.push(Difference::new(
            "PUBLIC_ACCESS_FIREWALL_NAME",
            "nothing here manages this firewall: it stays on the nodes with the rules of the vendor's manager, and lets in no traffic to new node ports and new load balancers of the type REGIONAL_NETWORK; before the move, open these ports in another firewall, or take this one off the nodes",
        ));
    }
    if vendor != Some("hcloud") {
        return differences;
    }
    if flags.pod_network.ipam.is_some() {
        differences.push(Difference::new(
            "--allocate-node-cidrs",
            "the vendor's manager has no allocator and ignores it; here nodes without a pod CIDR get one, unless kube-controller-manager allocates them",
        ));
    }
    let endpoint = variable("HCLOUD_ENDPOINT").and_then(|text| Url::parse(&text).ok());
    if endpoint.as_ref().is_some_and(may_be_refused) {
        differences.push(Difference::new(
            "HCLOUD_ENDPOINT",
            "a name that resolves to private addresses is reached only with a file of --config whose grants have them as addresses, and http only at loopback addresses; the vendor's manager reaches any address",
        ));
    }
    let network = variable("HCLOUD_NETWORK").unwrap_or_default();
    let routes = variable("HCLOUD_NETWORK_ROUTES_ENABLED").unwrap_or_default();
    let are_off = go_bool(&routes) == Ok(false);
    let has_routes = flags.pod_network.configures_routes && !network.is_empty() && !are_off;
    if has_routes && flags.pod_network.route.cluster_cidrs.len() > 1 {
        differences.push(Difference::new(
            "--cluster-cidr",
            "the vendor's manager makes no routes with two ranges, because it cannot read them; here IPv4 routes are made: HCLOUD_NETWORK_ROUTES_ENABLED=false keeps it as it is",
        ));
    }
    let is_true = |name: &str| variable(name).is_some_and(|value| go_bool(&value) == Ok(true));
    let is_set =
        |name: &str| variable(name).is_some() || variable(&format!("{name}_FILE")).is_some();
    if is_true("ROBOT_ENABLED") {
        differences.push(match is_set("ROBOT_USER") && is_set("ROBOT_PASSWORD") {
            true => Difference::new(
                "ROBOT_ENABLED",
                "without ROBOT_RATE_LIMIT_WAIT_TIME, Robot is left alone for 5m after its rate limit; the vendor's manager does not wait",
            ),
            false => Difference::new(
                "ROBOT_ENABLED",
                "without credentials dedicated servers are targets of load balancers alone, and the controllers of nodes leave them as they are; the vendor's manager reports an error for each of them",
            ),
        });
    }
    differences
}

/// Whether requests to this endpoint may be refused here, and are not by the vendor's manager.
fn may_be_refused(endpoint: &Url) -> bool {
    let is_plain = endpoint.scheme() == "http";
    match endpoint.host() {
        Some(Host::Domain(name)) => is_plain || name != HOST_OF_HETZNER,
        Some(Host::Ipv4(address)) => is_plain && !address.is_loopback(),
        Some(Host::Ipv6(address)) => is_plain && !address.is_loopback(),
        None => false,
    }
}

/// Pod CIDRs to which no route is made here, because they lie outside of `cluster`. Without networks there are no routes at
/// all.
async fn of_nodes(cluster: &[IpNet], kubernetes: &Config) -> Option<Difference> {
    if cluster.is_empty() {
        return None;
    }
    // The plan gives the reason of a failure.
    let nodes: Api<Node> = Api::all(unbound_client(kubernetes).ok()?);
    let found = nodes.list(&ListParams::default()).await.ok()?;
    of_pod_cidrs(cluster, &found.items)
}

fn of_pod_cidrs(cluster: &[IpNet], nodes: &[Node]) -> Option<Difference> {
    let mut outside = Vec::new();
    for node in nodes {
        let spec = node.spec.as_ref();
        let cidrs = spec.and_then(|spec| spec.pod_cidrs.as_deref());
        let networks = cidrs.unwrap_or_default().iter();
        for network in networks.filter_map(|text| read_network(text)) {
            if !cluster.iter().any(|one| one.contains(&network)) {
                outside.push(format!("{network} of {}", node.name_any()));
            }
        }
    }
    if outside.is_empty() {
        return None;
    }
    let what = format!(
        "pod CIDRs lie outside of it ({}): where its cloud makes routes, the Go manager makes them to these all the same; here their routes stay, and new nodes outside of it get none: set it to the range of all pods",
        list_first(&outside, NAMED)
    );
    Some(Difference::new("--cluster-cidr", &what))
}

async fn of_services(vendor: &str, kubernetes: &Config) -> Vec<Difference> {
    let Ok(client) = unbound_client(kubernetes) else {
        // The plan gives the reason.
        return Vec::new();
    };
    let services: Api<Service> = Api::all(client);
    let Ok(found) = services.list_metadata(&ListParams::default()).await else {
        return Vec::new();
    };
    let of_one = found.iter().flat_map(|service| {
        let namespace = service.namespace().unwrap_or_default();
        let about = format!("service/{namespace}/{}", service.name_any());
        of_annotations(vendor, &about, service.annotations())
    });
    of_one.collect()
}

fn of_annotations(
    vendor: &str,
    about: &str,
    annotations: &BTreeMap<String, String>,
) -> Vec<Difference> {
    let here = OF_SERVICES
        .iter()
        .filter(|(of, key, _)| *of == vendor && annotations.contains_key(*key));
    here.map(|(_, key, what)| Difference::new(about, &format!("{key} {what}")))
        .collect()
}

#[cfg(test)]
mod tests;
