//! The provider's configuration. It never contains the token: the host adds it to requests.

use ccm_guest::config::Values;
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
    /// `PROXMOX_ZONE`.
    pub zone: Zone,
    /// Which addresses of guest agents count; none unless the target is granted.
    pub agent: Option<Ranges>,
}

/// What the zone of a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// The Proxmox node that the machine runs on.
    Node,
    /// The machine's pool.
    Pool,
}

/// Ranges of addresses. A machine has many more than its own: those of bridges, pods and Services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranges {
    /// `PROXMOX_INTERNAL_CIDRS`.
    pub internal: Vec<IpNet>,
    /// `PROXMOX_EXTERNAL_CIDRS`.
    pub external: Vec<IpNet>,
}

impl Settings {
    /// Reads the configuration.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every mistake at once.
    pub fn read(config: &Config) -> Result<Settings, Error> {
        let mut values = config.values();
        let region = values.text("PROXMOX_REGION").unwrap_or_default();
        if !is_label_value(&region) {
            values.mistake(
                "PROXMOX_REGION",
                "must be set to the name of the Proxmox cluster: letters, digits, '-', '_' and '.', at most 63",
            );
        }
        let zones = [("node", Zone::Node), ("pool", Zone::Pool)];
        let zone = values.choice("PROXMOX_ZONE", &zones).unwrap_or(Zone::Node);
        let ranges = Ranges {
            internal: ranges(&mut values, "PROXMOX_INTERNAL_CIDRS"),
            external: ranges(&mut values, "PROXMOX_EXTERNAL_CIDRS"),
        };
        let is_granted = config.is_granted(AGENT);
        let is_empty = ranges.internal.is_empty() && ranges.external.is_empty();
        if !is_granted && !is_empty {
            let what = "has no effect unless the target agent is granted";
            values.mistake("PROXMOX_INTERNAL_CIDRS or PROXMOX_EXTERNAL_CIDRS", what);
        }
        values.finish()?;
        Ok(Settings {
            region,
            zone,
            agent: (is_granted && !is_empty).then_some(ranges),
        })
    }
}

fn ranges(values: &mut Values<'_>, key: &str) -> Vec<IpNet> {
    let text = values.text(key).unwrap_or_default();
    let parts = text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let mut ranges = Vec::new();
    for part in parts {
        match part.parse() {
            Ok(range) => ranges.push(range),
            Err(_) => values.mistake(key, format_args!("{part:?} is no range such as 10.0.0.0/8")),
        }
    }
    ranges
}

/// Whether the text can be the value of a label, as region, zone and instance type are.
pub fn is_label_value(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_end = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63
        && text.starts_with(is_end)
        && text.ends_with(is_end)
        && text.chars().all(is_inner)
}
