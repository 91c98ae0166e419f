//! Upstream's cases for addresses (NODE-056, NODE-057, NODE-080 to NODE-083), and ours.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use super::*;

mod upstream;

/// Parses `InternalIP=10.0.0.1 Hostname=a`.
fn list(text: &str) -> Vec<Address> {
    text.split_whitespace()
        .map(|one| {
            let (kind, address) = one.split_once('=').unwrap();
            Address {
                address_type: AddressType::parse(kind).unwrap(),
                address: address.to_owned(),
            }
        })
        .collect()
}

fn stored(text: &str) -> Vec<StoredAddress> {
    list(text)
        .into_iter()
        .map(|one| StoredAddress {
            address_type: Some(one.address_type),
            address: one.address.into(),
        })
        .collect()
}

#[test]
fn node_056_the_kubelets_hostname_is_kept_last_only_when_the_provider_has_none() {
    let cases = [
        (
            "InternalIP=10.0.0.1",
            "Hostname=k",
            "InternalIP=10.0.0.1 Hostname=k",
        ),
        (
            "InternalIP=10.0.0.1",
            "InternalIP=10.0.0.9 Hostname=k",
            "InternalIP=10.0.0.1 Hostname=k",
        ),
        (
            "Hostname=p InternalIP=10.0.0.1",
            "Hostname=k",
            "Hostname=p InternalIP=10.0.0.1",
        ),
    ];
    for (offered, kept, expected) in cases {
        assert_eq!(
            next(&list(offered), &stored(kept), None),
            Ok(Some(list(expected))),
            "{offered}"
        );
    }
}

#[test]
fn node_056_an_empty_answer_never_clears_addresses() {
    assert_eq!(next(&[], &stored("InternalIP=10.0.0.1"), None), Ok(None));
    assert_eq!(
        next(&[], &stored("InternalIP=10.0.0.1"), Some("10.0.0.1")),
        Ok(None)
    );
}

#[test]
fn node_057_a_change_is_any_difference_between_the_ordered_lists() {
    let two = "InternalIP=10.0.0.1 ExternalIP=192.0.2.1";
    let dual = "InternalIP=10.0.0.1 InternalIP=2001:db8::1";
    for (offered, kept, changed) in [
        (two, two, false),
        (dual, dual, false),
        (two, "InternalIP=10.0.0.2 ExternalIP=192.0.2.1", true),
        ("InternalIP=10.0.0.1", two, true),
        (two, "InternalIP=10.0.0.1", true),
        (two, "ExternalIP=192.0.2.1 InternalIP=10.0.0.1", true),
        (two, "ExternalIP=10.0.0.1 InternalIP=192.0.2.1", true),
        (two, "", true),
    ] {
        let outcome = next(&list(offered), &stored(kept), None).unwrap();
        assert_eq!(outcome.is_some(), changed, "{offered} over {kept}");
    }
}

#[test]
fn a_stored_address_of_an_unknown_type_counts_as_a_change() {
    let foreign = [StoredAddress {
        address_type: None,
        address: "pigeon".into(),
    }];
    let wanted = list("InternalIP=10.0.0.1");
    assert_eq!(next(&wanted, &foreign, None), Ok(Some(wanted.clone())));
}

