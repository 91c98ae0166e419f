//! Limits the bytes of responses that the host holds for guests, per call and for all calls of a provider together.
//! Bytes are reserved before a response is read or decompressed and released when its last owner drops it. Stores no
//! bytes itself.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::message::FetchError;

/// Maximum number of bytes held at a time.
pub(super) struct Budget {
    limit: usize,
    /// Owner of the budget, for error messages.
    whose: &'static str,
    held: AtomicUsize,
    /// Parent budget; every reservation here is also made there.
    whole: Option<Arc<Budget>>,
}

impl Budget {
    /// Budget of a provider.
    pub(super) fn of_provider(limit: usize) -> Arc<Budget> {
        Arc::new(Budget {
            limit,
            whose: "the provider's calls",
            held: AtomicUsize::new(0),
            whole: None,
        })
    }

    /// Budget of one call, within the provider's.
    pub(super) fn of_call(limit: usize, provider: Arc<Budget>) -> Arc<Budget> {
        Arc::new(Budget {
            limit,
            whose: "the call",
            held: AtomicUsize::new(0),
            whole: Some(provider),
        })
    }

    /// Starts an empty reservation for a new response.
    pub(super) fn hold(self: &Arc<Budget>) -> Held {
        Held {
            budget: self.clone(),
            bytes: 0,
        }
    }

    /// # Errors
    /// The limit would be exceeded.
    fn take(&self, bytes: usize) -> Result<(), FetchError> {
        let grown = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= self.limit);
        let taken = self
            .held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        if taken.is_err() {
            return Err(FetchError::TooLarge(format!(
                "{} may hold {} MiB of answers at a time, and this one comes on top: drop those that are done with",
                self.whose,
                self.limit >> 20
            )));
        }
        let whole = self
            .whole
            .as_ref()
            .map_or(Ok(()), |whole| whole.take(bytes));
        if whole.is_err() {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
        }
        whole
    }

    fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.give_back(bytes);
        }
    }
}

/// Reservation for one response; released on drop.
pub(super) struct Held {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Held {
    /// Reserves more bytes.
    ///
    /// # Errors
    /// The budget is exhausted: [`FetchError::TooLarge`].
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), FetchError> {
        self.budget.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Ties the reservation to the body.
    pub(super) fn body(self, bytes: Bytes) -> Body {
        let held = (!bytes.is_empty()).then(|| Arc::new(self));
        Body { bytes, held }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

/// Body of a response. Its bytes count as held while any clone or slice of it exists.
#[derive(Clone)]
pub struct Body {
    bytes: Bytes,
    /// `None`: not counted in any budget.
    held: Option<Arc<Held>>,
}

impl Body {
    /// Splits the body into bytes, which count as held while any clone of them exists, and the reservation alone, for
    /// as long as copies of the bytes exist elsewhere.
    pub(crate) fn into_parts(self) -> (Bytes, impl Send + Sync + use<>) {
        let held = self.held.clone();
        (Bytes::from(self), held)
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.fmt(f)
    }
}

impl<T: AsRef<[u8]>> PartialEq<T> for Body {
    fn eq(&self, other: &T) -> bool {
        self.bytes == other.as_ref()
    }
}

impl Eq for Body {}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Body {
        Body { bytes, held: None }
    }
}

impl From<Body> for Bytes {
    fn from(body: Body) -> Bytes {
        match body.held {
            None => body.bytes,
            Some(_) => Bytes::from_owner(body),
        }
    }
}

impl From<Body> for Vec<u8> {
    fn from(body: Body) -> Vec<u8> {
        body.bytes.into()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_is_held_is_given_back_by_the_last_who_has_it() {
        let provider = Budget::of_provider(10);
        let call = Budget::of_call(8, provider.clone());
        let mut held = call.hold();
        held.grow(5).unwrap();
        assert!(matches!(held.grow(4), Err(FetchError::TooLarge(_))));
        held.grow(3).unwrap();
        let body = Bytes::from(held.body(Bytes::from_static(b"12345678")));
        let part = body.slice(..2);
        drop(body);
        assert!(call.hold().grow(1).is_err(), "a part of it keeps the whole");
        drop(part);
        let mut held = call.hold();
        held.grow(8).unwrap();
        let (unsent, reservation) = held.body(Bytes::from_static(b"12345678")).into_parts();
        drop(reservation);
        assert!(call.hold().grow(1).is_err(), "and so does a frame");
        drop(unsent);
        assert!(call.hold().grow(8).is_ok());
        assert_eq!(provider.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn calls_share_what_their_provider_may_hold() {
        let provider = Budget::of_provider(10);
        let calls = [(); 2].map(|()| Budget::of_call(8, provider.clone()));
        let mut first = calls[0].hold();
        first.grow(8).unwrap();
        let mut second = calls[1].hold();
        let error = second.grow(3).unwrap_err();
        assert!(
            error.to_string().contains("the provider's calls"),
            "{error}"
        );
        assert_eq!(calls[1].held.load(Ordering::Relaxed), 0);
        second.grow(2).unwrap();
        drop(first);
        second.grow(6).unwrap();
    }
}
