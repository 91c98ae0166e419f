//! Labels and annotations in little memory: a sorted list that never changes, and that its copies share.

use std::sync::Arc;

/// Texts by their keys, sorted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct StringMap(Arc<[(Box<str>, Box<str>)]>);

impl StringMap {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.binary_search_by(|(one, _)| (**one).cmp(key));
        found.ok().map(|index| &*self.0[index].1)
    }

    /// Whether there is a value of `key`.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// All keys and values, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}

impl<K: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(K, V)> for StringMap {
    /// Of two values of a key, the later one counts.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> StringMap {
        let pairs = pairs.into_iter();
        let pairs = pairs.map(|(key, value)| (key.into(), value.into()));
        let mut pairs: Vec<(Box<str>, Box<str>)> = pairs.collect();
        // The sort is stable, and of equal neighbours the first is kept.
        pairs.reverse();
        pairs.sort_by(|left, right| left.0.cmp(&right.0));
        pairs.dedup_by(|later, first| later.0 == first.0);
        StringMap(pairs.into())
    }
}

impl<K: Into<Box<str>>, V: Into<Box<str>>, const N: usize> From<[(K, V); N]> for StringMap {
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
}
