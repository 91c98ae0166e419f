//! Which requests answer which nodes, and what the answers mean for them.
//!
//! # Guarantees
//! - `gone` is said only of a provider ID of ours, and only after the API said it: by 404 for that very id, by a list
//!   that came in one piece, or by two lists read to their ends. What could not be read is `unknown`.
//! - A node without provider ID is `found` or `not-mine`, never `gone`.
//! - Few requests: one look-up for one node; for more the list of all servers, or look-ups for what its first page left
//!   open, whichever is fewer.
//! - Of a list only the servers that were asked for are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ccm_guest::{Error, Event, EventType, FindReply, Lookup, Node, NodeEvent};

use crate::api::{self, Ask, Server};
use crate::config::Settings;
use crate::instances::instance;
use crate::provider_id::ProviderId;

#[cfg(test)]
mod tests;

/// The most look-ups that are sent in place of a list that could not be read: 8 windows, which is 2 % of the requests
/// that a project may send in an hour.
const MAX_LOOK_UPS: usize = 64;

/// Answers for all nodes.
///
/// # Errors
/// Whatever concerns every node: a refused credential, an exhausted request limit, a configured network that is not there.
pub fn find(settings: &Settings, nodes: &[Node]) -> Result<FindReply, Error> {
    let questions: Vec<Question> = nodes.iter().map(question).collect();
    let asks: BTreeSet<Ask> = questions
        .iter()
        .filter_map(Question::ask)
        .cloned()
        .collect();
    let network = match &settings.network {
        Some(network) if !asks.is_empty() => Some(api::network_id(network)?),
        _ => None,
    };
    let answers = ask_cloud(settings, asks)?;

    let mut reply = FindReply {
        lookups: Vec::with_capacity(nodes.len()),
        events: Vec::new(),
    };
    for (node, question) in (0..).zip(questions) {
        let lookup = match question {
            Question::Answered(lookup) => lookup,
            Question::Open(ask) => match answers.get(&ask) {
                Some(Answer::Servers(servers)) => match servers.as_slice() {
                    [server] => Lookup::Found(instance(settings, network, server)),
                    [] => absent(&ask),
                    _ => {
                        let event = ambiguous(&ask);
                        let reason = event.message.clone();
                        reply.events.push(NodeEvent { node, event });
                        Lookup::Unknown(reason)
                    }
                },
                Some(Answer::Unknown(reason)) => Lookup::Unknown(reason.clone()),
                None => Lookup::Unknown("the cloud was not asked".to_owned()),
            },
        };
        reply.lookups.push(lookup);
    }
    Ok(reply)
}

/// What a node asks of the cloud.
enum Question {
    /// Nothing: its provider ID says it all.
    Answered(Lookup),
    /// This.
    Open(Ask),
}

impl Question {
    fn ask(&self) -> Option<&Ask> {
        match self {
            Question::Answered(_) => None,
            Question::Open(ask) => Some(ask),
        }
    }
}

/// The provider ID decides. The name only counts without one: a server may be renamed, and names are used again.
fn question(node: &Node) -> Question {
    let provider_id = node.provider_id.as_deref().filter(|text| !text.is_empty());
    let Some(text) = provider_id else {
        return Question::Open(Ask::Name(node.name.clone()));
    };
    match ProviderId::parse(text) {
        ProviderId::Server(id) => Question::Open(Ask::Id(id)),
        // A Robot server is no machine of this cloud's API. `unknown` would be as safe for its node, but would make the
        // whole reply incomplete and so keep every vanished cloud server of the batch.
        ProviderId::Robot | ProviderId::Foreign => Question::Answered(Lookup::NotMine),
        ProviderId::Unreadable => {
            let reason = format!("the provider ID {text:?} is not of the form hcloud://<number>");
            Question::Answered(Lookup::Unknown(reason))
        }
    }
}

/// What a complete answer without a server means.
fn absent(ask: &Ask) -> Lookup {
    match ask {
        Ask::Id(_) => Lookup::Gone,
        Ask::Name(_) => Lookup::NotMine,
    }
}

fn ambiguous(ask: &Ask) -> Event {
    let what = match ask {
        Ask::Id(id) => format!("the id {id}"),
        Ask::Name(name) => format!("the name {name:?}"),
    };
    Event {
        event_type: EventType::Warning,
        reason: "InstanceLookupFailed".to_owned(),
        message: format!(
            "more than one server has {what}; which one the node runs on cannot be told"
        ),
    }
}

/// What the cloud said to one ask.
#[derive(Debug)]
enum Answer {
    /// These servers match, by an answer read to its end.
    Servers(Vec<Server>),
    /// It could not be told, and why.
    Unknown(String),
}

