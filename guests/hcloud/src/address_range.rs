//! Parses address ranges. Pure.
//!
//! `ipnet` only computes with ranges and does not parse them here: it accepts `010.0.0.0/8`, which Go rejects and C
//! reads as 8.0.0.0/8.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::Ipv4Net;

/// All addresses: the default route, which may overlap with any other.
pub const ALL: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0);

/// Parses an IPv4 range such as `10.244.1.0/24`, or one address. Ignores bits behind the prefix.
pub fn read(text: &str) -> Option<Ipv4Net> {
    read_cidr(text).or_else(|| Some(Ipv4Net::from(text.parse::<Ipv4Addr>().ok()?)))
}

/// As [`read`], but a single address needs its `/32`.
pub fn read_cidr(text: &str) -> Option<Ipv4Net> {
    let (address, length) = text.split_once('/')?;
    // Rust's integer parser accepts a sign; a prefix length has none.
    if !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let range = Ipv4Net::new(address.parse().ok()?, length.parse().ok()?);
    Some(range.ok()?.trunc())
}

/// Whether the ranges share an address.
pub fn overlap(one: Ipv4Net, other: Ipv4Net) -> bool {
    one.contains(&other) || other.contains(&one)
}

/// Whether the text is an IPv6 range or address.
pub fn is_ipv6(text: &str) -> bool {
    let (address, length) = text.split_once('/').unwrap_or((text, "128"));
    let is_length = length.parse().is_ok_and(|length: u8| length <= 128);
    is_length && address.parse::<Ipv6Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_range_is_read_as_a_network_and_shown_in_its_one_form() {
        let table = [
            ("10.244.1.0/24", Some("10.244.1.0/24")),
            ("10.244.1.77/24", Some("10.244.1.0/24")),
            ("10.0.0.5", Some("10.0.0.5/32")),
            ("10.0.0.5/0", Some("0.0.0.0/0")),
            ("0.0.0.0/0", Some("0.0.0.0/0")),
            ("10.0.0.0/33", None),
            ("10.0.0/24", None),
            ("10.0.0.0/", None),
            ("10.0.0.0/+8", None),
            ("010.0.0.0/8", None),
            ("fd00::/64", None),
            ("", None),
        ];
        for (text, expected) in table {
            let shown = read(text).map(|range| range.to_string());
            assert_eq!(shown.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn ranges_contain_and_overlap_as_networks_do() {
        let table = [
            ("10.244.0.0/16", "10.244.1.0/24", true, true),
            ("10.244.1.0/24", "10.244.0.0/16", false, true),
            ("10.244.1.0/24", "10.244.1.128/24", true, true),
            ("10.244.1.0/24", "10.244.2.0/24", false, false),
            ("0.0.0.0/0", "192.168.0.0/16", true, true),
            ("10.0.0.7/32", "10.0.0.7", true, true),
        ];
        for (one, other, contains, overlaps) in table {
            let (one, other) = (read(one).unwrap(), read(other).unwrap());
            assert_eq!(one.contains(&other), contains, "{one} {other}");
            assert_eq!(overlap(one, other), overlaps, "{one} {other}");
            assert_eq!(overlap(other, one), overlaps, "{other} {one}");
        }
    }

    #[test]
    fn ipv6_is_recognised() {
        for (text, expected) in [
            ("fd00:10:244::/64", true),
            ("fd00::1", true),
            ("fd00::/129", false),
            ("10.244.0.0/24", false),
            ("nonsense", false),
        ] {
            assert_eq!(is_ipv6(text), expected, "{text}");
        }
    }
}
