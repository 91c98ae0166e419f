//! The provider's configuration. Keys and defaults match Hetzner's Go cloud-controller-manager, so that either can
//! replace the other. It never contains a token or a password: the host adds them to requests.

use std::time::Duration;

use ccm_guest::values::Values;
use ccm_guest::{Config, Error};
use ipnet::Ipv4Net;

use crate::address_range;
use crate::robot;
pub use load_balancers::LoadBalancerSettings;

mod load_balancers;
#[cfg(test)]
mod tests;

/// Default maximum age of cached responses about cloud servers.
const SERVER_AGE: Duration = Duration::from_secs(10);
/// Default maximum age of the Robot server list: Robot allows 200 such requests an hour per account, for all its
/// clients.
const ROBOT_LIST_AGE: Duration = Duration::from_secs(300);
/// Default pause of requests to Robot after a refusal. The Go manager's default is no pause.
const ROBOT_HOLD: Duration = Duration::from_secs(300);

/// The parsed configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `HCLOUD_DEBUG`: whether every look-up is logged.
    pub debug: bool,
    /// `HCLOUD_NETWORK`: name or id of the network that InternalIPs are taken from.
    pub network: Option<String>,
    /// `HCLOUD_INSTANCES_ADDRESS_FAMILY`: which public addresses become ExternalIPs.
    pub family: AddressFamily,
    /// `HCLOUD_INSTANCES_ZONE_LABEL_ENABLED`: whether instances report a zone.
    pub zones: bool,
    /// `HCLOUD_SERVER_CACHE_MODE`: whether servers may be read with list requests.
    pub lists: bool,
    /// `HCLOUD_SERVER_CACHE_MAX_AGE`: maximum age of cached responses about servers. Zero in cache mode `off`.
    pub max_age: Duration,
    /// `ROBOT_ENABLED`: whether dedicated servers are nodes, and Robot is asked about them.
    pub robot: Robot,
    /// `HCLOUD_LOAD_BALANCERS_…`: defaults for all load balancers.
    pub load_balancers: LoadBalancerSettings,
    /// `HCLOUD_NETWORK_ROUTES_ENABLED`: settings for routes; `None` without a network or when disabled.
    pub routes: Option<RouteSettings>,
}

/// The network of the routes, and the ranges that are this cluster's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteSettings {
    /// Name or id of the network with the routes.
    pub network: String,
    /// The IPv4 ranges of `--cluster-cidr`. `None`: not set.
    pub cluster: Option<Vec<Ipv4Net>>,
}

impl RouteSettings {
    /// Whether a route to `destination` belongs to this cluster. Other routes are ignored, such as a default route
    /// through a NAT machine, or routes of a second cluster on the same network.
    pub fn is_ours(&self, destination: Ipv4Net) -> bool {
        let cluster = self.cluster.as_ref();
        cluster.is_none_or(|ranges| ranges.iter().any(|range| range.contains(&destination)))
    }
}

/// The treatment of dedicated servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Robot {
    /// They are no nodes of this provider.
    Disabled,
    /// They are nodes, and Robot is not granted: only their Node objects describe them. They are targets of load
    /// balancers by private address, and their look-ups are `not-mine`.
    Ungranted,
    /// They are nodes, and Robot is asked about them.
    Granted(RobotSettings),
}

impl Robot {
    /// Settings of requests to Robot. `None`: no request is possible.
    pub fn granted(&self) -> Option<&RobotSettings> {
        match self {
            Robot::Granted(settings) => Some(settings),
            Robot::Disabled | Robot::Ungranted => None,
        }
    }

    /// Whether dedicated servers are nodes.
    pub fn is_enabled(&self) -> bool {
        !matches!(self, Robot::Disabled)
    }
}

/// Settings of requests to Robot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RobotSettings {
    /// `ROBOT_CACHE_TIMEOUT`: maximum age of the server list.
    pub list_age: Duration,
    /// `ROBOT_RATE_LIMIT_WAIT_TIME`: pause of requests to Robot after a refusal.
    pub hold: Duration,
    /// `ROBOT_FORWARD_INTERNAL_IPS`: whether the InternalIPs reported by the kubelet are kept.
    pub forward_internal_ips: bool,
}

