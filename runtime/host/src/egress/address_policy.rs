//! Policy for the IP addresses that may be dialled.
//!
//! Metadata services, link-local and reserved addresses are always refused; loopback and private addresses pass only
//! when the grant names them; all other public addresses pass. An IPv4 address embedded in an IPv6 address is judged
//! as IPv4. Pure functions: nothing here resolves a name or opens a connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use thiserror::Error;
use url::Url;

/// Refusal to dial an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("address {address} is refused: {why}")]
pub struct AddressRefused {
    /// Refused address, as resolved or written.
    pub address: IpAddr,
    /// Reason, a fixed text.
    pub why: &'static str,
}

/// AWS's metadata services: of instances, and of containers (ECS, EKS Pod Identity). No target may be one of them; the
/// host itself may ask them for the credential of a target.
pub(super) const AWS_METADATA: [IpAddr; 5] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
];

/// Class of an address for dialling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Cannot be granted; the reason.
    Never(&'static str),
    /// Has to be granted; the reason if it is not.
    Local(&'static str),
    /// A public address, which needs no grant.
    Public,
}

/// Checks whether `address` may be dialled under a grant of the ranges `granted`.
///
/// # Errors
/// Why it may not.
pub fn check(address: IpAddr, granted: &[IpNet]) -> Result<(), AddressRefused> {
    let refused = |why| Err(AddressRefused { address, why });
    // Every address that this one may lead to has to pass; usually there is only one.
    for inner in readings(address) {
        match kind(inner) {
            Kind::Never(why) => return refused(why),
            Kind::Local(why) if !granted.iter().any(|range| range.contains(&inner)) => {
                return refused(why);
            }
            Kind::Local(_) | Kind::Public => {}
        }
    }
    Ok(())
}

/// Whether an address stays inside this machine; unencrypted requests go only to such addresses.
pub fn is_loopback(address: IpAddr) -> bool {
    readings(address).iter().all(IpAddr::is_loopback)
}

/// Whether a host as in a URL, with or without a port, is `localhost` or such an address.
pub fn is_loopback_host(host: &str) -> bool {
    let Ok(url) = Url::parse(&format!("http://{host}/")) else {
        return false;
    };
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(ip)) => is_loopback(ip.into()),
        Some(url::Host::Ipv6(ip)) => is_loopback(ip.into()),
        None => false,
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> IpNet {
    IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), length)
}

/// The first four segments and the last one.
const fn v6(a: u16, b: u16, c: u16, d: u16, h: u16, length: u8) -> IpNet {
    IpNet::new_assert(IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, h)), length)
}

const LOOPBACK: Kind =
    Kind::Local("a loopback address, which `addresses` in the configuration does not allow");
const PRIVATE: Kind =
    Kind::Local("a private address, which `addresses` in the configuration does not allow");
const SHARED: Kind = Kind::Local(
    "a shared address (RFC 6598), which `addresses` in the configuration does not allow",
);
const UNSPECIFIED: Kind = Kind::Never("unspecified");
const LINK_LOCAL: Kind = Kind::Never("link-local, where metadata services are");
const METADATA: Kind = Kind::Never("a metadata service");
const MULTICAST: Kind = Kind::Never("multicast");
const DOCUMENTATION: Kind = Kind::Never("reserved for documentation");
const BENCHMARKS: Kind = Kind::Never("reserved for benchmarks");
const RESERVED: Kind = Kind::Never("reserved");

