//! The routes of the scripted cloud: the table, and every recorded call and change. A route leads to an address; the
//! nodes of a call and the machines determine whose it is. The execution of calls is in `route_calls.rs`. Knows nothing
//! of Kubernetes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ccm_core::cloud::ProviderError;
use ccm_core::cloud::route::CloudRoute;
use ipnet::IpNet;
use tokio::time::Instant;

use crate::broken_clients::Tamper;
use crate::cloud_lines::error;
use crate::script::Line;
use crate::world::seconds;

#[path = "route_calls.rs"]
mod calls;

pub(crate) use calls::Machine;

/// All routes of the cloud. Clones share them.
#[derive(Clone)]
pub(crate) struct Routes {
    table: Arc<Mutex<Table>>,
    /// The number of the last request to the API server.
    sequence: Arc<dyn Fn() -> u64 + Send + Sync>,
    tamper: Option<Tamper>,
    /// Number of the calling process.
    process: usize,
}

#[derive(Default)]
struct Table {
    /// All routes, deleted ones included.
    all: Vec<Route>,
    /// Errors of calls, by destination (`*`: all) and operation.
    errors: BTreeMap<(String, Option<Operation>), ProviderError>,
    /// Duration of a change, by destination.
    takes: BTreeMap<String, Duration>,
    /// The provider's spelling of a destination.
    spelled: BTreeMap<String, String>,
    lie: Option<Lie>,
    calls: Vec<Operation>,
    /// Changes that are under way, by process, and the largest number at a time.
    open: BTreeMap<usize, usize>,
    most_open: usize,
    /// Number of calls that a transcript has shown.
    shown: usize,
    listings: Vec<Listing>,
    changes: Vec<Changed>,
    elsewhere: BTreeSet<IpNet>,
}

/// A route that exists or has existed.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) id: String,
    pub(crate) destination: IpNet,
    /// The address of the next hop.
    pub(crate) gateway: String,
    /// The node that it was made for, if the cloud stores that.
    pub(crate) made_for: Option<String>,
    /// The time of its creation; it may lie ahead.
    pub(crate) made: Instant,
    /// The time of its deletion; it may lie ahead.
    pub(crate) gone: Option<Instant>,
}

/// A false answer of the cloud about its routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lie {
    /// All routes lead nowhere.
    Blackholes,
    /// The table is empty.
    Empty,
    /// The right answer, from an exchange that was not complete.
    Incomplete,
}

/// A function of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    List,
    Create,
    Delete,
}

impl Operation {
    const ALL: [Operation; 3] = [Operation::List, Operation::Create, Operation::Delete];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Operation::List => "list",
            Operation::Create => "create",
            Operation::Delete => "delete",
        }
    }

    fn named(word: &str) -> Option<Operation> {
        Operation::ALL.into_iter().find(|one| one.as_str() == word)
    }
}

/// A listing that was answered.
#[derive(Debug, Clone)]
pub(crate) struct Listing {
    pub(crate) process: usize,
    /// The time of the call.
    pub(crate) at: Instant,
    pub(crate) complete: bool,
    pub(crate) routes: Vec<CloudRoute>,
}

/// One change of the table.
#[derive(Debug, Clone)]
pub(crate) struct Changed {
    /// Either [`Operation::Create`] or [`Operation::Delete`].
    pub(crate) what: Operation,
    /// The route after it was made, or before it was removed.
    pub(crate) route: Route,
    pub(crate) process: usize,
    pub(crate) at: Instant,
    /// The number of the last request to the API server before it.
    pub(crate) after: u64,
}

impl Changed {
    /// The end of the mutation's path.
    pub(crate) fn path(&self) -> String {
        format!("/routes/{}/{}", self.what.as_str(), self.route.destination)
    }
}

/// The record of the cloud so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorded {
    /// The largest number of simultaneous changes of one process.
    pub(crate) most_open: usize,
    pub(crate) all: Vec<Route>,
    pub(crate) listings: Vec<Listing>,
    pub(crate) changes: Vec<Changed>,
    /// Destinations whose routes another component makes, by the provider's answer.
    pub(crate) elsewhere: BTreeSet<IpNet>,
}

impl Route {
    pub(crate) fn exists(&self, at: Instant) -> bool {
        self.made <= at && self.gone.is_none_or(|gone| gone > at)
    }
}

