//! Queries the cloud for the servers of one call: by list, by look-ups or by both, whichever takes fewer requests.
//!
//! # Guarantees
//! - A server is absent only after the API reported it: by 404 for that id, by an uncached one-page list, or by two
//!   completely read lists. Anything that could not be read is unknown. A list may lack an existing server and still
//!   be consistent; so a small call that decides about nodes looks up the few servers missing from a list
//!   individually.
//! - Only the requested servers of a list are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ccm_guest::http::WINDOW;
use ccm_guest::{Error, state};

use super::Match;
use crate::api::{self, Ask, Server};
use crate::config::Settings;

/// Maximum number of look-ups in place of a list that failed or that the cache mode forbids: 8 windows, 2 % of a
/// project's hourly request limit. Larger calls cover all nodes; smaller ones may decide about some of them.
const MAX_LOOK_UPS: usize = 64;

/// State key for the number of pages of the server list.
const PAGES: &str = "cloud/pages";
/// Time to live of the page count. A wrong number only costs requests.
const PAGES_KNOWN: Duration = Duration::from_secs(3600);

/// The cloud's answers, one per query.
#[derive(Debug)]
pub(super) struct Cloud {
    /// The id of the network that InternalIPs are taken from.
    pub(super) network: Option<u64>,
    answers: BTreeMap<Ask, Answer>,
}

/// The answer to one query.
#[derive(Debug)]
enum Answer {
    /// The matching servers, by a complete response.
    Servers(Vec<Server>),
    /// Unknown, with the reason.
    Unknown(String),
}

impl Cloud {
    /// Answers every query; sends nothing if there are none. `decides`: the queries include nodes that are not ready,
    /// so the answers may lead to deletions. The host believes absence only together with an answer from the same
    /// call. A small deciding call therefore bypasses the cache: its answers count at once, and it costs no more than
    /// without cached responses.
    ///
    /// # Errors
    /// Errors that affect every query: a refused credential, an exhausted request limit, a missing configured network.
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

    /// The answer to `ask`.
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

/// The state of a running search.
struct Search {
    /// Whether this is a small search that decides about nodes.
    decides: bool,
    /// Whether a page of the list was read.
    has_listed: bool,
    /// Queries without an answer yet.
    open: BTreeSet<Ask>,
    /// Listed servers that match a query, by id: a server that moves between pages is seen twice.
    kept: BTreeMap<u64, Server>,
    answers: BTreeMap<Ask, Answer>,
}

impl Search {
    /// Whether to start with the list. Not for a single server, nor for fewer servers than the list has pages: each
    /// page is one request.
    fn is_for_list(&self, lists: bool) -> bool {
        let few = match (lists, known_pages()) {
            (false, _) => self.open.len() <= MAX_LOOK_UPS,
            (true, Some(pages)) => self.open.len() < pages,
            (true, None) => false,
        };
        self.open.len() > 1 && !few
    }

    /// Answers queries with the list of all servers. The remaining queries need look-ups; returns the maximum age of
    /// cached responses for them. Look-ups that replace a list may be as old as the list; those that confirm absence
    /// bypass the cache.
    fn by_list(&mut self, max_age: Duration) -> Result<Duration, Error> {
        // If a cached one-page list lacks a name, one more look-up is needed; an uncached list costs no more.
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
            // Servers seen so far count: the vendor never gives two servers of a project the same name at a time. So a
            // project that grows while it is listed does not delay all of its new nodes.
            self.answer_ids();
            self.answer_names();
            return self.without_list(error);
        }
        self.answer_ids();
        self.answer_names();
        // A cached list lacks servers created since. Between two pages, a server may move to a page already read, when
        // another one is deleted and a third created. So only an uncached one-page list proves absence; after any
        // other list, missing servers are searched once more, the cheaper way.
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

    /// Reads the whole list again, without the cache.
    fn list_again(&mut self) -> Result<(), Error> {
        let listing = api::begin_list(Duration::ZERO, |server| self.keep(server))?;
        api::finish_list(&listing, Duration::ZERO, |server| self.keep(server))?;
        self.answer_ids();
        self.answer_names();
        Ok(())
    }

    /// Looks up the open queries individually.
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

    /// If all answers are absence, nothing in the call proves that the credential can access a project, and the host
    /// would not believe the absence. One list page proves it, unless a page was read already.
    fn show_account(&self) -> Result<(), Error> {
        let is_absence =
            |answer: &Answer| matches!(answer, Answer::Servers(found) if found.is_empty());
        if !self.decides || self.has_listed || !self.answers.values().all(is_absence) {
            return Ok(());
        }
        match api::begin_list(Duration::ZERO, |_| ()) {
            Ok(_) => Ok(()),
            // The host has seen the failure.
            Err(error) => only_this(error).map(drop),
        }
    }

    /// After a failed list: uses look-ups instead if they are few.
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

    /// Answers the id queries of listed servers.
    fn answer_ids(&mut self) {
        for (id, server) in &self.kept {
            if let Some(ask) = self.open.take(&Ask::Id(*id)) {
                self.answers
                    .insert(ask, Answer::Servers(vec![server.clone()]));
            }
        }
    }

    /// Answers the name queries of listed servers. Called after the whole list, if it could be read, to notice a name
    /// on two servers.
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

    /// Answers the open queries with absence.
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

/// The reason why one query is unknown. Returns errors that would affect every other query too, because more requests
/// would make them worse.
fn only_this(error: Error) -> Result<String, Error> {
    match error {
        Error::Denied(_) | Error::Throttled(_) => Err(error),
        error => Ok(error.message().to_owned()),
    }
}
