//! Computes a node's addresses: the provider's, merged with the kubelet's. Pure functions; writes nothing.

use std::net::{IpAddr, Ipv4Addr};

use thiserror::Error;

use crate::cloud::instance::{Address, AddressType};
use crate::node::object::StoredAddress;

/// Why the kubelet's `--node-ip` cannot be honoured.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NodeIpError {
    /// Not one IP address, nor two of different families (NODE-080).
    #[error("{0:?} is not an IP address, or two of different families joined by a comma")]
    Syntax(String),
    /// The provider's answer does not contain the address (NODE-081).
    #[error("failed to get node address from cloud provider that matches ip: {0}")]
    NoMatch(IpAddr),
}

/// Computes the new `status.addresses` from the addresses `offered` by the provider, those `stored`, and the value of
/// the annotation `alpha.kubernetes.io/provided-node-ip`, if any (NODE-056, steps 2 to 5). `None`: nothing to write.
///
/// Addresses are compared as lists: order counts, and one of two addresses of a type may differ (NODE-057 describes
/// what upstream compares instead).
///
/// # Errors
/// The annotation cannot be honoured; nothing to write.
pub fn next(
    offered: &[Address],
    stored: &[StoredAddress],
    provided: Option<&str>,
) -> Result<Option<Vec<Address>>, NodeIpError> {
    if offered.is_empty() {
        return Ok(None);
    }
    let mut wanted = offered.to_vec();
    if !wanted
        .iter()
        .any(|one| one.address_type == AddressType::Hostname)
    {
        let kubelets = stored.iter().filter_map(StoredAddress::read);
        wanted.extend(kubelets.filter(|one| one.address_type == AddressType::Hostname));
    }
    if let Some(provided) = provided {
        wanted = prefer(&wanted, provided)?;
    }
    let is_stored = wanted.len() == stored.len()
        && wanted
            .iter()
            .zip(stored)
            .all(|(wanted, stored)| stored.is(wanted));
    Ok((!is_stored).then_some(wanted))
}

/// Puts the addresses that were given to the kubelet first and drops the others of their types (NODE-081, NODE-082).
/// Keeps the provider's spelling.
///
/// # Errors
/// See [`NodeIpError`].
pub fn prefer(offered: &[Address], provided: &str) -> Result<Vec<Address>, NodeIpError> {
    let mut chosen: Vec<Address> = Vec::new();
    for ip in parse_provided(provided)? {
        let before = chosen.len();
        chosen.extend(
            offered
                .iter()
                .filter(|one| one.canonical_ip() == Some(ip))
                .cloned(),
        );
        if chosen.len() == before {
            return Err(NodeIpError::NoMatch(ip));
        }
    }
    let pinned: Vec<AddressType> = chosen.iter().map(|one| one.address_type).collect();
    chosen.extend(
        offered
            .iter()
            .filter(|one| !pinned.contains(&one.address_type))
            .cloned(),
    );
    Ok(chosen)
}

/// Parses the annotation (NODE-080): one IP address, or two of different families of which neither is unspecified. No
/// blanks, no prefix lengths.
fn parse_provided(text: &str) -> Result<Vec<IpAddr>, NodeIpError> {
    let refused = || NodeIpError::Syntax(text.chars().take(100).collect());
    let ips: Vec<IpAddr> = text
        .split(',')
        .map(parse_lenient)
        .collect::<Option<_>>()
        .ok_or_else(refused)?;
    let is_allowed = match ips.as_slice() {
        [_] => true,
        [first, second] => {
            first.is_ipv4() != second.is_ipv4()
                && !first.is_unspecified()
                && !second.is_unspecified()
        }
        _ => false,
    };
    if is_allowed { Ok(ips) } else { Err(refused()) }
}

/// Parses an IP address. Accepts leading zeros in IPv4, which old kubelets wrote, and reads them as decimal.
fn parse_lenient(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.to_canonical());
    }
    let mut octets = [0_u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        let is_digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        *octet = is_digits.then(|| part.parse().ok()).flatten()?;
    }
    parts
        .next()
        .is_none()
        .then(|| IpAddr::V4(Ipv4Addr::from(octets)))
}

#[cfg(test)]
mod tests;
