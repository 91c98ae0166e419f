#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use super::*;

fn granted(ranges: &[&str]) -> Vec<IpNet> {
    ranges.iter().map(|range| range.parse().unwrap()).collect()
}

/// The widest ranges that an operator could grant.
fn everything() -> Vec<IpNet> {
    granted(&["0.0.0.0/0", "::/0"])
}

#[test]
fn metadata_link_local_and_reserved_addresses_are_never_dialled() {
    for text in [
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "169.254.0.1",
        "169.254.169.253",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "192.0.2.1",
        "198.51.100.7",
        "203.0.113.9",
        "198.18.0.1",
        "198.19.255.255",
        "192.88.99.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "fe80::1",
        "fe80::a9fe:a9fe",
        "febf::1",
        "fec0::1",
        "ff02::1",
        "ff0e::1",
        "fd00:ec2::254",
        "fd00:ec2::253",
        "fd20:ce::254",
        "fd00:a9fe:a9fe::1",
        "fd00:c1::a9fe:a9fe",
        "fd00:42::42",
        "2001:db8::1",
        "3fff::1",
        "2001:2::1",
        "2001:10::1",
        "2001:20::1",
        "100::1",
        "4000::1",
        "5f00::1",
        "e000::1",
        // IPv4 in IPv6: mapped, compatible, NAT64, 6to4, Teredo (client and server), ISATAP.
        "::ffff:169.254.169.254",
        "::ffff:0.0.0.0",
        "::a9fe:a9fe",
        "::169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "64:ff9b:1:a9fe:a9:fe00::",
        "64:ff9b:1:abcd::a9fe:a9fe",
        // Prefixes of 56 and of 64 bits; at each other position a public address.
        "64:ff9b:1:8a8:3f:8110:808:808",
        "64:ff9b:1:808:a8:3f81:1008:808",
        "64:ff9b:2::1",
        "2002:a9fe:a9fe::",
        "2002:a9fe:a9fe::1",
        "2001:0:4136:e378:8000:63bf:5601:5601",
        "2001:0:a9fe:a9fe::1",
        "2a01::5efe:a9fe:a9fe",
        "2a01::200:5efe:a9fe:a9fe",
        "64:ff9b::7f00:0:1",
        "::8.8.8.8",
    ] {
        let address = text.parse().unwrap();
        assert!(
            check(address, &everything()).is_err(),
            "{text} was let through"
        );
        assert!(
            check(address, &granted(&[&IpNet::from(address).to_string()])).is_err(),
            "{text} could be granted"
        );
    }
}

#[test]
fn loopback_and_private_addresses_need_a_range_that_contains_them() {
    for (text, range, other) in [
        ("127.0.0.1", "127.0.0.1/32", "10.0.0.0/8"),
        ("127.9.9.9", "127.0.0.0/8", "127.0.0.1/32"),
        ("10.1.2.3", "10.0.0.0/8", "10.2.0.0/16"),
        ("172.16.0.1", "172.16.0.0/12", "172.32.0.0/12"),
        ("172.31.255.255", "172.16.0.0/12", "10.0.0.0/8"),
        ("192.168.1.1", "192.168.1.0/24", "192.168.2.0/24"),
        ("100.64.0.1", "100.64.0.0/10", "10.0.0.0/8"),
        ("::1", "::1/128", "fc00::/7"),
        ("fd12::1", "fd12::/16", "fd13::/16"),
        ("fc00::1", "fc00::/7", "fd00::/8"),
        ("::ffff:127.0.0.1", "127.0.0.0/8", "::1/128"),
        ("64:ff9b::10.0.0.1", "10.0.0.0/8", "64:ff9b::/96"),
        ("2002:a00:1::", "10.0.0.0/8", "2002::/16"),
    ] {
        let address = text.parse().unwrap();
        assert!(check(address, &[]).is_err(), "{text} needs no grant");
        assert!(
            check(address, &granted(&[other])).is_err(),
            "{text} is let through by {other}"
        );
        assert_eq!(
            check(address, &granted(&[range])),
            Ok(()),
            "{text} is not let through by {range}"
        );
    }
}

#[test]
fn public_addresses_need_no_range() {
    for text in [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.255.255",
        "100.128.0.1",
        "172.15.255.255",
        "172.32.0.1",
        "192.167.1.1",
        "169.253.255.255",
        "169.255.0.1",
        "168.63.129.17",
        "198.17.255.255",
        "198.20.0.1",
        "223.255.255.255",
        "2a01:4f8::1",
        "2606:4700::1111",
        "64:ff9b::8.8.8.8",
        "64:ff9b:1::8.8.8.8",
        "2002:808:808::1",
        "::ffff:8.8.8.8",
        "2001:4860:4860::8888",
    ] {
        assert_eq!(check(text.parse().unwrap(), &[]), Ok(()), "{text}");
    }
}

#[test]
fn a_host_is_loopback_in_every_spelling_of_this_machine() {
    for (host, expected) in [
        ("localhost", true),
        ("localhost:5000", true),
        ("LOCALHOST:5000", true),
        ("127.0.0.1:5000", true),
        ("127.8.0.1", true),
        ("127.1", true),
        ("[::1]:5000", true),
        ("[::1]", true),
        ("[::ffff:127.0.0.1]", true),
        ("registry.example.com", false),
        ("localhost.example.com:5000", false),
        ("127.0.0.1.example.com", false),
        ("10.0.0.1:5000", false),
        ("[::2]", false),
        ("[127.0.0.1]", false),
        ("", false),
    ] {
        assert_eq!(is_loopback_host(host), expected, "{host}");
    }
}

#[test]
fn loopback_is_this_machine_and_nothing_else() {
    for (text, expected) in [
        ("127.0.0.1", true),
        ("127.255.0.1", true),
        ("::1", true),
        ("::ffff:127.0.0.1", true),
        ("10.0.0.1", false),
        ("64:ff9b::127.0.0.1", false),
        ("2002:7f00:1::", false),
        ("0.0.0.0", false),
        ("8.8.8.8", false),
    ] {
        assert_eq!(is_loopback(text.parse().unwrap()), expected, "{text}");
    }
}
