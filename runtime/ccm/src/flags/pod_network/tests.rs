#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use super::super::{RunFlags, dashed, run_command};
use super::PodNetworkArguments;

fn run(arguments: &str) -> Result<PodNetworkArguments, String> {
    let words = ["run", "--cloud-provider=x"].into_iter();
    let words = words.chain(arguments.split_whitespace());
    let matches = run_command()
        .try_get_matches_from(words.map(|word| dashed(word.into())))
        .map_err(|error| error.to_string())?;
    let flags = RunFlags::from_matches(&matches).map_err(|error| error.to_string())?;
    assert_eq!(flags.warnings, [] as [&str; 0], "{arguments}");
    Ok(flags.pod_network)
}

fn ranges(flags: &PodNetworkArguments) -> Vec<String> {
    let cidrs = flags.route.cluster_cidrs.iter();
    cidrs.map(ToString::to_string).collect()
}

#[test]
fn the_documentations_flags_are_read() {
    let flags = run(
        "--leader-elect=true --use-service-account-credentials=false --allocate-node-cidrs=true --configure-cloud-routes=true --cluster-cidr=172.17.0.0/16",
    )
    .unwrap();
    assert!(flags.configures_routes);
    assert_eq!(ranges(&flags), ["172.17.0.0/16"]);
    let families = flags.ipam.unwrap().families;
    assert_eq!(families.len(), 1);
    assert_eq!(families[0].node_mask, 24);
}

#[test]
fn both_families_have_masks_of_their_own() {
    let flags = run(
        "--allocate-node-cidrs --cluster-cidr=10.244.0.0/16,fd00:10::/48 --node-cidr-mask-size-ipv4=25 --service-cluster-ip-range=10.244.0.0/24",
    )
    .unwrap();
    let ipam = flags.ipam.unwrap();
    let masks: Vec<u8> = ipam.families.iter().map(|one| one.node_mask).collect();
    assert_eq!(masks, [25, 64]);
    assert_eq!(ipam.service_cidrs.len(), 1);
}

#[test]
fn nothing_is_allocated_and_no_route_is_made_unless_it_is_asked_for() {
    let flags = run("--cluster-cidr=10.244.0.0/16").unwrap();
    assert!(flags.ipam.is_none(), "--allocate-node-cidrs is off");
    assert!(flags.configures_routes, "--configure-cloud-routes is on");
    for off in ["--configure-cloud-routes=false", "--controllers=*,-route"] {
        assert!(!run(off).unwrap().configures_routes, "{off}");
    }
    let off = "--allocate-node-cidrs --cluster-cidr=10.244.0.0/16 --controllers=*,-nodeipam";
    assert!(run(off).unwrap().ipam.is_none());
}

#[test]
fn route_002_without_a_cluster_cidr_there_are_no_routes_and_no_error() {
    let flags = run("").unwrap();
    assert_eq!(ranges(&flags), [] as [&str; 0]);
    assert!(flags.configures_routes);
}

#[test]
fn what_cannot_be_is_an_error_that_names_it() {
    for (arguments, named) in [
        ("--cluster-cidr=10.244.0.0", "10.244.0.0"),
        ("--cluster-cidr=10.244.0.0/16,10.245.0.0/16", "dual"),
        ("--allocate-node-cidrs", "--cluster-cidr"),
        (
            "--allocate-node-cidrs --cluster-cidr=10.244.0.0/16 --cidr-allocator-type=CloudAllocator",
            "CloudAllocator",
        ),
        (
            "--allocate-node-cidrs --cluster-cidr=10.244.0.0/25",
            "mask size",
        ),
        (
            "--allocate-node-cidrs --cluster-cidr=10.244.0.0/16 --node-cidr-mask-size=4294967295",
            "mask",
        ),
        (
            "--route-reconciliation-period=0",
            "--route-reconciliation-period",
        ),
    ] {
        let text = run(arguments).err().unwrap();
        assert!(text.contains(named), "{arguments}: {text}");
    }
}

#[test]
fn routes_are_listed_every_five_minutes_or_as_often_as_somebody_says() {
    let resync = |arguments| run(arguments).unwrap().route.resync;
    assert_eq!(resync(""), Duration::from_secs(300));
    let flag = "--route-reconciliation-period=20s";
    assert_eq!(resync(flag), Duration::from_secs(20));
}
