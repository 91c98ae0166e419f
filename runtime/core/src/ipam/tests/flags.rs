//! Values of the flags, right and wrong. Upstream's own cases under their IDs in `tests/conformance.md`.

use crate::ipam::{PodNetworkFlags, PodNetworks};
use ipnet::IpNet;
use std::time::Duration;

/// Parses `cluster-cidr services mask mask4 mask6 type`, where `-` is an empty value.
fn read(line: &str) -> Result<PodNetworks, Vec<String>> {
    read_with(line, true, true)
}

fn read_with(line: &str, allocate: bool, routes: bool) -> Result<PodNetworks, Vec<String>> {
    let mut words = line
        .split_whitespace()
        .map(|word| if word == "-" { "" } else { word });
    let mut next = || words.next().unwrap();
    let cluster_cidr = next();
    let services = next().split(',').filter(|word| !word.is_empty());
    let services: Vec<IpNet> = services.map(|word| word.parse().unwrap()).collect();
    let mut mask = || next().parse().unwrap_or_default();
    PodNetworks::read(&PodNetworkFlags {
        cluster_cidr,
        has_routes: routes,
        allocate_node_cidrs: allocate,
        service_cidrs: &services,
        node_cidr_mask_size: mask(),
        node_cidr_mask_size_ipv4: mask(),
        node_cidr_mask_size_ipv6: mask(),
        cidr_allocator_type: next(),
    })
}

/// The ranges and masks that result, or the mistakes.
fn outcome(line: &str) -> String {
    match read(line) {
        Ok(networks) => {
            let families = networks.ipam.unwrap().families;
            let one = |family: &crate::settings::PodNetwork| {
                format!("{} /{}", family.cluster_cidr, family.node_mask)
            };
            families.iter().map(one).collect::<Vec<_>>().join(", ")
        }
        Err(mistakes) => mistakes.join(" | "),
    }
}

const NOT_DUAL: &str = "len of ClusterCIDRs==2 and they are not configured as dual stack (at least one from each IPFamily)";
const SERVICES_NOT_DUAL: &str =
    "serviceCIDR and secondaryServiceCIDR are not dualstack (from different IPfamiles)";
const MASK_WITH_FAMILY: &str = "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if --node-cidr-mask-size is set. For dual-stack clusters please unset it and use IPFamily specific flags";
const MASK_WITH_DUAL: &str =
    "usage of --node-cidr-mask-size is not allowed with dual-stack clusters";
const TOO_SMALL: &str = "Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to --node-cidr-mask-size configured for CIDR family";
const ONLY_GCE: &str =
    "is for Google's cloud alone, whose machines have ranges of their own; use RangeAllocator";

#[test]
fn ipam_005_to_007_upstreams_cases_of_the_start() {
    let off = read_with("192.168.0.0/16 - - - - RangeAllocator", false, false);
    assert_eq!(
        off,
        Ok(PodNetworks::default()),
        "{}",
        "TestStartNodeIpamController/01"
    );
    for (id, line, expected) in [
        (
            "TestStartNodeIpamController/02",
            "foo - - - - RangeAllocator",
            "--cluster-cidr: invalid CIDR address: foo",
        ),
        (
            "TestStartNodeIpamController/03",
            "10.0.0.0/16,10.1.0.0/16 - - - - RangeAllocator",
            NOT_DUAL,
        ),
        (
            "TestStartNodeIpamController/04",
            "2001:db8::/48,2001:db9::/48 - - - - RangeAllocator",
            NOT_DUAL,
        ),
        (
            "TestStartNodeIpamController/05",
            "10.0.0.0/16,10.1.0.0/16,2001:db8::/48 - - - - RangeAllocator",
            "length of clusterCIDRs is:3 more than max allowed of 2",
        ),
        (
            "TestStartNodeIpamController/06",
            "10.0.0.0/16 10.1.0.0/16,10.2.0.0/16 - - - RangeAllocator",
            SERVICES_NOT_DUAL,
        ),
        (
            "TestStartNodeIpamController/07",
            "10.0.0.0/16 2001:db8::/112,2001:db9::/112 - - - RangeAllocator",
            SERVICES_NOT_DUAL,
        ),
        (
            "TestStartNodeIpamController/08",
            "10.0.0.0/16,2001:db8::/48 - 24 - - RangeAllocator",
            MASK_WITH_DUAL,
        ),
        (
            "TestStartNodeIpamController/09",
            "10.0.0.0/16 - 24 25 - RangeAllocator",
            MASK_WITH_FAMILY,
        ),
    ] {
        assert_eq!(outcome(line), expected, "{id}");
    }
    let mistakes = read("10.0.0.0/16 - 24 - 80 RangeAllocator").unwrap_err();
    assert!(
        mistakes.contains(&MASK_WITH_FAMILY.to_owned()),
        "{}",
        "TestStartNodeIpamController/10"
    );
}

