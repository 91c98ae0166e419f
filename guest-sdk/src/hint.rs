//! The contract's hint: bytes that one call passes to the next call about the same object while work is pending.
//!
//! A hint only saves requests. It is lost on a swap, a crash and a change of leader, and another version of the
//! provider may have written it, so a call without one must reach the same end.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Error, Pending, clock, load_balancer, routes};

#[cfg(test)]
mod tests;

/// Maximum size of a hint, in bytes.
const MAX_HINT: usize = 4096;

/// Interval of the first polls.
const FIRST_POLL: Duration = Duration::from_millis(500);
/// Number of polls at the same interval before it grows.
const POLLS_AT_FIRST_INTERVAL: u64 = 8;
/// Delay after a busy cloud refused something.
const BUSY: Duration = Duration::from_secs(1);
/// Longest delay that this module asks for.
const LONGEST: Duration = Duration::from_secs(10);

impl Pending {
    /// The host calls again after `delay`, which it clamps to 100 ms … 10 min.
    pub fn after(delay: Duration) -> Pending {
        Pending {
            retry_after_ms: clock::millis(delay),
            hint: None,
        }
    }

    /// Hands `hint` to the next call as JSON. One of more than 4096 bytes is left out, and so is one that cannot be
    /// serialized: the next call then begins by reading.
    #[must_use]
    pub fn with_hint<T: Serialize + ?Sized>(self, hint: &T) -> Pending {
        let bytes = serde_json::to_vec(hint).ok();
        Pending {
            hint: bytes.filter(|bytes| bytes.len() <= MAX_HINT),
            ..self
        }
    }
}

/// How often an object has been polled: the hint of a provider that has nothing else to remember.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Polls(u64);

impl Polls {
    fn again(self) -> Pending {
        let next = Polls(self.0.saturating_add(1));
        Pending::after(poll_delay(self.0)).with_hint(&next)
    }
}

/// The delay before the next poll of an object that takes seconds: 500 ms for the first eight polls, then growing, at
/// most 10 s.
pub fn poll_delay(polls: u64) -> Duration {
    growing(FIRST_POLL, 1 + polls / POLLS_AT_FIRST_INTERVAL)
}

/// The delay after a busy cloud has refused a request `refusals` times: a second for each, at most 10 s.
pub fn busy_delay(refusals: u64) -> Duration {
    growing(BUSY, refusals.max(1))
}

fn growing(step: Duration, steps: u64) -> Duration {
    let steps = u32::try_from(steps).unwrap_or(u32::MAX);
    step.saturating_mul(steps).min(LONGEST)
}

/// A digest of the wanted state, for a hint about unfinished work: with another digest the hint is worthless. Not for
/// secrets: 64 bits (FNV-1a).
///
/// # Errors
/// [`Error::Internal`] when `wanted` cannot be serialized.
pub fn digest<T: Serialize + ?Sized>(wanted: &T) -> Result<u64, Error> {
    let bytes = serde_json::to_vec(wanted)
        .map_err(|error| Error::internal(format!("the wanted state has no digest: {error}")))?;
    Ok(bytes.iter().fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    }))
}

/// Reads a hint; `None` if there is none or it does not parse as `T`.
fn read<T: DeserializeOwned>(hint: Option<&[u8]>) -> Option<T> {
    let bytes = hint.filter(|bytes| bytes.len() <= MAX_HINT)?;
    serde_json::from_slice(bytes).ok()
}

macro_rules! typed_hint {
    ($($request:ty),+ $(,)?) => {$(
        impl $request {
            /// The value that [`Pending::with_hint`] of the last call about this object stored. `None` if there is
            /// none, or if it does not parse as `T`.
            pub fn hint<T: DeserializeOwned>(&self) -> Option<T> {
                read(self.hint.as_deref())
            }

            /// The host calls again, after [`poll_delay`]. The hint counts the polls, so this is for a provider that
            /// has nothing else to remember.
            pub fn again(&self) -> Pending {
                self.hint::<Polls>().unwrap_or_default().again()
            }
        }
    )+};
}

typed_hint! {
    load_balancer::EnsureRequest,
    load_balancer::UpdateRequest,
    load_balancer::DeleteRequest,
    routes::CreateRequest,
    routes::DeleteRequest,
}
