//! Sends writes in order, as far as the cloud accepts them now, and collects the started actions.
//!
//! It never retries and never waits. The cloud locks a load balancer while one of its actions runs, so a started
//! action ends the call and the next call continues. Only with many writes are concurrent actions tried, until the
//! cloud refuses.

use std::collections::VecDeque;
use std::time::Duration;

use ccm_guest::{Error, log, state};

use super::api::{self, Action, Refusal};
use super::changes::{Change, UPDATE};

#[cfg(test)]
mod tests;

/// Maximum number of running actions: one status request covers this many.
pub const MAX_ACTIONS: usize = 25;

/// Minimum number of writes for which trying concurrent actions is worth a possible refusal.
const MANY: usize = 4;
/// State key and time to live of the note that the cloud refused concurrent actions.
const ONE_BY_ONE: &str = "load-balancer/one-by-one";
const REMEMBERED: Duration = Duration::from_secs(3600);

/// The result of sending writes.
#[derive(Debug, Default)]
pub struct Done {
    /// Ids of the actions that were started and still run.
    pub actions: Vec<u64>,
    /// Writes to send after the running actions.
    pub left: Vec<Change>,
    /// Whether the load balancer must be read again afterwards.
    pub more: bool,
    /// Whether the cloud was too busy to start anything.
    pub busy: bool,
    /// Nodes beyond the maximum number of targets.
    pub without_capacity: Vec<String>,
    /// Nodes whose servers do not exist. Not retried, because they will not come back.
    pub absent: Vec<String>,
    /// Why a node cannot be a target.
    pub trouble: Option<Error>,
}

impl Done {
    /// No write was done: the cloud is busy.
    pub fn nothing() -> Done {
        Done {
            busy: true,
            more: true,
            ..Done::default()
        }
    }

    /// The writes are done, and the load balancer must be read again at once.
    pub fn again() -> Done {
        Done {
            more: true,
            ..Done::default()
        }
    }

    /// Whether the load balancer is known to match now.
    pub fn is_settled(&self) -> bool {
        self.is_idle() && !self.more
    }

    /// Fails if no other work is left. Otherwise the load balancer is read again first.
    ///
    /// # Errors
    /// `error`.
    pub fn fail_at_last(&mut self, error: Option<Error>) -> Result<(), Error> {
        match error {
            Some(error) if self.is_settled() => Err(error),
            error => {
                self.more |= error.is_some();
                Ok(())
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.actions.is_empty() && self.left.is_empty()
    }

    /// Records a started action.
    ///
    /// # Errors
    /// The reason if it has failed already.
    pub fn began(&mut self, action: &Action) -> Result<(), Error> {
        if let Some(failure) = action.failure() {
            return Err(failure);
        }
        if action.is_running() {
            self.actions.push(action.id);
        }
        Ok(())
    }

    /// Sends `changes` of the load balancer `id`. Postponed changes go to `left`.
    ///
    /// # Errors
    /// The reason why nothing else can be done; started actions continue. A node that cannot be a target is an error
    /// only when no other work is left.
    pub fn carry_out(&mut self, id: u64, changes: Vec<Change>) -> Result<(), Error> {
        let overlap = changes.len() >= MANY && state::get(ONE_BY_ONE).is_none();
        let mut left = VecDeque::from(changes);
        while let Some(change) = left.pop_front() {
            let running = self.actions.len();
            if running >= MAX_ACTIONS || (running > 0 && !overlap) {
                left.push_front(change);
                break;
            }
            announce(id, &change);
            match self.send(id, &change) {
                Ok(()) => self.more |= change.unsettles,
                Err(refusal) if refusal.is_busy() => {
                    log::info!(refusal = refusal.error.message(); "the cloud is busy");
                    if running > 0 {
                        state::set(ONE_BY_ONE, &[], REMEMBERED);
                        left.push_front(change);
                    } else {
                        self.busy = true;
                        self.more = true;
                        left.clear();
                    }
                    break;
                }
                Err(refusal) => self.refused(change, refusal)?,
            }
        }
        self.left = left.into();
        match self.trouble.take() {
            Some(trouble) if self.is_idle() => Err(trouble),
            // The next read finds the change again.
            trouble => {
                self.more |= trouble.is_some();
                Ok(())
            }
        }
    }

    fn send(&mut self, id: u64, change: &Change) -> Result<(), Refusal> {
        if change.action == UPDATE {
            return api::update(id, &change.body);
        }
        let action = api::begin(id, &change.action, &change.body)?;
        match (self.began(&action), &change.node) {
            (Err(failure), Some(node)) => {
                let error = named(node, &failure);
                self.trouble.get_or_insert(error);
                Ok(())
            }
            (began, _) => Ok(began?),
        }
    }

    fn refused(&mut self, change: Change, refusal: Refusal) -> Result<(), Error> {
        // The object was removed concurrently; a new read shows the remaining work.
        let is_removal = matches!(change.action.as_str(), "remove_target" | "delete_service");
        if is_removal && refusal.is_gone() {
            self.more = true;
            return Ok(());
        }
        let Some(node) = change.node else {
            return Err(refusal.error);
        };
        if refusal.is("resource_limit_exceeded") {
            self.without_capacity.push(node);
        } else if refusal.is("not_found") {
            self.absent.push(node);
        } else if refusal.is_about_target() {
            log::warn!(node; "the node cannot be a target");
            let error = named(&node, &refusal.error);
            self.trouble.get_or_insert(error);
        } else if !refusal.is("target_already_defined") {
            return Err(refusal.error);
        }
        Ok(())
    }
}

/// The error with the node's name, of the same kind.
fn named(node: &str, error: &Error) -> Error {
    let text = format!("node {node} cannot be a target: {}", error.message());
    match error {
        Error::Invalid(_) => Error::invalid(text),
        _ => Error::unavailable(text),
    }
}

/// Logs a write and its reason.
fn announce(id: u64, change: &Change) {
    let Change { action, why, .. } = change;
    log::info!(id, write = action, why; "changing the load balancer");
}
