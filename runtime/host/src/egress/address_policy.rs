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
        let kind = match inner {
            IpAddr::V4(inner) => v4(inner),
            IpAddr::V6(inner) => v6(inner),
        };
        match kind {
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

/// IPv4 network: address and prefix length.
type Block4 = (Ipv4Addr, u8);

/// Never dialled: IANA's special-purpose registry (RFC 6890) and cloud metadata services outside of it.
const NEVER_V4: &[(Block4, &str)] = &[
    ((Ipv4Addr::new(0, 0, 0, 0), 8), "unspecified"),
    (
        (Ipv4Addr::new(169, 254, 0, 0), 16),
        "link-local, where metadata services are",
    ),
    ((Ipv4Addr::new(192, 0, 0, 0), 24), "reserved for protocols"),
    (
        (Ipv4Addr::new(192, 0, 2, 0), 24),
        "reserved for documentation",
    ),
    ((Ipv4Addr::new(192, 88, 99, 0), 24), "reserved"),
    (
        (Ipv4Addr::new(198, 18, 0, 0), 15),
        "reserved for benchmarks",
    ),
    (
        (Ipv4Addr::new(198, 51, 100, 0), 24),
        "reserved for documentation",
    ),
    (
        (Ipv4Addr::new(203, 0, 113, 0), 24),
        "reserved for documentation",
    ),
    ((Ipv4Addr::new(224, 0, 0, 0), 4), "multicast"),
    ((Ipv4Addr::new(240, 0, 0, 0), 4), "reserved or broadcast"),
    // Alibaba Cloud's metadata service, inside the range of RFC 6598.
    (
        (Ipv4Addr::new(100, 100, 100, 200), 32),
        "a metadata service",
    ),
    // Azure's wire server.
    ((Ipv4Addr::new(168, 63, 129, 16), 32), "a metadata service"),
];

const LOCAL_V4: &[(Block4, &str)] = &[
    (
        (Ipv4Addr::new(127, 0, 0, 0), 8),
        "a loopback address, which `addresses` in the configuration does not allow",
    ),
    (
        (Ipv4Addr::new(10, 0, 0, 0), 8),
        "a private address, which `addresses` in the configuration does not allow",
    ),
    (
        (Ipv4Addr::new(172, 16, 0, 0), 12),
        "a private address, which `addresses` in the configuration does not allow",
    ),
    (
        (Ipv4Addr::new(192, 168, 0, 0), 16),
        "a private address, which `addresses` in the configuration does not allow",
    ),
    (
        (Ipv4Addr::new(100, 64, 0, 0), 10),
        "a shared address (RFC 6598), which `addresses` in the configuration does not allow",
    ),
];

fn v4(address: Ipv4Addr) -> Kind {
    let inside = |((network, length), _): &&(Block4, &'static str)| {
        let mask = u32::MAX.checked_shl(32 - u32::from(*length)).unwrap_or(0);
        address.to_bits() & mask == network.to_bits()
    };
    if let Some((_, why)) = NEVER_V4.iter().find(inside) {
        return Kind::Never(why);
    }
    match LOCAL_V4.iter().find(inside) {
        Some((_, why)) => Kind::Local(why),
        None => Kind::Public,
    }
}

/// IPv6 network: first bits and their number.
type Block6 = (u128, u8);

const fn bits(a: u16, b: u16, c: u16, d: u16, h: u16) -> u128 {
    Ipv6Addr::new(a, b, c, d, 0, 0, 0, h).to_bits()
}

/// Never dialled, even within ranges that are granted or public.
const NEVER_V6: &[(Block6, &str)] = &[
    // Amazon EC2: metadata, DNS and time.
    ((bits(0xfd00, 0xec2, 0, 0, 0), 32), "a metadata service"),
    // Google Cloud.
    ((bits(0xfd20, 0xce, 0, 0, 0), 32), "a metadata service"),
    // Akamai (Linode).
    (
        (bits(0xfd00, 0xa9fe, 0xa9fe, 0, 0), 48),
        "a metadata service",
    ),
    // Oracle Cloud.
    ((bits(0xfd00, 0xc1, 0, 0, 0), 32), "a metadata service"),
    // Scaleway.
    ((bits(0xfd00, 0x42, 0, 0, 0x42), 128), "a metadata service"),
    ((bits(0x2001, 2, 0, 0, 0), 48), "reserved for benchmarks"),
    ((bits(0x2001, 0x10, 0, 0, 0), 28), "reserved"),
    ((bits(0x2001, 0x20, 0, 0, 0), 28), "reserved"),
    (
        (bits(0x2001, 0xdb8, 0, 0, 0), 32),
        "reserved for documentation",
    ),
    ((bits(0x3fff, 0, 0, 0, 0), 20), "reserved for documentation"),
];

fn v6(address: Ipv6Addr) -> Kind {
    let inside = |(network, length): Block6| {
        let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
        address.to_bits() & mask == network
    };
    if let Some((_, why)) = NEVER_V6.iter().find(|(block, _)| inside(*block)) {
        return Kind::Never(why);
    }
    match address.segments()[0] {
        _ if address.is_loopback() => {
            Kind::Local("a loopback address, which `addresses` in the configuration does not allow")
        }
        _ if address.is_unspecified() => Kind::Never("unspecified"),
        0xfe80..=0xfebf => Kind::Never("link-local, where metadata services are"),
        0xff00..=0xffff => Kind::Never("multicast"),
        0xfc00..=0xfdff => {
            Kind::Local("a private address, which `addresses` in the configuration does not allow")
        }
        // The embedded IPv4 address of NAT64 is checked separately.
        0x64 => Kind::Public,
        // The only allocated part of the address space (RFC 4291, IANA).
        0x2000..=0x3fff => Kind::Public,
        _ => Kind::Never("reserved"),
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
