//! The provider's configuration: keys and defaults of Hetzner's Go cloud-controller-manager, so that one can take the
//! other's place. Never a token: the host adds it to requests.

use std::time::Duration;

use ccm_guest::{Config, Error};

#[cfg(test)]
mod tests;

/// What the configuration means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `HCLOUD_NETWORK`: name or id of the network that InternalIPs are taken from.
    pub network: Option<String>,
    /// `HCLOUD_INSTANCES_ADDRESS_FAMILY`: which public addresses become ExternalIPs.
    pub family: AddressFamily,
    /// `HCLOUD_INSTANCES_ZONE_LABEL_ENABLED`: whether instances have a zone.
    pub zones: bool,
    /// `HCLOUD_SERVER_CACHE_MAX_AGE`: how old a kept answer about servers may be.
    pub max_age: Duration,
}

/// Which public addresses become ExternalIPs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressFamily {
    /// Only IPv4.
    Ipv4,
    /// Only IPv6.
    Ipv6,
    /// IPv4 first, then IPv6.
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

impl Settings {
    /// Reads the configuration.
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
        let settings = Settings {
            network: values.text("HCLOUD_NETWORK"),
            family: values
                .choice("HCLOUD_INSTANCES_ADDRESS_FAMILY", &families)
                .unwrap_or(AddressFamily::Ipv4),
            zones: values
                .boolean("HCLOUD_INSTANCES_ZONE_LABEL_ENABLED")
                .unwrap_or(true),
            max_age: values
                .duration("HCLOUD_SERVER_CACHE_MAX_AGE")
                .unwrap_or(Duration::from_secs(10)),
        };
        values.finish()?;
        Ok(settings)
    }
}
