//! What Robot says about the dedicated servers of one call: by one list, which is kept for minutes.
//!
//! # Guarantees
//! - A server is absent only after Robot said so twice: by a list that names at least one server and is at most a minute
//!   old, and, since a list says nothing about its length, by 404 for that very number. While Robot does not answer, nothing
//!   is absent: it is unknown.
//! - It never fails a call: what concerns Robot concerns no server of the cloud.
//! - Whether a server is switched off takes a request for each, and is only asked for nodes that are not ready.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_guest::Node;

use super::Match;
use crate::config::RobotSettings;
use crate::robot::{self, Server};

/// The most servers that are asked for one by one, because the list lacks them. Robot allows 200 such requests an hour; that so
/// many are gone at once is for a person to look at.
const MAX_LOOK_UPS: usize = 64;

/// Robot's answer.
#[derive(Debug, Default)]
pub(super) struct Dedicated {
    servers: Vec<Server>,
    /// The numbers that the list lacks: proven absent, or why that is not known.
    missing: Vec<(u64, Result<(), String>)>,
    /// Why the list says nothing about who is not there, or has another name now.
    doubt: Option<String>,
    /// Nothing was read: not even who is there is known.
    blind: bool,
    /// Whether servers are switched off, by their numbers, as far as that was asked for and can be told.
    off: BTreeMap<u64, bool>,
}

impl Dedicated {
    /// Asks Robot. `numbers` are the nodes with provider ID and their server's number; `names` says whether there are others.
    pub(super) fn ask(
        settings: &RobotSettings,
        numbers: &[(u64, &Node)],
        names: bool,
    ) -> Dedicated {
        if numbers.is_empty() && !names {
            return Dedicated::default();
        }
        // Where nothing is known about an earlier list, the first one is made to be good for absence too.
        let age = match robot::was_listed() {
            true => settings.list_age,
            false => settings.list_age.min(robot::ABSENCE_AGE),
        };
        let known = match robot::list(settings, age) {
            Ok(servers) => Dedicated::knowing(servers),
            Err(error) => {
                return Dedicated {
                    doubt: Some(error.message().to_owned()),
                    blind: true,
                    ..Dedicated::default()
                };
            }
        };
        let mut known = known.made_sure(settings, age, numbers);
        if known.doubt.is_none() {
            known.look_up_missing(settings, numbers);
        }
        known.look_at_power(settings, numbers);
        known
    }

    /// Reads the list again, if somebody is not there by one that may be so old.
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
                doubt: Some(error.message().to_owned()),
                ..self
            },
        }
    }

    /// Asks for every server that the list lacks. One after the other: the first refusal is the last request.
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

    /// Asks whether the servers of nodes that are not ready are switched off. One after the other: the first refusal is the
    /// last request.
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

    /// Whether the server is listed, and this node's.
    fn is_there(&self, number: u64, node: &Node) -> bool {
        self.listed(number)
            .is_some_and(|server| server.name == node.name)
    }

    fn listed(&self, number: u64) -> Option<&Server> {
        self.servers.iter().find(|server| server.number == number)
    }

    fn knowing(servers: Vec<Server>) -> Dedicated {
        // More probably the account is the wrong one than all servers are gone at once.
        let doubt = servers
            .is_empty()
            .then(|| "Robot knows no server at all".to_owned());
        Dedicated {
            servers,
            doubt,
            ..Dedicated::default()
        }
    }

    /// The server with this number.
    pub(super) fn by_number(&self, number: u64) -> Match<'_, Server> {
        let mut missing = self.missing.iter();
        match (
            self.listed(number),
            missing.find(|(other, _)| *other == number),
        ) {
            (Some(server), _) => Match::One(server),
            (None, Some((_, Ok(())))) => Match::None,
            (None, Some((_, Err(reason)))) => Match::Unknown(reason.clone()),
            (None, None) => Match::Unknown(self.doubt.clone().unwrap_or_default()),
        }
    }

    /// The server with this name. Unlike absence of a number, absence of a name deletes nothing, so that a list of any age
    /// and length will do.
    pub(super) fn by_name(&self, name: &str) -> Match<'_, Server> {
        if self.blind {
            let reason = self.doubt.clone().unwrap_or_default();
            return match robot::had_name(name) {
                Some(false) => Match::NotLately(reason),
                Some(true) | None => Match::Unknown(reason),
            };
        }
        let mut found = self.servers.iter().filter(|server| server.name == name);
        match (found.next(), found.next()) {
            (None, _) => Match::None,
            (Some(server), None) => Match::One(server),
            (Some(_), Some(_)) => Match::Many,
        }
    }

    /// Whether the server is switched off; `None` if nobody needed to know, or it cannot be told.
    pub(super) fn is_off(&self, number: u64) -> Option<bool> {
        self.off.get(&number).copied()
    }

    /// Why it cannot be said that a server has another name now.
    pub(super) fn doubt(&self) -> Option<&str> {
        self.doubt.as_deref()
    }
}
