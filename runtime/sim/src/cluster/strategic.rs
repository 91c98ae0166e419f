//! Strategic merge patch: merges by the kind's merge keys, with all directives (`$patch`, `$setElementOrder`,
//! `$retainKeys`, `$deleteFromPrimitiveList`). Changes values only and does not validate the result.

use serde_json::{Map, Value};

use super::kinds::Kind;
use super::refusal::Refusal;

const PATCH: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE: &str = "$deleteFromPrimitiveList/";

/// Applies a strategic merge patch to an object.
pub(super) fn apply(kind: &Kind, object: Value, patch: Value) -> Result<Value, Refusal> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        return Err(Refusal::bad_request(
            "a strategic merge patch must be an object",
        ));
    };
    merge_map(kind, "", object, patch).map(Value::Object)
}

fn merge_map(
    kind: &Kind,
    path: &str,
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
) -> Result<Map<String, Value>, Refusal> {
    match patch.remove(PATCH) {
        None => {}
        Some(directive) if directive == "replace" => return Ok(patch),
        Some(directive) if directive == "delete" => return Ok(Map::new()),
        Some(directive) => return Err(unknown_directive(&directive)),
    }
    retain_keys(&mut original, &mut patch)?;
    ordered_lists(kind, path, &mut original, &mut patch)?;
    for (key, value) in patch {
        if let Some(key) = key.strip_prefix(DELETE) {
            if let (Some(Value::Array(list)), Value::Array(gone)) = (original.get_mut(key), &value)
            {
                list.retain(|item| !gone.contains(item));
            }
            continue;
        }
        let below = join(path, &key);
        let merged = match (original.remove(&key), value) {
            (_, Value::Null) => continue,
            (Some(Value::Object(old)), Value::Object(new)) => {
                Some(Value::Object(merge_map(kind, &below, old, new)?))
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                Some(Value::Array(merge_list(kind, &below, old, new)?))
            }
            (_, new) => without_directives(new),
        };
        if let Some(merged) = merged {
            original.insert(key, merged);
        }
    }
    Ok(original)
}

/// `$retainKeys` removes all fields it does not name, and must name every field that the patch sets.
fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), Refusal> {
    let Some(directive) = patch.remove(RETAIN) else {
        return Ok(());
    };
    let bad = || Refusal::bad_request("invalid patch format of retainKeys");
    let keep = directive.as_array().ok_or_else(bad)?;
    let kept = |key: &str| keep.iter().any(|one| one == key);
    for (key, value) in patch.iter() {
        if !value.is_null() && !key.starts_with(DELETE) && !key.starts_with(ORDER) && !kept(key) {
            return Err(bad());
        }
    }
    original.retain(|key, _| kept(key));
    Ok(())
}

/// Merges every list with a `$setElementOrder` and sorts it accordingly.
fn ordered_lists(
    kind: &Kind,
    path: &str,
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), Refusal> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|key| key.starts_with(ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let Some(Value::Array(order)) = patch.remove(&directive) else {
            return Err(no_list());
        };
        let key = directive.trim_start_matches(ORDER);
        let below = join(path, key);
        let merge_key = kind.merge_list(&below).flatten();
        let given = match patch.remove(key) {
            None => None,
            Some(Value::Array(list)) => Some(list),
            Some(_) => return Err(no_list()),
        };
        let live = match original.get(key) {
            None => None,
            Some(Value::Array(list)) => Some(list.clone()),
            Some(_) => return Err(no_list()),
        };
        check_order(given.as_deref().unwrap_or_default(), &order, merge_key)?;
        let merged = match (live.clone(), given) {
            (None, None) => continue,
            (Some(live), None) => live,
            (None, Some(given)) => match without_directives(Value::Array(given)) {
                Some(Value::Array(list)) => list,
                _ => continue,
            },
            (Some(live), Some(given)) => merge_list(kind, &below, live, given)?,
        };
        let sorted = arrange(
            merged,
            &order,
            live.as_deref().unwrap_or_default(),
            merge_key,
        );
        original.insert(key.to_owned(), Value::Array(sorted));
    }
    Ok(())
}

