//! Common parts of the controllers' effects: the decision that lists them, their outcomes, and the changes they make.
//! Each controller's own effects are beside its decisions: `node/effect.rs` and so on. Performs nothing.
//!
//! An effect's `Display` is its only label: log lines, error texts and transcripts all use it.

use std::fmt::{self, Display as _};
use std::net::IpAddr;
use std::time::Duration;

use thiserror::Error;

use crate::moment::{Moment, rounded};

/// One action that a controller's decision lists.
pub trait Effect: fmt::Display + Send + Sync {
    /// How the effect can end.
    type Outcome: Outcome;
    /// The name of the controller that decides it.
    const CONTROLLER: &'static str;

    /// The change that performing the effect makes, if any.
    fn modification(&self) -> Modification<'_>;

    /// Whether a pass performs it for each object, so that its success is only traced.
    fn is_routine(&self) -> bool {
        false
    }
}

/// The result of an effect that was performed.
pub trait Outcome: fmt::Display + Send {
    /// Whether the rest of a decision may still be performed.
    fn is_success(&self) -> bool;
}

/// The result of `decide`.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a decision that nobody carries out is lost"]
pub enum Decision<E, End = When> {
    /// Perform these in order. The first failure skips the rest; then decide again.
    Do(Vec<E>),
    /// Nothing to do now: when to look again, with the state for the next reconciliation if the controller retains any.
    Done(End),
}

impl<E, End> Decision<E, End> {
    /// The same decision, with another end.
    pub fn map_end<Other>(self, change: impl FnOnce(End) -> Other) -> Decision<E, Other> {
        match self {
            Decision::Do(effects) => Decision::Do(effects),
            Decision::Done(end) => Decision::Done(change(end)),
        }
    }
}

/// When to look at the object again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    /// When it changes: nothing is missing.
    AwaitChange,
    /// When it changes: something is missing that waiting does not provide.
    Blocked {
        /// What is missing, human-readable.
        why: String,
    },
    /// After a delay, or earlier when the object changes.
    Retry {
        /// Time until the next reconciliation.
        after: Duration,
        /// What is missing, human-readable.
        why: String,
    },
    /// After a delay and not earlier, whatever changes.
    NotBefore {
        /// Time until the next reconciliation.
        after: Duration,
        /// What is missing, human-readable.
        why: String,
    },
}

/// What an effect changes. The mode decides whether that is permitted.
pub enum Modification<'a> {
    /// Nothing: it reads, asks, or counts.
    None,
    /// It writes an Event.
    Event,
    /// It writes an object of the cluster.
    Object(ObjectWrite<'a>),
    /// It may change something at the cloud.
    Cloud,
}

crate::named_enum! {
    /// Kinds of objects. Their names are fixed in plans, metrics, logs and the audit log.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ObjectKind {
        /// A Node.
        Node = "node",
        /// A Service.
        Service = "service",
        /// A route at a cloud.
        Route = "route",
        /// A cloud, by a change that concerns no single object.
        Cloud = "cloud",
    }
}

/// A write of one object of the cluster.
pub struct ObjectWrite<'a> {
    /// The object's kind.
    pub kind: ObjectKind,
    /// The object's name in logs and plans.
    pub object: &'a dyn fmt::Display,
    /// The operation: `patch`, `patch status` or `delete`.
    pub verb: &'static str,
    /// Whether it writes nothing but this manager's own marks.
    pub is_bookkeeping: bool,
}

impl<'a> Modification<'a> {
    /// A write of this node.
    pub(crate) fn of_node(
        node: &'a dyn fmt::Display,
        verb: &'static str,
        is_bookkeeping: bool,
    ) -> Modification<'a> {
        Modification::Object(ObjectWrite {
            kind: ObjectKind::Node,
            object: node,
            verb,
            is_bookkeeping,
        })
    }
}

/// The result of an effect, whether it was performed or not.
#[derive(Debug, Clone, PartialEq)]
pub enum Performed<O> {
    /// It was performed, with this outcome.
    Ended(O),
    /// The change was computed and reported but not made: the manager is not in enforce mode.
    Withheld,
}

impl<O: Outcome> Performed<O> {
    /// Whether the rest of a decision may still be performed.
    pub fn is_success(&self) -> bool {
        match self {
            Performed::Ended(outcome) => outcome.is_success(),
            Performed::Withheld => false,
        }
    }
}

/// The object as the API server has it after a read or a write. `None`: it does not exist.
pub type ObjectResult<T> = Result<Option<Box<T>>, ClusterError>;

