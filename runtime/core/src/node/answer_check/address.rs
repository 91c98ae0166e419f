//! Predicates for plausible addresses: valid for the type, and outside of ranges that contain no machines.

use std::net::{IpAddr, Ipv4Addr};

use crate::cloud::instance::Address;
use crate::name_syntax::is_dns_name;

/// The problem with an address, if any.
pub(crate) fn address_problem(one: &Address) -> Option<&'static str> {
    if !one.address_type.is_ip() {
        return (!is_dns_name(&one.address)).then_some("it is not a DNS name");
    }
    match one.ip() {
        None => Some("it is not an IP address"),
        Some(ip) => forbidden_range(ip),
    }
}

/// Why `ip` cannot be an address at which other machines reach this one, if so.
pub(crate) fn forbidden_range(ip: IpAddr) -> Option<&'static str> {
    // An IPv4-mapped IPv6 address (`::ffff:127.0.0.1`) is judged as IPv4.
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
