//! The syntax of addresses and labels, as the Kubernetes API and RFC 1123 have it. Predicates only.

use std::net::{IpAddr, Ipv4Addr};

use crate::cloud::Address;

/// The longest DNS name, in bytes (RFC 1123, section 2.1, less the final dot).
const MAX_NAME: usize = 253;
/// The longest label of a DNS name, and the longest Kubernetes label name and value, in bytes.
const MAX_PART: usize = 63;

/// What is wrong with an address, if anything is.
pub(crate) fn address_problem(one: &Address) -> Option<&'static str> {
    if !one.address_type.is_ip() {
        return (!is_dns_name(&one.address)).then_some("it is not a DNS name");
    }
    match one.ip() {
        None => Some("it is not an IP address"),
        Some(ip) => forbidden_range(ip),
    }
}

/// Why `ip` cannot be an address under which a machine is reached from another one, if it cannot.
pub(crate) fn forbidden_range(ip: IpAddr) -> Option<&'static str> {
    // An IPv4 address written as IPv6 (`::ffff:127.0.0.1`) is judged as what it is.
    match ip.to_canonical() {
        ip if ip.is_unspecified() => Some("it is the unspecified address"),
        ip if ip.is_loopback() => Some("it is a loopback address"),
        ip if ip.is_multicast() => Some("it is a multicast address"),
        IpAddr::V4(Ipv4Addr::BROADCAST) => Some("it is the broadcast address"),
        IpAddr::V4(v4) if v4.is_link_local() => Some("it is a link-local address"),
        IpAddr::V4(v4) if v4.octets()[0] == 0 => Some("it is an address of \"this network\""),
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Some("it is a link-local address"),
        _ => None,
    }
}

/// RFC 1123: parts of letters, digits and inner dashes, joined by dots. Either case, as clouds write both.
pub(crate) fn is_dns_name(text: &str) -> bool {
    text.len() <= MAX_NAME && text.split('.').all(is_dns_part)
}

fn is_dns_part(part: &str) -> bool {
    (1..=MAX_PART).contains(&part.len())
        && part
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !part.starts_with('-')
        && !part.ends_with('-')
}

/// `name` or `domain/name`: the domain lower-case DNS, the name like a non-empty label value.
pub(crate) fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        None => is_qualified_name(key),
        Some((domain, name)) => {
            is_dns_name(domain)
                && !domain.bytes().any(|byte| byte.is_ascii_uppercase())
                && is_qualified_name(name)
        }
    }
}

/// Empty, or letters, digits and inner `-`, `_`, `.`; at most 63 bytes.
pub(crate) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_qualified_name(value)
}

fn is_qualified_name(text: &str) -> bool {
    let is_end = |one: Option<u8>| one.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= MAX_PART
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && is_end(text.bytes().next())
        && is_end(text.bytes().last())
}
