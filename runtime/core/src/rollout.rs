//! How a new version of a provider takes over, and when it is taken back: what is written down about it ([`Record`]),
//! what people order ([`Orders`]), and the decision that follows. Fetches, compiles, runs and writes nothing; time is
//! an argument.
//!
//! ```text
//! offered → fetched → verified → inspected ─┬→ compiled → self-tested → planned → shadow → canary → active → previous
//!                                           └→ waits for grants or approval
//!
//! facts ──decide──► Do(effects) ──performed──► facts ──decide──► … ──► Wait(when to look again)
//!   └── offered, told, read, ended, tally: what happens meanwhile ──┘
//! ```
//!
//! # Guarantees
//! - A rejected digest never serves and is never tried, until a person orders `retry`.
//! - A version that requests more than the one that serves is not started before somebody approves it: also where the one
//!   that is written down as serving cannot be had any more, and this one would stand in for it.
//! - One that would change many load balancers which the one that serves leaves alone answers no call before somebody
//!   allows it.
//! - What is at fault decides what follows: a module's own fault rejects it; the operator's side (grants,
//!   configuration, trust) is waited for; a fault of the host, the network or the cloud is tried again.
//! - One thing at a time is loaded, and only the latest offer: what came and went meanwhile is never begun.
//! - Whoever does not lead writes nothing down and tries nothing; it loads what is written down.

mod decide;
mod facts;
mod orders;
mod plan_comparison;
mod record;
mod rules;
mod state;
#[cfg(test)]
mod tests;
mod trial;
mod trial_verdict;
mod work_results;

pub use decide::decide;
pub use facts::{
    Candidate, Cause, Decision, Effect, End, Endorsement, Facts, Failure, Loaded, Now, Offer,
    Order, Role, RolloutEvent, Step, Work,
};
pub use plan_comparison::Plans;
pub use record::{
    MOST_APPROVED, MOST_LINES, MOST_REASON, MOST_REJECTED, MOST_REQUESTS, Noted, Orders, Phase,
    Placed, Record, Rejected, Release, Trial,
};
pub use rules::RolloutRules;
pub use state::{State, state};
pub use trial_verdict::{Counts, Tally};
