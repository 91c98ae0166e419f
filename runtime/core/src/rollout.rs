//! How a new version of a provider is introduced and rolled back: its persistent [`Record`], people's [`Orders`], and
//! the resulting decision. Fetches, compiles, runs and writes nothing; time is an argument.
//!
//! ```text
//! offered → fetched → verified → inspected ─┬→ compiled → self-tested → planned → shadow → canary → active → previous
//!                                           └→ waits for grants or approval
//!
//! facts ──decide──► Do(effects) ──performed──► facts ──decide──► … ──► Wait(when to look again)
//!   └─── offered, ordered, read, ended, tally: changes meanwhile ───┘
//! ```
//!
//! # Guarantees
//! - A rejected digest never serves and is never tried, until a person orders `retry`.
//! - A version that requests more than the active one is not started before a person approves it; also when the
//!   recorded active version can no longer be loaded and this one would replace it.
//! - A version that would change many load balancers which the active one leaves alone answers no call before a person
//!   allows it.
//! - The cause of a failure decides what follows: the module's own fault rejects it, unless it is recorded as active;
//!   the operator's side (grants, configuration, trust) is waited for; a fault of the host, the network or the cloud is
//!   retried.
//! - One version is loaded at a time, and only the latest offer: an offer superseded meanwhile is never started.
//! - A follower writes nothing and tries nothing; it loads the recorded version.

mod candidate;
mod decide;
mod facts;
mod limits;
mod not_serving;
mod orders;
mod plan_comparison;
mod record;
mod state;
#[cfg(test)]
mod tests;
mod trial;
mod trial_verdict;
mod work_results;

pub use candidate::{Candidate, Step, TrialKind};
pub use decide::decide;
pub use facts::{
    Cause, Endorsement, Loaded, Offer, Role, RolloutDecision, RolloutEffect, RolloutEvent,
    RolloutFacts, RolloutTime, VersionFailure, Work, WorkResult,
};
pub use limits::RolloutRules;
pub use not_serving::not_serving;
pub use plan_comparison::Plans;
pub use record::{
    MOST_APPROVED, MOST_LINES, MOST_REASON, MOST_REJECTED, MOST_REQUESTS, Noted, Order, Orders,
    Phase, Placed, Record, Rejected, Release, Trial,
};
pub use state::{RolloutState, state};
pub use trial_verdict::{Counts, TrialTally};
