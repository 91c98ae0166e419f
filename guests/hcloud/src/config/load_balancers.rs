//! What the configuration says about all load balancers: the defaults of what a Service's annotations can say, under the
//! Go manager's keys.

use std::time::Duration;

use ccm_guest::config::Values;

use crate::load_balancer::wanted::{Algorithm, Place};
use crate::range::read_cidr;

const LOCATION: &str = "HCLOUD_LOAD_BALANCERS_LOCATION";
const NETWORK_ZONE: &str = "HCLOUD_LOAD_BALANCERS_NETWORK_ZONE";
const RETRIES: &str = "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES";
const SUBNET: &str = "HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE";

/// Defaults for all load balancers. `None`: whatever the cloud does by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadBalancerSettings {
    /// `HCLOUD_LOAD_BALANCERS_ENABLED`: whether Services get load balancers at all.
    pub enabled: bool,
    /// `HCLOUD_LOAD_BALANCERS_LOCATION` or `HCLOUD_LOAD_BALANCERS_NETWORK_ZONE`: where they are made.
    pub place: Option<Place>,
    /// `HCLOUD_LOAD_BALANCERS_TYPE`: of which type they are.
    pub type_name: Option<String>,
    /// `HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE`: how they share out connections.
    pub algorithm: Option<Algorithm>,
    /// `HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK`, the other way round: whether they can be reached from outside.
    pub public_interface: Option<bool>,
    /// `HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE`: the subnet that their private addresses are taken from.
    pub private_subnet_ip_range: Option<String>,
    /// `HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS`, the other way round: whether private addresses are shown in status.
    pub private_ingress: bool,
    /// `HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP`: whether targets are reached by their private addresses.
    pub use_private_ip: bool,
    /// `HCLOUD_LOAD_BALANCERS_DISABLE_IPV6`, the other way round: whether the IPv6 address is shown in status.
    pub ipv6: bool,
    /// `HCLOUD_LOAD_BALANCERS_USES_PROXYPROTOCOL`: whether targets are told the client's address by the proxy protocol.
    pub proxy_protocol: Option<bool>,
    /// `HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_INTERVAL`, in seconds.
    pub health_check_interval: Option<u64>,
    /// `HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT`, in seconds.
    pub health_check_timeout: Option<u64>,
    /// `HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES`: how often a health check may fail.
    pub health_check_retries: Option<u32>,
    /// `HCLOUD_LOAD_BALANCERS_KEEP_FOREIGN_PORTS`, which the Go manager has not: whether ports that a Service does not name
    /// stay, and targets by address, unless such can be dedicated servers. Who made a port cannot be told, so those that a
    /// Service no longer has stay too.
    pub keep_foreign_ports: bool,
}

impl LoadBalancerSettings {
    /// Reads them; mistakes are kept in `values`.
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
            type_name: values.text("HCLOUD_LOAD_BALANCERS_TYPE"),
            algorithm: values.choice("HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE", &Algorithm::WORDS),
            public_interface: disable_public_network.map(|disable| !disable),
            private_subnet_ip_range: subnet(values),
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
        (Some(_), Some(_)) => {
            values.mistake(LOCATION, format_args!("excludes {NETWORK_ZONE}"));
            None
        }
        (Some(location), None) => Some(Place::Location(location)),
        (None, zone) => zone.map(Place::NetworkZone),
    }
}

fn subnet(values: &mut Values<'_>) -> Option<String> {
    let text = values.text(SUBNET)?;
    let range = read_cidr(&text).map(|range| range.to_string());
    if range.is_none() {
        values.mistake(SUBNET, "must be an IPv4 range such as 10.0.1.0/24");
    }
    range
}

/// Zero is the cloud's default, as with the Go manager. The cloud counts whole seconds.
fn seconds(values: &mut Values<'_>, key: &str) -> Option<u64> {
    let time = values.duration(key).filter(|time| !time.is_zero())?;
    if time < Duration::from_secs(1) {
        values.mistake(key, "must be at least one second");
    }
    Some(time.as_secs())
}

/// Zero is the cloud's default, as with the Go manager.
fn retries(values: &mut Values<'_>) -> Option<u32> {
    let text = values.text(RETRIES)?;
    match text.parse() {
        Ok(retries) => Some(retries).filter(|retries| *retries > 0),
        Err(_) => {
            values.mistake(RETRIES, "must be a number, 0 or more");
            None
        }
    }
}
