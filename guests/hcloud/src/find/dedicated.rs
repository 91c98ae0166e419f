//! Queries Robot for the dedicated servers of one call, by one list that is cached for minutes.
//!
//! # Guarantees
//! - A server is absent only after Robot reported it twice: by a list that names at least one server and is at most a
//!   minute old, and, since a list does not state its length, by 404 for that number. While Robot does not respond,
//!   servers are unknown, never absent.
//! - It never fails a call: Robot's errors do not affect cloud servers.
//! - The power state costs one request per server and is queried only for nodes that are not ready.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_guest::Node;

use crate::config::RobotSettings;
use crate::robot::{self, Server};

/// Maximum number of individual look-ups of servers missing from the list. Robot allows 200 such requests an hour; if
/// so many are gone at once, a person should investigate.
const MAX_LOOK_UPS: usize = 64;

/// The servers of a name.
pub(super) enum AtRobot<'a> {
    /// No server.
    None,
    /// Exactly one server.
    One(&'a Server),
    /// More than one server.
    Many,
    /// Currently unknown, for this reason; no server had the name in a list within the last hour.
    NotLately(&'a str),
    /// Unknown, for this reason.
    Unknown(&'a str),
}

/// Robot's answers to the questions of one call.
#[derive(Debug, Default)]
pub(super) struct Dedicated {
    servers: Vec<Server>,
    /// The numbers missing from the list: proven absent, or the reason why that is unknown.
    missing: Vec<(u64, Result<(), String>)>,
    /// Why the list proves neither absence nor renaming.
    uncertainty: Option<String>,
    /// Nothing was read: not even the existing servers are known.
    is_unavailable: bool,
    /// Whether servers are switched off, by number; only servers whose power state was queried and is known.
    off: BTreeMap<u64, bool>,
}

impl Dedicated {
    /// Queries Robot. `numbers` are the nodes with provider ID and their server's number; `names` says whether there
    /// are nodes without one.
    pub(super) fn ask(
        settings: &RobotSettings,
        numbers: &[(u64, &Node)],
        names: bool,
    ) -> Dedicated {
        if numbers.is_empty() && !names {
            return Dedicated::default();
        }
        // Without an earlier list, make the first one recent enough to prove absence too.
        let age = match robot::was_listed() {
            true => settings.list_age,
            false => settings.list_age.min(robot::ABSENCE_AGE),
        };
        let known = match robot::list(settings, age) {
            Ok(servers) => Dedicated::knowing(servers),
            Err(error) => {
                return Dedicated {
                    uncertainty: Some(error.message().to_owned()),
                    is_unavailable: true,
                    ..Dedicated::default()
                };
            }
        };
        let mut known = known.made_sure(settings, age, numbers);
        if known.uncertainty.is_none() {
            known.look_up_missing(settings, numbers);
        }
        known.look_at_power(settings, numbers);
        known
    }

    /// Reads the list again if it lacks a server and may be too old to prove absence.
    fn made_sure(
        self,
        settings: &RobotSettings,
        age: Duration,
        numbers: &[(u64, &Node)],
    ) -> Dedicated {
        let absent = numbers
            .iter()
            .any(|(number, node)| !self.is_there(*number, node));
        if !absent || age <= robot::ABSENCE_AGE {
            return self;
        }
        match robot::list(settings, robot::ABSENCE_AGE) {
            Ok(servers) => Dedicated::knowing(servers),
            Err(error) => Dedicated {
                uncertainty: Some(error.message().to_owned()),
                ..self
            },
        }
    }

    /// Looks up every server missing from the list. Sequential: stops at the first refusal.
    fn look_up_missing(&mut self, settings: &RobotSettings, numbers: &[(u64, &Node)]) {
        let mut missing: Vec<u64> = numbers
            .iter()
            .map(|(number, _)| *number)
            .filter(|number| self.listed(*number).is_none())
            .collect();
        missing.sort_unstable();
        missing.dedup();
        for (index, number) in missing.into_iter().enumerate() {
            let answer = if index < MAX_LOOK_UPS {
                robot::look_up(settings, number).map_err(|error| error.message().to_owned())
            } else {
                Err("Robot's list lacks too many servers to ask for each".to_owned())
            };
            match answer {
                Ok(Some(server)) => self.servers.push(server),
                Ok(None) => self.missing.push((number, Ok(()))),
                Err(reason) => self.missing.push((number, Err(reason))),
            }
        }
    }

    /// Queries the power state for nodes that are not ready. Sequential: stops at the first refusal.
    fn look_at_power(&mut self, settings: &RobotSettings, numbers: &[(u64, &Node)]) {
        let waiting: Vec<u64> = numbers
            .iter()
            .filter(|(number, node)| !node.readiness().is_ready() && self.is_there(*number, node))
            .map(|(number, _)| *number)
            .collect();
        let age = robot::power_age(waiting.len());
        for number in waiting.into_iter().take(robot::MAX_POWER) {
            if let Some(off) = robot::is_shut_off(settings, number, age) {
                self.off.insert(number, off);
            }
        }
    }

    /// Whether the list has this number under this node's name.
    fn is_there(&self, number: u64, node: &Node) -> bool {
        self.listed(number)
            .is_some_and(|server| server.is_named(&node.name))
    }

    fn listed(&self, number: u64) -> Option<&Server> {
        self.servers.iter().find(|server| server.number == number)
    }

    fn knowing(servers: Vec<Server>) -> Dedicated {
        // An empty list more likely means a wrong account than that all servers are gone.
        let uncertainty = servers
            .is_empty()
            .then(|| "Robot knows no server at all".to_owned());
        Dedicated {
            servers,
            uncertainty,
            ..Dedicated::default()
        }
    }

    /// The server with this number.
    ///
    /// # Errors
    /// The reason why it is not known.
    pub(super) fn by_number(&self, number: u64) -> Result<Option<&Server>, &str> {
        let mut missing = self.missing.iter();
        match (
            self.listed(number),
            missing.find(|(other, _)| *other == number),
        ) {
            (Some(server), _) => Ok(Some(server)),
            (None, Some((_, Ok(())))) => Ok(None),
            (None, Some((_, Err(reason)))) => Err(reason),
            (None, None) => Err(self.uncertainty().unwrap_or_default()),
        }
    }

    /// The server with this name. Unlike absence of a number, absence of a name deletes nothing, so a list of any age
    /// and length is enough.
    pub(super) fn by_name(&self, name: &str) -> AtRobot<'_> {
        if self.is_unavailable {
            let reason = self.uncertainty().unwrap_or_default();
            return match robot::had_name(name) {
                Some(false) => AtRobot::NotLately(reason),
                Some(true) | None => AtRobot::Unknown(reason),
            };
        }
        let mut found = self.servers.iter().filter(|server| server.is_named(name));
        match (found.next(), found.next()) {
            (None, _) => AtRobot::None,
            (Some(server), None) => AtRobot::One(server),
            (Some(_), Some(_)) => AtRobot::Many,
        }
    }

    /// Whether the server is switched off; `None` if not queried or unknown.
    pub(super) fn is_off(&self, number: u64) -> Option<bool> {
        self.off.get(&number).copied()
    }

    /// Why it is unknown whether a server was renamed.
    pub(super) fn uncertainty(&self) -> Option<&str> {
        self.uncertainty.as_deref()
    }
}
