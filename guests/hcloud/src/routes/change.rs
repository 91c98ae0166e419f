//! Creates and deletes routes.
//!
//! A network accepts one change at a time and refuses others meanwhile. So the call that starts a change sets a marker
//! in the state, and other calls wait without a request. The marker is only an optimization: without it, changes are
//! refused and retried.

use std::time::Duration;

use ccm_guest::hint::{busy_delay, poll_delay};
use ccm_guest::routes::{CreateRequest, DeleteRequest, ProgressReply};
use ccm_guest::{Error, Pending, log, random, state};
use serde::{Deserialize, Serialize};

use super::gateway::{Layout, node_gateway};
use super::list::Id;
use crate::address_range::{self, is_ipv6};
use crate::api::networks;
use crate::api::refusal::Refusal;
use crate::config::RouteSettings;
use crate::pending_actions::{self, Wait};

#[cfg(test)]
mod tests;

/// Retry delay of a change that waits for another change of this provider. The retry costs no request.
const TURN: Duration = Duration::from_millis(150);
/// Time to live of the marker when the call that set it does not return.
const NOTED: Duration = Duration::from_secs(3);

/// One route change in a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Change {
    network: u64,
    destination: String,
    gateway: String,
    /// True: add the route. False: delete it.
    adds: bool,
}

/// State passed to the next call.
#[derive(Debug, Serialize, Deserialize)]
struct Hint {
    change: Change,
    /// The action that was started.
    action: Option<u64>,
    /// Number of polls or attempts without success.
    waits: u64,
}

/// See [`ccm_guest::Routes::create`].
///
/// # Errors
/// As the trait's method; [`Error::Elsewhere`] for IPv6, which the vendor's networks do not support, and for nodes that
/// cannot be a next hop.
pub fn create(settings: &RouteSettings, request: &CreateRequest) -> Result<ProgressReply, Error> {
    let text = &request.destination_cidr;
    let Some(destination) = address_range::read(text) else {
        return Err(match is_ipv6(text) {
            true => Error::Elsewhere,
            false => Error::invalid(format!("{text:?} is no range of addresses")),
        });
    };
    let (network, gateway) = node_gateway(settings, &request.node)?;
    let change = Change {
        network,
        destination: destination.to_string(),
        gateway: gateway.to_string(),
        adds: true,
    };
    change.carry_out(settings, request.hint())
}

/// See [`ccm_guest::Routes::delete`].
///
/// # Errors
/// See [`ccm_guest::Routes::delete`].
pub fn delete(settings: &RouteSettings, request: &DeleteRequest) -> Result<ProgressReply, Error> {
    let id = &request.route.id;
    let Some(Id {
        network,
        gateway,
        destination,
    }) = Id::read(id)
    else {
        return Err(Error::invalid(format!("{id:?} names no route")));
    };
    let change = Change {
        network,
        destination,
        gateway,
        adds: false,
    };
    change.carry_out(settings, request.hint())
}

impl Change {
    fn carry_out(
        self,
        settings: &RouteSettings,
        hint: Option<Hint>,
    ) -> Result<ProgressReply, Error> {
        let hint = hint.filter(|hint| hint.change == self);
        let waits = hint.as_ref().map_or(0, |hint| hint.waits);
        if let Some(action) = hint.and_then(|hint| hint.action) {
            return match pending_actions::ask(&[action]) {
                Ok(Wait::Running) => {
                    self.take_note();
                    Ok(self.pending(Some(action), waits + 1, poll_delay(waits)))
                }
                Ok(Wait::Over) => {
                    self.drop_note();
                    Ok(ProgressReply::done())
                }
                Ok(Wait::Unknown) => self.begin(settings, 0),
                Ok(Wait::Failed(error)) | Err(error) => {
                    self.drop_note();
                    Err(error)
                }
            };
        }
        match state::get(&self.note()) {
            Some(_) => Ok(self.pending(None, waits, TURN + jitter(TURN))),
            None => self.begin(settings, waits),
        }
    }

    /// Sets the marker and sends the change.
    fn begin(self, settings: &RouteSettings, waits: u64) -> Result<ProgressReply, Error> {
        self.take_note();
        let action = match self.adds {
            true => "add_route",
            false => "delete_route",
        };
        let Change {
            network,
            destination,
            gateway,
            ..
        } = &self;
        log::info!(network, write = action, destination, gateway; "changing the network");
        let begun = networks::begin(self.network, action, &self.destination, &self.gateway);
        match begun {
            Ok(begun) if begun.is_running() => Ok(self.pending(Some(begun.id), 0, poll_delay(0))),
            Ok(begun) => {
                self.drop_note();
                begun.failure().map_or(Ok(ProgressReply::done()), Err)
            }
            Err(refusal) => {
                self.drop_note();
                self.refused(settings, refusal, waits)
            }
        }
    }

    fn refused(
        self,
        settings: &RouteSettings,
        refusal: Refusal,
        waits: u64,
    ) -> Result<ProgressReply, Error> {
        if refusal.is_busy() {
            log::info!(refusal = refusal.error.message(); "the cloud is busy");
            let wait = busy_delay(waits + 1) + jitter(busy_delay(1));
            return Ok(self.pending(None, waits + 1, wait));
        }
        if !self.adds && refusal.is("not_found") {
            return Ok(ProgressReply::done());
        }
        if refusal.is_about_object() {
            return self.look(settings, refusal);
        }
        Err(refusal.error)
    }

    /// Reads the network after a refusal: the change may be done already, or another route may be in conflict.
    fn look(self, settings: &RouteSettings, refusal: Refusal) -> Result<ProgressReply, Error> {
        let (_, network) = Layout::ask(settings)?;
        let wanted = address_range::read(&self.destination);
        let in_the_way = network.routes.iter().find(|one| {
            let known = address_range::read(&one.destination);
            let both = wanted.zip(known);
            both.is_some_and(|(wanted, known)| match self.adds {
                true => {
                    address_range::overlap(wanted, known) && known != address_range::ALL
                        || wanted == known
                }
                false => wanted == known,
            })
        });
        let Some(known) = in_the_way else {
            return match self.adds {
                true => Err(refusal.error),
                false => Ok(ProgressReply::done()),
            };
        };
        let is_it =
            address_range::read(&known.destination) == wanted && known.gateway == self.gateway;
        match (self.adds, is_it) {
            (true, true) | (false, false) => Ok(ProgressReply::done()),
            (false, true) => Err(refusal.error),
            (true, false) => Err(Error::conflict(
                format!(
                    "network {}: the route to {} through {} is in the way of one to {} through {}",
                    self.network, known.destination, known.gateway, self.destination, self.gateway
                ),
                None,
            )),
        }
    }

    /// State key of the marker for a running change of the network.
    fn note(&self) -> String {
        format!("routes/changing/{}", self.network)
    }

    fn take_note(&self) {
        state::set(&self.note(), &[], NOTED);
    }

    fn drop_note(&self) {
        state::delete(&self.note());
    }

    fn pending(self, action: Option<u64>, waits: u64, wait: Duration) -> ProgressReply {
        let hint = Hint {
            change: self,
            action,
            waits,
        };
        ProgressReply::pending(Pending::after(wait).with_hint(&hint))
    }
}

/// A random delay below `most`, so that waiting calls do not return together.
fn jitter(most: Duration) -> Duration {
    let byte = random::bytes(1).first().copied().unwrap_or(0);
    most * u32::from(byte) / 256
}
