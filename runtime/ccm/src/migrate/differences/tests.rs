#![allow(clippy::unwrap_used, reason = "tests")]

use std::ffi::OsString;

use serde_json::{from_value, json};
use tokio::time::Instant;

use super::*;
use crate::builtin_grants::module;
use crate::migrate::flags_of;

const HCLOUD: &str = "--cloud-provider=hcloud";
const OCEAN: &str = "--cloud-provider=digitalocean";

/// Of these flags and variables, each as `name=value`.
fn found(flags: &[&str], variables: &[&str]) -> Vec<Difference> {
    let flags = flags_of(flags.iter().map(OsString::from).collect()).unwrap();
    let pairs = variables.iter().map(|one| one.split_once('=').unwrap());
    let variables: Vec<(&str, &str)> = pairs.collect();
    of_settings(&flags, &|name| {
        let mut given = variables.iter().filter(|(one, _)| *one == name);
        given.next().map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn the_host_of_hetzner_is_that_of_the_embedded_module() {
    let wasm = module("hcloud").unwrap();
    let manifest = ccm_host::inspect("hcloud", wasm).unwrap().manifest;
    let mut targets = manifest.targets.iter();
    let api = targets.find(|target| target.name == "api").unwrap();
    assert_eq!(api.endpoint.host_str(), Some(HOST_OF_HETZNER));
}

#[test]
fn each_setting_that_means_something_else_is_listed_and_no_other() {
    let waits = "Robot is left alone for 5m after its rate limit";
    let lacks = "without credentials dedicated servers are targets of load balancers alone";
    let no_election = ("--leader-elect=false", "stop the Go manager before");
    let allocates = (
        "--allocate-node-cidrs",
        "here nodes without a pod CIDR get one",
    );
    let firewall = ("PUBLIC_ACCESS_FIREWALL_NAME", "in another firewall");
    let proxy = ("https_proxy", "without --cloud-proxy=environment");
    let range = "--cluster-cidr=10.244.0.0/16";
    let login = ["ROBOT_USER=u", "ROBOT_PASSWORD=p"];
    let ranges = "--cluster-cidr=10.244.0.0/16,fd00:10:244::/56";
    let two = ("--cluster-cidr", "HCLOUD_NETWORK_ROUTES_ENABLED=false");
    let endpoint = (
        "HCLOUD_ENDPOINT",
        "a name that resolves to private addresses",
    );
    let no_routes = ["HCLOUD_NETWORK=pods", "HCLOUD_NETWORK_ROUTES_ENABLED=false"];
    for (flags, variables, expected) in [
        (&[HCLOUD][..], &[][..], &[][..]),
        (&[HCLOUD, range], &login, &[]),
        (&[HCLOUD, "--leader-elect=false"], &[], &[no_election]),
        (&[HCLOUD, "--allocate-node-cidrs", range], &[], &[allocates]),
        (
            &[
                HCLOUD,
                "--leader-elect=false",
                "--allocate-node-cidrs",
                range,
            ],
            &["ROBOT_ENABLED=t"],
            &[no_election, allocates, ("ROBOT_ENABLED", lacks)],
        ),
        (
            &[HCLOUD],
            &["ROBOT_ENABLED=true", "ROBOT_USER=u", "ROBOT_PASSWORD=p"],
            &[("ROBOT_ENABLED", waits)],
        ),
        (
            &[HCLOUD],
            &[
                "ROBOT_ENABLED=1",
                "ROBOT_USER_FILE=/u",
                "ROBOT_PASSWORD_FILE=/p",
            ],
            &[("ROBOT_ENABLED", waits)],
        ),
        (
            &[HCLOUD],
            &["ROBOT_ENABLED=True", "ROBOT_USER=u"],
            &[("ROBOT_ENABLED", lacks)],
        ),
        (&[HCLOUD], &["ROBOT_ENABLED=yes"], &[]),
        (
            &[HCLOUD, "--webhook-secure-port=10300"],
            &[],
            &[("flags", "--webhook-secure-port has no effect")],
        ),
        (&[HCLOUD], &["https_proxy=http://p:1"], &[proxy]),
        (&[HCLOUD], &["HTTP_PROXY=http://p:1"], &[]),
        (
            &[HCLOUD, "--cloud-proxy=environment"],
            &["https_proxy=http://p:1"],
            &[],
        ),
        (&[HCLOUD, ranges], &["HCLOUD_NETWORK=pods"], &[two]),
        (&[HCLOUD, range], &["HCLOUD_NETWORK=pods"], &[]),
        (&[HCLOUD, ranges], &["HCLOUD_NETWORK="], &[]),
        (&[HCLOUD, ranges], &no_routes, &[]),
        (
            &[HCLOUD, ranges, "--configure-cloud-routes=false"],
            &["HCLOUD_NETWORK=pods"],
            &[],
        ),
        (
            &[HCLOUD],
            &["HCLOUD_ENDPOINT=https://hetzner.internal/v1"],
            &[endpoint],
        ),
        (&[HCLOUD], &["HCLOUD_ENDPOINT=https://10.0.0.9/v1"], &[]),
        (
            &[HCLOUD],
            &["HCLOUD_ENDPOINT=http://10.0.0.9/v1"],
            &[endpoint],
        ),
        (&[HCLOUD], &["HCLOUD_ENDPOINT=http://127.0.0.1:8080"], &[]),
        (
            &[HCLOUD],
            &["HCLOUD_ENDPOINT=https://api.hetzner.cloud/v1"],
            &[],
        ),
        (&[OCEAN], &["PUBLIC_ACCESS_FIREWALL_NAME=f"], &[firewall]),
        (&[OCEAN], &["PUBLIC_ACCESS_FIREWALL_NAME="], &[]),
        (&[HCLOUD], &["PUBLIC_ACCESS_FIREWALL_NAME=f"], &[]),
        // The vendor's settings are none of another cloud's.
        (
            &[
                OCEAN,
                "--leader-elect=false",
                "--allocate-node-cidrs",
                range,
            ],
            &["ROBOT_ENABLED=true"],
            &[no_election],
        ),
    ] {
        let found = found(flags, variables);
        let is_as_expected = found.len() == expected.len()
            && found
                .iter()
                .zip(expected)
                .all(|(one, (about, part))| one.about == *about && one.what.contains(part));
        assert!(is_as_expected, "{flags:?} {variables:?}: {found:?}");
    }
}

#[test]
fn pod_cidrs_that_get_no_route_here_are_named_and_counted() {
    let cluster: [IpNet; 1] = ["10.244.0.0/16".parse().unwrap()];
    for (cidrs, expected) in [
        (&["10.244.1.0/24"][..], None),
        (&[], None),
        // Upstream ignores no family.
        (&["10.244.1.0/24", "fd00::/64"], Some("(fd00::/64 of n0)")),
        (&["10.9.0.0/24"], Some("(10.9.0.0/24 of n0)")),
        // A wider one is not inside.
        (&["10.0.0.0/8"], Some("(10.0.0.0/8 of n0)")),
        (&["no network"], None),
        (
            &[
                "10.1.0.0/24",
                "10.2.0.0/24",
                "10.3.0.0/24",
                "10.4.0.0/24",
                "10.5.0.0/24",
            ],
            Some("(10.1.0.0/24 of n0, 10.2.0.0/24 of n0, 10.3.0.0/24 of n0 and 2 more)"),
        ),
    ] {
        let node = json!({"metadata": {"name": "n0"}, "spec": {"podCIDRs": cidrs}});
        let nodes: Vec<Node> = vec![from_value(node).unwrap()];
        let found = of_pod_cidrs(&cluster, &nodes);
        match (&found, expected) {
            (None, None) => {}
            (Some(found), Some(part)) => {
                assert_eq!(found.about, "--cluster-cidr");
                assert!(found.what.contains(part), "{found:?}");
            }
            _ => panic!("{cidrs:?}: {found:?}"),
        }
    }
}

#[test]
fn annotations_that_mean_something_else_here_are_named_for_their_vendor() {
    const HETZNERS: &str = "load-balancer.hetzner.cloud/name";
    const OCEANS: &str = "service.beta.kubernetes.io/do-loadbalancer-name";
    // The Go manager writes it into every Service.
    const ID: &str = "kubernetes.digitalocean.com/load-balancer-id";
    let all = [HETZNERS, OCEANS, ID, SOURCE_RANGES];
    let annotations = all.map(|key| (key.to_owned(), "value".to_owned()));
    let annotations = BTreeMap::from(annotations);
    for (vendor, expected) in [
        ("hcloud", &[HETZNERS, SOURCE_RANGES][..]),
        ("digitalocean", &[OCEANS, SOURCE_RANGES]),
        ("aws", &[]),
        ("", &[]),
    ] {
        let found = of_annotations(vendor, "service/default/web", &annotations);
        let is_as_expected = found.len() == expected.len()
            && found
                .iter()
                .zip(expected)
                .all(|(one, key)| one.about == "service/default/web" && one.what.starts_with(*key));
        assert!(is_as_expected, "{vendor}: {found:?}");
        // What a file has to say.
        let is_named = found
            .iter()
            .filter(|one| one.what.contains("adoptUnownedLoadBalancers: true"));
        assert_eq!(is_named.count(), expected.len() / 2, "{vendor}");
        // What the label of an older Service needs.
        let is_stale = |one: &Difference| one.what.contains("the label of an older Service");
        assert_eq!(found.iter().any(is_stale), vendor == "hcloud", "{vendor}");
        assert!(of_annotations(vendor, "", &BTreeMap::new()).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_does_not_answer_adds_nothing_within_the_limit() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", silent.local_addr().unwrap());
    let cluster = Config::new(server.parse().unwrap());
    let flags = [HCLOUD, "--leader-elect=false", "--cluster-cidr=10.0.0.0/8"];
    let flags = flags_of(flags.map(OsString::from).into()).unwrap();
    let begun = Instant::now();
    let found = of(&flags, &cluster, Duration::from_secs(1)).await;
    // Two lists, each for a second.
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert_eq!(found, of_settings(&flags, PROCESS.variable));
}
