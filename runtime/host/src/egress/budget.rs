//! How many bytes of answers the host holds for guests: for one call, and for all calls of a provider together. They are
//! taken before they are read or unpacked, and given back when the last who has the answer drops it. Holds no bytes itself.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::message::FetchError;

/// A number of bytes that may be held at a time.
pub(super) struct Budget {
    limit: usize,
    /// Who may hold no more, for people.
    whose: &'static str,
    held: AtomicUsize,
    /// What is held here is held there, too.
    whole: Option<Arc<Budget>>,
}

impl Budget {
    /// A provider's.
    pub(super) fn of_provider(limit: usize) -> Arc<Budget> {
        Arc::new(Budget {
            limit,
            whose: "the provider's calls",
            held: AtomicUsize::new(0),
            whole: None,
        })
    }

    /// A part of a provider's, for one call.
    pub(super) fn of_call(limit: usize, provider: Arc<Budget>) -> Arc<Budget> {
        Arc::new(Budget {
            limit,
            whose: "the call",
            held: AtomicUsize::new(0),
            whole: Some(provider),
        })
    }

    /// Nothing yet, for an answer that begins.
    pub(super) fn hold(self: &Arc<Budget>) -> Held {
        Held {
            budget: self.clone(),
            bytes: 0,
        }
    }

    /// # Errors
    /// There is no room for so many.
    fn take(&self, bytes: usize) -> Result<(), FetchError> {
        let room = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= self.limit);
        let taken = self
            .held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, room);
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

/// What is held of a budget for one answer. Dropped, it is given back.
pub(super) struct Held {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Held {
    /// Takes more.
    ///
    /// # Errors
    /// There is no room for it: [`FetchError::TooLarge`].
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), FetchError> {
        self.budget.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// The body that was paid for.
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

/// The body of an answer. It counts as held as long as anybody has it, or a part of it.
#[derive(Clone)]
pub struct Body {
    bytes: Bytes,
    /// `None`: nobody counts it.
    held: Option<Arc<Held>>,
}

impl Body {
    /// The bytes, and what has to be kept for as long as somebody else has a copy of them.
    pub(crate) fn into_parts(self) -> (Bytes, impl Send + Sync + use<>) {
        (self.bytes, self.held)
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