#[test]
fn ipam_008_upstreams_cases_of_masks_and_ranges() {
    for (id, line, expected) in [
        (
            "TestNewNodeIpamControllerWithCIDRMasks/01",
            "10.0.0.0/16 10.1.0.0/21 24 - - RangeAllocator",
            "10.0.0.0/16 /24",
        ),
        (
            "TestNewNodeIpamControllerWithCIDRMasks/02",
            "2001:db8::/84,10.0.0.0/16 10.1.0.0/21 - 24 98 RangeAllocator",
            "2001:db8::/84 /98, 10.0.0.0/16 /24",
        ),
        (
            "TestNewNodeIpamControllerWithCIDRMasks/03",
            "10.0.0.0/16,2001:db8::/84 10.1.0.0/21,2001:db9::/112 - 24 98 RangeAllocator",
            "10.0.0.0/16 /24, 2001:db8::/84 /98",
        ),
        (
            "TestNewNodeIpamControllerWithCIDRMasks/04",
            "10.0.0.0/16 10.1.0.0/21 24 - - CloudAllocator",
            ONLY_GCE,
        ),
        (
            "TestNewNodeIpamControllerWithCIDRMasks/05",
            "10.0.0.0/16 10.1.0.0/21 24 - - IPAMFromCluster",
            ONLY_GCE,
        ),
        (
            "TestNewNodeIpamControllerWithCIDRMasks/06",
            "10.0.0.0/16 10.1.0.0/21 24 - - IPAMFromCloud",
            ONLY_GCE,
        ),
        (
            "TestNewNodeIpamControllerWithCIDRMasks/07",
            "invalid 10.1.0.0/21 24 - - CloudAllocator",
            "--cluster-cidr: invalid CIDR address: invalid",
        ),
        (
            "TestNewNodeIpamControllerWithCIDRMasks/08",
            "10.0.0.0/16 10.1.0.0/21 8 - - CloudAllocator",
            ONLY_GCE,
        ),
        (
            "TestNewNodeIpamControllerWithCIDRMasks/09",
            "invalid 10.1.0.0/21 24 - - IPAMFromCluster",
            "--cluster-cidr: invalid CIDR address: invalid",
        ),
        (
            "TestNewNodeIpamControllerWithCIDRMasks/10",
            "10.0.0.0/26 10.1.0.0/21 24 - - RangeAllocator",
            TOO_SMALL,
        ),
        (
            "TestNewNodeIpamControllerWithCIDRMasks/11",
            "10.0.0.0/16 10.0.0.0/8 24 - - RangeAllocator",
            "--service-cluster-ip-range 10.0.0.0/8 has all of --cluster-cidr 10.0.0.0/16: nothing is left for nodes",
        ),
        (
            "TestNewNodeIpamControllerWithCIDRMasks/12",
            "10.0.0.0/16,2001:db8::/64 10.1.0.0/21 - 24 48 RangeAllocator",
            TOO_SMALL,
        ),
    ] {
        let outcome = outcome(line);
        assert!(outcome.contains(expected), "{id}: {outcome}");
    }
}

#[test]
fn ipam_002_masks_that_are_not_given_are_24_and_64_and_the_workers_thirty() {
    let line = " - - - - RangeAllocator";
    assert_eq!(
        outcome(&format!("10.244.0.0/16{line}")),
        "10.244.0.0/16 /24"
    );
    assert_eq!(outcome(&format!("fd00::/56{line}")), "fd00::/56 /64");
    let both = read(&format!("fd00::1/56,10.244.7.1/16{line}")).unwrap();
    let cidrs: Vec<String> = both.cluster_cidrs.iter().map(ToString::to_string).collect();
    assert_eq!(
        cidrs,
        ["fd00::/56", "10.244.0.0/16"],
        "as networks, in the order that was given"
    );
    let ipam = both.ipam.unwrap();
    assert_eq!(ipam.families[0].node_mask, 64);
    assert_eq!(ipam.families[1].node_mask, 24);
    assert_eq!(
        (ipam.concurrent_syncs.get(), ipam.settle),
        (30, Duration::from_secs(5))
    );
}

