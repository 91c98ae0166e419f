//! A rule: which nodes it matches, and the instance that it describes. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ccm_guest::{Address, AddressType, Instance, Node};
use ipnet::IpNet;

/// Placeholder for the node's name in a provider ID's template.
pub const NAME: &str = "{name}";

/// One rule of the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Names of nodes, in which one `*` stands for any characters; one of them has to match. Empty: any name.
    pub names: Vec<String>,
    /// Requirements on labels; all of them have to hold.
    pub selector: Vec<Requirement>,
    /// Ranges; one of the node's addresses has to be in one of them. Empty: any address.
    pub cidrs: Vec<IpNet>,
    /// The provider ID, with [`NAME`] as its last segment unless the rule is about one machine.
    pub provider_id: String,
    /// Value of the label `node.kubernetes.io/instance-type`.
    pub instance_type: Option<String>,
    /// Value of the label `topology.kubernetes.io/zone`.
    pub zone: Option<String>,
    /// Value of the label `topology.kubernetes.io/region`.
    pub region: Option<String>,
    /// Further labels for the node.
    pub labels: BTreeMap<String, String>,
    /// All addresses of some nodes, by name. Other nodes keep the addresses that their kubelets report.
    pub addresses: BTreeMap<String, Vec<Address>>,
}

/// A requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// The operator and its values.
    pub of: Of,
}

/// The operators of Kubernetes' label selectors (`matchExpressions`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Of {
    /// The label exists with one of these values.
    In(Vec<String>),
    /// The label is absent or has none of these values.
    NotIn(Vec<String>),
    /// The label exists, with any value.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

impl Rule {
    /// Whether name, labels and addresses of the node match the rule.
    pub fn matches(&self, node: &Node) -> bool {
        self.is_about(&node.name)
            && self.selector.iter().all(|one| one.holds(&node.labels))
            && (self.cidrs.is_empty() || node.ips().any(|address| self.is_within(address)))
    }

    /// Whether `names` match this name.
    pub fn is_about(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|pattern| is_like(pattern, name))
    }

    fn is_within(&self, address: IpAddr) -> bool {
        self.cidrs.iter().any(|range| range.contains(&address))
    }

    /// The provider ID of the node with this name.
    pub fn provider_id(&self, name: &str) -> String {
        self.provider_id.replace(NAME, name)
    }

    /// The instance that the rule describes. Whether the machine is switched on is not known.
    pub fn instance(&self, node: &Node) -> Instance {
        let addresses = match self.addresses.get(&node.name) {
            Some(addresses) => addresses.clone(),
            None => node.own_addresses(),
        };
        let has_name = addresses.iter().any(is_hostname);
        // Kubelets report the name first.
        let hostname = (!addresses.is_empty() && !has_name).then(|| Address::hostname(&node.name));
        Instance {
            instance_type: self.instance_type.clone(),
            zone: self.zone.clone(),
            region: self.region.clone(),
            addresses: hostname.into_iter().chain(addresses).collect(),
            labels: self.labels.clone().into_iter().collect(),
            ..Instance::new(self.provider_id(&node.name))
        }
    }
}

impl Requirement {
    fn holds(&self, labels: &[(String, String)]) -> bool {
        let label = labels.iter().find(|(key, _)| *key == self.key);
        let value = label.map(|(_, value)| value);
        match &self.of {
            Of::In(values) => value.is_some_and(|value| values.contains(value)),
            Of::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Of::Exists => value.is_some(),
            Of::DoesNotExist => value.is_none(),
        }
    }
}

fn is_hostname(address: &Address) -> bool {
    matches!(address.address_type, AddressType::Hostname)
}

/// Whether `name` matches `pattern`, in which one `*` stands for any characters, also for none.
fn is_like(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((begin, end)) => name
            .strip_prefix(begin)
            .is_some_and(|rest| rest.ends_with(end)),
    }
}

#[cfg(test)]
mod tests;
