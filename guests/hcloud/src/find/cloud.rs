//! What the cloud says about the servers of one call: by one list, by look-ups, or by both, whichever takes fewer
//! requests.
//!
//! # Guarantees
//! - A server is absent only after the API said so: by 404 for that very id, by a fresh list that came in one piece, or by
//!   two lists read to their ends. What could not be read is unknown. Where a small call decides about nodes, the few servers
//!   that a list lacks are asked for themselves: it may lack one that is there, and agree with itself.
//! - Of a list only the servers that were asked for are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ccm_guest::http::WINDOW;
use ccm_guest::{Error, state};

use super::Match;
use crate::api::{self, Ask, Server};
use crate::config::Settings;

/// The most look-ups that are sent in place of a list that could not be read, or must not be by the cache mode: 8 windows,
/// which is 2 % of the requests that a project may send in an hour. Larger calls go through all nodes that there are;
/// smaller ones may decide about some of them.
const MAX_LOOK_UPS: usize = 64;

/// The state's key for the number of pages that the list of servers had.
const PAGES: &str = "cloud/pages";
/// How long that is remembered. A wrong number costs requests and nothing else.
const PAGES_KNOWN: Duration = Duration::from_secs(3600);

/// The cloud's answers, one for each ask.
#[derive(Debug)]
pub(super) struct Cloud {
    /// The id of the network that InternalIPs are taken from.
    pub(super) network: Option<u64>,
    answers: BTreeMap<Ask, Answer>,
}

/// What the cloud said to one ask.
#[derive(Debug)]
enum Answer {
    /// These servers match, by an answer read to its end.
    Servers(Vec<Server>),
    /// It could not be told, and why.
    Unknown(String),
}

impl Cloud {
    /// Asks the cloud, and has an answer to every ask. Without any it is not asked at all. `decides`: nodes that are not
    /// ready are among those that ask, and what is said may delete them. The host only believes absence that stands beside
    /// an answer of the same call, so a small call that decides takes no kept one: it is of use at once, and costs what it
    /// costs anyway when nothing is kept.
    ///
    /// # Errors
    /// Whatever concerns every ask: a refused credential, an exhausted request limit, a configured network that is not there.
    pub(super) fn ask(
        settings: &Settings,
        asks: BTreeSet<Ask>,
        decides: bool,
    ) -> Result<Cloud, Error> {
        let network = match &settings.network {
            Some(network) if !asks.is_empty() => Some(api::network_id(network)?),
            _ => None,
        };
        let decides = decides && asks.len() <= MAX_LOOK_UPS;
        let max_age = match decides {
            true => Duration::ZERO,
            false => settings.max_age,
        };
        let mut search = Search {
            decides,
            has_listed: false,
            open: asks,
            kept: BTreeMap::new(),
            answers: BTreeMap::new(),
        };
        let max_age = if search.is_for_list(settings.lists) {
            search.by_list(max_age)?
        } else {
            max_age
        };
        search.by_look_up(max_age)?;
        search.show_account()?;
        Ok(Cloud {
            network,
            answers: search.answers,
        })
    }

    /// What was answered to `ask`.
    pub(super) fn answer(&self, ask: &Ask) -> Match<'_, Server> {
        match self.answers.get(ask) {
            Some(Answer::Servers(servers)) => match servers.as_slice() {
                [] => Match::None,
                [server] => Match::One(server),
                _ => Match::Many,
            },
            Some(Answer::Unknown(reason)) => Match::Unknown(reason.clone()),
            None => Match::Unknown("the cloud was not asked".to_owned()),
        }
    }
}

/// A search under way.
struct Search {
    /// Whether it is a small one that decides about nodes.
    decides: bool,
    /// Whether a page of the list was read.
    has_listed: bool,
    /// What has no answer yet.
    open: BTreeSet<Ask>,
    /// The servers of lists that somebody asks for, by id: one that moves between pages is seen twice.
    kept: BTreeMap<u64, Server>,
    answers: BTreeMap<Ask, Answer>,
}

