//! IPv4 ranges, compared as numbers and not as text. Pure.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// A range of IPv4 addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    first: u32,
    length: u32,
}

impl Range {
    /// Every address: the default route, which may overlap with any other.
    pub const ALL: Range = Range {
        first: 0,
        length: 0,
    };

    /// A range as in `10.244.1.0/24`, or one address. Bits behind the prefix count for nothing.
    pub fn read(text: &str) -> Option<Range> {
        let (address, length) = text.split_once('/').unwrap_or((text, "32"));
        let address: Ipv4Addr = address.parse().ok()?;
        let length: u32 = length.parse().ok().filter(|length| *length <= 32)?;
        let first = address.to_bits() & mask(length);
        Some(Range { first, length })
    }

    /// The first address.
    pub fn first(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.first)
    }

    /// Whether the address is in it.
    pub fn holds(self, address: Ipv4Addr) -> bool {
        address.to_bits() & mask(self.length) == self.first
    }

    /// Whether all of the other one is in it.
    pub fn contains(self, other: Range) -> bool {
        self.length <= other.length && self.holds(other.first())
    }

    /// Whether there is an address in both.
    pub fn overlaps(self, other: Range) -> bool {
        self.contains(other) || other.contains(self)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first(), self.length)
    }
}

/// Whether the text is a range of IPv6 addresses.
pub fn is_ipv6(text: &str) -> bool {
    let (address, length) = text.split_once('/').unwrap_or((text, "128"));
    let is_length = length.parse().is_ok_and(|length: u32| length <= 128);
    is_length && matches!(address.parse(), Ok(IpAddr::V6(_)))
}

fn mask(length: u32) -> u32 {
    u32::MAX.checked_shl(32 - length.min(32)).unwrap_or(0)
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
            ("010.0.0.0/8", None),
            ("fd00::/64", None),
            ("", None),
        ];
        for (text, expected) in table {
            let shown = Range::read(text).map(|range| range.to_string());
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
            let read = |text| Range::read(text).unwrap();
            let (one, other) = (read(one), read(other));
            assert_eq!(one.contains(other), contains, "{one} {other}");
            assert_eq!(one.overlaps(other), overlaps, "{one} {other}");
            assert_eq!(other.overlaps(one), overlaps, "{other} {one}");
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
