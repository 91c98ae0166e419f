//! The provider's configuration. It never contains the token: the host adds it to requests.

use ccm_guest::values::{Values, is_label_value};
use ccm_guest::{Config, Error};
use ipnet::IpNet;

use crate::api::AGENT;

#[cfg(test)]
mod tests;

/// The parsed configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `PROXMOX_REGION`: the name of the Proxmox cluster.
    pub region: String,
    /// `PROXMOX_ZONE`: what the zone of a node is.
    pub zone: Zone,
    /// The ranges whose addresses are taken from guest agents; `None`: agents are not asked.
    pub agent: Option<Ranges>,
}

/// The source of a node's zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// The Proxmox node that the machine runs on.
    Node,
    /// The resource pool of the machine.
    Pool,
}

/// Ranges that select a machine's own addresses: an agent also reports those of bridges, pods and Services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranges {
    /// `PROXMOX_INTERNAL_CIDRS`: ranges of internal addresses.
    pub internal: Vec<IpNet>,
    /// `PROXMOX_EXTERNAL_CIDRS`: ranges of external addresses.
    pub external: Vec<IpNet>,
}

impl Settings {
    /// Reads the configuration.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every mistake at once.
    pub fn read(config: &Config) -> Result<Settings, Error> {
        let is_granted = config.is_granted(AGENT);
        config.read(|values| Settings {
            region: region(values),
            zone: values
                .choice(
                    "PROXMOX_ZONE",
                    &[("node", Zone::Node), ("pool", Zone::Pool)],
                )
                .unwrap_or(Zone::Node),
            agent: agent(values, is_granted),
        })
    }
}

fn region(values: &mut Values<'_>) -> String {
    const KEY: &str = "PROXMOX_REGION";
    let region = values.required(KEY).unwrap_or_default();
    if !region.is_empty() && !is_label_value(region) {
        let what = "must be a label's value: letters, digits, '-', '_' and '.', at most 63";
        values.wrong::<()>(KEY, what);
    }
    region.to_owned()
}

fn agent(values: &mut Values<'_>, is_granted: bool) -> Option<Ranges> {
    let ranges = Ranges {
        internal: ranges(values, "PROXMOX_INTERNAL_CIDRS"),
        external: ranges(values, "PROXMOX_EXTERNAL_CIDRS"),
    };
    let is_empty = ranges.internal.is_empty() && ranges.external.is_empty();
    if !is_granted && !is_empty {
        values.mistake("PROXMOX_INTERNAL_CIDRS and PROXMOX_EXTERNAL_CIDRS have no effect unless the target agent is granted");
    }
    (is_granted && !is_empty).then_some(ranges)
}

fn ranges(values: &mut Values<'_>, key: &str) -> Vec<IpNet> {
    let what = "is no range such as 10.0.0.0/8";
    let ranges = values.each(key, what, |part| part.parse().ok());
    ranges.unwrap_or_default()
}