#[test]
fn ipam_003_006_and_007_each_mistake_is_told_in_upstreams_words() {
    for (line, expected) in [
        (
            "10.0.0.0/16 10.1.0.0/16,10.2.0.0/16,fd00::/112 - - - RangeAllocator",
            "--service-cluster-ip-range can not contain more than two entries",
        ),
        (
            "10.0.0.0/16 - - - 80 RangeAllocator",
            "usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster",
        ),
        (
            "fd00::/56 - - 24 - RangeAllocator",
            "usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster",
        ),
        (
            "fd00::/32 - - - 49 RangeAllocator",
            "New CIDR set failed; the node CIDR size is too big: there would be 2^17 blocks, and at most 2^16 can be counted (fd00::/32 in blocks of /49)",
        ),
        (
            "10.0.0.0/16 - 33 - - RangeAllocator",
            "a mask of 33 is longer than an address (10.0.0.0/16 in blocks of /33)",
        ),
        (
            "10.0.0.0/16 - -5 - - RangeAllocator",
            "the node CIDR mask -5 is invalid",
        ),
    ] {
        assert_eq!(outcome(line), expected);
    }
}

#[test]
fn ipam_009_an_allocator_that_is_none_of_upstreams_is_a_mistake() {
    for kind in ["x", "rangeallocator", "-"] {
        let expected = format!("invalid CIDR allocator type: {}", kind.trim_matches('-'));
        assert_eq!(outcome(&format!("10.0.0.0/16 - - - - {kind}")), expected);
    }
}

#[test]
fn ipam_060_googles_allocators_are_refused_with_the_one_to_use() {
    for kind in ["CloudAllocator", "IPAMFromCluster", "IPAMFromCloud"] {
        let outcome = outcome(&format!("10.0.0.0/16 - - - - {kind}"));
        assert!(
            outcome.contains(kind) && outcome.contains("use RangeAllocator"),
            "{outcome}"
        );
    }
}

#[test]
fn all_mistakes_are_told_at_once() {
    let mistakes =
        read("10.0.0.0/16,10.1.0.0/16,nonsense 10.2.0.0/16,10.3.0.0/16 20 21 - x").unwrap_err();
    assert_eq!(mistakes.len(), 6, "{mistakes:#?}");
}

#[test]
fn ipam_004_without_allocation_only_the_ranges_are_read_and_only_for_routes() {
    let line = "10.0.0.0/16 - 99 99 99 nonsense";
    let networks = read_with(line, false, true).unwrap();
    assert_eq!(networks.ipam, None);
    assert_eq!(networks.cluster_cidrs.len(), 1);
    assert_eq!(
        read_with("nonsense - - - - x", false, false),
        Ok(PodNetworks::default())
    );
}

#[test]
fn route_002_and_003_the_ranges_of_routes_are_checked_and_none_is_no_mistake() {
    let routes = |cidrs: &str| read_with(&format!("{cidrs} - - - - x"), false, true);
    assert_eq!(
        routes("-"),
        Ok(PodNetworks::default()),
        "the caller says that there are no routes then"
    );
    let mistakes = |cidrs: &str| routes(cidrs).unwrap_err().join(" | ");
    assert_eq!(
        mistakes("10.0.0.0"),
        "--cluster-cidr: invalid CIDR address: 10.0.0.0"
    );
    assert_eq!(
        mistakes("10.0.0.0/8,"),
        "--cluster-cidr: invalid CIDR address: "
    );
    assert_eq!(mistakes("10.0.0.0/16,10.1.0.0/16"), NOT_DUAL);
    let both = |cidrs| routes(cidrs).unwrap().cluster_cidrs.len();
    assert_eq!(
        (both("fd00::/56,10.0.0.0/16"), both("10.0.0.0/16,fd00::/56")),
        (2, 2)
    );
    let spaced = PodNetworks::read(&PodNetworkFlags {
        cluster_cidr: " 10.0.0.0/16 , fd00::/56 ",
        has_routes: true,
        allocate_node_cidrs: false,
        service_cidrs: &[],
        node_cidr_mask_size: 0,
        node_cidr_mask_size_ipv4: 0,
        node_cidr_mask_size_ipv6: 0,
        cidr_allocator_type: "",
    });
    assert_eq!(spaced.unwrap().cluster_cidrs.len(), 2);
}

#[test]
fn ipam_008_allocation_without_a_range_is_a_mistake_in_upstreams_words() {
    assert_eq!(
        outcome("- - - - - RangeAllocator"),
        "Controller: Must specify --cluster-cidr if --allocate-node-cidrs is set"
    );
}
