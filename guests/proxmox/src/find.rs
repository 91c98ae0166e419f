//! Selects the requests for a set of nodes and derives the lookups from the answers.
//!
//! # Guarantees
//! - `gone` needs one of two proofs: the list lacks the machine, and the token could see a machine of that number; or its
//!   number belongs to a machine with another UUID. A machine that could not be read is `unknown`.
//!   The list alone is no proof, and neither are all rights in one answer: both omit what the token may not see.
//! - A machine of which Proxmox has no state, as on a node that does not answer, is `unknown`. While its name is unknown,
//!   too, it may be that of any new node without a machine.
//! - A node that is not initialised is only found with an IP address.
//! - A node without provider ID is found by name *and* UUID: names are not unique.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_guest::{Error, FindReply, Lookup, Node};

use crate::api::{self, Machine, MachineConfig, Rights};
use crate::config::{Settings, Zone};
use crate::machine::{self, ProviderId, is_named, is_same};

#[cfg(test)]
mod tests;

/// How old the list may be while every node is ready, so that calls in a row share it.
const LIST_AGE: Duration = Duration::from_secs(5);

/// Looks up all nodes.
///
/// # Errors
/// When the list of machines could not be read: that concerns every node.
pub fn find(settings: &Settings, nodes: &[Node]) -> Result<FindReply, Error> {
    let ids: Vec<ProviderId> = nodes
        .iter()
        .map(|node| ProviderId::of(settings, node))
        .collect();
    let machines = match ids.iter().any(|id| id.is_ours()) {
        true => api::machines(age(nodes))?,
        false => Vec::new(),
    };
    let asked = nodes.iter().zip(ids);
    let questions: Vec<Question<'_>> = asked
        .map(|(node, id)| question(&machines, node, id))
        .collect();
    let answers = Answers::get(settings, nodes, &questions);
    let asked = nodes.iter().zip(&questions);
    let lookups = asked.map(|(node, question)| answers.lookup(node, question));
    Ok(FindReply::new(lookups.collect()))
}

/// An answer about a node that is not ready may lead to its deletion: then no cached list may be used.
fn age(nodes: &[Node]) -> Duration {
    match nodes.iter().all(|node| node.readiness().is_ready()) {
        true => LIST_AGE,
        false => Duration::ZERO,
    }
}

/// What the list shows about a node's machine, and the question that is still open.
enum Question<'a> {
    /// None: the list or the provider ID answers.
    Answered(Lookup),
    /// The node is known, and so is its machine.
    Known(&'a Machine),
    /// The list lacks the machine of this number. Is it gone, or hidden?
    Absent(u64),
    /// The node is known, and a machine of another name has its number. Was the machine renamed, or destroyed and its
    /// number given away?
    Renamed(&'a Machine),
    /// The node is new, and its kubelet was given its provider ID. What is the machine like?
    Given(&'a Machine),
    /// The node is new. Which of the machines with its name is it, and what is that one like?
    New(Vec<&'a Machine>),
}

fn question<'a>(machines: &'a [Machine], node: &Node, id: ProviderId) -> Question<'a> {
    match id {
        ProviderId::Machine(vmid) => match machines.iter().find(|machine| machine.vmid == vmid) {
            None => Question::Absent(vmid),
            Some(machine) if !machine.has_state() => Question::Answered(stateless(machine)),
            Some(machine) if machine.is_container() && is_named(machine, &node.name) => {
                Question::Answered(Lookup::Unknown(format!(
                    "machine {vmid} is a container, and only virtual machines are looked up"
                )))
            }
            // No virtual machine has the number of a container.
            Some(machine) if machine.is_container() => Question::Absent(vmid),
            Some(machine) if !node.initialized => Question::Given(machine),
            Some(machine) if is_named(machine, &node.name) => Question::Known(machine),
            Some(machine) => Question::Renamed(machine),
        },
        ProviderId::Missing => {
            let machines = || machines.iter().filter(|machine| !machine.is_container());
            let named: Vec<&Machine> = machines()
                .filter(|machine| is_named(machine, &node.name))
                .collect();
            let silent = match named.is_empty() {
                true => machines().find(|one| !one.has_state() && one.name.is_none()),
                false => named.iter().copied().find(|one| !one.has_state()),
            };
            match silent {
                Some(machine) => Question::Answered(stateless(machine)),
                None => Question::New(named),
            }
        }
        ProviderId::Foreign => Question::Answered(Lookup::NotMine),
        ProviderId::Unreadable => Question::Answered(Lookup::Unknown(format!(
            "the provider ID {:?} is not of the form proxmox://<region>/<number>",
            node.provider_id.as_deref().unwrap_or_default()
        ))),
    }
}

fn stateless(machine: &Machine) -> Lookup {
    let Machine { vmid, node, .. } = machine;
    Lookup::Unknown(format!(
        "Proxmox has no state of machine {vmid} on {node}: the node does not answer, its pvestatd hangs, or the machine was made just now"
    ))
}

/// The answers to the requests after the list: one for each machine in question.
struct Answers<'a> {
    settings: &'a Settings,
    configs: BTreeMap<u64, Result<MachineConfig, Error>>,
    /// What the token may do with each absent machine, should it exist.
    rights: BTreeMap<u64, Result<Rights, Error>>,
    /// The addresses of the guest agents, of those machines that have one.
    reported: BTreeMap<u64, Result<Vec<String>, Error>>,
}