/// The items of the patch must be in the order list, in the same order.
fn check_order(given: &[Value], order: &[Value], merge_key: Option<&str>) -> Result<(), Refusal> {
    if order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for item in given.iter().filter(|item| item.get(PATCH).is_none()) {
        if !rest.any(|one| same(one, item, merge_key)) {
            return Err(Refusal::failed(
                "The order in patch list doesn't match $setElementOrder list",
            ));
        }
    }
    Ok(())
}

fn merge_list(
    kind: &Kind,
    path: &str,
    original: Vec<Value>,
    patch: Vec<Value>,
) -> Result<Vec<Value>, Refusal> {
    let Some(merge_key) = kind.merge_list(path) else {
        return Ok(patch);
    };
    let Some(key) = merge_key else {
        let mut merged = Vec::new();
        for item in original.iter().chain(&patch) {
            if !merged.contains(item) {
                merged.push(item.clone());
            }
        }
        return Ok(arrange(merged, &patch, &original, None));
    };
    let (mut live, given) = special_elements(original, patch, key)?;
    let server_order = live.clone();
    for item in &given {
        if item.get(key).is_none() {
            return Err(no_merge_key(key));
        }
        match live.iter_mut().find(|one| same(one, item, Some(key))) {
            None => live.push(item.clone()),
            Some(found) => {
                if let (Value::Object(old), Value::Object(new)) = (found.take(), item.clone()) {
                    *found = Value::Object(merge_map(kind, path, old, new)?);
                }
            }
        }
    }
    if live.iter().any(|item| item.get(key).is_none()) {
        return Err(no_merge_key(key));
    }
    Ok(arrange(live, &given, &server_order, Some(key)))
}

/// Applies `$patch: delete` and `$patch: replace` elements; returns the live list and the ordinary elements.
fn special_elements(
    mut live: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Refusal> {
    let mut ordinary = Vec::new();
    let mut replace = false;
    for item in patch {
        match item.get(PATCH) {
            None => ordinary.push(item),
            Some(directive) if directive == "replace" => replace = true,
            Some(directive) if directive == "delete" => {
                if item.get(key).is_none() {
                    return Err(no_merge_key(key));
                }
                live.retain(|one| !same(one, &item, Some(key)));
            }
            Some(directive) => return Err(unknown_directive(directive)),
        }
    }
    if replace {
        Ok((ordinary, Vec::new()))
    } else {
        Ok((live, ordinary))
    }
}

/// Sorts a merged list as upstream does: items named by `order` in that order, the others in the order of the live
/// list, interleaved so that neither order is broken where both are known.
fn arrange(merged: Vec<Value>, order: &[Value], live: &[Value], key: Option<&str>) -> Vec<Value> {
    let index = |list: &[Value], item: &Value| list.iter().position(|one| same(one, item, key));
    let (mut named, mut others): (Vec<Value>, Vec<Value>) = merged
        .into_iter()
        .partition(|item| index(order, item).is_some());
    named.sort_by_key(|item| index(order, item));
    others.sort_by_key(|item| index(live, item));
    let mut sorted = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (None, None) => return sorted,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(name)) => match (index(live, other), index(live, name)) {
                (Some(left), Some(right)) => left < right,
                _ => false,
            },
        };
        sorted.extend(if other_first {
            others.next()
        } else {
            named.next()
        });
    }
}

fn same(one: &Value, other: &Value, key: Option<&str>) -> bool {
    match key {
        None => one == other,
        Some(key) => one.get(key).is_some() && one.get(key) == other.get(key),
    }
}

/// A value that has no counterpart to merge with: drops nulls and directives, keeps the rest.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) => {
            if fields.contains_key(PATCH) {
                return None;
            }
            let kept = fields
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .filter_map(|(key, value)| without_directives(value).map(|value| (key, value)))
                .collect();
            Some(Value::Object(kept))
        }
        Value::Array(items) => Some(Value::Array(
            items.into_iter().filter_map(without_directives).collect(),
        )),
        plain => Some(plain),
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

fn no_list() -> Refusal {
    Refusal::failed("expected a list")
}

fn no_merge_key(key: &str) -> Refusal {
    Refusal::failed(format!("map does not contain declared merge key: {key}"))
}

fn unknown_directive(directive: &Value) -> Refusal {
    Refusal::failed(format!("unknown patch type found: {directive}"))
}
