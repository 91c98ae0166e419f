//! Provider IDs, and machines of the API as instances of the contract. Pure: no request, no clock.

use std::net::IpAddr;

use ccm_guest::provider_id::{MachineId, number};
use ccm_guest::values::is_label_value;
use ccm_guest::{Address, Instance, Node};

use ipnet::IpNet;

use crate::api::{Machine, MachineConfig};
use crate::config::{Ranges, Settings, Zone};

#[cfg(test)]
mod tests;

/// Label keys of the Go manager, by which existing clusters select nodes: do not change.
const REGION: &str = "topology.proxmox.sinextra.dev/region";
const ZONE: &str = "topology.proxmox.sinextra.dev/zone";

/// The machine that a node's provider ID refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderId {
    /// `proxmox://<region>/<vmid>`, with the configured region.
    Machine(u64),
    /// The node has no provider ID yet.
    Missing,
    /// The provider ID of another region or scheme.
    Foreign,
    /// This scheme, in a form that this provider does not write. Without a region, as in `proxmox:///101`, any Proxmox
    /// cluster may have the machine: its number proves nothing.
    Unreadable,
}

impl ProviderId {
    /// Reads `spec.providerID`.
    pub fn of(settings: &Settings, node: &Node) -> ProviderId {
        let id = match node.machine_id("proxmox") {
            MachineId::Unset => return ProviderId::Missing,
            MachineId::Foreign => return ProviderId::Foreign,
            MachineId::Own(id) => id,
        };
        match id.split_once('/') {
            Some((region, vmid)) if region == settings.region => {
                number(vmid).map_or(ProviderId::Unreadable, ProviderId::Machine)
            }
            Some(("", _)) | None => ProviderId::Unreadable,
            Some(_) => ProviderId::Foreign,
        }
    }

    /// Whether the list of machines is needed for a node with this provider ID.
    pub fn is_ours(self) -> bool {
        matches!(self, ProviderId::Machine(_) | ProviderId::Missing)
    }
}

/// Whether a machine's name is the node's, with or without a domain. People write capital letters at Proxmox, and a
/// node's name has none.
pub fn is_named(machine: &Machine, node: &str) -> bool {
    let name = machine.name.as_deref().unwrap_or_default();
    let parts = name.split_at_checked(node.len());
    parts.is_some_and(|(begin, rest)| {
        begin.eq_ignore_ascii_case(node) && (rest.is_empty() || rest.starts_with('.'))
    })
}

/// Whether the UUID of the machine's firmware is the one that the node reports. `None`: one of them has none.
pub fn is_same(config: &MachineConfig, node: &Node) -> Option<bool> {
    let reported = node
        .system_uuid
        .as_deref()
        .filter(|uuid| !uuid.is_empty())?;
    Some(reported.eq_ignore_ascii_case(config.uuid()?))
}

/// The instance as the cluster's list describes it: all fields that can change while a node exists.
pub fn listed(settings: &Settings, node: &Node, machine: &Machine) -> Instance {
    let region = &settings.region;
    Instance {
        zone: zone(settings, machine).map(str::to_owned),
        region: Some(region.clone()),
        addresses: node.own_addresses(),
        shutdown: Some(machine.status == "stopped"),
        ..Instance::new(format!("proxmox://{region}/{}", machine.vmid))
    }
}

/// The instance of a new node. `reported` are the addresses of its guest agent; without them it keeps its kubelet's.
pub fn described(
    settings: &Settings,
    node: &Node,
    machine: &Machine,
    config: &MachineConfig,
    reported: &[String],
) -> Instance {
    let listed = listed(settings, node, machine);
    let topology = [(REGION, &listed.region), (ZONE, &listed.zone)];
    let labels = topology
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)));
    Instance {
        instance_type: Some(instance_type(machine, config)),
        addresses: addresses(settings.agent.as_ref(), node, reported),
        labels: labels.collect(),
        ..listed
    }
}

/// The machine's zone, if a label can hold it: pools can be nested, as in `site/rack`, and have names of any length.
pub fn zone<'a>(settings: &Settings, machine: &'a Machine) -> Option<&'a str> {
    let zone = match settings.zone {
        Zone::Node => Some(machine.node.as_str()),
        Zone::Pool => machine.pool.as_deref(),
    };
    zone.filter(|zone| is_label_value(zone))
}

/// The SKU if it can be the value of a label, or else the size; both in the Go manager's form.
fn instance_type(machine: &Machine, config: &MachineConfig) -> String {
    let size = || format!("{}VCPU-{}GB", machine.maxcpu, machine.maxmem >> 30);
    config
        .sku()
        .filter(|sku| is_label_value(sku))
        .unwrap_or_else(size)
}

/// The name, the kubelet's own addresses, and those of the agent that are in one of the operator's ranges.
fn addresses(ranges: Option<&Ranges>, node: &Node, reported: &[String]) -> Vec<Address> {
    let typed = reported.iter().filter_map(|text| {
        let address: IpAddr = text.parse().ok()?;
        let is_in = |ranges: &[IpNet]| ranges.iter().any(|range| range.contains(&address));
        match ranges? {
            ranges if is_in(&ranges.internal) => Some(Address::internal(address)),
            ranges if is_in(&ranges.external) => Some(Address::external(address)),
            _ => None,
        }
    });
    let mut addresses = node.own_addresses();
    for one in typed {
        if addresses.is_empty() {
            addresses.push(Address::hostname(&node.name));
        }
        if addresses.iter().all(|known| known.address != one.address) {
            addresses.push(one);
        }
    }
    addresses
}