impl Routes {
    /// No routes yet. `sequence` returns the number of the last request to the API server.
    pub(crate) fn new(
        tamper: Option<Tamper>,
        sequence: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Routes {
        Routes {
            table: Arc::default(),
            sequence: Arc::new(sequence),
            tamper,
            process: 0,
        }
    }

    /// The routes of another cloud, which has none yet.
    pub(crate) fn beside(&self) -> Routes {
        Routes {
            table: Arc::default(),
            ..self.clone()
        }
    }

    /// The same routes, called by the process with this number.
    pub(crate) fn called_by(&self, process: usize) -> Routes {
        Routes {
            process,
            ..self.clone()
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap()
    }

    /// `route …`: see `README.md`.
    pub(crate) fn apply(&self, line: &Line) -> Result<(), String> {
        let mut table = self.table();
        let about = line.word(1)?;
        match line.word(2)? {
            "exists" => table.exists(network(about)?, line),
            "vanishes" => table.vanishes(network(about)?),
            "takes" => {
                let takes = seconds(line.word(3)?)?;
                table.takes.insert(about.to_owned(), takes);
                Ok(())
            }
            "spelled" => {
                let spelling = line.word(3)?.to_owned();
                table.spelled.insert(about.to_owned(), spelling);
                Ok(())
            }
            "fails" => {
                let operation = Operation::named(line.word(3)?);
                let error = error(line, if operation.is_some() { 4 } else { 3 })?;
                table.errors.insert((about.to_owned(), operation), error);
                Ok(())
            }
            "works" => {
                table
                    .errors
                    .retain(|(one, _), _| about != "*" && one != about);
                Ok(())
            }
            other => Err(format!("a route does not {other:?}")),
        }
    }

    /// `routes lie …` and `routes honest`.
    pub(crate) fn lie(&self, line: &Line) -> Result<(), String> {
        self.table().lie = match line.word(1)? {
            "honest" => None,
            _ => Some(match line.word(2)? {
                "blackholes" => Lie::Blackholes,
                "empty" => Lie::Empty,
                "incomplete" => Lie::Incomplete,
                other => return Err(format!("no lie about routes is called {other:?}")),
            }),
        };
        Ok(())
    }

    /// The record so far.
    pub(crate) fn recorded(&self) -> Recorded {
        let table = self.table();
        Recorded {
            most_open: table.most_open,
            all: table.all.clone(),
            listings: table.listings.clone(),
            changes: table.changes.clone(),
            elsewhere: table.elsewhere.clone(),
        }
    }

    /// How often each function was called since this function was called last.
    pub(crate) fn count(&self) -> String {
        let mut table = self.table();
        let calls = &table.calls[table.shown..];
        let counts = Operation::ALL.map(|operation| {
            let count = calls.iter().filter(|one| **one == operation).count();
            (count > 0).then(|| format!("{}({count})", operation.as_str()))
        });
        table.shown = table.calls.len();
        let counts: Vec<String> = counts.into_iter().flatten().collect();
        match counts.is_empty() {
            true => "| no calls".to_owned(),
            false => format!("| {}", counts.join(" ")),
        }
    }

    /// The existing routes, by destination.
    pub(crate) fn there(&self) -> Vec<Route> {
        let (table, now) = (self.table(), Instant::now());
        let all = table.all.iter().filter(|one| one.exists(now));
        let mut there: Vec<Route> = all.cloned().collect();
        there.sort_by_key(|one| one.destination);
        there
    }

    /// One line per route that exists.
    pub(crate) fn describe(&self) -> Vec<String> {
        let there = self.there();
        let lines = there
            .iter()
            .map(|one| format!("| {}", one.line(&one.destination.to_string())));
        lines.collect()
    }
}

impl Route {
    /// The route in one line, with this spelling of its destination.
    pub(crate) fn line(&self, destination: &str) -> String {
        let made_for = self.made_for.as_ref();
        let made_for = made_for.map(|node| format!(" for {node}"));
        let made_for = made_for.unwrap_or_default();
        format!("{destination} to {}{made_for}", self.gateway)
    }
}

impl Table {
    /// Creates a route of another client: `to=ADDRESS for=NODE`.
    fn exists(&mut self, destination: IpNet, line: &Line) -> Result<(), String> {
        let (mut gateway, mut made_for) = ("192.0.2.254".to_owned(), None);
        for (key, value) in line.pairs(3)? {
            match key {
                "to" => gateway = value.to_owned(),
                "for" => made_for = Some(value.to_owned()),
                other => return Err(format!("a route has no {other:?}")),
            }
        }
        self.make(destination, gateway, made_for, Instant::now());
        Ok(())
    }

    fn vanishes(&mut self, destination: IpNet) -> Result<(), String> {
        let now = Instant::now();
        let mut all = self.all.iter_mut();
        let found = all.find(|one| one.destination == destination && one.exists(now));
        found
            .ok_or_else(|| format!("no route leads to {destination}"))?
            .gone = Some(now);
        Ok(())
    }

    fn make(
        &mut self,
        destination: IpNet,
        gateway: String,
        made_for: Option<String>,
        made: Instant,
    ) -> Route {
        let route = Route {
            id: format!("route-{}", self.all.len() + 1),
            destination,
            gateway,
            made_for,
            made,
            gone: None,
        };
        self.all.push(route.clone());
        route
    }

    /// The error of such a call, by the script.
    fn error(&self, about: &str, operation: Operation) -> Option<ProviderError> {
        let said = |about: &str, operation| self.errors.get(&(about.to_owned(), operation));
        let found = said(about, Some(operation)).or(said(about, None));
        let found = found.or(said("*", Some(operation))).or(said("*", None));
        found.cloned()
    }

    /// When a change is done that begins now.
    fn done(&self, about: &str) -> Instant {
        let said = self.takes.get(about).or(self.takes.get("*"));
        Instant::now() + said.copied().unwrap_or_default()
    }
}

/// A network, without the bits of a host.
pub(crate) fn network(text: &str) -> Result<IpNet, String> {
    let network: IpNet = text
        .parse()
        .map_err(|_| format!("{text:?} is no network"))?;
    Ok(network.trunc())
}
