//! The fields of a request, and whether a server could find other ones in it than a rule did.
//!
//! A rule that looks at fields is worth nothing when the cloud takes its `Action` from a place that the rule does not
//! know: a body of a type that is not read here, a second field of that name, or one whose name is spelled otherwise.
//! Plain functions over values; nothing here is changed or sent.

use std::collections::BTreeSet;
use std::fmt;

use http::header::{CONTENT_TYPE, HeaderMap};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use url::form_urlencoded;

use super::message::FetchError;
use super::rules::Line;

/// The type of a form.
pub(super) const FORM: &str = "application/x-www-form-urlencoded";

/// Fields by which frameworks let a client name another method than the one that was matched, as [`folded`] has them. As
/// headers they belong to the host.
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

/// A body, as far as rules can look into it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// There is none.
    Nothing,
    /// The fields of a form.
    Form(Vec<(String, String)>),
    /// It says that it is JSON.
    Json,
    /// What no rule can look into.
    Other,
}

/// Where a rule looks for a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Query,
    Form,
}

/// The fields that rules look at.
#[derive(Debug, Default)]
pub(super) struct Looked<'a>(BTreeSet<(&'a str, Place)>);

impl Content {
    /// Reads the type, and the fields of a form.
    ///
    /// # Errors
    /// There are two types.
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

    /// The fields, if it is a form.
    pub(super) fn form(&self) -> Option<&[(String, String)]> {
        match self {
            Content::Form(fields) => Some(fields),
            _ => None,
        }
    }
}

/// A media type in lower case. `None` when it comes with anything else than that its text is UTF-8.
fn media_type(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let (kind, parameter) = text.split_once(';').unwrap_or((&text, "charset=utf-8"));
    (parameter.trim() == "charset=utf-8").then(|| kind.trim().to_owned())
}

/// `application/json`, or a type that is built on it (RFC 6839, 3.1).
fn is_json(kind: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"+-._".contains(&byte);
    kind.strip_prefix("application/").is_some_and(|kind| {
        kind.bytes().all(is_token) && (kind == "json" || kind.ends_with("+json"))
    })
}

impl<'a> Looked<'a> {
    /// What these lines look at.
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

    /// Whether they look at nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every server finds the same in these fields as the rules did.
    ///
    /// # Errors
    /// Why not, for people.
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

/// The name as a server may take it that does not look closely: in lower case, without what is around it, with one
/// spelling for what cannot stand in a variable's name.
fn folded(name: &str) -> String {
    let around = |letter: char| letter.is_whitespace() || letter.is_control();
    let one = name.trim_matches(around).replace(['.', ' '], "_");
    one.to_lowercase()
}

/// The part of a name before what makes a list of it, or ends it in C.
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

/// No other name could be taken for this one.
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

/// The members of an object, each as often as it is there: which one of two equal names counts is the server's choice.
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
