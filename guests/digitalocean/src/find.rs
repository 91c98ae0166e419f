//! Selects the requests for a set of nodes and derives the lookups from the responses.
//!
//! # Guarantees
//! - `gone` is returned only for the provider's own IDs, and only after the API answered that this very droplet does
//!   not exist. A list proves that a droplet exists, never that it does not: GPU droplets are in none of the lists read
//!   here.
//! - A node without provider ID is `found` or `not-mine`, never `gone`.
//! - A node whose droplet could not be read is `unknown`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use ccm_guest::provider_id::{MachineId, number};
use ccm_guest::{Error, Event, FindReply, Lookup, Node};

use crate::api::{self, Droplet};
use crate::instances::{SCHEME, instance, names};

#[cfg(test)]
mod tests;

/// How old a list of droplets may be: it proves existence only.
const LIST_AGE: Duration = Duration::from_secs(10);

/// Looks up all nodes.
///
/// # Errors
/// Errors that affect every node: a refused credential, an exhausted request limit.
pub fn find(nodes: &[Node]) -> Result<FindReply, Error> {
    let questions: Vec<Question> = nodes.iter().map(question).collect();
    let (ids, names) = Question::subjects(&questions);
    let mut search = Search {
        ids,
        names,
        ..Search::default()
    };
    search.run()?;
    search.prove_account()?;
    let answers = nodes.iter().zip(questions);
    let answers = answers.map(|(node, question)| search.lookup(node, question));
    Ok(answers.collect())
}

/// Those of these droplets that do not exist, as the API says now.
///
/// # Errors
/// The reason why it is not known of one of them.
pub fn missing(ids: BTreeSet<u64>) -> Result<BTreeSet<u64>, Error> {
    let mut search = Search {
        ids,
        is_fresh: true,
        ..Search::default()
    };
    search.run()?;
    let mut missing = BTreeSet::new();
    for (id, answer) in search.by_id {
        if answer.map_err(Error::Unavailable)?.is_none() {
            missing.insert(id);
        }
    }
    Ok(missing)
}

/// The look-up that a node needs; a name may be an address.
type Question = ccm_guest::Question<u64, String>;

/// The provider ID takes precedence. The name counts only without one: droplets can be renamed, and names are reused.
fn question(node: &Node) -> Question {
    match node.machine_id(SCHEME) {
        MachineId::Unset => Question::Name(node.name.clone()),
        MachineId::Foreign => Question::Answered(Lookup::NotMine),
        MachineId::Own(id) => match number(id) {
            Some(id) => Question::Id(id),
            None => Question::Answered(Lookup::Unknown(format!(
                "the provider ID \"{SCHEME}://{id}\" is not of the form {SCHEME}://<number>"
            ))),
        },
    }
}

/// The questions of a call, and the answers so far.
#[derive(Default)]
struct Search {
    /// Ids without an answer yet.
    ids: BTreeSet<u64>,
    /// Names without an answer yet.
    names: BTreeSet<String>,
    by_id: BTreeMap<u64, Result<Option<Droplet>, String>>,
    by_name: BTreeMap<String, Result<Vec<Droplet>, String>>,
    /// Whether a request has proved that the token gives access to an account.
    has_account: bool,
    /// Whether no answer may come from the cache.
    is_fresh: bool,
}

impl Search {
    fn run(&mut self) -> Result<(), Error> {
        if self.is_for_list() {
            self.by_list()?;
        }
        self.look_up_ids()?;
        self.look_up_names()
    }

    /// The host does not believe an absence without a successful answer in the same call.
    fn prove_account(&self) -> Result<(), Error> {
        let has_gone = self.by_id.values().any(|answer| matches!(answer, Ok(None)));
        if has_gone && !self.has_account {
            match api::show_account() {
                Ok(()) => {}
                // The host has seen the failure of this request itself.
                Err(error) => error.of_one().map(drop)?,
            }
        }
        Ok(())
    }

    /// A single droplet is looked up by itself; one whose node is named by its address can only be found in the list.
    fn is_for_list(&self) -> bool {
        self.ids.len() + self.names.len() > 1 || self.names.iter().any(|name| is_address(name))
    }

    /// Answers questions by list. Stops where look-ups of the remaining droplets cost fewer requests than the list's
    /// other pages.
    fn by_list(&mut self) -> Result<(), Error> {
        let by_address = self.names.iter().any(|name| is_address(name));
        // A list that has to prove something about a name must not come from the cache.
        let max_age = match by_address || self.is_fresh {
            true => Duration::ZERO,
            false => LIST_AGE,
        };
        let mut seen = BTreeMap::new();
        let listed = self.read_list(max_age, by_address, &mut seen);
        for (id, droplet) in &seen {
            if self.ids.remove(id) {
                self.by_id.insert(*id, Ok(Some(droplet.clone())));
            }
        }
        match listed {
            Ok(is_whole) => {
                self.has_account = true;
                if is_whole {
                    self.answer_names(&seen, max_age.is_zero());
                }
                Ok(())
            }
            Err(error) => {
                let why = error.of_one()?;
                // A droplet whose node is named by an address cannot be looked up.
                let addresses = self.names.extract_if(.., |name| is_address(name));
                self.by_name
                    .extend(addresses.map(|name| (name, Err(why.clone()))));
                Ok(())
            }
        }
    }

