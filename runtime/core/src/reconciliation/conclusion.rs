//! The result of a reconciliation, and when the next one of its object is due. Stores nothing.

use std::time::Duration;

use super::effect::When;
use crate::moment::Moment;

/// The result of a reconciliation. `F`: the controller's facts; `R`: the state that its decision returned for the next
/// reconciliation.
#[derive(Debug)]
pub struct Conclusion<F, R> {
    /// When to reconcile the object again.
    pub when: When,
    /// The facts at the end; the object may be newer than the cache's.
    pub facts: Box<F>,
    /// The state for the next reconciliation of the object.
    pub retained: R,
    /// Whether anything was written to the object.
    pub has_written: bool,
}

impl<F, R> Conclusion<F, R> {
    /// Whether the object is put back because something failed or is not finished.
    pub fn is_retried(&self) -> bool {
        self.when.after().is_some()
    }
}

/// When the next reconciliation of an object is due. `T`: a moment, or the delay until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next<T = Moment> {
    /// When the object changes.
    OnChange,
    /// Then, or earlier when the object changes.
    At(T),
    /// Then and not earlier, whatever changes: the cloud requested it.
    NotBefore(T),
}

impl Next<Duration> {
    /// The end of a reconciliation that is followed by this one, and the reason for waiting.
    pub fn when(self, why: String) -> When {
        match self {
            Next::At(after) => When::Retry { after, why },
            Next::NotBefore(after) => When::NotBefore { after, why },
            Next::OnChange => When::Blocked { why },
        }
    }
}
