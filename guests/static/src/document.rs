//! The operator's document: YAML or JSON → rules, with all mistakes at once. Pure.
//!
//! A label, an address or a provider ID that the host would drop or refuse is a mistake here, so that it is found when
//! the document is written and not when a node appears.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ccm_guest::values::is_label_value;
use ccm_guest::{Address, AddressType, Config, Error};
use ipnet::IpNet;
use serde_json::Value;

use crate::fields::{Fields, Mistakes, text};
use crate::rule::{NAME, Of, Requirement, Rule};

#[cfg(test)]
mod tests;

/// The configuration key with the document.
pub const KEY: &str = "STATIC_NODES";

/// Domains of labels that no provider may set: the host leaves such a label out.
const RESERVED_DOMAINS: [&str; 3] = ["kubernetes.io", "k8s.io", "wasm-ccm.dev"];

const KEYS: &[&str] = &["rules", "retired"];
const RULE_KEYS: &[&str] = &[
    "names",
    "selector",
    "cidrs",
    "providerID",
    "instanceType",
    "zone",
    "region",
    "labels",
    "addresses",
];
/// The contract's maximum number of addresses of an instance, less one for the host name.
const MAX_ADDRESSES: usize = 63;
/// The contract's maximum number of labels of an instance.
const MAX_LABELS: usize = 64;
/// The contract's maximum length of a provider ID, in bytes.
const MAX_PROVIDER_ID: usize = 512;

/// The operator's document after parsing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The first rule that matches a node counts.
    pub rules: Vec<Rule>,
    /// Names of nodes whose machines are removed for good.
    pub retired: BTreeSet<String>,
}

impl Document {
    /// Reads the document of the configuration.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every mistake at once.
    pub fn read(config: &Config) -> Result<Document, Error> {
        let mut mistakes = Mistakes::default();
        let mut values = config.values();
        let document = match values.text(KEY) {
            None => mistakes.add(KEY, "not set, so that no node would be anybody's"),
            Some(text) => match serde_saphyr::from_str::<Value>(text) {
                Ok(value) => document(&value, &config.schemes, &mut mistakes),
                Err(error) => mistakes.add(KEY, format_args!("neither YAML nor JSON: {error}")),
            },
        };
        mistakes.finish()?;
        document.ok_or_else(|| Error::internal("a document without mistakes and without content"))
    }
}

fn document(value: &Value, schemes: &[String], mistakes: &mut Mistakes) -> Option<Document> {
    let fields = Fields::read("", value, KEYS, mistakes)?;
    let entries = fields.list("rules", mistakes);
    if entries.is_empty() {
        mistakes.add::<()>("rules", "there has to be at least one");
    }
    let rules: Vec<Rule> = entries
        .iter()
        .filter_map(|(place, value)| rule(place, value, mistakes))
        .collect();
    foreign_ids(&rules, schemes, mistakes);
    shared_ids(&rules, mistakes);
    shared_addresses(&rules, mistakes);
    let retired = fields.list("retired", mistakes);
    let retired = retired
        .iter()
        .filter_map(|(place, value)| text(place, value, "the name of a node", is_name, mistakes));
    Some(Document {
        rules,
        retired: retired.collect(),
    })
}

