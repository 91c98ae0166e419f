//! Upstream's own cases about addresses, each row under its ID in `tests/conformance.md`. Host names are
//! shortened; IP addresses are upstream's, because families and spellings are what the cases are about.

use std::net::IpAddr;

use super::super::parse_provided;
use super::*;

/// ID, stored addresses, offered addresses, and the written addresses, if any.
type ChangeCase = (
    &'static str,
    &'static str,
    &'static str,
    Option<&'static str>,
);

#[test]
fn upstream_node_addresses_change_detected_any_difference_is_one() {
    let two = "InternalIP=10.0.0.1 ExternalIP=132.143.154.163";
    let moved = "InternalIP=10.0.0.1 ExternalIP=132.143.154.164";
    let named = "InternalIP=10.0.0.1 ExternalIP=132.143.154.164 Hostname=host.example";
    let more = "InternalIP=10.0.0.1 ExternalIP=132.143.154.164 ExternalDNS=host.example";
    let swapped = "ExternalIP=10.0.0.1 InternalIP=132.143.154.163";
    let cases: [ChangeCase; 6] = [
        ("TestNodeAddressesChangeDetected/01", two, two, None),
        ("TestNodeAddressesChangeDetected/02", moved, two, Some(two)),
        (
            "TestNodeAddressesChangeDetected/03",
            more,
            moved,
            Some(moved),
        ),
        // With a host name as the third address, as in upstream's table, nothing is to be written: the
        // kubelet's host name is kept before lists are compared, at upstream too.
        ("TestNodeAddressesChangeDetected/03", named, moved, None),
        (
            "TestNodeAddressesChangeDetected/04",
            moved,
            named,
            Some(named),
        ),
        (
            "TestNodeAddressesChangeDetected/05",
            swapped,
            two,
            Some(two),
        ),
    ];
    for (id, kept, offered, expected) in cases {
        let written = next(&list(offered), &stored(kept), None).unwrap();
        assert_eq!(written, expected.map(list), "{id}");
    }
}

/// ID, the annotation, offered addresses, and the chosen ones, or the IP that is missing.
type NodeIpCase = (
    &'static str,
    &'static str,
    &'static str,
    Result<&'static str, &'static str>,
);

#[test]
fn upstream_get_node_addresses_from_node_ip_the_given_ones_come_first_and_pin_their_types() {
    let cases: [NodeIpCase; 14] = [
        (
            "TestGetNodeAddressesFromNodeIP/01",
            "10.1.1.1",
            "InternalIP=10.1.1.1 Hostname=k",
            Ok("InternalIP=10.1.1.1 Hostname=k"),
        ),
        (
            "TestGetNodeAddressesFromNodeIP/02",
            "55.55.55.55",
            "InternalIP=10.1.1.1 ExternalIP=55.55.55.55 Hostname=k",
            Ok("ExternalIP=55.55.55.55 InternalIP=10.1.1.1 Hostname=k"),
        ),
        (
            "TestGetNodeAddressesFromNodeIP/03",
            "55.55.55.55",
            "InternalIP=44.44.44.44 ExternalIP=44.44.44.44 InternalIP=55.55.55.55 ExternalIP=55.55.55.55 Hostname=k",
            Ok("InternalIP=55.55.55.55 ExternalIP=55.55.55.55 Hostname=k"),
        ),
        (
            "TestGetNodeAddressesFromNodeIP/04",
            "10.1.1.1",
            "InternalIP=10.1.1.1 ExternalIP=55.55.55.55 InternalDNS=in.example ExternalDNS=out.example Hostname=k",
            Ok(
                "InternalIP=10.1.1.1 ExternalIP=55.55.55.55 InternalDNS=in.example ExternalDNS=out.example Hostname=k",
            ),
        ),
        (
            "TestGetNodeAddressesFromNodeIP/05",
            "10.1.1.1",
            "InternalIP=10.1.1.1 InternalIP=10.2.2.2 InternalIP=10.3.3.3 ExternalIP=55.55.55.55 Hostname=k",
            Ok("InternalIP=10.1.1.1 ExternalIP=55.55.55.55 Hostname=k"),
        ),
        (
            "TestGetNodeAddressesFromNodeIP/06",
            "10.2.2.2",
            "InternalIP=10.1.1.1 ExternalIP=55.55.55.55 Hostname=k",
            Err("10.2.2.2"),
        ),
        (
            "TestGetNodeAddressesFromNodeIP/07",
            "2600:1f14:1d4:d101::ba3d",
            "InternalIP=10.1.1.1 InternalIP=2600:1f14:1d4:d101:0:0:0:ba3d Hostname=k",
            Ok("InternalIP=2600:1f14:1d4:d101:0:0:0:ba3d Hostname=k"),
        ),
        (
            "TestGetNodeAddressesFromNodeIP/08",
            "10.1.1.1,fc01:1234::5678",
            "InternalIP=10.1.1.1 Hostname=k",
            Err("fc01:1234::5678"),
        ),
        (
            "TestGetNodeAddressesFromNodeIP/09",
            "10.1.1.1,fc01:1234::5678",
            "InternalIP=10.1.1.1 InternalIP=fc01:1234::5678 Hostname=k",
            Ok("InternalIP=10.1.1.1 InternalIP=fc01:1234::5678 Hostname=k"),
        ),
        (
            "TestGetNodeAddressesFromNodeIP/10",
            "10.1.1.1,fc01:1234::5678",
            "InternalIP=fc01:1234::5678 InternalIP=10.1.1.1 Hostname=k",
            Ok("InternalIP=10.1.1.1 InternalIP=fc01:1234::5678 Hostname=k"),
        ),
        (
            "TestGetNodeAddressesFromNodeIP/11",
            "10.1.1.1,fc01:1234::5678",
            "InternalIP=10.1.1.1 InternalIP=10.1.1.2 InternalIP=fc01:1234::1234 InternalIP=fc01:1234::5678 Hostname=k",
            Ok("InternalIP=10.1.1.1 InternalIP=fc01:1234::5678 Hostname=k"),
        ),
        (
            "TestGetNodeAddressesFromNodeIP/12",
            "10.1.1.1,fc01:1234::5678",
            "InternalIP=10.1.1.1 ExternalIP=55.55.55.55 InternalIP=fc01:1234::1234 InternalIP=fc01:1234::5678 Hostname=k",
            Ok("InternalIP=10.1.1.1 InternalIP=fc01:1234::5678 ExternalIP=55.55.55.55 Hostname=k"),
        ),
        (
            "TestGetNodeAddressesFromNodeIP/13",
            "fc01:1234::5678,10.1.1.1",
            "InternalIP=10.1.1.1 ExternalIP=55.55.55.55 InternalIP=fc01:1234::5678 ExternalIP=2001:db1::1 Hostname=k",
            Ok(
                "InternalIP=fc01:1234::5678 InternalIP=10.1.1.1 ExternalIP=55.55.55.55 ExternalIP=2001:db1::1 Hostname=k",
            ),
        ),
        (
            "TestGetNodeAddressesFromNodeIP/14",
            "55.55.55.55,fc01:1234::5678",
            "InternalIP=10.1.1.1 ExternalIP=55.55.55.55 InternalIP=fc01:1234::5678 ExternalIP=2001:db1::1 Hostname=k",
            Ok("ExternalIP=55.55.55.55 InternalIP=fc01:1234::5678 Hostname=k"),
        ),
    ];
    for (id, given, offered, expected) in cases {
        let expected = expected
            .map(list)
            .map_err(|missing| NodeIpError::NoMatch(missing.parse().unwrap()));
        assert_eq!(prefer(&list(offered), given), expected, "{id}");
    }
}

