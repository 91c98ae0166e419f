//! The differences between the desired and the actual load balancer. Pure.
//!
//! The vendor leaves out fields with default values, orders lists as it likes, and adds fields. So both sides are
//! brought into one form before they are compared. Fields that are fixed at creation are not compared.

use serde_json::{Map, Value, json};

use super::api::LoadBalancer;
use super::wanted::Wanted;
use crate::config::Type;

/// The names of the fields that differ; empty if the load balancer is as wanted. `certificate` is the id of the
/// certificate that the rules need.
pub fn differing(wanted: &Wanted, certificate: &str, found: &LoadBalancer) -> Vec<&'static str> {
    let fields = wanted.fields(certificate);
    let actual = found.fields();
    let has_idle_timeout = wanted.kind == Type::Regional || fields.contains_key(IDLE_TIMEOUT);
    let mut differing: Vec<&'static str> = COMPARED
        .iter()
        .filter(|(field, _)| *field != IDLE_TIMEOUT || has_idle_timeout)
        .filter(|(field, form)| form(fields.get(*field)) != form(actual.get(*field)))
        .map(|(field, _)| *field)
        .collect();
    if has_units(actual) && units(&fields) != units(actual) {
        differing.push("size");
    }
    differing
}

/// The body of the request that makes the load balancer as wanted. The vendor resets the fields that it does not
/// contain, so it also has those that are set elsewhere or cannot be changed: region, VPC, subnet, project and cipher
/// policy. Tags have requests of their own.
pub fn update(wanted: &Wanted, certificate: &str, found: &LoadBalancer) -> Value {
    let mut fields = wanted.fields(certificate);
    let actual = found.fields();
    for kept in ["vpc_uuid", "subnet_uuid", "project_id", "tls_cipher_policy"] {
        let value = actual.get(kept).filter(|value| !text(value).is_empty());
        fields.extend(value.map(|value| (kept.to_owned(), value.clone())));
    }
    let region = actual.get("region").and_then(|region| region.get("slug"));
    fields.insert("region".to_owned(), region.cloned().unwrap_or_default());
    Value::Object(fields)
}

/// The form that a field is brought into before it is compared.
type Form = fn(Option<&Value>) -> Value;

const COMPARED: &[(&str, Form)] = &[
    ("name", plain),
    ("forwarding_rules", rules),
    ("health_check", health_check),
    ("sticky_sessions", sticky_sessions),
    ("droplet_ids", set),
    ("tag", plain),
    ("firewall", firewall),
    ("redirect_http_to_https", truth),
    ("enable_proxy_protocol", truth),
    ("enable_backend_keepalive", truth),
    ("disable_lets_encrypt_dns_records", truth),
    (IDLE_TIMEOUT, idle_timeout),
];

/// Compared only if the load balancer terminates connections, or the field is wanted.
const IDLE_TIMEOUT: &str = "http_idle_timeout_seconds";

fn plain(value: Option<&Value>) -> Value {
    json!(value.map(text).unwrap_or_default())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn truth(value: Option<&Value>) -> Value {
    json!(value == Some(&Value::Bool(true)))
}

/// In seconds; the vendor's default is a minute.
fn idle_timeout(value: Option<&Value>) -> Value {
    json!(value.and_then(Value::as_u64).unwrap_or(60))
}

/// A list whose order does not count.
fn set(value: Option<&Value>) -> Value {
    let mut items: Vec<String> = items(value).map(Value::to_string).collect();
    items.sort_unstable();
    items.dedup();
    json!(items)
}

fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn rules(value: Option<&Value>) -> Value {
    let mut rules: Vec<String> = items(value)
        .map(|rule| {
            let rule = json!([
                rule["entry_port"],
                text(&rule["entry_protocol"]),
                text(&rule["target_protocol"]),
                rule["target_port"],
                text(&rule["certificate_id"]),
                truth(rule.get("tls_passthrough")),
            ]);
            rule.to_string()
        })
        .collect();
    rules.sort_unstable();
    json!(rules)
}

/// The path counts with HTTP only. `proxy_protocol` is sent and not compared: the vendor's documentation lacks it, so an
/// answer may lack it, too.
fn health_check(value: Option<&Value>) -> Value {
    let check = value.unwrap_or(&Value::Null);
    let protocol = text(&check["protocol"]);
    let path = match (protocol, text(&check["path"])) {
        ("tcp", _) => "",
        (_, "") => "/",
        (_, path) => path,
    };
    json!([
        protocol,
        path,
        check["port"],
        check["check_interval_seconds"],
        check["response_timeout_seconds"],
        check["unhealthy_threshold"],
        check["healthy_threshold"],
    ])
}

fn sticky_sessions(value: Option<&Value>) -> Value {
    let sessions = value.unwrap_or(&Value::Null);
    match text(&sessions["type"]) {
        "cookies" => json!([sessions["cookie_name"], sessions["cookie_ttl_seconds"]]),
        _ => Value::Null,
    }
}

fn firewall(value: Option<&Value>) -> Value {
    let firewall = value.unwrap_or(&Value::Null);
    json!([set(firewall.get("allow")), set(firewall.get("deny"))])
}

/// The number of the load balancer's nodes, from either of the two fields for it. The vendor's default is one.
fn units(fields: &Map<String, Value>) -> u64 {
    let by_slug = || match fields.get("size").map(text) {
        Some("lb-medium") => 3,
        Some("lb-large") => 6,
        _ => 1,
    };
    let units = fields.get("size_unit").and_then(Value::as_u64);
    units.filter(|units| *units > 0).unwrap_or_else(by_slug)
}

/// Whether the vendor returned the number of nodes, without which it is not compared.
fn has_units(actual: &Map<String, Value>) -> bool {
    actual.contains_key("size") || actual.contains_key("size_unit")
}
