//! Fields of queries and bodies as the host checks them: a rule about a field is worth nothing if the cloud finds
//! another value elsewhere.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// Media type of a form.
const FORM: &str = "application/x-www-form-urlencoded";

/// Field names by which frameworks accept another method.
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

/// Where a rule expects a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Query,
    Form,
}

/// A body, as far as rules can look at it.
#[derive(Debug)]
pub(super) enum Content {
    Nothing,
    Form(Vec<(String, String)>),
    Json,
    Other,
}

impl Content {
    /// Classifies a body by its content type.
    ///
    /// # Errors
    /// The request has two content types.
    pub(super) fn read(headers: &[(String, String)], body: &[u8]) -> Result<Content, String> {
        let is_type = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("content-type");
        let mut types = headers.iter().filter(is_type);
        let kind = types.next();
        if types.next().is_some() {
            return Err("content-type is there twice".to_owned());
        }
        if body.is_empty() {
            return Ok(Content::Nothing);
        }
        let kind = kind.map_or("", |(_, kind)| kind.as_str());
        Ok(match media_type(kind).as_deref() {
            Some(FORM) => Content::Form(form_urlencoded::parse(body).into_owned().collect()),
            Some(kind) if is_json(kind) => Content::Json,
            _ => Content::Other,
        })
    }

    /// The fields of a form; none of any other body.
    pub(super) fn form(&self) -> &[(String, String)] {
        match self {
            Content::Form(fields) => fields,
            _ => &[],
        }
    }
}

fn media_type(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let (kind, parameter) = text.split_once(';').unwrap_or((&text, "charset=utf-8"));
    (parameter.trim() == "charset=utf-8").then(|| kind.trim().to_owned())
}

fn is_json(kind: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"+-._".contains(&byte);
    kind.strip_prefix("application/").is_some_and(|kind| {
        kind.bytes().all(is_token) && (kind == "json" || kind.ends_with("+json"))
    })
}

/// Checks that no server can read other values in the fields than the rules did.
///
/// # Errors
/// The reason, in the real host's words.
pub(super) fn check_fields(
    looked: &BTreeSet<(&str, Place)>,
    query: &[(String, String)],
    content: &Content,
    body: &[u8],
) -> Result<(), String> {
    let form = content.form();
    let names = || query.iter().chain(form).map(|(name, _)| name.as_str());
    names().try_for_each(is_no_override)?;
    if looked.is_empty() {
        return Ok(());
    }
    let members = match content {
        Content::Nothing | Content::Form(_) => Vec::new(),
        Content::Json => match serde_json::from_slice(body) {
            Ok(Members(members)) => members,
            Err(_) => {
                return Err("where a rule looks at fields, JSON is one JSON object".to_owned());
            }
        },
        Content::Other => {
            return Err(format!(
                "where a rule looks at fields, a body is application/json or {FORM}, in UTF-8"
            ));
        }
    };
    let inside = || members.iter().map(|(name, _)| name.as_str());
    inside().try_for_each(is_no_override)?;
    for (name, place) in looked {
        is_by_itself(name, names().chain(inside()))?;
        let (here, there) = match place {
            Place::Query => (query, form),
            Place::Form => (form, query),
        };
        let count =
            |fields: &[(String, String)]| fields.iter().filter(|(given, _)| given == name).count();
        if count(here) > 1 || count(there) > 0 {
            return Err(format!(
                "a rule looks at field {name:?}, which is elsewhere too"
            ));
        }
        let value = here.iter().find(|(given, _)| given == name);
        let value = value.map(|(_, value)| value.as_str());
        let agrees = |member: &Value| {
            *place == Place::Query && member.is_string() && member.as_str() == value
        };
        let mut same = members.iter().filter(|(given, _)| given == name);
        if !same.all(|(_, member)| agrees(member)) {
            return Err(format!(
                "a rule looks at field {name:?}, which the body contradicts"
            ));
        }
    }
    Ok(())
}

/// A name as a lenient server may read it.
fn folded(name: &str) -> String {
    let around = |letter: char| letter.is_whitespace() || letter.is_control();
    let one = name.trim_matches(around).replace(['.', ' '], "_");
    one.to_lowercase()
}

/// The part of a name before `[` or NUL.
fn stem(name: &str) -> &str {
    let end = name.find(['[', '\0']);
    end.and_then(|end| name.get(..end)).unwrap_or(name)
}

fn is_no_override(name: &str) -> Result<(), String> {
    match OVERRIDES.contains(&folded(stem(name)).as_str()) {
        true => Err(format!("field {name:?} can stand for another method")),
        false => Ok(()),
    }
}

fn is_by_itself<'a>(name: &str, mut others: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let sought = folded(name);
    let is_alike =
        |other: &&str| *other != name && (folded(other) == sought || folded(stem(other)) == sought);
    match others.find(is_alike) {
        Some(other) => Err(format!(
            "a rule looks at field {name:?}, and field {other:?} could be taken for it"
        )),
        None => Ok(()),
    }
}

/// Members of a JSON object, duplicates included.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}
