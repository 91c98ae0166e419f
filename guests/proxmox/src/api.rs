//! Requests to Proxmox VE and the JSON of its answers: the only file that speaks HTTP.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ccm_guest::Error;
use ccm_guest::http::{Request, Response, path, send_all};
use serde::Deserialize;
use serde::de::DeserializeOwned;

#[cfg(test)]
mod tests;

const API: &str = "api";
/// The target for the guest agents, which an operator need not grant.
pub const AGENT: &str = "agent";
/// The path of the token's rights.
const RIGHTS: &str = "/access/permissions";

/// The envelope of every answer.
#[derive(Deserialize)]
struct Answer<T> {
    data: T,
}

/// A machine in the list of the whole cluster.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Machine {
    /// The machine's number, which another machine may get once this one is destroyed.
    pub vmid: u64,
    /// `qemu` or `lxc`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The machine's name; missing where Proxmox has no state of it.
    pub name: Option<String>,
    /// The Proxmox node that the machine is on.
    pub node: String,
    /// `running`, `stopped`, or `unknown` where Proxmox has no state of it: its node does not answer, its pvestatd hangs,
    /// or the machine was made just now.
    pub status: String,
    /// The resource pool that the machine belongs to, if any, and if the token may see it.
    pub pool: Option<String>,
    /// 1 for a template, from which machines are made and which never runs.
    #[serde(default)]
    pub template: u8,
    /// Number of processors.
    #[serde(default)]
    pub maxcpu: f64,
    /// Memory in bytes.
    #[serde(default)]
    pub maxmem: u64,
}

impl Machine {
    /// Whether it is a container. Containers are not looked up, and have their numbers from the same range.
    pub fn is_container(&self) -> bool {
        self.kind != "qemu"
    }

    /// Whether Proxmox has the machine's state.
    pub fn has_state(&self) -> bool {
        self.status != "unknown"
    }

    fn get(&self, target: &str, what: &[&str]) -> Request {
        let vmid = self.vmid.to_string();
        let machine = ["nodes", &self.node, "qemu", &vmid];
        Request::get(target, path(machine.iter().chain(what)))
    }
}

/// All machines that the token may see, containers included: one request for the whole cluster.
///
/// # Errors
/// When the list could not be read.
pub fn machines(max_age: Duration) -> Result<Vec<Machine>, Error> {
    let request = Request::get(API, "/cluster/resources").query("type", "vm");
    let mut machines: Vec<Machine> = read(request.max_age(max_age).send()?)?;
    machines.retain(|machine| machine.template == 0);
    Ok(machines)
}

/// The part of a machine's configuration that the list does not show.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct MachineConfig {
    /// `uuid=…,sku=…` and more, separated by commas.
    #[serde(default)]
    smbios1: String,
    /// `1`, or `enabled=1` among other values, if the machine has a guest agent.
    #[serde(default)]
    agent: String,
}

/// The configurations of these machines, by number. Proxmox answers 595 for a node that it cannot reach, and 500 for a
/// machine that does not exist: both are errors.
pub fn configs<'a>(
    machines: impl Iterator<Item = &'a Machine>,
) -> BTreeMap<u64, Result<MachineConfig, Error>> {
    each(machines, |one| one.get(API, &["config"]))
}

/// What one request for each of these machines returns, side by side, by number.
fn each<'a, T: DeserializeOwned>(
    machines: impl Iterator<Item = &'a Machine>,
    request: impl Fn(&Machine) -> Request,
) -> BTreeMap<u64, Result<T, Error>> {
    let machines: BTreeMap<u64, &Machine> = machines.map(|one| (one.vmid, one)).collect();
    let requests = machines.values().map(|one| request(one));
    let answers = send_all(requests.collect())
        .into_iter()
        .map(|answer| read(answer?));
    machines.into_keys().zip(answers).collect()
}

impl MachineConfig {
    /// The UUID of the machine's firmware, which its kubelet reports, too.
    pub fn uuid(&self) -> Option<&str> {
        self.smbios("uuid")
    }

    /// The SKU that the operator gave the machine.
    pub fn sku(&self) -> Option<String> {
        let sku = self.smbios("sku")?;
        match self.smbios("base64") {
            Some("1") => String::from_utf8(BASE64_STANDARD.decode(sku).ok()?).ok(),
            _ => Some(sku.to_owned()),
        }
    }

    /// Whether the machine should have a guest agent.
    pub fn has_agent(&self) -> bool {
        self.agent
            .split(',')
            .any(|part| matches!(part, "1" | "enabled=1"))
    }

    fn smbios(&self, key: &str) -> Option<&str> {
        let mut pairs = self
            .smbios1
            .split(',')
            .filter_map(|part| part.split_once('='));
        pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
    }
}

#[derive(Deserialize)]
struct Interfaces {
    result: Vec<Interface>,
}

impl Interfaces {
    fn addresses(self) -> Vec<String> {
        let addresses = self.result.into_iter().flat_map(|one| one.addresses);
        addresses.map(|one| one.address).collect()
    }
}

#[derive(Deserialize)]
struct Interface {
    #[serde(default, rename = "ip-addresses")]
    addresses: Vec<InterfaceAddress>,
}

#[derive(Deserialize)]
struct InterfaceAddress {
    #[serde(rename = "ip-address")]
    address: String,
}

/// Every address that the guest agents of these machines report, by number. Proxmox waits seconds for an agent that is
/// not running, and then answers with an error.
pub fn agent_addresses<'a>(
    machines: impl Iterator<Item = &'a Machine>,
) -> BTreeMap<u64, Result<Vec<String>, Error>> {
    // Supplementary: if it fails, the list still proves which machines are gone.
    let answers = each(machines, |one| {
        let request = one.get(AGENT, &["agent", "network-get-interfaces"]);
        request.supplementary()
    });
    let answers = answers.into_iter();
    answers
        .map(|(vmid, answer)| (vmid, answer.map(Interfaces::addresses)))
        .collect()
}

/// The token's rights: paths → privileges → 1 if they hold for everything below, too.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Rights(BTreeMap<String, BTreeMap<String, u8>>);

/// The rights of the token.
///
/// # Errors
/// When they could not be read.
pub fn rights() -> Result<Rights, Error> {
    read(Request::get(API, RIGHTS).send()?)
}

/// The token's rights on machines of these numbers, side by side, by number. A role on a machine's own path replaces those
/// that come from above, and [`rights`] omits paths without rights: only an answer about the path proves the right.
pub fn rights_on(machines: BTreeSet<u64>) -> BTreeMap<u64, Result<Rights, Error>> {
    let path = |vmid: &u64| Request::get(API, RIGHTS).query("path", format!("/vms/{vmid}"));
    let answers = send_all(machines.iter().map(path).collect())
        .into_iter()
        .map(|answer| read(answer?));
    machines.into_iter().zip(answers).collect()
}

impl Rights {
    /// Whether the token may see any machine.
    pub fn may_see_machines(&self) -> bool {
        self.0.values().any(|one| one.contains_key("VM.Audit"))
    }

    /// Whether the token may see any pool. The list of machines omits the pools that it may not see.
    pub fn may_see_pools(&self) -> bool {
        self.0.iter().any(|(path, one)| {
            (path == "/" || path.starts_with("/pool")) && one.contains_key("Pool.Audit")
        })
    }
}

fn read<T: DeserializeOwned>(response: Response) -> Result<T, Error> {
    let answer: Answer<T> = response.ok()?.json()?;
    Ok(answer.data)
}
