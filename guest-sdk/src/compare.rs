//! Compares the wanted objects with those that the cloud shows, so that only differences are written. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

#[cfg(test)]
mod tests;

/// One difference between two lists, such as the listeners of a load balancer by their ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<'a, Key, Wanted, Shown, What> {
    /// Wanted, and missing.
    Missing(&'a Key, &'a Wanted),
    /// Wanted, and shown with other contents; the last field says what differs.
    Differs(&'a Key, &'a Wanted, &'a Shown, What),
    /// Shown, and not wanted.
    Extra(&'a Key, &'a Shown),
}

/// Compares two lists by their keys. `difference` says what differs between a wanted item and the one that is shown;
/// `None` if they agree. Wanted items come first, in the order of the keys, then the surplus ones.
pub fn changes<'a, Key: Ord, Wanted, Shown, What>(
    wanted: &'a BTreeMap<Key, Wanted>,
    shown: &'a BTreeMap<Key, Shown>,
    difference: impl Fn(&Wanted, &Shown) -> Option<What>,
) -> Vec<Change<'a, Key, Wanted, Shown, What>> {
    let of_wanted = wanted
        .iter()
        .filter_map(|(key, wanted)| match shown.get(key) {
            None => Some(Change::Missing(key, wanted)),
            Some(shown) => {
                let what = difference(wanted, shown)?;
                Some(Change::Differs(key, wanted, shown, what))
            }
        });
    let extra = shown.iter().filter(|(key, _)| !wanted.contains_key(key));
    let extra = extra.map(|(key, shown)| Change::Extra(key, shown));
    of_wanted.chain(extra).collect()
}

/// Where the JSON that a cloud shows differs from what is wanted, such as `health_check.port`; `None` if it does not.
/// For clouds that replace a whole object by one request: build the request's body, and send it only if it differs.
///
/// Only the fields of `wanted` are compared: other fields of `shown` are the cloud's. A wanted `null` agrees with a
/// missing field, and lists are equal if they have the same items in the same order.
pub fn difference(wanted: &Value, shown: &Value) -> Option<String> {
    match (wanted, shown) {
        (Value::Object(wanted), Value::Object(shown)) => {
            let mut fields = wanted.iter();
            fields.find_map(|(key, wanted)| {
                let shown = shown.get(key).unwrap_or(&Value::Null);
                let inner = difference(wanted, shown)?;
                Some(joined(key, &inner))
            })
        }
        (Value::Array(wanted), Value::Array(shown)) if wanted.len() == shown.len() => {
            let mut items = wanted.iter().zip(shown).enumerate();
            items.find_map(|(index, (wanted, shown))| {
                let inner = difference(wanted, shown)?;
                Some(joined(&index.to_string(), &inner))
            })
        }
        // A cloud may show 1 as 1.0. Two integers are never compared as floats, which have too few digits for them.
        (Value::Number(wanted), Value::Number(shown)) if wanted.is_f64() != shown.is_f64() => {
            (wanted.as_f64() != shown.as_f64()).then(String::new)
        }
        (wanted, shown) => (wanted != shown).then(String::new),
    }
}

fn joined(key: &str, inner: &str) -> String {
    match inner {
        "" => key.to_owned(),
        inner => format!("{key}.{inner}"),
    }
}