/// The public addresses that become ExternalIPs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressFamily {
    /// Only IPv4 addresses.
    Ipv4,
    /// Only IPv6 addresses.
    Ipv6,
    /// IPv4 and IPv6 addresses.
    DualStack,
}

impl AddressFamily {
    /// Whether IPv4 addresses are wanted.
    pub fn has_ipv4(self) -> bool {
        matches!(self, AddressFamily::Ipv4 | AddressFamily::DualStack)
    }

    /// Whether IPv6 addresses are wanted.
    pub fn has_ipv6(self) -> bool {
        matches!(self, AddressFamily::Ipv6 | AddressFamily::DualStack)
    }
}

/// The values of `HCLOUD_SERVER_CACHE_MODE`.
#[derive(Clone, Copy)]
enum CacheMode {
    All,
    One,
    Off,
}

impl Settings {
    /// Reads and checks the configuration.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every mistake at once.
    pub fn read(config: &Config) -> Result<Settings, Error> {
        let mut values = config.values();
        let families = [
            ("ipv4", AddressFamily::Ipv4),
            ("ipv6", AddressFamily::Ipv6),
            ("dualstack", AddressFamily::DualStack),
        ];
        let modes = [
            ("all", CacheMode::All),
            ("one", CacheMode::One),
            ("off", CacheMode::Off),
        ];
        // Read only to report mistakes: there is no such check. The manifest explains why.
        let _ = values.boolean("HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK");
        let mode = values
            .choice("HCLOUD_SERVER_CACHE_MODE", &modes)
            .unwrap_or(CacheMode::All);
        let max_age = values
            .duration("HCLOUD_SERVER_CACHE_MAX_AGE")
            .unwrap_or(SERVER_AGE);
        let settings = Settings {
            debug: values.boolean("HCLOUD_DEBUG").unwrap_or(false),
            network: values.text("HCLOUD_NETWORK").map(str::to_owned),
            family: values
                .choice("HCLOUD_INSTANCES_ADDRESS_FAMILY", &families)
                .unwrap_or(AddressFamily::Ipv4),
            zones: values
                .boolean("HCLOUD_INSTANCES_ZONE_LABEL_ENABLED")
                .unwrap_or(true),
            lists: matches!(mode, CacheMode::All),
            max_age: match mode {
                CacheMode::All | CacheMode::One => max_age,
                CacheMode::Off => Duration::ZERO,
            },
            robot: robot_settings(&mut values, config),
            load_balancers: LoadBalancerSettings::read(&mut values),
            routes: route_settings(&mut values, config),
        };
        values.finish()?;
        Ok(settings)
    }
}

fn route_settings(values: &mut Values<'_>, config: &Config) -> Option<RouteSettings> {
    let enabled = values.boolean("HCLOUD_NETWORK_ROUTES_ENABLED");
    let network = values.text("HCLOUD_NETWORK")?.to_owned();
    let cidrs = &config.cluster_cidrs;
    let ranges = || {
        cidrs
            .iter()
            .filter_map(|cidr| address_range::read(cidr.trim()))
    };
    enabled.unwrap_or(true).then(|| RouteSettings {
        network,
        cluster: (!cidrs.is_empty()).then(|| ranges().collect()),
    })
}

/// Reads all values even if Robot is disabled, so that mistakes are found before it is enabled.
fn robot_settings(values: &mut Values<'_>, config: &Config) -> Robot {
    let enabled = values.boolean("ROBOT_ENABLED").unwrap_or(false);
    let mut longer_than_zero = |key, default| {
        let read = values.duration(key).filter(|time| !time.is_zero());
        read.unwrap_or(default)
    };
    let list_age = longer_than_zero("ROBOT_CACHE_TIMEOUT", ROBOT_LIST_AGE);
    let hold = longer_than_zero("ROBOT_RATE_LIMIT_WAIT_TIME", ROBOT_HOLD);
    let forward_internal_ips = values.boolean("ROBOT_FORWARD_INTERNAL_IPS").unwrap_or(true);
    match (enabled, config.is_granted(robot::TARGET)) {
        (false, _) => Robot::Disabled,
        (true, false) => Robot::Ungranted,
        (true, true) => Robot::Granted(RobotSettings {
            list_age,
            hold,
            forward_internal_ips,
        }),
    }
}
