//! Selects the requests for a set of nodes and derives the lookups from the responses.
//!
//! # Guarantees
//! - `gone` is returned only for the provider's own IDs, and only after the API reported it; see
//!   [`ccm_guest::machines`] and `dedicated`. Anything that could not be read is `unknown`.
//! - A node without provider ID is `found` or `not-mine`, never `gone`.
//! - Errors of Robot affect only Robot's nodes; errors of the cloud affect only cloud nodes.

use std::collections::BTreeSet;

use ccm_guest::machines::{self, Match, Plan};
use ccm_guest::{Error, Event, FindReply, Instance, Lookup, Node, log};

use crate::api::{self, Ask, Servers};
use crate::config::Settings;
use crate::instances::instance;
use crate::provider_id::ProviderId;
use crate::robot;
use dedicated::{AtRobot, Dedicated};

mod dedicated;
#[cfg(test)]
mod tests;

/// Looks up all nodes.
///
/// # Errors
/// Errors that affect every node: a refused credential, an exhausted request limit, a missing configured network.
pub fn find(settings: &Settings, nodes: &[Node]) -> Result<FindReply, Error> {
    let questions: Vec<Question> = nodes.iter().map(|node| question(settings, node)).collect();
    let asks: BTreeSet<Ask> = questions
        .iter()
        .zip(nodes)
        .filter_map(|(question, node)| question.ask(node))
        .collect();
    let numbers: Vec<(u64, &Node)> = questions
        .iter()
        .zip(nodes)
        .filter_map(|(question, node)| Some((question.number()?, node)))
        .collect();
    let decides = questions
        .iter()
        .zip(nodes)
        .any(|(question, node)| question.is_server() && !node.readiness().is_ready());
    let cloud = match ask_cloud(settings, asks, decides) {
        Ok(cloud) => Ok(cloud),
        Err(error) if numbers.is_empty() => return Err(error),
        Err(error) => Err(error.message().to_owned()),
    };
    let names = questions
        .iter()
        .any(|question| matches!(question, Question::Name));
    let dedicated = match settings.robot.granted() {
        Some(robot) => Dedicated::ask(robot, &numbers, names),
        None => Dedicated::default(),
    };
    let answers = Answers {
        settings,
        cloud,
        dedicated,
    };

    let answer = |(node, question)| {
        let mut events = Vec::new();
        let lookup = answers.lookup(node, question, &mut events);
        if settings.debug {
            show(node, &lookup);
        }
        (lookup, events)
    };
    Ok(nodes.iter().zip(questions).map(answer).collect())
}

/// What the cloud answers about the servers of a call.
struct Cloud {
    /// The id of the network that InternalIPs are taken from.
    network: Option<u64>,
    servers: machines::Answers<Servers>,
}

/// Sends nothing if there are no questions. `decides`: nodes that are not ready are among those asked about, so the
/// answers may lead to deletions.
fn ask_cloud(settings: &Settings, asks: BTreeSet<Ask>, decides: bool) -> Result<Cloud, Error> {
    let network = match &settings.network {
        Some(network) if !asks.is_empty() => Some(api::network_id(network)?),
        _ => None,
    };
    let plan = Plan {
        lists: settings.lists,
        max_age: settings.max_age,
        decides,
    };
    let servers = machines::look_up(&Servers, asks, plan)?;
    Ok(Cloud { network, servers })
}

/// The look-up that a node needs.
enum Question {
    /// No request: the provider ID determines the result.
    Answered(Lookup),
    /// The cloud server with this id.
    Server(u64),
    /// The Robot server with this number.
    Robot(u64),
    /// A server with the node's name, in the cloud and at Robot.
    Name,
}

impl Question {
    /// The query to the cloud.
    fn ask(&self, node: &Node) -> Option<Ask> {
        match self {
            Question::Server(id) => Some(Ask::Id(*id)),
            Question::Name => Some(Ask::Name(node.name.clone())),
            Question::Answered(_) | Question::Robot(_) => None,
        }
    }

    fn is_server(&self) -> bool {
        matches!(self, Question::Server(_))
    }

    fn number(&self) -> Option<u64> {
        match self {
            Question::Robot(number) => Some(*number),
            Question::Answered(_) | Question::Server(_) | Question::Name => None,
        }
    }
}

/// The provider ID takes precedence. The name counts only without one: servers can be renamed, and names are reused.
fn question(settings: &Settings, node: &Node) -> Question {
    let provider_id = node.provider_id.as_deref().filter(|text| !text.is_empty());
    let Some(text) = provider_id else {
        return Question::Name;
    };
    match (ProviderId::parse(text), settings.robot.granted()) {
        (ProviderId::Server(id), _) => Question::Server(id),
        (ProviderId::Robot(number), Some(_)) => Question::Robot(number),
        // Without Robot, `unknown` would be as safe for this node, but would make the whole reply incomplete and so
        // block the deletion of every vanished cloud server in the batch.
        (ProviderId::Robot(_), None) | (ProviderId::Foreign, _) => {
            Question::Answered(Lookup::NotMine)
        }
        (ProviderId::Unreadable, _) => {
            let reason = format!(
                "the provider ID {text:?} is not of the form hcloud://<number> or hrobot://<number>"
            );
            Question::Answered(Lookup::Unknown(reason))
        }
    }
}

