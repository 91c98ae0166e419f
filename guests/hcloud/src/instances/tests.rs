//! A server in the vendor's documented form as an instance of the contract.
#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::config;
use serde::Deserialize;

use super::*;
use crate::api::{Ip, PrivateNet};
use crate::config::AddressFamily;
use ccm_guest::AddressType;

const NETWORK: Option<u64> = Some(4711);

#[derive(Deserialize)]
struct Fixture {
    server: Server,
}

fn running() -> Server {
    let fixture: Fixture =
        serde_json::from_str(include_str!("../../fixtures/server.json")).unwrap();
    fixture.server
}

fn off() -> Server {
    let fixture: Fixture =
        serde_json::from_str(include_str!("../../fixtures/server-off-private-only.json")).unwrap();
    fixture.server
}

fn settings(family: AddressFamily) -> Settings {
    Settings {
        family,
        ..Settings::read(&config(&[])).unwrap()
    }
}

fn addresses_of(
    family: AddressFamily,
    network: Option<u64>,
    server: &Server,
) -> Vec<(AddressType, String)> {
    let instance = instance(&settings(family), network, server);
    instance
        .addresses
        .into_iter()
        .map(|address| (address.address_type, address.address))
        .collect()
}

#[test]
fn every_field_has_its_place() {
    let instance = instance(&settings(AddressFamily::Ipv4), None, &running());
    assert_eq!(instance.provider_id, "hcloud://42");
    assert_eq!(instance.instance_type.as_deref(), Some("cx23"));
    assert_eq!(instance.region.as_deref(), Some("fsn1"));
    assert_eq!(instance.zone.as_deref(), Some("fsn1-dc14"));
    assert_eq!(instance.shutdown, Some(false));
    assert_eq!(
        instance.labels,
        [(
            "instance.hetzner.cloud/provided-by".to_owned(),
            "cloud".to_owned()
        )]
    );
    assert_eq!(instance.extra, []);
}

#[test]
fn addresses_come_in_the_documented_order() {
    let hostname = (AddressType::Hostname, "worker-1".to_owned());
    let ipv4 = (AddressType::ExternalIp, "203.0.113.42".to_owned());
    let ipv6 = (AddressType::ExternalIp, "2001:db8:0:2a::1".to_owned());
    let private = (AddressType::InternalIp, "10.0.0.7".to_owned());
    let table = [
        (AddressFamily::Ipv4, None, vec![&hostname, &ipv4]),
        (AddressFamily::Ipv6, None, vec![&hostname, &ipv6]),
        (
            AddressFamily::DualStack,
            None,
            vec![&hostname, &ipv4, &ipv6],
        ),
        (
            AddressFamily::DualStack,
            NETWORK,
            vec![&hostname, &ipv4, &ipv6, &private],
        ),
        (
            AddressFamily::Ipv6,
            NETWORK,
            vec![&hostname, &ipv6, &private],
        ),
        (AddressFamily::Ipv4, Some(1), vec![&hostname, &ipv4]),
    ];
    for (family, network, expected) in table {
        let found = addresses_of(family, network, &running());
        assert_eq!(
            found.iter().collect::<Vec<_>>(),
            expected,
            "{family:?} {network:?}"
        );
    }
}

#[test]
fn a_server_without_public_addresses_has_only_its_private_one() {
    let found = addresses_of(AddressFamily::DualStack, NETWORK, &off());
    let expected = [
        (AddressType::Hostname, "worker-2.internal".to_owned()),
        (AddressType::InternalIp, "10.0.0.8".to_owned()),
    ];
    assert_eq!(found, expected);
}

