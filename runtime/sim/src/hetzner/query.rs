//! Features of all lists: paging, sorting and label filters.
//!
//! Knows no object; each list supplies the comparison and the view of its objects.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::api::{Call, Refusal, Reply};
use crate::label_selector::{self, Requirement};

/// The vendor's default page size.
const DEFAULT_PER_PAGE: u64 = 25;
/// The vendor's largest page size; larger requests get this size.
const MAX_PER_PAGE: u64 = 50;

/// The decoded query of a request, in its original order.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(raw: &str) -> Self {
        Self(
            url::form_urlencoded::parse(raw.as_bytes())
                .into_owned()
                .collect(),
        )
    }

    pub(super) fn all(&self, key: &str) -> Vec<&str> {
        let pairs = self.0.iter().filter(|(name, _)| name == key);
        pairs.map(|(_, value)| value.as_str()).collect()
    }

    pub(super) fn first(&self, key: &str) -> Option<&str> {
        let pair = self.0.iter().find(|(name, _)| name == key);
        pair.map(|(_, value)| value.as_str())
    }

    pub(super) fn numbers(&self, key: &str) -> Result<Vec<u64>, Refusal> {
        let parse = |text: &str| {
            text.parse()
                .map_err(|_| Refusal::invalid(key, "not a number"))
        };
        self.all(key).into_iter().map(parse).collect()
    }

    fn positive(&self, key: &str, default: u64) -> Result<u64, Refusal> {
        let Some(text) = self.first(key) else {
            return Ok(default);
        };
        let number = text.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| Refusal::invalid(key, "must be a number above 0"))
    }
}

/// One page of a list under `key`, with the vendor's `meta.pagination`.
pub(super) fn list<T>(
    call: &Call,
    key: &str,
    items: &[T],
    show: impl Fn(&T) -> Value,
) -> Result<Reply, Refusal> {
    let page = call.query.positive("page", 1)?;
    let per_page = call
        .query
        .positive("per_page", DEFAULT_PER_PAGE)?
        .min(MAX_PER_PAGE);
    let total = items.len() as u64;
    let last = total.div_ceil(per_page).max(1);
    let skipped = usize::try_from((page - 1).saturating_mul(per_page)).unwrap_or(usize::MAX);
    let shown: Vec<Value> = items
        .iter()
        .skip(skipped)
        .take(per_page as usize)
        .map(show)
        .collect();
    let pagination = json!({
        "page": page,
        "per_page": per_page,
        "previous_page": (page > 1).then(|| page - 1),
        "next_page": (page < last).then(|| page + 1),
        "last_page": last,
        "total_entries": total,
    });
    let mut body = Map::new();
    body.insert(key.to_owned(), Value::Array(shown));
    body.insert("meta".to_owned(), json!({"pagination": pagination}));
    Ok(Reply::ok(Value::Object(body)))
}

/// Compares two objects of a list by one field.
type Comparison<T> = fn(&T, &T) -> Ordering;

/// Sorts a list by the request's `sort` values, the first being the most significant.
pub(super) fn sort<T>(
    call: &Call,
    items: &mut [T],
    fields: &[(&str, Comparison<T>)],
) -> Result<(), Refusal> {
    let mut orders: Vec<(Comparison<T>, bool)> = Vec::new();
    for requested in call.query.all("sort") {
        let (name, descending) = match requested.split_once(':') {
            None | Some((_, "asc")) => (requested.trim_end_matches(":asc"), false),
            Some((name, "desc")) => (name, true),
            Some(_) => return Err(Refusal::invalid("sort", "direction must be asc or desc")),
        };
        let field = fields.iter().find(|(known, _)| *known == name);
        let (_, comparison) = field.ok_or_else(|| Refusal::invalid("sort", "unknown field"))?;
        orders.push((*comparison, descending));
    }
    items.sort_by(|left, right| {
        orders
            .iter()
            .fold(Ordering::Equal, |decided, (comparison, descending)| {
                decided.then_with(|| {
                    let order = comparison(left, right);
                    if *descending { order.reverse() } else { order }
                })
            })
    });
    Ok(())
}

/// A label selector: all requirements must match.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LabelSelector(Vec<Requirement>);

impl LabelSelector {
    /// Parses the request's `label_selector`; without one, everything matches.
    pub(super) fn of(call: &Call) -> Result<Self, Refusal> {
        Self::read(call.query.first("label_selector").unwrap_or_default())
    }

    /// Parses a selector from another source.
    pub(super) fn read(text: &str) -> Result<Self, Refusal> {
        let selector = Self::parse(text);
        selector.ok_or_else(|| Refusal::invalid("label_selector", "cannot be read"))
    }

    pub(super) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| requirement.matches(labels))
    }

    /// The vendor does not support number comparisons.
    fn parse(text: &str) -> Option<Self> {
        let requirements = label_selector::parse(text).ok()?;
        let is_readable =
            |one: &Requirement| matches!(one, Requirement::Text(_)) && is_label_key(one.key());
        requirements
            .iter()
            .all(is_readable)
            .then_some(Self(requirements))
    }
}

fn is_label_key(key: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    !key.is_empty() && key.chars().all(plain)
}

#[cfg(test)]
mod tests;