/// A new node's machine and its configuration.
type Own<'a> = (&'a Machine, &'a MachineConfig);

impl<'a> Answers<'a> {
    fn get(settings: &'a Settings, nodes: &[Node], questions: &[Question<'_>]) -> Answers<'a> {
        let open = questions.iter().flat_map(|question| match question {
            Question::New(machines) => machines.as_slice(),
            Question::Renamed(machine) | Question::Given(machine) => std::slice::from_ref(machine),
            Question::Answered(_) | Question::Known(_) | Question::Absent(_) => &[],
        });
        let absent = questions.iter().filter_map(|question| match question {
            Question::Absent(vmid) => Some(*vmid),
            _ => None,
        });
        let mut answers = Answers {
            settings,
            configs: api::configs(open.copied()),
            rights: api::rights_on(absent.collect()),
            reported: BTreeMap::new(),
        };
        if settings.agent.is_some() {
            let asked = nodes.iter().zip(questions);
            let machines = asked.filter_map(|(node, question)| answers.with_agent(node, question));
            answers.reported = api::agent_addresses(machines);
        }
        answers
    }

    /// The machine of a new node, if it has a guest agent.
    fn with_agent<'b>(&'b self, node: &Node, question: &'b Question<'_>) -> Option<&'b Machine> {
        let own = match question {
            Question::Given(machine) => self.given(node, machine),
            Question::New(machines) => self.named(node, machines),
            _ => return None,
        };
        let (machine, config) = own.ok()??;
        config.has_agent().then_some(machine)
    }

    fn lookup(&self, node: &Node, question: &Question<'_>) -> Lookup {
        match question {
            Question::Answered(lookup) => lookup.clone(),
            Question::Known(machine) => {
                Lookup::Found(machine::listed(self.settings, node, machine))
            }
            Question::Absent(vmid) => self.absent(*vmid),
            Question::Renamed(machine) => self.renamed(node, machine),
            Question::Given(machine) => {
                self.described(node, self.given(node, machine), Lookup::Gone)
            }
            Question::New(machines) => {
                self.described(node, self.named(node, machines), Lookup::NotMine)
            }
        }
    }

    fn absent(&self, vmid: u64) -> Lookup {
        match of(&self.rights, vmid) {
            Err(why) => Lookup::Unknown(why),
            Ok(rights) if rights.may_see_machines() => Lookup::Gone,
            Ok(_) => Lookup::Unknown(format!(
                "the list lacks the machine, and the token could not see it: it needs VM.Audit on /vms/{vmid}"
            )),
        }
    }

    fn renamed(&self, node: &Node, machine: &Machine) -> Lookup {
        match of(&self.configs, machine.vmid) {
            Err(why) => Lookup::Unknown(why),
            Ok(config) => match is_same(config, node) {
                Some(true) => Lookup::Found(machine::listed(self.settings, node, machine)),
                Some(false) => Lookup::Gone,
                None => Lookup::Unknown(without_uuid(machine.vmid)),
            },
        }
    }

    /// The machine of a node whose kubelet was given its provider ID, or why that is not known. `None`: the number
    /// belongs to another machine.
    fn given<'b>(&'b self, node: &Node, machine: &'b Machine) -> Result<Option<Own<'b>>, String> {
        let vmid = machine.vmid;
        let config = of(&self.configs, vmid)?;
        let has_name = is_named(machine, &node.name);
        match is_same(config, node) {
            Some(false) if has_name => Err(format!(
                "machine {vmid} has the node's name and another UUID"
            )),
            Some(false) => Ok(None),
            None if !has_name => Err(without_uuid(vmid)),
            Some(true) | None => self.in_zone((machine, config)).map(Some),
        }
    }

    /// Which of these machines is the new node's, if any, or why that is not known.
    fn named<'b>(
        &'b self,
        node: &Node,
        machines: &[&'b Machine],
    ) -> Result<Option<Own<'b>>, String> {
        let mut found: Option<Own<'b>> = None;
        for &machine in machines {
            let vmid = machine.vmid;
            let config = of(&self.configs, vmid)?;
            match (is_same(config, node), found) {
                (Some(true), None) => found = Some((machine, config)),
                (Some(true), Some((other, _))) => {
                    return Err(format!(
                        "the machines {} and {vmid} have the node's name and UUID",
                        other.vmid
                    ));
                }
                (Some(false), _) => {}
                (None, _) => {
                    return Err(format!(
                        "machine {vmid} has the node's name, and there is no UUID to compare"
                    ));
                }
            }
        }
        found.map(|own| self.in_zone(own)).transpose()
    }

    fn in_zone<'b>(&self, own: Own<'b>) -> Result<Own<'b>, String> {
        let (machine, _) = own;
        match self.settings.zone {
            Zone::Pool if machine::zone(self.settings, machine).is_none() => Err(format!(
                "machine {} is in no pool whose name a label can hold, and pools are the zones; or the token may not see it (Pool.Audit on /pool)",
                machine.vmid
            )),
            Zone::Pool | Zone::Node => Ok(own),
        }
    }

    /// The answer about a new node; `none` is the one if no machine is its own.
    fn described(&self, node: &Node, own: Result<Option<Own<'_>>, String>, none: Lookup) -> Lookup {
        let (machine, config) = match own {
            Ok(Some(own)) => own,
            Ok(None) => return none,
            Err(why) => return Lookup::Unknown(why),
        };
        let reported = match self.reported.get(&machine.vmid) {
            Some(Ok(reported)) => reported.as_slice(),
            Some(Err(error)) => return Lookup::Unknown(error.message().to_owned()),
            None => &[],
        };
        let instance = machine::described(self.settings, node, machine, config, reported);
        let remedy = "let its guest agent report one that is in PROXMOX_INTERNAL_CIDRS";
        Lookup::found_with_ip(node, instance, remedy)
    }
}

fn without_uuid(vmid: u64) -> String {
    format!("machine {vmid} has another name, and there is no UUID to compare")
}

/// The answer about one machine, or why there is none.
fn of<T>(answers: &BTreeMap<u64, Result<T, Error>>, vmid: u64) -> Result<&T, String> {
    let answer = answers.get(&vmid).ok_or("it was not asked for")?;
    answer.as_ref().map_err(|error| error.message().to_owned())
}