impl Search {
    /// Whether the list is begun. Not for one server, nor for fewer than the list had pages: each of its pages would be one
    /// request more.
    fn is_for_list(&self, lists: bool) -> bool {
        let few = match (lists, known_pages()) {
            (false, _) => self.open.len() <= MAX_LOOK_UPS,
            (true, Some(pages)) => self.open.len() < pages,
            (true, None) => false,
        };
        self.open.len() > 1 && !few
    }

    /// Answers what is cheaper to answer by the list of all servers. What stays open is for look-ups; the answer is how old
    /// kept ones may be. Those in place of a list may be as old as the list; those that confirm absence are fresh.
    fn by_list(&mut self, max_age: Duration) -> Result<Duration, Error> {
        // A list on one page costs as little as the look-up that a name which a kept one lacks would need after it.
        let max_age = match known_pages() {
            Some(1) if self.asks_for_names() => Duration::ZERO,
            _ => max_age,
        };
        let listing = match api::begin_list(max_age, |server| self.keep(server)) {
            Ok(listing) => listing,
            Err(error) => return self.without_list(error),
        };
        self.has_listed = true;
        remember_pages(listing.pages_left() + 1);
        self.answer_ids();
        if self.open.len() <= listing.pages_left() {
            return Ok(max_age);
        }
        if let Err(error) = api::finish_list(&listing, max_age, |server| self.keep(server)) {
            // What was seen stands: the vendor gives a name to one server of a project at a time. So a project that
            // grows while it is listed does not keep all of its new nodes waiting.
            self.answer_ids();
            self.answer_names();
            return self.without_list(error);
        }
        self.answer_ids();
        self.answer_names();
        // A kept list lacks the server that was made since, and between two pages a server may move to one that was read
        // already, when another one is deleted and a third created. So only a fresh list that came in one piece proves
        // absence; after any other one what is missing is looked for once more, the cheaper way.
        if self.decides && self.open.len() <= WINDOW {
            return Ok(Duration::ZERO);
        }
        if listing.pages_left() == 0 && max_age.is_zero() {
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
        self.answer_names();
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

    /// When nothing but absence was said, nothing in the call shows that its credential opens a project at all, and the host
    /// would not believe it. One page of the list does, if there is none yet.
    fn show_account(&self) -> Result<(), Error> {
        let is_absence =
            |answer: &Answer| matches!(answer, Answer::Servers(found) if found.is_empty());
        if !self.decides || self.has_listed || !self.answers.values().all(is_absence) {
            return Ok(());
        }
        match api::begin_list(Duration::ZERO, |_| ()) {
            Ok(_) => Ok(()),
            // The host has seen that it failed.
            Err(error) => only_this(error).map(drop),
        }
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

    /// Answers the names that were seen: after the whole list, if it could be read, so that a name on two servers is noticed.
    fn answer_names(&mut self) {
        let mut named: BTreeMap<&str, Vec<Server>> = BTreeMap::new();
        for server in self.kept.values() {
            named.entry(&server.name).or_default().push(server.clone());
        }
        let seen = self.open.extract_if(
            ..,
            |ask| matches!(ask, Ask::Name(name) if named.contains_key(name.as_str())),
        );
        for ask in seen.collect::<Vec<_>>() {
            if let Ask::Name(name) = &ask
                && let Some(servers) = named.remove(name.as_str())
            {
                self.answers.insert(ask, Answer::Servers(servers));
            }
        }
    }

    fn asks_for_names(&self) -> bool {
        self.open.iter().any(|ask| matches!(ask, Ask::Name(_)))
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

fn known_pages() -> Option<usize> {
    let bytes = state::get(PAGES)?.try_into().ok()?;
    usize::try_from(u64::from_be_bytes(bytes)).ok()
}

fn remember_pages(pages: usize) {
    if let Ok(pages) = u64::try_from(pages) {
        state::set(PAGES, &pages.to_be_bytes(), PAGES_KNOWN);
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