fn rule(place: &str, value: &Value, mistakes: &mut Mistakes) -> Option<Rule> {
    let before = mistakes.len();
    let fields = Fields::read(place, value, RULE_KEYS, mistakes)?;
    let names: Vec<String> = fields
        .list("names", mistakes)
        .iter()
        .filter_map(|(place, value)| {
            let expected = "the name of a node, with one * for any characters if need be";
            text(place, value, expected, is_pattern, mistakes)
        })
        .collect();
    let cidrs = fields.list("cidrs", mistakes);
    let cidrs = cidrs
        .iter()
        .filter_map(|(place, value)| cidr(place, value, mistakes))
        .collect();
    let word = "a label's value: letters, digits, '-', '_' and '.', at most 63";
    let rule = Rule {
        selector: selector(&fields, mistakes),
        provider_id: provider_id(&fields, &names, mistakes),
        instance_type: fields.text("instanceType", word, is_label_value, mistakes),
        zone: fields.text("zone", word, is_label_value, mistakes),
        region: fields.text("region", word, is_label_value, mistakes),
        labels: labels(&fields, mistakes),
        addresses: addresses(&fields, mistakes),
        names,
        cidrs,
    };
    if mistakes.len() > before {
        return None;
    }
    if rule.names.is_empty() && rule.selector.is_empty() && rule.cidrs.is_empty() {
        return mistakes.add(
            place,
            "names, selector or cidrs have to say which nodes it is about (names: [\"*\"] for all of them)",
        );
    }
    for name in rule.addresses.keys().filter(|name| !rule.is_about(name)) {
        let place = format!("{place}.addresses.{name}");
        mistakes.add::<()>(&place, "the rule's names do not admit this node");
    }
    Some(rule)
}

/// The provider ID's template; default `static://{name}`. Each node needs a provider ID of its own, so the template
/// ends with the name, unless the rule is about one machine.
fn provider_id(fields: &Fields<'_>, names: &[String], mistakes: &mut Mistakes) -> String {
    let expected = "<scheme>://, and then visible ASCII characters, at most 512 in all";
    let template = fields.text("providerID", expected, is_provider_id, mistakes);
    let template = template.unwrap_or_else(|| format!("static://{NAME}"));
    let is_one = matches!(names, [name] if !name.contains('*'));
    let ends_with_name = template
        .strip_suffix(NAME)
        .is_some_and(|begin| begin.ends_with('/') && !begin.contains(['{', '}']));
    let is_fixed = is_one && !template.contains(['{', '}']);
    if !ends_with_name && !is_fixed {
        let place = fields.at("providerID");
        mistakes.add::<()>(
            &place,
            format_args!("{template:?}: expected /{NAME} at the end and no other braces, or none and one name in names"),
        );
    }
    template
}

fn selector(fields: &Fields<'_>, mistakes: &mut Mistakes) -> Vec<Requirement> {
    const OPERATORS: &str = "In, NotIn, Exists or DoesNotExist";
    let Some(value) = fields.get("selector") else {
        return Vec::new();
    };
    let keys = ["matchLabels", "matchExpressions"];
    let Some(selector) = Fields::read(&fields.at("selector"), value, &keys, mistakes) else {
        return Vec::new();
    };
    let mut requirements = Vec::new();
    for (place, key, value) in selector.entries("matchLabels", mistakes) {
        let key = label_key(&place, key, mistakes);
        let value = label_value(&place, value, mistakes);
        requirements.extend(key.zip(value).map(|(key, value)| Requirement {
            key,
            of: Of::In(vec![value]),
        }));
    }
    for (place, value) in selector.list("matchExpressions", mistakes) {
        let keys = ["key", "operator", "values"];
        let Some(one) = Fields::read(&place, value, &keys, mistakes) else {
            continue;
        };
        let values = one.list("values", mistakes);
        let values: Vec<String> = values
            .iter()
            .filter_map(|(place, value)| label_value(place, value, mistakes))
            .collect();
        let key = one.text("key", "a label's name", is_label_key, mistakes);
        let operator = one.text("operator", OPERATORS, |_| true, mistakes);
        let of = match (operator.as_deref(), values.is_empty()) {
            (Some("In"), false) => Of::In(values),
            (Some("NotIn"), false) => Of::NotIn(values),
            (Some("Exists"), true) => Of::Exists,
            (Some("DoesNotExist"), true) => Of::DoesNotExist,
            _ => {
                let expected = format_args!(
                    "expected {OPERATORS}, the first two with values and the others without"
                );
                mistakes.add::<()>(&one.at("operator"), expected);
                continue;
            }
        };
        match key {
            Some(key) => requirements.push(Requirement { key, of }),
            None if one.get("key").is_none() => drop(mistakes.add::<()>(&place, "key is missing")),
            None => {}
        }
    }
    requirements
}

