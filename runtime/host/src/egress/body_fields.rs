//! Detects requests in which a server could read other field values than the rules did.
//!
//! A rule on fields is worthless if the cloud takes its `Action` from a place that the rule does not know: a body
//! type that is not parsed here, a second field of that name, or a differently spelled name. Pure functions; nothing
//! here changes or sends a request.

use std::collections::BTreeSet;
use std::fmt;

use http::header::{CONTENT_TYPE, HeaderMap};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use url::form_urlencoded;

use super::message::FetchError;
use super::rules::Line;

/// Media type of a form.
pub(super) const FORM: &str = "application/x-www-form-urlencoded";

/// Field names by which frameworks accept another method than the matched one, in the form of [`folded`]. The
/// headers with this effect belong to the host.
const OVERRIDES: &[&str] = &[
    "_method",
    "$method",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x_http_method",
    "x_http_method_override",
    "x_method_override",
];

/// A body, as far as rules can inspect it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The request has no body.
    Nothing,
    /// Fields of a form.
    Form(Vec<(String, String)>),
    /// Declared as JSON; not parsed yet.
    Json,
    /// Any other type; rules cannot inspect it.
    Other,
}

/// Where a rule expects a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Query,
    Form,
}

/// Names and places of the fields that rules inspect.
#[derive(Debug, Default)]
pub(super) struct Looked<'a>(BTreeSet<(&'a str, Place)>);

impl Content {
    /// Classifies the body by its content type and parses the fields of a form.
    ///
    /// # Errors
    /// There are two content types.
    pub(super) fn read(headers: &HeaderMap, body: Option<&[u8]>) -> Result<Content, FetchError> {
        let mut types = headers.get_all(CONTENT_TYPE).iter();
        let kind = types.next();
        if types.next().is_some() {
            return Err(FetchError::Invalid(
                "content-type is there twice".to_owned(),
            ));
        }
        let Some(body) = body.filter(|body| !body.is_empty()) else {
            return Ok(Content::Nothing);
        };
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        Ok(match media_type(kind).as_deref() {
            Some(FORM) => Content::Form(form_urlencoded::parse(body).into_owned().collect()),
            Some(kind) if is_json(kind) => Content::Json,
            _ => Content::Other,
        })
    }

    /// Fields of the form; `None` for any other body.
    pub(super) fn form(&self) -> Option<&[(String, String)]> {
        match self {
            Content::Form(fields) => Some(fields),
            _ => None,
        }
    }
}

/// Media type in lower case. `None` if it has any parameter other than `charset=utf-8`.
fn media_type(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let (kind, parameter) = text.split_once(';').unwrap_or((&text, "charset=utf-8"));
    (parameter.trim() == "charset=utf-8").then(|| kind.trim().to_owned())
}

/// Whether the type is `application/json` or ends in `+json` (RFC 6839, 3.1).
fn is_json(kind: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"+-._".contains(&byte);
    kind.strip_prefix("application/").is_some_and(|kind| {
        kind.bytes().all(is_token) && (kind == "json" || kind.ends_with("+json"))
    })
}

impl<'a> Looked<'a> {
    /// Collects the fields that these lines inspect.
    pub(super) fn at(lines: impl Iterator<Item = &'a Line>) -> Looked<'a> {
        let mut looked = Looked::default();
        for line in lines {
            for (place, fields) in [(Place::Query, &line.query), (Place::Form, &line.form)] {
                let named = fields.iter().map(|(name, _)| (name.as_str(), place));
                looked.0.extend(named);
            }
        }
        looked
    }

    /// Whether the lines inspect no field.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that every server reads these fields as the rules did.
    ///
    /// # Errors
    /// A human-readable reason.
    pub(super) fn check(
        &self,
        query: &[(String, String)],
        content: &Content,
        body: Option<&[u8]>,
    ) -> Result<(), String> {
        let form = content.form().unwrap_or_default();
        let names = || query.iter().chain(form).map(|(name, _)| name.as_str());
        names().try_for_each(is_no_override)?;
        if self.is_empty() {
            return Ok(());
        }
        let members = match content {
            Content::Nothing | Content::Form(_) => Vec::new(),
            Content::Json => members(body.unwrap_or_default())?,
            Content::Other => {
                return Err(format!(
                    "where a rule looks at fields, a body is application/json or {FORM}, in UTF-8"
                ));
            }
        };
        let inside = || members.iter().map(|(name, _)| name.as_str());
        inside().try_for_each(is_no_override)?;
        for (name, place) in &self.0 {
            is_by_itself(name, names().chain(inside()))?;
            let (here, there) = match place {
                Place::Query => (query, form),
                Place::Form => (form, query),
            };
            if count(name, here) > 1 || count(name, there) > 0 {
                return Err(format!(
                    "a rule looks at field {name:?}, which is elsewhere too"
                ));
            }
            let value = here.iter().find(|(given, _)| given == name);
            let agrees = |member: &Value| {
                *place == Place::Query && member.as_str() == value.map(|(_, value)| value.as_str())
            };
            let mut same = members.iter().filter(|(given, _)| given == name);
            if !same.all(|(_, member)| member.is_string() && agrees(member)) {
                return Err(format!(
                    "a rule looks at field {name:?}, which the body contradicts"
                ));
            }
        }
        Ok(())
    }
}

fn count(name: &str, fields: &[(String, String)]) -> usize {
    fields.iter().filter(|(given, _)| given == name).count()
}

/// Field name as a lenient server may read it: lower case, trimmed of whitespace and control characters, with `_`
/// for characters that variable names cannot hold.
fn folded(name: &str) -> String {
    let around = |letter: char| letter.is_whitespace() || letter.is_control();
    let one = name.trim_matches(around).replace(['.', ' '], "_");
    one.to_lowercase()
}

/// Part of a name before `[` (list syntax) or NUL (end of a C string).
fn stem(name: &str) -> &str {
    name.find(['[', '\0'])
        .and_then(|end| name.get(..end))
        .unwrap_or(name)
}

fn is_no_override(name: &str) -> Result<(), String> {
    match OVERRIDES.contains(&folded(stem(name)).as_str()) {
        true => Err(format!("field {name:?} can stand for another method")),
        false => Ok(()),
    }
}

/// Checks that no other field name could be mistaken for this one.
fn is_by_itself<'a>(name: &str, others: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let sought = folded(name);
    let is_alike =
        |other: &&str| *other != name && (folded(other) == sought || folded(stem(other)) == sought);
    match { others }.find(is_alike) {
        Some(other) => Err(format!(
            "a rule looks at field {name:?}, and field {other:?} could be taken for it"
        )),
        None => Ok(()),
    }
}

/// Members of a JSON object, duplicates included: which of two equal names counts is the server's choice.
fn members(body: &[u8]) -> Result<Vec<(String, Value)>, String> {
    let read: Result<Members, _> = serde_json::from_slice(body);
    match read {
        Ok(Members(members)) => Ok(members),
        Err(_) => Err("where a rule looks at fields, JSON is one JSON object".to_owned()),
    }
}

struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        deserializer.deserialize_map(Object)
    }
}

struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Members;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}
