//! State store that outlives a call (contract, interface `state`): in memory only, one per generation and
//! configuration, dropped with it. Its content is untrusted: only the guest that wrote it reads it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::limits;

/// State store of one generation.
#[derive(Default)]
pub(crate) struct StateStore {
    entries: Mutex<HashMap<String, Entry>>,
}

struct Entry {
    value: Vec<u8>,
    until: Instant,
}

impl StateStore {
    /// Value of a key; `None` if the key is unknown or has expired at `now`.
    pub(crate) fn get(&self, key: &str, now: Instant) -> Option<Vec<u8>> {
        let mut entries = self.entries.lock();
        if entries.get(key)?.until <= now {
            entries.remove(key);
            return None;
        }
        entries.get(key).map(|entry| entry.value.clone())
    }

    /// Stores a value for `ttl` from `now` on, at most [`limits::STATE_TTL`]. Returns whether there was room;
    /// without room the former value stays.
    pub(crate) fn set(&self, key: String, value: Vec<u8>, ttl: Duration, now: Instant) -> bool {
        let mut entries = self.entries.lock();
        entries.retain(|_, entry| entry.until > now);
        let others = entries.iter().filter(|(other, _)| **other != key);
        let (count, bytes) = others.fold((0, 0), |(count, bytes), (key, entry)| {
            (count + 1, bytes + key.len() + entry.value.len())
        });
        if count >= limits::STATE_ENTRIES || bytes + key.len() + value.len() > limits::STATE_BYTES {
            return false;
        }
        entries.insert(
            key,
            Entry {
                value,
                until: now + ttl.min(limits::STATE_TTL),
            },
        );
        true
    }

    /// Removes a key and its value, if there is one.
    pub(crate) fn delete(&self, key: &str) {
        self.entries.lock().remove(key);
    }

    /// Removes all keys.
    pub(crate) fn clear(&self) {
        self.entries.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn set(store: &StateStore, key: &str, bytes: usize, now: Instant) -> bool {
        store.set(key.to_owned(), vec![7; bytes], MINUTE, now)
    }

    #[test]
    fn a_value_lives_as_long_as_it_was_given_and_no_longer_than_an_hour() {
        let (store, now) = (StateStore::default(), Instant::now());
        assert!(set(&store, "short", 1, now));
        assert!(store.set(
            "long".to_owned(),
            vec![1],
            Duration::from_secs(1 << 40),
            now
        ));
        assert_eq!(
            store.get("short", now + MINUTE - Duration::from_millis(1)),
            Some(vec![7])
        );
        assert_eq!(store.get("short", now + MINUTE), None);
        assert_eq!(store.get("long", now + limits::STATE_TTL), None);
    }

    #[test]
    fn what_does_not_fit_is_not_kept_and_the_former_value_stays() {
        let (store, now) = (StateStore::default(), Instant::now());
        assert!(set(&store, "a", limits::STATE_BYTES - 1, now));
        assert!(!set(&store, "b", 1, now), "two bytes, one left");
        assert!(!set(&store, "a", limits::STATE_BYTES, now));
        assert_eq!(
            store.get("a", now).map(|value| value.len()),
            Some(limits::STATE_BYTES - 1)
        );
        assert!(set(&store, "a", 1, now), "a smaller one replaces it");
        assert!(set(&store, "b", limits::STATE_BYTES - 3, now));
        assert!(
            set(&store, "b", 1, now + MINUTE),
            "what is over does not count"
        );
    }

    #[test]
    fn tiny_entries_are_counted() {
        let (store, now) = (StateStore::default(), Instant::now());
        let kept = (0..2 * limits::STATE_ENTRIES)
            .filter(|number| set(&store, &number.to_string(), 0, now))
            .count();
        assert_eq!(kept, limits::STATE_ENTRIES);
    }
}