fn labels(fields: &Fields<'_>, mistakes: &mut Mistakes) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    for (place, key, value) in fields.entries("labels", mistakes) {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let is_below = |of: &str| domain == of || domain.ends_with(&format!(".{of}"));
        if RESERVED_DOMAINS.into_iter().any(is_below) {
            mistakes.add::<()>(
                &place,
                "labels under kubernetes.io, k8s.io and wasm-ccm.dev are not a provider's to set",
            );
        }
        let key = label_key(&place, key, mistakes);
        let value = label_value(&place, value, mistakes);
        labels.extend(key.zip(value));
    }
    if labels.len() > MAX_LABELS {
        mistakes.add::<()>(&fields.at("labels"), format_args!("more than {MAX_LABELS}"));
    }
    labels
}

fn addresses(fields: &Fields<'_>, mistakes: &mut Mistakes) -> BTreeMap<String, Vec<Address>> {
    let mut all = BTreeMap::new();
    for (place, name, value) in fields.entries("addresses", mistakes) {
        let before = mistakes.len();
        if !is_name(name) {
            mistakes.add::<()>(&place, "expected the name of a node");
        }
        let Value::Array(values) = value else {
            mistakes.add::<()>(&place, "expected a list");
            continue;
        };
        if values.is_empty() || values.len() > MAX_ADDRESSES {
            mistakes.add::<()>(
                &place,
                format_args!("expected 1 to {MAX_ADDRESSES} addresses"),
            );
        }
        let places = (0..values.len()).map(|index| format!("{place}[{index}]"));
        let read = places
            .zip(values)
            .filter_map(|(place, value)| address(&place, value, mistakes));
        let read: Vec<Address> = read.collect();
        // They are all that the node has: a new one would wait for an IP address.
        if mistakes.len() == before && !read.iter().any(is_ip) {
            mistakes.add::<()>(&place, "expected an InternalIP or ExternalIP among them");
        }
        all.insert(name.to_owned(), read);
    }
    all
}

fn address(place: &str, value: &Value, mistakes: &mut Mistakes) -> Option<Address> {
    const TYPES: &str = "InternalIP, ExternalIP, Hostname, InternalDNS or ExternalDNS";
    let before = mistakes.len();
    let fields = Fields::read(place, value, &["type", "address"], mistakes)?;
    let kind = fields.text("type", TYPES, |text| address_type(text).is_some(), mistakes);
    let is_right = |text: &str| match kind.as_deref() {
        Some("InternalIP" | "ExternalIP") => text.parse().is_ok_and(is_of_a_machine),
        _ => is_name(text),
    };
    let address = fields.text("address", "an address of its type", is_right, mistakes);
    match (kind, address) {
        (Some(kind), Some(address)) => Some(Address::new(address_type(&kind)?, address)),
        _ if mistakes.len() > before => None,
        _ => mistakes.add(place, "type and address have to be set"),
    }
}

fn address_type(text: &str) -> Option<AddressType> {
    Some(match text {
        "InternalIP" => AddressType::InternalIp,
        "ExternalIP" => AddressType::ExternalIp,
        "Hostname" => AddressType::Hostname,
        "InternalDNS" => AddressType::InternalDns,
        "ExternalDNS" => AddressType::ExternalDns,
        _ => return None,
    })
}

fn is_ip(address: &Address) -> bool {
    matches!(
        address.address_type,
        AddressType::InternalIp | AddressType::ExternalIp
    )
}

fn cidr(place: &str, value: &Value, mistakes: &mut Mistakes) -> Option<IpNet> {
    let parse = |text: &str| {
        text.parse()
            .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
    };
    let is_right = |text: &str| parse(text).is_ok();
    let text = text(
        place,
        value,
        "a range such as 10.0.7.0/24",
        is_right,
        mistakes,
    )?;
    parse(&text).ok()
}

fn label_key(place: &str, key: &str, mistakes: &mut Mistakes) -> Option<String> {
    match is_label_key(key) {
        true => Some(key.to_owned()),
        false => mistakes.add(place, "this is not the name of a label"),
    }
}

