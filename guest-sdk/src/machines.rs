//! Looks machines up with few requests: by list, one by one or both, whichever costs less.
//!
//! # Which clouds it is for
//! Those that list all their machines, usually in pages, and that find one by its ID or by the name of its node. Of the
//! shipped providers, hcloud uses it: Hetzner's API has no request for a set of servers. It is not for a cloud
//! - that answers about all machines of a call in one request, as AWS and Proxmox do: there is nothing to choose, and a
//!   provider with that one request is shorter;
//! - whose list can lack machines that exist, as DigitalOcean's lists lack those with GPUs: two such lists would pass as
//!   proof of absence;
//! - where a node without provider ID is found by anything but its machine's name, such as an address or a UUID.
//!
//! # Guarantees
//! - A machine is absent only after the cloud said so: in the answer about that machine, in a list of one page that no
//!   cache answered, or in two lists that were read completely. A machine that could not be read is unknown.
//! - A list can lack a machine and still be consistent: between two pages a machine moves to one that was read already.
//!   So a small call that decides about nodes looks up the few machines that a list lacks one by one.
//! - Nor does a list prove an absence that changes while it is read. If its first page says how long it is, up to 256
//!   machines that it lacks are looked up by their IDs, and the others are unknown. The host asks about those apart from
//!   the others.
//! - N nodes cost at most the pages of one list and nine more requests, or of two lists and one, unless the list
//!   changes. Without doubt about any node it is one list, and none for machines that are looked up with fewer requests.
//! - Only the machines that were asked about are held in memory. [`state`](crate::state) has the number of pages, under the
//!   key `machines/pages`.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::time::Duration;

use crate::http::{Request, Response};
use crate::{Error, FindReply, Lookup, MachineId, Node};
use search::Search;

pub use search::{Answers, List};

mod search;
#[cfg(test)]
mod tests;

/// The machines of one account, as the cloud's API shows them.
pub trait Machines: Sized {
    /// Identifies a machine for ever, and is never given to another one.
    type Id: Clone + Ord + Display + Debug;
    /// A machine as the API describes it.
    type Machine: Clone + Debug;

    /// Whether the cloud gives a name to one machine at a time. If not, a part of a list answers no question by name:
    /// another machine of that name may be on a page that was not read.
    const UNIQUE_NAMES: bool = false;

    /// The ID of a machine.
    fn id(machine: &Self::Machine) -> Self::Id;

    /// The name of a machine. Nodes without provider ID are found by it.
    fn name(machine: &Self::Machine) -> &str;

    /// Lists machines from answers that are at most `max_age` old: hands each page to [`List::add`], which
    /// [`List::follow`] does. The list holds at least every machine that [`List::asks`] names and that exists; a cloud
    /// that can filter need not list others. If the first page says how many pages come after it, [`List::is_enough`]
    /// says whether they are needed; [`List::follow`] asks it.
    ///
    /// # Errors
    /// The reason why the list is not complete.
    fn list(&self, max_age: Duration, list: &mut List<'_, Self>) -> Result<(), Error>;

    /// The request for one machine, or for those with a name; `None` if the cloud has only a list.
    fn request(&self, ask: &Ask<Self::Id>) -> Option<Request>;

    /// The machines in the answer to [`Machines::request`], with any status. An empty list means absence, by a complete
    /// answer.
    ///
    /// # Errors
    /// The reason why the machines are not known. An answer about another machine than the one asked for is such a
    /// reason.
    fn answer(&self, ask: &Ask<Self::Id>, answer: Response) -> Result<Vec<Self::Machine>, Error>;

    /// Reads one page of the machines that were created last, from no cache; `None` if the cloud cannot sort so. Called
    /// only with [`Machines::UNIQUE_NAMES`], since nodes are found on this page by their names. A
    /// cluster that grows by many nodes then needs neither a look-up of each nor the whole list again and again.
    fn newest(&self) -> Option<Result<Vec<Self::Machine>, Error>> {
        None
    }
}

/// A question for one machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ask<Id> {
    /// The machine with this ID.
    Id(Id),
    /// The machines with exactly this name.
    Name(String),
}