/// IANA's special-purpose registries (RFC 6890), and the metadata services of clouds, some of which are inside of other
/// ranges. The first range that contains an address counts.
const RANGES: &[(IpNet, Kind)] = &[
    // Alibaba Cloud's metadata service, inside the range of RFC 6598.
    (v4(100, 100, 100, 200, 32), METADATA),
    // Azure's wire server.
    (v4(168, 63, 129, 16, 32), METADATA),
    (v4(0, 0, 0, 0, 8), UNSPECIFIED),
    (v4(169, 254, 0, 0, 16), LINK_LOCAL),
    (v4(192, 0, 0, 0, 24), Kind::Never("reserved for protocols")),
    (v4(192, 0, 2, 0, 24), DOCUMENTATION),
    (v4(192, 88, 99, 0, 24), RESERVED),
    (v4(198, 18, 0, 0, 15), BENCHMARKS),
    (v4(198, 51, 100, 0, 24), DOCUMENTATION),
    (v4(203, 0, 113, 0, 24), DOCUMENTATION),
    (v4(224, 0, 0, 0, 4), MULTICAST),
    (v4(240, 0, 0, 0, 4), Kind::Never("reserved or broadcast")),
    (v4(127, 0, 0, 0, 8), LOOPBACK),
    (v4(10, 0, 0, 0, 8), PRIVATE),
    (v4(172, 16, 0, 0, 12), PRIVATE),
    (v4(192, 168, 0, 0, 16), PRIVATE),
    (v4(100, 64, 0, 0, 10), SHARED),
    // Amazon EC2: metadata, DNS and time.
    (v6(0xfd00, 0xec2, 0, 0, 0, 32), METADATA),
    // Google Cloud.
    (v6(0xfd20, 0xce, 0, 0, 0, 32), METADATA),
    // Akamai (Linode).
    (v6(0xfd00, 0xa9fe, 0xa9fe, 0, 0, 48), METADATA),
    // Oracle Cloud.
    (v6(0xfd00, 0xc1, 0, 0, 0, 32), METADATA),
    // Scaleway.
    (v6(0xfd00, 0x42, 0, 0, 0x42, 128), METADATA),
    (v6(0x2001, 2, 0, 0, 0, 48), BENCHMARKS),
    (v6(0x2001, 0x10, 0, 0, 0, 28), RESERVED),
    (v6(0x2001, 0x20, 0, 0, 0, 28), RESERVED),
    (v6(0x2001, 0xdb8, 0, 0, 0, 32), DOCUMENTATION),
    (v6(0x3fff, 0, 0, 0, 0, 20), DOCUMENTATION),
    (v6(0, 0, 0, 0, 1, 128), LOOPBACK),
    (v6(0, 0, 0, 0, 0, 128), UNSPECIFIED),
    (v6(0xfe80, 0, 0, 0, 0, 10), LINK_LOCAL),
    (v6(0xff00, 0, 0, 0, 0, 8), MULTICAST),
    (v6(0xfc00, 0, 0, 0, 0, 7), PRIVATE),
    // NAT64: the embedded IPv4 address is checked separately.
    (v6(0x64, 0, 0, 0, 0, 16), Kind::Public),
    // The only allocated part of the address space (RFC 4291, IANA).
    (v6(0x2000, 0, 0, 0, 0, 3), Kind::Public),
];

fn kind(address: IpAddr) -> Kind {
    let range = RANGES.iter().find(|(range, _)| range.contains(&address));
    match (range, address) {
        (Some((_, kind)), _) => *kind,
        (None, IpAddr::V4(_)) => Kind::Public,
        (None, IpAddr::V6(_)) => RESERVED,
    }
}

/// All addresses that dialling this one may reach: itself and the IPv4 addresses embedded in it. A mapped address
/// counts only as the embedded one, because the kernel dials IPv4 for it.
fn readings(address: IpAddr) -> Vec<IpAddr> {
    let IpAddr::V6(outer) = address else {
        return vec![address];
    };
    let octets = outer.octets();
    let segments = outer.segments();
    let pick = |at: [usize; 4]| {
        IpAddr::from(at.map(|index| octets.get(index).copied().unwrap_or_default()))
    };
    if let Some(mapped) = outer.to_ipv4_mapped() {
        return vec![IpAddr::V4(mapped)];
    }
    let mut found = vec![address];
    let last = [12, 13, 14, 15];
    match segments {
        // IPv4-compatible (RFC 4291, 2.5.5.1), but neither `::` nor `::1`.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 || low > 1 => found.push(pick(last)),
        // NAT64's well-known prefix (RFC 6052).
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => found.push(pick(last)),
        // NAT64's local-use prefix (RFC 8215): the prefix length is unknown, so every position is checked.
        [0x64, 0xff9b, 1, 0, 0, 0, ..] => found.push(pick(last)),
        [0x64, 0xff9b, 1, ..] => {
            found.extend([[6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12], last].map(pick));
        }
        [0x64, ..] => found.push(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        // 6to4 (RFC 3056).
        [0x2002, ..] => found.push(pick([2, 3, 4, 5])),
        // Teredo (RFC 4380): the server, and the client with inverted bits.
        [0x2001, 0, ..] => {
            found.push(pick([4, 5, 6, 7]));
            let client = u32::from(segments[6]) << 16 | u32::from(segments[7]);
            found.push(IpAddr::V4(Ipv4Addr::from_bits(!client)));
        }
        _ => {}
    }
    // ISATAP (RFC 5214): the interface identifier announces that an IPv4 address follows.
    if matches!((segments[4], segments[5]), (0 | 0x200, 0x5efe)) {
        found.push(pick(last));
    }
    found
}

#[cfg(test)]
mod tests;
