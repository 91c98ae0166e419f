//! Caches the answers of reviews for a limited time and in a limited number. Knows nothing about the questions.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Maximum number of answers. A client that makes up tokens or paths displaces old answers and no more.
const MOST: usize = 1024;

/// The answers by question, each with the time until which it counts.
pub(crate) struct AccessCache<K, V> {
    kept: Mutex<HashMap<K, (Instant, V)>>,
}

impl<K: Hash + Eq + Clone, V: Clone> AccessCache<K, V> {
    pub(crate) fn new() -> AccessCache<K, V> {
        AccessCache {
            kept: Mutex::new(HashMap::new()),
        }
    }

    /// The answer, unless it has expired at `now`.
    pub(crate) fn get(&self, key: &K, now: Instant) -> Option<V> {
        let kept = self.kept.lock();
        let (until, value) = kept.get(key)?;
        (now < *until).then(|| value.clone())
    }

    /// Keeps an answer that was given at `now` for `time`.
    pub(crate) fn put(&self, key: K, value: V, now: Instant, time: Duration) {
        if time.is_zero() {
            return;
        }
        let mut kept = self.kept.lock();
        if kept.len() >= MOST {
            kept.retain(|_, (until, _)| now < *until);
        }
        if kept.len() >= MOST
            && let Some(first) = kept.iter().min_by_key(|(_, (until, _))| *until)
        {
            let first = first.0.clone();
            kept.remove(&first);
        }
        kept.insert(key, (now + time, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_kept_for_its_time() {
        let cache = AccessCache::new();
        let now = Instant::now();
        cache.put("a", 1, now, Duration::from_secs(10));
        cache.put("b", 2, now, Duration::ZERO);
        assert_eq!(cache.get(&"a", now + Duration::from_secs(9)), Some(1));
        assert_eq!(cache.get(&"a", now + Duration::from_secs(10)), None);
        assert_eq!(cache.get(&"b", now), None);
    }

    #[test]
    fn h7_made_up_questions_do_not_grow_the_cache() {
        let cache = AccessCache::new();
        let now = Instant::now();
        for number in 0..5000_u64 {
            cache.put(
                number,
                (),
                now + Duration::from_millis(number),
                Duration::from_secs(60),
            );
        }
        assert_eq!(cache.kept.lock().len(), MOST);
        let late = now + Duration::from_secs(10);
        assert!(cache.get(&4999, late).is_some());
        assert!(cache.get(&0, late).is_none());
    }
}
