//! A dedicated server in the vendor's documented form as an instance of the contract.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::{config, node};
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Envelope {
    server: Server,
}

/// The documented server, and one without IPv4 address and name.
fn servers() -> Vec<Server> {
    let envelopes: Vec<Envelope> =
        serde_json::from_str(include_str!("../../../fixtures/robot-servers.json")).unwrap();
    envelopes.into_iter().map(|one| one.server).collect()
}

fn settings(family: AddressFamily) -> Settings {
    Settings {
        family,
        ..Settings::read(&config(&[])).unwrap()
    }
}

fn brief(addresses: &[Address]) -> Vec<(AddressType, &str)> {
    let brief = addresses
        .iter()
        .map(|address| (address.address_type, address.address.as_str()));
    brief.collect()
}

#[test]
fn every_field_has_its_place() {
    let (instance, events) = instance(
        &settings(AddressFamily::Ipv4),
        true,
        &node("robot-server1", None),
        &servers()[0],
    );
    assert_eq!(instance.provider_id, "hrobot://321");
    assert_eq!(instance.instance_type.as_deref(), Some("Robot-Server-1"));
    assert_eq!(instance.zone.as_deref(), Some("nbg1-dc1"));
    assert_eq!(instance.region.as_deref(), Some("nbg1"));
    assert_eq!(
        brief(&instance.addresses),
        [
            (AddressType::Hostname, "robot-server1"),
            (AddressType::ExternalIp, "233.252.0.123")
        ]
    );
    let label = (
        "instance.hetzner.cloud/provided-by".to_owned(),
        "robot".to_owned(),
    );
    assert_eq!(instance.labels, [label]);
    assert_eq!((instance.shutdown, instance.extra), (None, Vec::new()));
    assert_eq!(events, []);
}

#[test]
fn a_stored_provider_id_comes_back_as_it_is_stored() {
    for (stored, expected) in [
        (None, "hrobot://321"),
        (Some(""), "hrobot://321"),
        (Some("hrobot://321"), "hrobot://321"),
        (Some("hcloud://bm-321"), "hcloud://bm-321"),
    ] {
        let node = node("robot-server1", stored);
        let (instance, _) = instance(&settings(AddressFamily::Ipv4), true, &node, &servers()[0]);
        assert_eq!(instance.provider_id, expected, "{stored:?}");
    }
}

#[test]
fn node_addresses_of_robot_servers_in_the_go_manager() {
    use AddressFamily::{DualStack, Ipv4, Ipv6};
    const V4: &str = "203.0.113.7";
    const V6: &str = "2001:db8:1234::1";
    // Name of the case, family, the kubelet's InternalIP, expected addresses after the host name, whether an event is
    // expected.
    type Row = (
        &'static str,
        AddressFamily,
        Option<&'static str>,
        &'static [&'static str],
        bool,
    );
    let table: [Row; 10] = [
        ("public ipv4", Ipv4, None, &[V4], false),
        ("public ipv6", Ipv6, None, &[V6], false),
        ("public dual stack", DualStack, None, &[V6, V4], false),
        (
            "public ipv4 and internal ip",
            Ipv4,
            Some("10.0.1.2"),
            &[V4, "10.0.1.2"],
            false,
        ),
        (
            "configured InternalIP is also ExternalIP",
            Ipv4,
            Some(V4),
            &[V4],
            true,
        ),
        (
            "configured InternalIP does not fit configured AddressFamily",
            Ipv4,
            Some("2001:db8:1234::"),
            &[V4],
            true,
        ),
        // Cases of this provider's own.
        (
            "IPv4 in an IPv6 cluster",
            Ipv6,
            Some("10.0.1.2"),
            &[V6],
            true,
        ),
        (
            "the ExternalIP in another spelling",
            DualStack,
            Some("2001:0db8:1234:0::1"),
            &[V6, V4],
            true,
        ),
        (
            "any family in a dual stack cluster",
            DualStack,
            Some("fd00::2"),
            &[V6, V4, "fd00::2"],
            false,
        ),
        ("no address", Ipv4, Some("ten"), &[V4], false),
    ];
    for (name, family, internal, expected, has_event) in table {
        let server = Server {
            name: "foobar".to_owned(),
            ipv4: Some(V4.to_owned()),
            ipv6_net: Some("2001:db8:1234::".to_owned()),
            ..Server::default()
        };
        let mut node = node("foobar", None);
        node.addresses = internal
            .map(Address::internal)
            .into_iter()
            .chain([
                Address::hostname("foobar"),
                Address::external("198.51.100.1"),
            ])
            .collect();
        let (found, events) = addresses(family, true, &node, &server);
        assert_eq!(found[0], Address::hostname("foobar"), "{name}");
        let rest: Vec<&str> = found[1..].iter().map(|one| one.address.as_str()).collect();
        assert_eq!(rest, expected, "{name}");
        let reasons: Vec<&str> = events.iter().map(|event| event.reason.as_str()).collect();
        let expected = ["MisconfiguredInternalIP"];
        assert_eq!(reasons, &expected[..usize::from(has_event)], "{name}");

        let (found, events) = addresses(family, false, &node, &server);
        assert!(
            found
                .iter()
                .all(|one| one.address_type != AddressType::InternalIp),
            "{name}: forwarding is off"
        );
        assert_eq!(events, [], "{name}");
    }
}

#[test]
fn a_server_without_ipv4_has_only_what_it_has() {
    let server = &servers()[1];
    let node = node("", None);
    let (found, _) = addresses(AddressFamily::DualStack, true, &node, server);
    assert_eq!(
        brief(&found),
        [
            (AddressType::Hostname, ""),
            (AddressType::ExternalIp, "2001:db8:111:4222::1")
        ]
    );
    let (found, _) = addresses(AddressFamily::Ipv4, true, &node, server);
    assert_eq!(found.len(), 1);
}

#[test]
fn the_vendors_texts_become_labels() {
    let table = [
        ("Robot Server™ 1", Some("Robot-Server-1")),
        ("AX41-NVMe", Some("AX41-NVMe")),
        ("EX101 #2 (auction)", Some("EX101-2-auction")),
        ("  Server Auction. ", Some("Server-Auction")),
        ("PX_92.1", Some("PX_92.1")),
        ("™", None),
        ("", None),
    ];
    for (product, expected) in table {
        assert_eq!(label(product).as_deref(), expected, "{product:?}");
    }
    let long = format!("{}-{}", "a".repeat(62), "b".repeat(62));
    assert_eq!(label(&long), Some("a".repeat(62)));
}
