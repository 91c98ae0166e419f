//! The contract's hint: what one call tells the next one about the same object while work is pending.
//!
//! A hint only saves requests. It is lost on a swap, a crash and a change of leader, and another version of the provider
//! may have written it, so a call without one must reach the same end.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Pending, load_balancer, routes};

#[cfg(test)]
mod tests;

/// Maximum size of a hint, in bytes.
pub const MAX_HINT: usize = 4096;

impl Pending {
    /// The host calls again after `delay`, which it clamps to 100 ms … 10 min.
    pub fn after(delay: Duration) -> Pending {
        Pending {
            retry_after_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            hint: None,
        }
    }

    /// Hands `hint` to the next call as JSON. One of more than [`MAX_HINT`] bytes is left out: the next call then begins
    /// by reading.
    #[must_use]
    pub fn with_hint<T: Serialize + ?Sized>(self, hint: &T) -> Pending {
        let bytes = serde_json::to_vec(hint).ok();
        Pending {
            hint: bytes.filter(|bytes| bytes.len() <= MAX_HINT),
            ..self
        }
    }
}

/// Reads a hint; `None` if there is none, or one of another form.
fn read<T: DeserializeOwned>(hint: Option<&[u8]>) -> Option<T> {
    let bytes = hint.filter(|bytes| bytes.len() <= MAX_HINT)?;
    serde_json::from_slice(bytes).ok()
}

macro_rules! typed_hint {
    ($($request:ty),+ $(,)?) => {$(
        impl $request {
            /// What [`Pending::with_hint`] of the last call about this object carried. `None` if nothing is known, and
            /// for a hint of another form.
            pub fn hint<T: DeserializeOwned>(&self) -> Option<T> {
                read(self.hint.as_deref())
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
