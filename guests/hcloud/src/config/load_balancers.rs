//! Configuration for all load balancers: defaults for the Service annotations, under the Go manager's keys.

use std::time::Duration;

use ccm_guest::values::Values;

use crate::load_balancer::annotations::ip_range;
use crate::load_balancer::wanted::{Algorithm, Place};

const LOCATION: &str = "HCLOUD_LOAD_BALANCERS_LOCATION";
const NETWORK_ZONE: &str = "HCLOUD_LOAD_BALANCERS_NETWORK_ZONE";
const RETRIES: &str = "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES";
const SUBNET: &str = "HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE";

/// Defaults for all load balancers. `None`: the cloud's own default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadBalancerSettings {
    /// `HCLOUD_LOAD_BALANCERS_ENABLED`: whether Services get load balancers.
    pub enabled: bool,
    /// `HCLOUD_LOAD_BALANCERS_LOCATION` or `HCLOUD_LOAD_BALANCERS_NETWORK_ZONE`: where they are created.
    pub place: Option<Place>,
    /// `HCLOUD_LOAD_BALANCERS_TYPE`: the type of new load balancers, such as `lb11`.
    pub type_name: Option<String>,
    /// `HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE`: how connections are distributed.
    pub algorithm: Option<Algorithm>,
    /// Negated `HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK`: whether they have a public interface.
    pub public_interface: Option<bool>,
    /// `HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE`: subnet of their private addresses.
    pub private_subnet_ip_range: Option<String>,
    /// Negated `HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS`: whether private addresses appear in the status.
    pub private_ingress: bool,
    /// `HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP`: whether targets are reached by their private addresses.
    pub use_private_ip: bool,
    /// Negated `HCLOUD_LOAD_BALANCERS_DISABLE_IPV6`: whether the IPv6 address appears in the status.
    pub ipv6: bool,
    /// `HCLOUD_LOAD_BALANCERS_USES_PROXYPROTOCOL`: whether targets get the client's address by the proxy protocol.
    pub proxy_protocol: Option<bool>,
    /// `HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_INTERVAL`, in seconds.
    pub health_check_interval: Option<u64>,
    /// `HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT`, in seconds.
    pub health_check_timeout: Option<u64>,
    /// `HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES`: number of failures before a target counts as unhealthy.
    pub health_check_retries: Option<u32>,
    /// `HCLOUD_LOAD_BALANCERS_KEEP_FOREIGN_PORTS`, not in the Go manager: whether ports that the Service does not name
    /// stay, and also IP targets, unless those may be dedicated servers. The creator of a port is unknown, so ports
    /// removed from a Service stay too.
    pub keep_foreign_ports: bool,
}

impl LoadBalancerSettings {
    /// Reads the settings; collects mistakes in `values`.
    pub(super) fn read(values: &mut Values<'_>) -> LoadBalancerSettings {
        let mut boolean = |key| values.boolean(key);
        let enabled = boolean("HCLOUD_LOAD_BALANCERS_ENABLED").unwrap_or(true);
        let disable_public_network = boolean("HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK");
        let disable_private_ingress = boolean("HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS");
        let use_private_ip = boolean("HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP").unwrap_or(false);
        let disable_ipv6 = boolean("HCLOUD_LOAD_BALANCERS_DISABLE_IPV6");
        let proxy_protocol = boolean("HCLOUD_LOAD_BALANCERS_USES_PROXYPROTOCOL");
        let keep_foreign_ports = boolean("HCLOUD_LOAD_BALANCERS_KEEP_FOREIGN_PORTS");
        LoadBalancerSettings {
            enabled,
            place: place(values),
            type_name: values.text("HCLOUD_LOAD_BALANCERS_TYPE").map(str::to_owned),
            algorithm: values.choice("HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE", &Algorithm::WORDS),
            public_interface: disable_public_network.map(|disable| !disable),
            private_subnet_ip_range: ip_range(values, SUBNET),
            private_ingress: !disable_private_ingress.unwrap_or(false),
            use_private_ip,
            ipv6: !disable_ipv6.unwrap_or(false),
            proxy_protocol,
            health_check_interval: seconds(values, "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_INTERVAL"),
            health_check_timeout: seconds(values, "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT"),
            health_check_retries: retries(values),
            keep_foreign_ports: keep_foreign_ports.unwrap_or(false),
        }
    }
}

fn place(values: &mut Values<'_>) -> Option<Place> {
    match (values.text(LOCATION), values.text(NETWORK_ZONE)) {
        (Some(_), Some(_)) => values.wrong(LOCATION, format_args!("excludes {NETWORK_ZONE}")),
        (Some(location), None) => Some(Place::Location(location.to_owned())),
        (None, zone) => zone.map(|zone| Place::NetworkZone(zone.to_owned())),
    }
}

/// Zero means the cloud's default, as in the Go manager. The cloud counts whole seconds.
fn seconds(values: &mut Values<'_>, key: &str) -> Option<u64> {
    let time = values.duration(key).filter(|time| !time.is_zero())?;
    if time < Duration::from_secs(1) {
        values.wrong::<()>(key, "must be at least one second");
    }
    Some(time.as_secs())
}

/// Zero means the cloud's default, as in the Go manager.
fn retries(values: &mut Values<'_>) -> Option<u32> {
    let retries = values.parse(RETRIES, "must be a number, 0 or more")?;
    Some(retries).filter(|retries| *retries > 0)
}
