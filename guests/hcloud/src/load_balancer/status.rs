//! Converts addresses to a Service's status. Pure.

use ccm_guest::{Ingress, IpMode, LoadBalancerStatus};

use super::hint::Addresses;
use super::wanted::Shown;

#[cfg(test)]
mod tests;

/// The Service's status: only the annotated host name, if set, because clients must use it; otherwise the public
/// addresses, IPv4 first, then the private ones.
pub fn status(shown: &Shown, addresses: &Addresses) -> LoadBalancerStatus {
    if let Some(hostname) = &shown.hostname {
        return LoadBalancerStatus::new([Ingress::hostname(hostname)]);
    }
    let mode = match shown.proxy_protocol {
        true => IpMode::Proxy,
        false => IpMode::Vip,
    };
    let public = addresses.ipv4.iter();
    let public = public.chain(addresses.ipv6.iter().filter(|_| shown.ipv6));
    let private = addresses.private.iter().filter(|_| shown.private_ingress);
    let all = public.chain(private);
    LoadBalancerStatus::new(all.map(|ip| Ingress::ip(ip).with_mode(mode)))
}
