//! The permitted differences of two servers that agree: identities, times, revisions, addresses and ports that they
//! chose. Everything else is compared.

use serde_json::Value;

use crate::table::row::Row;
use crate::table::run::Answer;

/// The comparable form of an answer.
pub(crate) fn normal(row: &Row, answer: &Answer) -> Value {
    let mut body = answer.body.clone();
    for pointer in &row.free {
        if let Some(place) = body.pointer_mut(pointer) {
            *place = Value::from("<free>");
        }
    }
    walk(&mut body, "", row.compares_messages);
    body
}

fn walk(value: &mut Value, key: &str, compares_messages: bool) {
    match value {
        Value::Object(fields) => {
            // Field ownership is not simulated.
            fields.remove("managedFields");
            let refusal = fields.get("kind").is_some_and(|kind| kind == "Status");
            if !compares_messages && (refusal || fields.contains_key("field")) {
                fields.remove("message");
            }
            for (key, child) in fields.iter_mut() {
                walk(child, key, compares_messages);
            }
            if let Some(Value::Array(causes)) = fields.get_mut("causes") {
                // Upstream reports the same broken rule once for each validation that finds it.
                causes.sort_by_key(Value::to_string);
                causes.dedup();
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| walk(item, key, compares_messages)),
        Value::String(text) => match key {
            "uid" | "resourceVersion" | "creationTimestamp" | "deletionTimestamp" | "continue" => {
                *text = format!("<{key}>");
            }
            "clusterIP" | "clusterIPs" if text != "None" => *text = "<address>".to_owned(),
            "message" => *text = without_numbers(text),
            _ => {}
        },
        Value::Number(_) if matches!(key, "nodePort" | "healthCheckNodePort") => {
            *value = Value::from("<port>");
        }
        _ => {}
    }
}

/// Replaces revisions and UIDs in messages: a run of hexadecimal digits and hyphens with a digit counts as one of them.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    let mut run = String::new();
    for c in text.chars().chain(std::iter::once('\n')) {
        if c.is_ascii_hexdigit() || c == '-' {
            run.push(c);
            continue;
        }
        let number = run.chars().all(|c| c.is_ascii_digit());
        let uid = run.len() == 36 && run.matches('-').count() == 4;
        if !run.is_empty() && (number || uid) {
            out.push('#');
        } else {
            out.push_str(&run);
        }
        run.clear();
        out.push(c);
    }
    out.pop();
    out
}
