//! Labels and annotations in little memory: a sorted list that never changes, in two allocations that its copies share.

use std::fmt;
use std::sync::Arc;

/// Texts by their keys, sorted.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct StringMap {
    /// All keys in order, each with its value behind it.
    text: Arc<str>,
    pairs: Arc<[Pair]>,
}

/// Places of one key and its value in the text, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Pair {
    key: u32,
    value: u32,
    end: u32,
}

impl StringMap {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.pairs.binary_search_by(|pair| self.key(pair).cmp(key));
        found.ok().map(|index| self.value(&self.pairs[index]))
    }

    /// Whether there is a value of `key`.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// All keys and values, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.pairs.iter();
        pairs.map(|pair| (self.key(pair), self.value(pair)))
    }

    fn key(&self, pair: &Pair) -> &str {
        &self.text[pair.key as usize..pair.value as usize]
    }

    fn value(&self, pair: &Pair) -> &str {
        &self.text[pair.value as usize..pair.end as usize]
    }
}

impl fmt::Debug for StringMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for StringMap {
    /// Of two values of a key, the later one counts. What exceeds 4 GiB is left out: the API server stores a thousandth
    /// of that in one object.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> StringMap {
        let mut given: Vec<(K, V)> = pairs.into_iter().collect();
        // The sort is stable, and of equal neighbours the first is kept.
        given.reverse();
        given.sort_by(|left, right| left.0.as_ref().cmp(right.0.as_ref()));
        given.dedup_by(|later, first| later.0.as_ref() == first.0.as_ref());
        let mut text = String::new();
        let mut pairs = Vec::with_capacity(given.len());
        for (key, value) in &given {
            let (key, value) = (key.as_ref(), value.as_ref());
            let places = [0, key.len(), key.len() + value.len()];
            let places = places.map(|place| u32::try_from(text.len() + place));
            let [Ok(key_at), Ok(value_at), Ok(end)] = places else {
                break;
            };
            pairs.push(Pair {
                key: key_at,
                value: value_at,
                end,
            });
            text.push_str(key);
            text.push_str(value);
        }
        StringMap {
            text: text.into(),
            pairs: pairs.into(),
        }
    }
}

impl<K: AsRef<str>, V: AsRef<str>, const N: usize> From<[(K, V); N]> for StringMap {
    fn from(pairs: [(K, V); N]) -> StringMap {
        pairs.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_values_of_a_key_the_later_one_counts() {
        let map: StringMap = [("b", "1"), ("a", "2"), ("b", "3"), ("b", "4")]
            .into_iter()
            .collect();
        assert_eq!(map.iter().collect::<Vec<_>>(), [("a", "2"), ("b", "4")]);
    }

    #[test]
    fn empty_keys_and_values_and_several_bytes_a_letter_are_kept_apart() {
        let map = StringMap::from([("ä", ""), ("", "ö"), ("z", "日本")]);
        let pairs: Vec<(&str, &str)> = map.iter().collect();
        assert_eq!(pairs, [("", "ö"), ("z", "日本"), ("ä", "")]);
        for (key, value) in pairs {
            assert_eq!(map.get(key), Some(value));
        }
        assert_eq!(map.get("zz"), None);
        assert_eq!(format!("{map:?}"), r#"{"": "ö", "z": "日本", "ä": ""}"#);
    }
}
