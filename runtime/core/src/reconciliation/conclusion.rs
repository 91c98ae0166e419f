//! The result of a reconciliation, and when the next one of its object is due. Stores nothing.

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
        matches!(self.when, When::Retry { .. } | When::NotBefore { .. })
    }
}

/// When the next reconciliation of an object is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// When the object changes.
    OnChange,
    /// At this moment, or earlier when the object changes.
    At(Moment),
    /// At this moment and not earlier.
    NotBefore(Moment),
}