#[test]
fn upstream_parse_node_ip_annotation_one_ip_or_two_of_different_families_and_nothing_else() {
    let cases: [(&str, &str, &[&str]); 20] = [
        ("TestParseNodeIPAnnotation/01", "", &[]),
        ("TestParseNodeIPAnnotation/02", " ", &[]),
        ("TestParseNodeIPAnnotation/03", "blah", &[]),
        ("TestParseNodeIPAnnotation/04", "1.2.3.4", &["1.2.3.4"]),
        ("TestParseNodeIPAnnotation/05", " 1.2.3.4   ", &[]),
        ("TestParseNodeIPAnnotation/06", "01.2.3.004", &["1.2.3.4"]),
        ("TestParseNodeIPAnnotation/07", "1.2.3", &[]),
        ("TestParseNodeIPAnnotation/08", "1.2.3.0/24", &[]),
        ("TestParseNodeIPAnnotation/09", "0.0.0.0", &["0.0.0.0"]),
        (
            "TestParseNodeIPAnnotation/10",
            "1.2.3.4,not-an-IPv6-address",
            &[],
        ),
        (
            "TestParseNodeIPAnnotation/11",
            "abcd::ef01",
            &["abcd::ef01"],
        ),
        (
            "TestParseNodeIPAnnotation/12",
            "abcd:0abc:00ab:0000:0000::1",
            &["abcd:abc:ab::1"],
        ),
        (
            "TestParseNodeIPAnnotation/13",
            "1.2.3.4,abcd::ef01",
            &["1.2.3.4", "abcd::ef01"],
        ),
        ("TestParseNodeIPAnnotation/14", "abcd::ef01 , 1.2.3.4", &[]),
        ("TestParseNodeIPAnnotation/15", "1.2.3.4,5.6.7.8", &[]),
        ("TestParseNodeIPAnnotation/16", "abcd::1,abcd::2", &[]),
        ("TestParseNodeIPAnnotation/17", "1.2.3.4,::", &[]),
        ("TestParseNodeIPAnnotation/18", "0.0.0.0,abcd::1", &[]),
        (
            "TestParseNodeIPAnnotation/19",
            "abcd::ef01 , 1.2.3.4, something else",
            &[],
        ),
        (
            "TestParseNodeIPAnnotation/20",
            "1.2.3.4,abcd::1,5.6.7.8",
            &[],
        ),
    ];
    for (id, given, expected) in cases {
        let ips: Vec<IpAddr> = expected.iter().map(|ip| ip.parse().unwrap()).collect();
        let expected = if ips.is_empty() {
            Err(NodeIpError::Syntax(given.to_owned()))
        } else {
            Ok(ips)
        };
        assert_eq!(parse_provided(given), expected, "{id}");
    }
}
