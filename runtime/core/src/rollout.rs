//! How a new version of a provider takes over, and when it is taken back: what is written down about it ([`Record`]),
//! what people order ([`Orders`]), and the decision that follows. Fetches, compiles, runs and writes nothing; time is
//! an argument.
//!
//! ```text
//! offered → fetched → verified → inspected ─┬→ compiled → self-tested → shadow → canary → active → previous
//!                                           └→ waits for grants or approval
//! ```

mod record;

pub use record::{
    MOST_APPROVED, MOST_REJECTED, Orders, Phase, Placed, Record, Rejected, Release, Trial,
};
