//! Targets behind a proxy. The proxy resolves their names, so that the addresses cannot be checked here; checked are
//! the name itself and the address of the proxy. Dials nothing.

use std::net::IpAddr;

use ipnet::IpNet;
use url::{Host, Url};

use super::address_policy::{self, AddressRefused};
use crate::grant::ProxyGrant;

/// Names of metadata services, which are never requested through a proxy, whatever they resolve to.
const METADATA: [&str; 8] = [
    "instance-data",
    "instance-data.ec2.internal",
    "metadata",
    "metadata.azure.internal",
    "metadata.goog",
    "metadata.google.internal",
    "metadata.packet.net",
    "metadata.tencentyun.com",
];

/// Why this endpoint may not be requested through a proxy. IP addresses are checked elsewhere, as for every endpoint.
pub fn mistake(endpoint: &Url) -> Option<&'static str> {
    if endpoint.scheme() != "https" {
        return Some(
            "http goes to loopback only, and behind a proxy the address of the name is unknown here: use https, or name it in `noProxy`",
        );
    }
    let Some(Host::Domain(name)) = endpoint.host() else {
        return None;
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    if METADATA.contains(&name.as_str()) {
        return Some("no proxy is asked for a metadata service");
    }
    let is_this_machine = ["localhost", "localhost.localdomain"].contains(&name.as_str())
        || name.ends_with(".localhost");
    is_this_machine.then_some(
        "behind a proxy it would be the proxy's own machine: name it in `noProxy` if this one is meant",
    )
}

/// The ranges that the proxy's own name may resolve to beside public addresses.
///
/// # Errors
/// The proxy is an IP address that cannot be granted.
pub fn ranges(proxy: &ProxyGrant) -> Result<Vec<IpNet>, AddressRefused> {
    let mut ranges = proxy.addresses.clone();
    if let Ok(literal) = proxy.proxy.host().parse::<IpAddr>() {
        // The connector never asks the resolver about IP addresses, so this is their only check.
        ranges.push(IpNet::from(literal.to_canonical()));
        address_policy::check(literal, &ranges)?;
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_and_of_metadata_services_are_never_named_to_a_proxy() {
        for (endpoint, is_named) in [
            ("https://api.example.com", true),
            ("https://metadata.example.com", true),
            ("https://notlocalhost", true),
            ("https://10.0.0.1", true),
            ("https://metadata.google.internal", false),
            ("https://METADATA.google.internal./", false),
            ("https://metadata:8443", false),
            ("https://metadata.azure.internal", false),
            ("https://metadata.goog", false),
            ("https://metadata.packet.net", false),
            ("https://metadata.tencentyun.com", false),
            ("https://instance-data", false),
            ("https://instance-data.ec2.internal", false),
            ("https://a.localhost", false),
            ("https://localhost.", false),
            ("https://localhost.localdomain", false),
            ("http://api.example.com", false),
        ] {
            let url = endpoint.parse().ok();
            let found = url.map(|url| mistake(&url).is_none());
            assert_eq!(found, Some(is_named), "{endpoint}");
        }
    }
}