#[test]
fn node_addresses_of_the_go_manager() {
    // Name of the case, family, public IPv4, public IPv6, attached network, configured network, expected addresses
    // after the host name.
    type Row = (
        &'static str,
        AddressFamily,
        Option<&'static str>,
        Option<&'static str>,
        Option<u64>,
        Option<u64>,
        &'static [&'static str],
    );
    const V4: Option<&str> = Some("203.0.113.7");
    const V6: Option<&str> = Some("2001:db8:1234::/64");
    use AddressFamily::{DualStack, Ipv4, Ipv6};
    let table: [Row; 9] = [
        ("hostname", Ipv4, None, None, None, None, &[]),
        ("public ipv4", Ipv4, V4, V6, None, None, &["203.0.113.7"]),
        ("no public ipv4", Ipv4, None, V6, None, None, &[]),
        (
            "public ipv6",
            Ipv6,
            V4,
            V6,
            None,
            None,
            &["2001:db8:1234::1"],
        ),
        ("no public ipv6", Ipv6, V4, None, None, None, &[]),
        (
            "public dual stack",
            DualStack,
            V4,
            V6,
            None,
            None,
            &["203.0.113.7", "2001:db8:1234::1"],
        ),
        (
            "unknown private network",
            Ipv4,
            None,
            None,
            None,
            Some(1),
            &[],
        ),
        (
            "server attached to private network",
            Ipv4,
            None,
            None,
            Some(1),
            Some(1),
            &["10.0.0.2"],
        ),
        (
            "server not attached to private network",
            Ipv4,
            None,
            None,
            Some(2),
            Some(1),
            &[],
        ),
    ];
    for (name, family, ipv4, ipv6, attached, configured, expected) in table {
        let mut server = running();
        let ip = |text: &str| Ip {
            ip: text.to_owned(),
        };
        server.public_net.ipv4 = ipv4.map(ip);
        server.public_net.ipv6 = ipv6.map(ip);
        server.private_net = attached
            .map(|network| PrivateNet {
                network,
                ip: "10.0.0.2".to_owned(),
                alias_ips: Vec::new(),
            })
            .into_iter()
            .collect();
        let found = addresses_of(family, configured, &server);
        assert_eq!(
            found[0],
            (AddressType::Hostname, "worker-1".to_owned()),
            "{name}"
        );
        let rest: Vec<&str> = found[1..].iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(rest, expected, "{name}");
    }
}

#[test]
fn the_ipv6_address_is_the_first_of_the_range() {
    let table = [
        ("2001:db8::/64", Some("2001:db8::1")),
        ("2001:db8:1:2::/64", Some("2001:db8:1:2::1")),
        ("2001:db8::ff00/64", Some("2001:db8::ff01")),
        ("2001:db8::1", Some("2001:db8::1")),
        ("::/64", None),
        ("203.0.113.0/24", None),
        ("", None),
    ];
    for (range, expected) in table {
        let mut server = running();
        server.public_net.ipv6.as_mut().unwrap().ip = range.to_owned();
        let expected = expected.map(|ip| ip.parse::<Ipv6Addr>().unwrap());
        assert_eq!(public_ipv6(&server), expected, "{range:?}");
    }
}

#[test]
fn only_the_status_off_is_shutdown() {
    for status in [
        "running",
        "initializing",
        "starting",
        "stopping",
        "deleting",
        "migrating",
        "rebuilding",
        "unknown",
        "new one",
    ] {
        let server = Server {
            status: status.to_owned(),
            ..running()
        };
        let instance = instance(&settings(AddressFamily::Ipv4), None, &server);
        assert_eq!(instance.shutdown, Some(false), "{status}");
    }
    assert_eq!(
        instance(&settings(AddressFamily::Ipv4), None, &off()).shutdown,
        Some(true)
    );
}

#[test]
fn zones_are_the_names_that_clusters_already_carry() {
    let table = [
        ("nbg1", "nbg1-dc3"),
        ("hel1", "hel1-dc2"),
        ("fsn1", "fsn1-dc14"),
        ("ash", "ash-dc1"),
        ("hil", "hil-dc1"),
        ("sin", "sin-dc1"),
        ("syd1", "syd1"),
    ];
    for (location, expected) in table {
        assert_eq!(zone(location), expected);
    }
}

#[test]
fn zones_can_be_switched_off_and_regions_stay() {
    let settings = Settings {
        zones: false,
        ..settings(AddressFamily::Ipv4)
    };
    let instance = instance(&settings, None, &running());
    assert_eq!(
        (instance.zone, instance.region.as_deref()),
        (None, Some("fsn1"))
    );
}
