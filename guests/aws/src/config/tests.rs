#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::config;
use ccm_guest::{Error, IpFamily};

use super::*;

#[test]
fn keys_of_the_go_provider_are_read() {
    let given = config(&[
        ("Zone", "eu-west-1a"),
        ("KubernetesClusterTag", "prod"),
        ("NodeIPFamilies", "ipv6,ipv4"),
        ("ClusterServiceLoadBalancerHealthProbeMode", "Shared"),
        ("ClusterServiceSharedLoadBalancerHealthProbePort", "8080"),
        ("NLBSecurityGroupMode", "Managed"),
        ("DisableSecurityGroupIngress", "true"),
        ("VPC", "vpc-1"),
    ]);
    let settings = Settings::read(&given).unwrap();
    assert_eq!(
        (settings.region.as_str(), settings.vpc.as_deref()),
        ("eu-west-1", Some("vpc-1"))
    );
    assert_eq!(settings.families, [IpFamily::Ipv6, IpFamily::Ipv4]);
    assert_eq!(
        settings.shared_health,
        Some(SharedHealth {
            port: 8080,
            path: "/healthz".to_owned()
        })
    );
    assert!(settings.own_security_groups && !settings.opens_node_groups);
    let tags = [
        ("kubernetes.io/cluster/prod", "owned"),
        ("KubernetesCluster", "prod"),
    ];
    assert_eq!(
        settings.cluster.owned(),
        tags.map(|(key, value)| (key.to_owned(), value.to_owned()))
    );
}

/// As in the Go provider: OpenShift's file says 0.
#[test]
fn the_shared_check_at_port_0_is_at_kube_proxys() {
    let given = config(&[
        ("Region", "eu-west-1"),
        ("KubernetesClusterID", "prod"),
        ("ClusterServiceLoadBalancerHealthProbeMode", "Shared"),
        ("ClusterServiceSharedLoadBalancerHealthProbePort", "0"),
    ]);
    let settings = Settings::read(&given).unwrap();
    assert_eq!(settings.shared_health.as_ref().unwrap().port, KUBE_PROXY);
}

/// As in the Go provider: a zone counts before a region, and local zones have the name of another place after that of
/// the region.
#[test]
fn a_zone_names_its_region() {
    for (zone, region) in [
        ("eu-west-1a", "eu-west-1"),
        ("us-gov-east-1a", "us-gov-east-1"),
        ("us-west-2-lax-1a", "us-west-2"),
        ("us-east-1-wl1-bos-wlz-1", "us-east-1"),
    ] {
        let given = config(&[
            ("Zone", zone),
            ("Region", "ap-south-1"),
            ("KubernetesClusterID", "prod"),
        ]);
        let settings = Settings::read(&given).unwrap();
        assert_eq!(settings.region, region, "{zone}");
    }
    let given = config(&[("Zone", "nowhere"), ("KubernetesClusterID", "prod")]);
    let refused = Settings::read(&given).unwrap_err();
    assert!(refused.message().starts_with("Zone: "), "{refused:?}");
}

#[test]
fn all_mistakes_are_told_at_once() {
    let given = config(&[
        ("NodeIPFamilies", "ipv5"),
        ("NLBSecurityGroupMode", "Unmanaged"),
        ("ClusterServiceSharedLoadBalancerHealthProbePort", "65536"),
        ("DisableSecurityGroupIngress", "perhaps"),
    ]);
    let Err(Error::Invalid(reported)) = Settings::read(&given) else {
        panic!()
    };
    for key in [
        "Region",
        "KubernetesClusterID",
        "the tag kubernetes.io/cluster/ID of the nodes' instances",
        "NodeIPFamilies",
        "NLBSecurityGroupMode",
        "HealthProbePort",
        "DisableSecurityGroupIngress",
    ] {
        assert!(reported.contains(key), "{key}: {reported}");
    }
    let given = config(&[
        ("Region", "r"),
        ("KubernetesClusterID", "a"),
        ("KubernetesClusterTag", "b"),
    ]);
    assert!(Settings::read(&given).is_err(), "two clusters");
}

#[test]
fn tags_say_whose_an_object_is() {
    let cluster = Cluster {
        id: "prod".to_owned(),
        legacy: false,
    };
    let (ours, others) = (
        ("kubernetes.io/cluster/prod", "shared"),
        ("kubernetes.io/cluster/test", "owned"),
    );
    for (tags, claim) in [
        (vec![], Claim::Untagged),
        (vec![("Name", "prod")], Claim::Untagged),
        (vec![others], Claim::Others),
        (vec![others, ours], Claim::Ours),
        (vec![("KubernetesCluster", "prod")], Claim::Ours),
        (vec![("KubernetesCluster", "test")], Claim::Others),
    ] {
        assert_eq!(cluster.claim(tags.clone()), claim, "{tags:?}");
    }
}

#[test]
fn the_manifest_declares_what_is_read() {
    let manifest: serde_json::Value =
        serde_json::from_str(include_str!("../../manifest.json")).unwrap();
    let declared = manifest["config"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["key"].as_str().unwrap());
    let source = include_str!("../config.rs");
    for key in declared {
        assert!(source.contains(&format!("\"{key}\"")), "{key}");
    }
}