/// Writes the label of an [`ObjectResult`] about this kind of object.
pub(crate) fn object_label<T>(
    result: &ObjectResult<T>,
    kind: &str,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match result {
        Ok(Some(_)) => f.write_str("done"),
        Ok(None) => write!(f, "no such {kind}"),
        Err(error) => error.fmt(f),
    }
}

/// The result of taking one change from a brake's budget.
#[derive(Debug, Clone, PartialEq)]
pub enum BudgetOutcome {
    /// `Ok`: it was taken. `Err`: the budget is exhausted until this moment.
    Answered(Result<(), Moment>),
    /// It could not be saved, and nothing was taken.
    Failed(ClusterError),
}

impl Outcome for BudgetOutcome {
    fn is_success(&self) -> bool {
        matches!(self, BudgetOutcome::Answered(Ok(())))
    }
}

/// The result of recording an Event. Nothing waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventOutcome {
    /// The API server has it.
    Recorded,
    /// It is written later: something that pods wait for comes first.
    Deferred,
    /// The API server did not store it, for this reason.
    Unrecorded(String),
}

/// A provider's reply, with facts that only the manager knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered<T> {
    /// The provider's reply, unchecked.
    pub reply: T,
    /// How many changes the call made at the cloud.
    pub mutations: u32,
    /// The IPs in the reply that are in use elsewhere in the cluster.
    pub in_use: Vec<InUse>,
}

/// An IP that another object in the cluster has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InUse {
    /// The IP, in canonical form.
    pub ip: IpAddr,
    /// The object that has it, for messages: `node/worker-1`, `service/default/web`.
    pub by: String,
}

/// Why the API server did not perform a request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClusterError {
    /// The object has changed since it was read (409).
    #[error("conflict: {0}")]
    Conflict(String),
    /// The API server always refuses this request (400, 422). Also returned when the UID of a patch does not match the
    /// object.
    #[error("rejected: {0}")]
    Rejected(String),
    /// This manager lacks permission (401, 403).
    #[error("denied: {0}")]
    Denied(String),
    /// No answer, or one that asks for a retry. Whether a write was made is unknown.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The API server has too many requests, and asks for a pause (429). Nothing was done.
    #[error("unavailable: {message}")]
    Busy {
        /// The API server's words, or that it has too many requests.
        message: String,
        /// How long it asks to be left alone.
        retry_after: Duration,
    },
}

impl ClusterError {
    /// Whether the request may succeed soon without any change.
    pub(crate) fn is_away(&self) -> bool {
        matches!(
            self,
            ClusterError::Unavailable(_) | ClusterError::Busy { .. }
        )
    }

    /// Whether the request was not performed and would be refused again.
    pub fn is_final(&self) -> bool {
        matches!(self, ClusterError::Denied(_) | ClusterError::Rejected(_))
    }
}

impl<O: fmt::Display> fmt::Display for Performed<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Performed::Ended(outcome) => outcome.fmt(f),
            Performed::Withheld => f.write_str("withheld"),
        }
    }
}

impl fmt::Display for BudgetOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BudgetOutcome::Answered(Ok(())) => f.write_str("done"),
            BudgetOutcome::Answered(Err(_)) => f.write_str("nothing left"),
            BudgetOutcome::Failed(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for EventOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventOutcome::Recorded => f.write_str("done"),
            EventOutcome::Deferred => f.write_str("deferred"),
            EventOutcome::Unrecorded(why) => write!(f, "not recorded: {why}"),
        }
    }
}

impl When {
    /// Why the reconciliation is not finished; `None` if it is.
    pub fn why(&self) -> Option<&str> {
        match self {
            When::AwaitChange => None,
            When::Blocked { why } | When::Retry { why, .. } | When::NotBefore { why, .. } => {
                Some(why)
            }
        }
    }

    /// Time until the object is reconciled again, unless only its change causes that.
    pub fn after(&self) -> Option<Duration> {
        match self {
            When::AwaitChange | When::Blocked { .. } => None,
            When::Retry { after, .. } | When::NotBefore { after, .. } => Some(*after),
        }
    }

    /// When the object is reconciled again, without the reason: for people, so that the time is rounded.
    pub fn next(&self) -> String {
        match self {
            When::AwaitChange | When::Blocked { .. } => "await change".to_owned(),
            When::Retry { after, .. } => format!("again in {:?}", rounded(*after)),
            When::NotBefore { after, .. } => format!("not before {:?}", rounded(*after)),
        }
    }
}

/// When the object is reconciled again, and why.
impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.next())?;
        match self.why() {
            Some(why) => write!(f, ": {why}"),
            None => Ok(()),
        }
    }
}
