//! Queries the cloud for the servers of one call. [`ccm_guest::machines`] documents the number of requests and the
//! proof of absence.

use std::collections::BTreeSet;

use ccm_guest::Error;
use ccm_guest::machines::{self, Answers, Plan};

use super::Match;
use crate::api::{self, Ask, Server, Servers};
use crate::config::Settings;

/// The cloud's answers, one per query.
#[derive(Debug)]
pub(super) struct Cloud {
    /// The id of the network that InternalIPs are taken from.
    pub(super) network: Option<u64>,
    answers: Answers<Servers>,
}

impl Cloud {
    /// Answers every query; sends nothing if there are none. `decides`: the queries include nodes that are not ready,
    /// so the answers may lead to deletions.
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
        let plan = Plan {
            lists: settings.lists,
            max_age: settings.max_age,
            decides,
        };
        let answers = machines::look_up(&Servers, asks, plan)?;
        Ok(Cloud { network, answers })
    }

    /// The answer to `ask`.
    pub(super) fn answer(&self, ask: &Ask) -> Match<'_, Server> {
        match self.answers.get(ask) {
            machines::Match::None => Match::None,
            machines::Match::One(server) => Match::One(server),
            machines::Match::Many => Match::Many,
            machines::Match::Unknown(reason) => Match::Unknown(reason.to_owned()),
        }
    }
}