/// The machines that match a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match<'a, Machine> {
    /// No machine, by a complete answer.
    None,
    /// Exactly one machine.
    One(&'a Machine),
    /// More than one machine.
    Many,
    /// The machines are not known, for this reason.
    Unknown(&'a str),
}

/// How machines are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Whether lists may take the place of look-ups. If false, lists are read only for more than 64 machines.
    pub lists: bool,
    /// How old a cached answer of the cloud may be. Questions by name, and those that may lead to a deletion, are never
    /// answered from the cache.
    pub max_age: Duration,
    /// Whether a node that is not ready is among those asked about, so that the answers may lead to its deletion. The
    /// host believes absence only together with an answer from the same call: a small call of this kind uses no cached
    /// answers, looks up each machine that a list lacks, and shows that the account can be read at all.
    pub decides: bool,
}

impl Default for Plan {
    /// Lists are allowed, and answers may be ten seconds old.
    fn default() -> Plan {
        Plan {
            lists: true,
            max_age: Duration::from_secs(10),
            decides: false,
        }
    }
}

/// Answers every question; sends nothing if there are none.
///
/// # Errors
/// Errors that concern every question: a refused credential and an exhausted request limit.
pub fn look_up<M: Machines>(
    machines: &M,
    asks: BTreeSet<Ask<M::Id>>,
    plan: Plan,
) -> Result<Answers<M>, Error> {
    Search::new(machines, asks, plan).run()
}

/// Answers [`Instances::find`](crate::Instances::find) for a cloud with one scheme: `parse` reads the ID in a provider
/// ID, and `found` answers about a node with this machine: [`Lookup::Found`], or [`Lookup::found_with_ip`] for a cloud
/// whose machines can be without an address, as new ones are in many clouds.
///
/// A node with a provider ID is `found`, `gone` or `unknown`; one without is looked up by its name, and is `found`,
/// `not-mine` or `unknown`.
///
/// # Errors
/// Errors that concern every node: see [`look_up`].
pub fn find<M: Machines>(
    machines: &M,
    nodes: &[Node],
    scheme: &str,
    plan: Plan,
    parse: impl Fn(&str) -> Option<M::Id>,
    found: impl Fn(&Node, &M::Machine) -> Lookup,
) -> Result<FindReply, Error> {
    let question = |node: &Node| match node.machine_id(scheme) {
        MachineId::Unset => Question::Ask(Ask::Name(node.name.clone())),
        MachineId::Own(id) => match parse(id) {
            Some(id) => Question::Ask(Ask::Id(id)),
            None => {
                let text = node.provider_id.as_deref().unwrap_or_default();
                Question::Unknown(format!(
                    "the provider ID {text:?} has none of the known forms"
                ))
            }
        },
        MachineId::Foreign => Question::NotMine,
    };
    let questions: Vec<_> = nodes.iter().map(question).collect();
    let asks = questions.iter().filter_map(Question::ask).cloned();
    let is_doubted = |(question, node): (&Question<M::Id>, &Node)| {
        matches!(question.ask(), Some(Ask::Id(_))) && !node.readiness().is_ready()
    };
    let decides = plan.decides || questions.iter().zip(nodes).any(is_doubted);
    let answers = look_up(machines, asks.collect(), Plan { decides, ..plan })?;

    let answer = |(node, question): (&Node, Question<M::Id>)| {
        let lookup = match question {
            Question::NotMine => Lookup::NotMine,
            Question::Unknown(reason) => Lookup::Unknown(reason),
            Question::Ask(ask) => match (answers.get(&ask), &ask) {
                (Match::One(machine), _) => found(node, machine),
                (Match::None, Ask::Id(_)) => Lookup::Gone,
                (Match::None, Ask::Name(_)) => Lookup::NotMine,
                (Match::Unknown(reason), _) => Lookup::Unknown(reason.to_owned()),
                (Match::Many, ask) => {
                    let message = format!(
                        "more than one machine has {ask}; it is unknown which one the node runs on"
                    );
                    return Lookup::unclear(message);
                }
            },
        };
        (lookup, None)
    };
    Ok(nodes.iter().zip(questions).map(answer).collect())
}

/// How a node is looked up.
enum Question<Id> {
    Ask(Ask<Id>),
    NotMine,
    /// The provider ID cannot be read, for this reason.
    Unknown(String),
}

impl<Id> Question<Id> {
    fn ask(&self) -> Option<&Ask<Id>> {
        match self {
            Question::Ask(ask) => Some(ask),
            Question::NotMine | Question::Unknown(_) => None,
        }
    }
}

impl<Id: Display> Display for Ask<Id> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ask::Id(id) => write!(f, "the id {id}"),
            Ask::Name(name) => write!(f, "the name {name:?}"),
        }
    }
}