    /// Returns whether the whole list was read.
    fn read_list(
        &self,
        max_age: Duration,
        has_to_end: bool,
        seen: &mut BTreeMap<u64, Droplet>,
    ) -> Result<bool, Error> {
        let is_asked = |droplet: &Droplet| {
            self.ids.contains(&droplet.id) || !self.names.is_disjoint(&names(droplet))
        };
        let listing = api::begin_droplets(max_age, |droplet| {
            if is_asked(&droplet) {
                seen.insert(droplet.id, droplet);
            }
        })?;
        let left = listing.pages_left();
        let open = self.ids.iter().filter(|id| !seen.contains_key(*id)).count() + self.names.len();
        if open <= left && !has_to_end {
            return Ok(left == 0);
        }
        api::finish_droplets(&listing, max_age, |droplet| {
            if is_asked(&droplet) {
                seen.insert(droplet.id, droplet);
            }
        })?;
        Ok(true)
    }

    /// Answers names by a whole list. A name that a cached list lacks is looked up: the droplet may be younger.
    fn answer_names(&mut self, seen: &BTreeMap<u64, Droplet>, is_new: bool) {
        for droplet in seen.values() {
            for name in names(droplet).intersection(&self.names) {
                let named = self
                    .by_name
                    .entry(name.clone())
                    .or_insert_with(|| Ok(Vec::new()));
                if let Ok(named) = named {
                    named.push(droplet.clone());
                }
            }
        }
        self.names.retain(|name| {
            if is_new {
                let named = self.by_name.entry(name.clone());
                named.or_insert_with(|| Ok(Vec::new()));
            }
            !self.by_name.contains_key(name)
        });
    }

    fn look_up_ids(&mut self) -> Result<(), Error> {
        let ids: Vec<u64> = std::mem::take(&mut self.ids).into_iter().collect();
        api::droplets_by_id(&ids, |id, answer| {
            self.has_account |= matches!(answer, Ok(Some(_)));
            let answer = match answer {
                Ok(droplet) => Ok(droplet),
                Err(error) => Err(error.of_one()?),
            };
            self.by_id.insert(id, answer);
            Ok(())
        })
    }

    fn look_up_names(&mut self) -> Result<(), Error> {
        let wanted: Vec<String> = std::mem::take(&mut self.names).into_iter().collect();
        api::droplets_by_name(&wanted, |name, answer| {
            self.has_account |= answer.is_ok();
            let answer = match answer {
                Ok(mut droplets) => {
                    droplets.retain(|droplet| names(droplet).contains(name));
                    Ok(droplets)
                }
                Err(error) => Err(error.of_one()?),
            };
            self.by_name.insert(name.to_owned(), answer);
            Ok(())
        })
    }

    fn lookup(&self, node: &Node, question: Question) -> (Lookup, Option<Event>) {
        let not_asked = || Lookup::Unknown("the cloud was not asked".to_owned());
        match question {
            Question::Answered(lookup) => (lookup, None),
            Question::Id(id) => match self.by_id.get(&id) {
                Some(Ok(Some(droplet))) => found(node, droplet),
                Some(Ok(None)) => (Lookup::Gone, None),
                Some(Err(why)) => (Lookup::Unknown(why.clone()), None),
                None => (not_asked(), None),
            },
            Question::Name(name) => match self.by_name.get(&name) {
                Some(Ok(droplets)) => match droplets.as_slice() {
                    [] => (Lookup::NotMine, None),
                    [droplet] => found(node, droplet),
                    _ => Lookup::unclear(format!(
                        "more than one droplet is called {name:?}; it is unknown which one the node runs on"
                    )),
                },
                Some(Err(why)) => (Lookup::Unknown(why.clone()), None),
                None => (not_asked(), None),
            },
        }
    }
}

/// A droplet without a private IPv4 address exists, and a node on it keeps the addresses that it has; it is not
/// initialised, as with the Go manager.
fn found(node: &Node, droplet: &Droplet) -> (Lookup, Option<Event>) {
    let (instance, has_private) = instance(droplet);
    let is_known = node.initialized && node.provider_id.is_some();
    match has_private || is_known {
        true => (Lookup::Found(instance), None),
        false => Lookup::unclear(format!(
            "droplet {} has no private IPv4 address, which a node needs: put it into a VPC",
            droplet.id
        )),
    }
}

fn is_address(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
}
