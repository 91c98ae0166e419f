//! The address on which the vendor's own manager serves metrics, from its variables. Opens nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::profile::MetricsProfile;
use super::{is_false, is_true, profile_of};
use crate::config::ConfigContext;

/// Why the address of the metrics cannot be determined.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MetricsMistake {
    /// The switch is neither true nor false. The Go manager does not start.
    Switch(String),
    /// The address cannot be read. The Go manager logs it, and works without metrics.
    Address(String),
}

/// The address on which the vendor's manager serves metrics in plain HTTP, for a module that replaces it with its
/// built-in grants. `None`: nowhere. An unspecified IPv6 address means all addresses of the machine: where it has no
/// IPv6, its IPv4 addresses.
///
/// # Errors
/// A variable is malformed.
pub(crate) fn metrics_address(
    guest: &str,
    context: &ConfigContext<'_>,
) -> Result<Option<SocketAddr>, MetricsMistake> {
    let Some(metrics) = profile_of(guest).and_then(|profile| profile.metrics.as_ref()) else {
        return Ok(None);
    };
    if !is_enabled(metrics, context)? {
        return Ok(None);
    }
    let written = (context.variable)(metrics.address);
    let text = written.as_deref().unwrap_or(metrics.default_address);
    listen_address(text).map(Some).ok_or_else(|| {
        MetricsMistake::Address(format!(
            "{} {text:?}: expected an IP address and a port such as 127.0.0.1:8233, or :8233 for all addresses",
            metrics.address
        ))
    })
}

fn is_enabled(
    metrics: &MetricsProfile,
    context: &ConfigContext<'_>,
) -> Result<bool, MetricsMistake> {
    match (context.variable)(metrics.switch) {
        None => Ok(true),
        Some(text) if is_true(&text) => Ok(true),
        Some(text) if is_false(&text) => Ok(false),
        Some(text) => Err(MetricsMistake::Switch(format!(
            "{} {text:?}: must be true or false",
            metrics.switch
        ))),
    }
}

/// An address in the form of Go's `net.Listen`, without names of hosts and ports.
fn listen_address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.trim().rsplit_once(':')?;
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let ip = match (host, bare) {
        ("" | "[]", _) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        ("localhost", _) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        (_, Some(bare)) => IpAddr::V6(bare.parse().ok()?),
        (host, None) => IpAddr::V4(host.parse().ok()?),
    };
    Some(SocketAddr::new(ip, port.parse().ok()?))
}
