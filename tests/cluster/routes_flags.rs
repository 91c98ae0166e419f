//! Rules for the flags about pods' networks at the start, and what runs without these flags.

use std::time::Duration;

use ccm_tests::log::severity;
use serde_json::json;

use crate::pod_network::{Network, names, pod_cidrs, setup, unavailable};
use crate::services::{Services, load_balancer};
use crate::world::{World, until};

/// Invalid flags, and the message about them.
const MISTAKES: &[(&[&str], &str)] = &[
    (&["--cluster-cidr=nonsense"], "nonsense"),
    (&["--cluster-cidr=10.244.0.0/33"], "10.244.0.0/33"),
    (
        &["--cluster-cidr=10.244.0.0/16,10.245.0.0/16"],
        "len of ClusterCIDRs==2 and they are not configured as dual stack",
    ),
    (
        &["--cluster-cidr=10.244.0.0/16,fd00::/48,10.245.0.0/16"],
        "length of clusterCIDRs is:3 more than max allowed of 2",
    ),
    (&["--allocate-node-cidrs"], "--cluster-cidr"),
    (
        &[
            "--allocate-node-cidrs=true",
            "--configure-cloud-routes=false",
        ],
        "--cluster-cidr",
    ),
    (
        &[
            "--allocate-node-cidrs",
            "--cluster-cidr=10.244.0.0/16",
            "--node-cidr-mask-size=8",
        ],
        "10.244.0.0/16 in blocks of /8",
    ),
    (
        &[
            "--allocate-node-cidrs",
            "--cluster-cidr=10.244.0.0/16",
            "--node-cidr-mask-size-ipv6=64",
        ],
        "--node-cidr-mask-size-ipv6",
    ),
    (
        &[
            "--allocate-node-cidrs",
            "--cluster-cidr=10.244.0.0/16,fd00::/48",
            "--node-cidr-mask-size=24",
        ],
        "--node-cidr-mask-size",
    ),
    (
        &["--allocate-node-cidrs", "--cluster-cidr=fd00::/32"],
        "fd00::/32 in blocks of /64",
    ),
    (
        &[
            "--allocate-node-cidrs",
            "--cluster-cidr=10.244.0.0/16",
            "--cidr-allocator-type=Dice",
        ],
        "Dice",
    ),
];

#[tokio::test]
async fn flags_that_nobody_can_work_with_end_the_process_before_it_stands_for_the_lease() {
    let world = World::start(setup()).await;
    let network = Network::add(&world);
    network.populate(&world, &names("worker", 1)).await;
    let configuration = network.configuration(&world);
    let mut before = 0;
    for (flags, reported) in MISTAKES {
        let mut ccm = world.ccm(&configuration, flags);
        let status = ccm.ended(Duration::from_secs(60)).await.unwrap();
        let log = world.log().split_off(before);
        before += log.len();
        assert_eq!(status.code(), Some(1), "{flags:?}: {log}");
        assert!(log.contains(reported), "{flags:?}: {log}");
        assert!(!log.contains("panicked"), "{flags:?}: {log}");
    }
    let leases = |entry: &&_| {
        let entry: &ccm_tests::apiserver::AuditEntry = entry;
        entry.resource == "leases"
    };
    assert_eq!(world.asked().iter().filter(leases).count(), 0);
    assert_eq!(world.writes_since(0), []);
    assert_eq!(world.cloud.requests(), []);
}

#[tokio::test]
async fn without_a_cluster_cidr_there_is_one_warning_and_everything_else_works() {
    let world = World::start(setup()).await;
    let network = Network::add(&world);
    network.populate(&world, &names("worker", 2)).await;
    let services = Services::of(&world).await;
    services.create("web", load_balancer(&[80])).await;
    // Both flags have their defaults, apart from shorter periods.
    let flags = [
        "--configure-cloud-routes=true",
        "--cluster-cidr=",
        "--node-status-update-frequency=2s",
        "--route-reconciliation-period=1s",
    ];
    let mut ccm = world.ccm(&network.configuration(&world), &flags);
    let nodes = world.all_initialised(&mut ccm, 2).await;
    services.has_address(&mut ccm, "web").await;
    for node in nodes.values() {
        assert_eq!(pod_cidrs(node), Vec::<String>::new());
        assert_eq!(unavailable(node), None);
    }
    // Known pod CIDRs would get routes if the route controller ran.
    let spec = json!({"spec": {"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24"]}});
    world.change("worker-1", spec).await;
    let looks = || {
        let requests = world.cloud.requests();
        let is_look = |path: &str| path.starts_with("/servers?");
        requests.iter().filter(|one| is_look(&one.path)).count()
    };
    let enough = looks() + 4;
    until(&mut ccm, "four refreshes", async || {
        (looks() >= enough).then_some(())
    })
    .await;
    world.stop(ccm).await;
    assert_eq!(network.routes(&world).len(), 0);
    assert_eq!(world.condition_writes(), Vec::<String>::new());
    let log = world.log();
    let about = log.lines().filter(|line| line.contains("--cluster-cidr"));
    let warnings: Vec<_> = about.filter(|line| severity(line) == Some('W')).collect();
    assert_eq!(warnings.len(), 1, "{log}");
}