#[test]
fn node_080_the_annotation_is_one_ip_or_two_of_different_families() {
    for good in [
        "10.0.0.1",
        "010.000.000.001",
        "0.0.0.0",
        "2001:db8::1",
        "2001:db8:0:0:0:0:0:1",
        "::",
        "10.0.0.1,2001:db8::1",
        "2001:db8::1,10.0.0.1",
    ] {
        assert!(parse_provided(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        " ",
        "invalid-ip",
        " 10.0.0.1",
        "10.0.0.1 ",
        "10.0.0",
        "10.0.0.256",
        "10.0.0.1.2",
        "+1.2.3.4",
        "10.0.0.1/24",
        "10.0.0.1,garbage",
        "10.0.0.1, 2001:db8::1",
        "10.0.0.1,10.0.0.2",
        "2001:db8::1,2001:db8::2",
        "0.0.0.0,2001:db8::1",
        "10.0.0.1,::",
        "2001:db8::1,garbage",
        "10.0.0.1,2001:db8::1,10.0.0.2",
        "10.0.0.1,",
        "fe80::1%eth0",
    ] {
        assert_eq!(
            parse_provided(bad),
            Err(NodeIpError::Syntax(bad.to_owned())),
            "{bad:?}"
        );
    }
}

#[test]
fn node_083_the_given_addresses_come_first_and_pin_their_types() {
    for (offered, given, expected) in [
        ("InternalIP=10.1.1.1", "10.1.1.1", "InternalIP=10.1.1.1"),
        (
            "InternalIP=10.1.1.1 ExternalIP=55.55.55.55",
            "55.55.55.55",
            "ExternalIP=55.55.55.55 InternalIP=10.1.1.1",
        ),
        (
            "InternalIP=44.44.44.44 InternalIP=55.55.55.55 ExternalIP=44.44.44.44 ExternalIP=55.55.55.55",
            "55.55.55.55",
            "InternalIP=55.55.55.55 ExternalIP=55.55.55.55",
        ),
        (
            "InternalIP=10.1.1.1 ExternalIP=55.55.55.55 ExternalDNS=a.example InternalDNS=b.example Hostname=h",
            "10.1.1.1",
            "InternalIP=10.1.1.1 ExternalIP=55.55.55.55 ExternalDNS=a.example InternalDNS=b.example Hostname=h",
        ),
        (
            "InternalIP=10.1.1.1 InternalIP=10.2.2.2 InternalIP=10.3.3.3 ExternalIP=55.55.55.55",
            "10.3.3.3",
            "InternalIP=10.3.3.3 ExternalIP=55.55.55.55",
        ),
        (
            "InternalIP=10.1.1.1 InternalIP=2001:db8:0:0:0:0:0:ba3d",
            "2001:db8::ba3d",
            "InternalIP=2001:db8:0:0:0:0:0:ba3d",
        ),
        (
            "InternalIP=2001:db8::1 InternalIP=10.1.1.1",
            "10.1.1.1,2001:db8::1",
            "InternalIP=10.1.1.1 InternalIP=2001:db8::1",
        ),
        (
            "InternalIP=10.1.1.1 InternalIP=2001:db8::1 InternalIP=10.2.2.2 InternalIP=2001:db8::2",
            "10.2.2.2,2001:db8::2",
            "InternalIP=10.2.2.2 InternalIP=2001:db8::2",
        ),
        (
            "InternalIP=10.1.1.1 InternalIP=2001:db8::1 ExternalIP=55.55.55.55",
            "10.1.1.1,2001:db8::1",
            "InternalIP=10.1.1.1 InternalIP=2001:db8::1 ExternalIP=55.55.55.55",
        ),
        (
            "ExternalIP=55.55.55.55 ExternalIP=2001:db8::1 InternalIP=10.1.1.1",
            "2001:db8::1,55.55.55.55",
            "ExternalIP=2001:db8::1 ExternalIP=55.55.55.55 InternalIP=10.1.1.1",
        ),
        (
            "ExternalIP=55.55.55.55 InternalIP=10.1.1.1 InternalIP=2001:db8::1 ExternalIP=2001:db8::2",
            "55.55.55.55,2001:db8::1",
            "ExternalIP=55.55.55.55 InternalIP=2001:db8::1",
        ),
    ] {
        assert_eq!(
            prefer(&list(offered), given),
            Ok(list(expected)),
            "{given} among {offered}"
        );
    }
}

#[test]
fn node_081_an_address_that_the_provider_does_not_know_is_an_error() {
    for (offered, given, missing) in [
        ("InternalIP=10.1.1.1", "10.2.2.2", "10.2.2.2"),
        ("InternalIP=10.1.1.1", "10.1.1.1,2001:db8::1", "2001:db8::1"),
        (
            "Hostname=10.9.9.9 InternalIP=10.1.1.1",
            "0.0.0.0",
            "0.0.0.0",
        ),
    ] {
        let expected = NodeIpError::NoMatch(missing.parse().unwrap());
        assert_eq!(
            prefer(&list(offered), given),
            Err(expected),
            "{given} among {offered}"
        );
    }
}