/// All results of one call.
struct Answers<'a> {
    settings: &'a Settings,
    /// The cloud's results, or the reason why none are known.
    cloud: Result<Cloud, String>,
    /// Robot's results; without a server where Robot is not asked.
    dedicated: Dedicated,
}

impl Answers<'_> {
    fn lookup(&self, node: &Node, question: Question, events: &mut Vec<Event>) -> Lookup {
        match question {
            Question::Answered(lookup) => lookup,
            Question::Server(id) => match self.in_cloud(&Ask::Id(id)) {
                Match::One(server) => Lookup::Found(self.in_cloud_as_instance(server)),
                Match::None => Lookup::Gone,
                Match::Many => unclear(events, format!("more than one server has the id {id}")),
                Match::Unknown(reason) => Lookup::Unknown(reason.to_owned()),
            },
            Question::Robot(number) => self.by_number(node, number, events),
            Question::Name => self.by_name(node, events),
        }
    }

    fn in_cloud(&self, ask: &Ask) -> Match<'_, api::Server> {
        match &self.cloud {
            Ok(cloud) => cloud.servers.get(ask),
            Err(reason) => Match::Unknown(reason),
        }
    }

    fn in_cloud_as_instance(&self, server: &api::Server) -> Instance {
        let network = self.cloud.as_ref().ok().and_then(|cloud| cloud.network);
        instance(self.settings, network, server)
    }

    fn by_number(&self, node: &Node, number: u64, events: &mut Vec<Event>) -> Lookup {
        match self.dedicated.by_number(number) {
            Ok(Some(server)) if server.is_named(&node.name) => {
                // The Go manager compares every letter, and would delete the node once it is not ready.
                if server.name != node.name {
                    let message = format!(
                        "Robot's server {number} is named {:?}: if Hetzner's Go manager is ever to serve this cluster, write the name at Robot like the node's first, because it compares every letter and would call the machine gone",
                        server.name
                    );
                    events.push(Event::normal("RobotNameDiffersInCase", message));
                }
                Lookup::Found(self.at_robot_as_instance(node, server, events))
            }
            // Dedicated servers outlive clusters: when a server is reused for another node, it gets that node's name
            // and keeps its number. So the name shows whether this node's machine still exists.
            Ok(Some(server)) => match self.dedicated.uncertainty() {
                None => {
                    let message = format!(
                        "Robot's server {number} is now named {:?}: the machine of this node counts as gone, and the node may be deleted once it is not ready",
                        server.name
                    );
                    events.push(Event::warning("PossibleNodeDeletion", message));
                    Lookup::Gone
                }
                Some(reason) => Lookup::Unknown(reason.to_owned()),
            },
            Ok(None) => Lookup::Gone,
            Err(reason) => Lookup::Unknown(reason.to_owned()),
        }
    }

    fn by_name(&self, node: &Node, events: &mut Vec<Event>) -> Lookup {
        let name = &node.name;
        let in_cloud = self.in_cloud(&Ask::Name(name.clone()));
        match (in_cloud, self.dedicated.by_name(name)) {
            (Match::Many, _) | (_, AtRobot::Many) => {
                unclear(events, format!("more than one server is named {name:?}"))
            }
            (Match::One(_), AtRobot::One(server)) => unclear(
                events,
                format!(
                    "a server of the cloud is named {name:?}, and so is Robot's server {}",
                    server.number
                ),
            ),
            (Match::One(server), AtRobot::None | AtRobot::NotLately(_)) => {
                Lookup::Found(self.in_cloud_as_instance(server))
            }
            (Match::None, AtRobot::One(server)) => {
                Lookup::Found(self.at_robot_as_instance(node, server, events))
            }
            (Match::None, AtRobot::None) => Lookup::NotMine,
            (Match::Unknown(reason), _)
            | (_, AtRobot::NotLately(reason) | AtRobot::Unknown(reason)) => {
                Lookup::Unknown(reason.to_owned())
            }
        }
    }

    fn at_robot_as_instance(
        &self,
        node: &Node,
        server: &robot::Server,
        events: &mut Vec<Event>,
    ) -> Instance {
        let robot = self.settings.robot.granted();
        let forward = robot.is_some_and(|robot| robot.forward_internal_ips);
        let (mut instance, misconfigured) =
            robot::instance::instance(self.settings, forward, node, server);
        events.extend(misconfigured);
        instance.shutdown = self.dedicated.is_off(server.number);
        instance
    }
}

/// The node's machine is ambiguous; a person must fix that.
fn unclear(events: &mut Vec<Event>, why: String) -> Lookup {
    let (lookup, event) =
        Lookup::unclear(format!("{why}; it is unknown which one the node runs on"));
    events.extend(event);
    lookup
}

fn show(node: &Node, lookup: &Lookup) {
    let provider_id = node.provider_id.as_deref().unwrap_or_default();
    let (answer, detail) = match lookup {
        Lookup::Found(instance) => ("found", instance.provider_id.as_str()),
        Lookup::Gone => ("gone", ""),
        Lookup::NotMine => ("not-mine", ""),
        Lookup::Unknown(reason) => ("unknown", reason.as_str()),
    };
    let fields = [
        ("node", node.name.as_str()),
        ("provider-id", provider_id),
        ("answer", answer),
        ("detail", detail),
    ];
    log::info("looked up", &fields);
}
