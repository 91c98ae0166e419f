//! Typed access to a parsed document that collects mistakes, each with its place in the document.

use ccm_guest::Error;
use serde_json::{Map, Value};

/// All mistakes so far.
#[derive(Debug, Default)]
pub(crate) struct Mistakes(Vec<String>);

impl Mistakes {
    /// Adds a mistake; always returns `None`, for the value that is missing.
    pub(crate) fn add<T>(&mut self, place: &str, what: impl std::fmt::Display) -> Option<T> {
        self.0.push(match place {
            "" => what.to_string(),
            place => format!("{place}: {what}"),
        });
        None
    }

    /// The number of mistakes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Ends reading.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every mistake, if there is one.
    pub(crate) fn finish(self) -> Result<(), Error> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Error::invalid(self.0.join("; "))),
        }
    }
}

/// An object of the document, and its place.
pub(crate) struct Fields<'a> {
    /// The place for messages, such as `rules[2]`.
    pub(crate) place: String,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Reads the object; a key that is not in `keys` is a mistake.
    pub(crate) fn read(
        place: &str,
        value: &'a Value,
        keys: &[&str],
        mistakes: &mut Mistakes,
    ) -> Option<Fields<'a>> {
        let Value::Object(map) = value else {
            return mistakes.add(place, "expected keys and values");
        };
        for key in map.keys().filter(|key| !keys.contains(&key.as_str())) {
            let known = keys.join(", ");
            mistakes.add::<()>(
                place,
                format_args!("no such key: {key:?} (there are {known})"),
            );
        }
        let place = place.to_owned();
        Some(Fields { place, map })
    }

    /// The value; a key without one counts as not set.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// The place of a key's value.
    pub(crate) fn at(&self, key: &str) -> String {
        match self.place.as_str() {
            "" => key.to_owned(),
            place => format!("{place}.{key}"),
        }
    }

    /// A text for which `is_right` holds; anything else is a mistake.
    pub(crate) fn text(
        &self,
        key: &str,
        expected: &str,
        is_right: impl Fn(&str) -> bool,
        mistakes: &mut Mistakes,
    ) -> Option<String> {
        let value = self.get(key)?;
        text(&self.at(key), value, expected, is_right, mistakes)
    }

    /// The list, empty if it is not set, each entry with its place.
    pub(crate) fn list(&self, key: &str, mistakes: &mut Mistakes) -> Vec<(String, &'a Value)> {
        let place = self.at(key);
        match self.get(key) {
            None => Vec::new(),
            Some(Value::Array(values)) => {
                let places = (0..values.len()).map(|index| format!("{place}[{index}]"));
                places.zip(values).collect()
            }
            Some(_) => {
                mistakes.add::<()>(&place, "expected a list");
                Vec::new()
            }
        }
    }

    /// The entries of an object, empty if it is not set, each with its place.
    pub(crate) fn entries(
        &self,
        key: &str,
        mistakes: &mut Mistakes,
    ) -> Vec<(String, &'a str, &'a Value)> {
        let place = self.at(key);
        match self.get(key) {
            None => Vec::new(),
            Some(Value::Object(map)) => {
                let entry = |(key, value)| (format!("{place}.{key}"), key, value);
                let pairs = map.iter().map(|(key, value)| (key.as_str(), value));
                pairs.map(entry).collect()
            }
            Some(_) => {
                mistakes.add::<()>(&place, "expected keys and values");
                Vec::new()
            }
        }
    }
}

/// A text for which `is_right` holds. YAML numbers and booleans have to be quoted, because their original spelling is
/// lost.
pub(crate) fn text(
    place: &str,
    value: &Value,
    expected: &str,
    is_right: impl Fn(&str) -> bool,
    mistakes: &mut Mistakes,
) -> Option<String> {
    match value {
        Value::String(text) if is_right(text) => Some(text.clone()),
        Value::String(text) => mistakes.add(place, format_args!("{text:?}: expected {expected}")),
        Value::Number(_) | Value::Bool(_) => {
            mistakes.add(place, format_args!("{value} has to be quoted"))
        }
        _ => mistakes.add(place, format_args!("expected {expected}")),
    }
}