/// Asks the cloud, and has an answer to every ask.
fn ask_cloud(settings: &Settings, asks: BTreeSet<Ask>) -> Result<BTreeMap<Ask, Answer>, Error> {
    let mut search = Search {
        open: asks,
        kept: BTreeMap::new(),
        answers: BTreeMap::new(),
    };
    let mut max_age = settings.max_age;
    if search.open.len() > 1 {
        max_age = search.by_list(max_age)?;
    }
    search.by_look_up(max_age)?;
    Ok(search.answers)
}

/// A search under way.
struct Search {
    /// What has no answer yet.
    open: BTreeSet<Ask>,
    /// The servers of lists that somebody asks for, by id: one that moves between pages is seen twice.
    kept: BTreeMap<u64, Server>,
    answers: BTreeMap<Ask, Answer>,
}

impl Search {
    /// Answers what is cheaper to answer by the list of all servers. What stays open is for look-ups; the answer is how old
    /// kept ones may be. Those in place of a list may be as old as the list; those that confirm absence are fresh.
    fn by_list(&mut self, max_age: Duration) -> Result<Duration, Error> {
        let listing = match api::begin_list(max_age, |server| self.keep(server)) {
            Ok(listing) => listing,
            Err(error) => return self.without_list(error),
        };
        self.answer_ids();
        if self.open.len() <= listing.pages_left() {
            return Ok(max_age);
        }
        if let Err(error) = api::finish_list(&listing, max_age, |server| self.keep(server)) {
            self.answer_ids();
            return self.without_list(error);
        }
        self.answer_ids();
        self.answer_names();
        // Between two pages a server may move to one that was read already, when another one is deleted and a third
        // created. So what is missing in a list of several pages is looked for once more, the cheaper way.
        if listing.pages_left() == 0 {
            self.answer_absent();
        } else if self.open.len() > listing.pages_left() + 1 {
            match self.list_again() {
                Ok(()) => self.answer_absent(),
                Err(error) => self.give_up(&only_this(error)?),
            }
        }
        Ok(Duration::ZERO)
    }

    /// Reads the list from beginning to end, freshly.
    fn list_again(&mut self) -> Result<(), Error> {
        let listing = api::begin_list(Duration::ZERO, |server| self.keep(server))?;
        api::finish_list(&listing, Duration::ZERO, |server| self.keep(server))?;
        self.answer_ids();
        Ok(())
    }

    /// Looks up whatever is open.
    fn by_look_up(&mut self, max_age: Duration) -> Result<(), Error> {
        let asks: Vec<Ask> = std::mem::take(&mut self.open).into_iter().collect();
        api::look_up(&asks, max_age, |ask, answer| {
            let answer = match answer {
                Ok(servers) => Answer::Servers(servers),
                Err(error) => Answer::Unknown(only_this(error)?),
            };
            self.answers.insert(ask.clone(), answer);
            Ok(())
        })
    }

    /// The list failed: look-ups take its place if they are few.
    fn without_list(&mut self, error: Error) -> Result<Duration, Error> {
        let reason = only_this(error)?;
        if self.open.len() > MAX_LOOK_UPS {
            self.give_up(&reason);
        }
        Ok(Duration::ZERO)
    }

    fn give_up(&mut self, reason: &str) {
        let open = std::mem::take(&mut self.open);
        self.answers.extend(
            open.into_iter()
                .map(|ask| (ask, Answer::Unknown(reason.to_owned()))),
        );
    }

    fn keep(&mut self, server: Server) {
        if self.open.contains(&Ask::Id(server.id))
            || self.open.contains(&Ask::Name(server.name.clone()))
        {
            self.kept.insert(server.id, server);
        }
    }

    /// Answers the ids that were seen.
    fn answer_ids(&mut self) {
        for (id, server) in &self.kept {
            if let Some(ask) = self.open.take(&Ask::Id(*id)) {
                self.answers
                    .insert(ask, Answer::Servers(vec![server.clone()]));
            }
        }
    }

    /// Answers all names, also those that were not seen. Only after the whole list: a name that was found may be on a
    /// later page too.
    fn answer_names(&mut self) {
        let names = self.open.extract_if(.., |ask| matches!(ask, Ask::Name(_)));
        for ask in names {
            let servers = self
                .kept
                .values()
                .filter(|server| ask == Ask::Name(server.name.clone()));
            self.answers
                .insert(ask.clone(), Answer::Servers(servers.cloned().collect()));
        }
    }

    /// The rest is not there.
    fn answer_absent(&mut self) {
        let open = std::mem::take(&mut self.open);
        self.answers.extend(
            open.into_iter()
                .map(|ask| (ask, Answer::Servers(Vec::new()))),
        );
    }
}

/// The reason for which one ask is unknown. An error that would meet every other ask too ends the call, because more
/// requests would only make it worse.
fn only_this(error: Error) -> Result<String, Error> {
    match error {
        Error::Denied(_) | Error::Throttled(_) => Err(error),
        error => Ok(error.message().to_owned()),
    }
}
