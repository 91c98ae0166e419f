//! Reads from annotations and configuration which addresses appear in a Service's status. Pure.

use ccm_guest::Error;
use ccm_guest::load_balancer::Service;
use ccm_guest::values::Values;

use super::annotations::{DISABLE_PRIVATE_INGRESS, HOSTNAME, IPV6_DISABLED, USES_PROXYPROTOCOL};
use super::wanted::Shown;
use crate::config::{LoadBalancerSettings, Settings};

#[cfg(test)]
mod tests;

impl Shown {
    /// Reads only these settings, so that a mistake elsewhere does not hide the addresses.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every mistake at once.
    pub fn read(settings: &Settings, service: &Service) -> Result<Shown, Error> {
        service.read(|annotations| Shown::of(&settings.load_balancers, annotations))
    }

    /// As [`Shown::read`], with a shared annotation reader.
    pub fn of(defaults: &LoadBalancerSettings, annotations: &mut Values<'_>) -> Shown {
        Shown {
            hostname: annotations.hostname(HOSTNAME),
            proxy_protocol: proxy_protocol(defaults, annotations).unwrap_or(false),
            ipv6: annotations
                .boolean(IPV6_DISABLED)
                .map_or(defaults.ipv6, |disabled| !disabled),
            private_ingress: annotations
                .boolean(DISABLE_PRIVATE_INGRESS)
                .map_or(defaults.private_ingress, |disabled| !disabled),
        }
    }
}

/// Whether targets get the client's address by the proxy protocol.
pub fn proxy_protocol(
    defaults: &LoadBalancerSettings,
    annotations: &mut Values<'_>,
) -> Option<bool> {
    annotations
        .boolean(USES_PROXYPROTOCOL)
        .or(defaults.proxy_protocol)
}
