//! Sends writes one after the other, as far as the cloud takes them now, and collects what it has begun.
//!
//! Nothing is repeated here and nothing waited for. The cloud locks a load balancer while an action of it runs, so that a
//! write that was begun ends the call, and the next one goes on from there. Only where there are many it is tried to have
//! them run side by side, until the cloud refuses that.

use std::collections::VecDeque;
use std::time::Duration;

use ccm_guest::{Error, log, state};

use super::api::{self, Action, Refusal};
use super::changes::{Change, UPDATE};

#[cfg(test)]
mod tests;

/// The most actions that are under way at a time: as many as one request asks about.
pub const MAX_ACTIONS: usize = 25;

/// So many writes are worth a refusal.
const MANY: usize = 4;
/// Where it is remembered that the cloud refused to have actions side by side, and for how long.
const ONE_BY_ONE: &str = "load-balancer/one-by-one";
const REMEMBERED: Duration = Duration::from_secs(3600);

/// What was done.
#[derive(Debug, Default)]
pub struct Done {
    /// The actions that are running.
    pub actions: Vec<u64>,
    /// What is to be sent when they have ended.
    pub left: Vec<Change>,
    /// Whether something has to be looked at after that.
    pub more: bool,
    /// Whether the cloud was too busy for anything.
    pub busy: bool,
    /// The nodes that the cloud has no room for.
    pub no_room: Vec<String>,
    /// The nodes whose servers are not there: they will not come back, and nobody has to wait for them.
    pub absent: Vec<String>,
    /// Why some node cannot be a target.
    pub trouble: Option<Error>,
}

impl Done {
    /// Nothing, because the cloud is busy.
    pub fn nothing() -> Done {
        Done {
            busy: true,
            more: true,
            ..Done::default()
        }
    }

    /// Whether the cloud agrees now, as far as can be told.
    pub fn is_settled(&self) -> bool {
        self.is_idle() && !self.more
    }

    fn is_idle(&self) -> bool {
        self.actions.is_empty() && self.left.is_empty()
    }

    /// Notes an action that was begun.
    ///
    /// # Errors
    /// Why it has failed already.
    pub fn began(&mut self, action: &Action) -> Result<(), Error> {
        if let Some(failure) = action.failure() {
            return Err(failure);
        }
        if action.is_running() {
            self.actions.push(action.id);
        }
        Ok(())
    }

    /// Sends `changes` of the load balancer `id`. What has to wait is `left`.
    ///
    /// # Errors
    /// Why nothing else can be done; what was begun goes on. A node that cannot be a target is an error when nothing else is
    /// left to do.
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
                    log::info("the cloud is busy", &[("refusal", refusal.error.message())]);
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
            // It is met again by the look that follows.
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
        Ok(self.began(&action)?)
    }

    fn refused(&mut self, change: Change, refusal: Refusal) -> Result<(), Error> {
        // Somebody else was faster: a new look says what is left.
        let is_removal = matches!(change.action.as_str(), "remove_target" | "delete_service");
        if is_removal && refusal.is_gone() {
            self.more = true;
            return Ok(());
        }
        let Some(node) = change.node else {
            return Err(refusal.error);
        };
        if refusal.is("resource_limit_exceeded") {
            self.no_room.push(node);
        } else if refusal.is("not_found") {
            self.absent.push(node);
        } else if refusal.is_about_target() {
            log::warn("the node cannot be a target", &[("node", &node)]);
            let error = named(&node, &refusal.error);
            self.trouble.get_or_insert(error);
        } else if !refusal.is("target_already_defined") {
            return Err(refusal.error);
        }
        Ok(())
    }
}

/// The error of one node, of the same kind.
fn named(node: &str, error: &Error) -> Error {
    let text = format!("node {node} cannot be a target: {}", error.message());
    match error {
        Error::Invalid(_) => Error::invalid(text),
        _ => Error::unavailable(text),
    }
}

/// Says what is about to be written, and why.
fn announce(id: u64, change: &Change) {
    let id = id.to_string();
    let (write, why) = (change.action.as_str(), change.why.as_str());
    log::info(
        "changing the load balancer",
        &[("id", &id), ("write", write), ("why", why)],
    );
}