fn label_value(place: &str, value: &Value, mistakes: &mut Mistakes) -> Option<String> {
    let is_right = |text: &str| text.is_empty() || is_label_value(text);
    text(place, value, "a label's value", is_right, mistakes)
}

/// The manager accepts no provider ID of another scheme from this provider.
fn foreign_ids(rules: &[Rule], schemes: &[String], mistakes: &mut Mistakes) {
    let is_ours = |id: &str| {
        let scheme = id.split_once("://").map(|(scheme, _)| scheme);
        scheme.is_some_and(|scheme| schemes.iter().any(|ours| ours == scheme))
    };
    let ids = rules.iter().map(|rule| &rule.provider_id);
    for id in ids.filter(|id| !is_ours(id)) {
        let what = format_args!(
            "the providerID {id:?} is of a scheme that is not this provider's ({}): add it to nodes.schemes",
            schemes.join(", ")
        );
        mistakes.add::<()>("rules", what);
    }
}

/// Two nodes must not have one provider ID: the manager would hold back both.
fn shared_ids(rules: &[Rule], mistakes: &mut Mistakes) {
    let mut known: BTreeMap<&str, &[String]> = BTreeMap::new();
    for rule in rules
        .iter()
        .filter(|rule| !rule.provider_id.ends_with(NAME))
    {
        let names = known.entry(&rule.provider_id).or_insert(&rule.names);
        if **names != *rule.names {
            let (a, b) = (names.join(", "), rule.names.join(", "));
            let what = format_args!(
                "{a} and {b} have the same providerID {:?}",
                rule.provider_id
            );
            mistakes.add::<()>("rules", what);
        }
    }
}

/// An address belongs to one machine.
fn shared_addresses(rules: &[Rule], mistakes: &mut Mistakes) {
    let mut known: BTreeMap<IpAddr, &str> = BTreeMap::new();
    for (name, addresses) in rules.iter().flat_map(|rule| &rule.addresses) {
        let addresses = addresses.iter().filter_map(|one| one.address.parse().ok());
        for address in addresses.map(|address: IpAddr| address.to_canonical()) {
            let other = *known.entry(address).or_insert(name);
            if other != name {
                let what = format_args!("{other} and {name} have the same address {address}");
                mistakes.add::<()>("rules", what);
            }
        }
    }
}

/// Whether other machines can reach one at this address. The host would drop others.
fn is_of_a_machine(address: IpAddr) -> bool {
    match address.to_canonical() {
        address if address.is_loopback() || address.is_multicast() => false,
        IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_broadcast() && v4.octets()[0] != 0,
        IpAddr::V6(v6) => !v6.is_unicast_link_local() && !v6.is_unspecified(),
    }
}

/// Whether the text is a DNS subdomain of RFC 1123, as the API server requires of Node names.
fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(is_inner)
    };
    text.len() <= 253 && text.split('.').all(is_part)
}

/// Whether the text is a name with at most one `*`, which stands for characters of a name.
fn is_pattern(text: &str) -> bool {
    match text.split_once('*') {
        None => is_name(text),
        Some((begin, end)) => !end.contains('*') && is_name(&format!("{begin}a{end}")),
    }
}

fn is_provider_id(text: &str) -> bool {
    let is_scheme = |scheme: &str| {
        let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+.-".contains(c);
        scheme.starts_with(|c: char| c.is_ascii_lowercase()) && scheme.chars().all(is_inner)
    };
    let rest = text
        .split_once("://")
        .filter(|(scheme, _)| is_scheme(scheme));
    let is_visible = |(_, rest): (&str, &str)| {
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_graphic())
    };
    // A name has at most 253 bytes; its placeholder has six.
    let longest = text.len() + text.matches(NAME).count() * (253 - NAME.len());
    rest.is_some_and(is_visible) && longest <= MAX_PROVIDER_ID
}

fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        None => is_label_value(text),
        Some((domain, name)) => is_name(domain) && is_label_value(name),
    }
}
