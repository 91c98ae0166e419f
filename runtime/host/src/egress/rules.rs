//! Rules of a target: which requests may be sent, and which of them change something.
//!
//! Pure functions over values. A rule has one path pattern, so it is no cross product of methods and paths: `DELETE` on
//! load balancers never allows `DELETE` on servers. A rule expands into [`Line`]s; grants are compared and missing ones
//! are reported as lines.

mod matching;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ccm_core::safety::permit::Access;
use http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::path::PathPattern;

pub use matching::{Absence, Asked, Line, first};

/// Methods that a rule can name. TRACE and CONNECT cannot be granted.
pub const METHODS: [Method; 7] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::OPTIONS,
];

/// Maximum fields of a rule in query and form each, lines of a rule, and bytes of a name or value: enough for AWS's
/// query protocols, where each rule lists the allowed actions, and little enough to be read.
const MAX_FIELDS: usize = 4;
const MAX_LINES: usize = 256;
const MAX_FIELD_BYTES: usize = 256;

/// A set of methods on one path pattern, optionally restricted to certain fields in the query or the form.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "RawRule", into = "RawRule")]
pub struct Rule {
    methods: Vec<Method>,
    path: PathPattern,
    query: BTreeMap<String, BTreeSet<String>>,
    form: BTreeMap<String, BTreeSet<String>>,
    access: Access,
    /// Proofs of absence. Set by a manifest only: the meaning of an answer is no right.
    absence: Vec<Absence>,
}

/// Rule as written in a manifest or in grants.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.access == 'write' || !self.methods.exists(m, m in ['PUT', 'PATCH', 'DELETE'])", "message": "PUT, PATCH and DELETE change something: their access is write"}
]))]
pub struct RawRule {
    /// Methods in upper case, at least one.
    #[schemars(length(min = 1, max = 7), extend("items" = {"type": "string", "enum": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]}))]
    pub methods: Vec<String>,
    /// Path pattern.
    #[schemars(length(min = 1, max = 1024))]
    pub path: String,
    /// Query fields: each has to occur exactly once, with one of the values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 4, "additionalProperties" = {"type": "array", "maxItems": 256, "items": {"type": "string", "maxLength": 256}}))]
    pub query: BTreeMap<String, BTreeSet<String>>,
    /// The same for a body of `application/x-www-form-urlencoded`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 4, "additionalProperties" = {"type": "array", "maxItems": 256, "items": {"type": "string", "maxLength": 256}}))]
    pub form: BTreeMap<String, BTreeSet<String>>,
    /// `read` or `write`.
    #[schemars(extend("enum" = ["read", "write"]))]
    pub access: String,
}

impl RawRule {
    /// Parses the rule.
    ///
    /// # Errors
    /// Every mistake in it.
    pub fn read(self) -> Result<Rule, Vec<String>> {
        let mut mistakes = Vec::new();
        let methods = methods(&self.methods, &mut mistakes);
        let path = PathPattern::parse(&self.path)
            .map_err(|mistake| mistakes.push(mistake))
            .ok();
        let access = match self.access.as_str() {
            "read" => Some(Access::Read),
            "write" => Some(Access::Write),
            other => {
                mistakes.push(format!("access {other:?}: expected read or write"));
                None
            }
        };
        let changing =
            |method: &&Method| [Method::PUT, Method::PATCH, Method::DELETE].contains(method);
        if let (Some(Access::Read), Some(method)) = (access, methods.iter().find(changing)) {
            mistakes.push(format!("{method} changes something: its access is write"));
        }
        let (query, form) = (self.query, self.form);
        check_fields("query", &query, &mut mistakes);
        check_fields("form", &form, &mut mistakes);
        if !form.is_empty()
            && methods
                .iter()
                .any(|method| [Method::GET, Method::HEAD].contains(method))
        {
            mistakes.push("GET and HEAD carry no form".to_owned());
        }
        if query.keys().any(|name| form.contains_key(name)) {
            mistakes.push("a field stands in the query or in the form, not in both".to_owned());
        }
        let widths = query.values().chain(form.values()).map(BTreeSet::len);
        if widths.fold(methods.len(), usize::saturating_mul) > MAX_LINES {
            mistakes.push(format!(
                "methods times values of fields are more than {MAX_LINES}"
            ));
        }
        match (path, access) {
            (Some(path), Some(access)) if mistakes.is_empty() => Ok(Rule {
                methods,
                path,
                query,
                form,
                access,
                absence: Vec::new(),
            }),
            _ => Err(mistakes),
        }
    }
}

fn methods(raw: &[String], mistakes: &mut Vec<String>) -> Vec<Method> {
    let mut methods = Vec::new();
    if raw.is_empty() {
        mistakes.push("methods: at least one".to_owned());
    }
    for name in raw {
        match METHODS.iter().find(|method| method.as_str() == name) {
            Some(method) if methods.contains(method) => {
                mistakes.push(format!("method {name} is there twice"))
            }
            Some(method) => methods.push(method.clone()),
            None => mistakes.push(format!(
                "method {name:?}: expected one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
            )),
        }
    }
    methods
}

fn check_fields(
    place: &str,
    fields: &BTreeMap<String, BTreeSet<String>>,
    mistakes: &mut Vec<String>,
) {
    if fields.len() > MAX_FIELDS {
        mistakes.push(format!("{place}: at most {MAX_FIELDS} fields"));
    }
    let is_text = |text: &str| {
        !text.is_empty() && text.len() <= MAX_FIELD_BYTES && !text.chars().any(char::is_control)
    };
    for (name, values) in fields {
        if !is_text(name) || values.is_empty() || !values.iter().all(|value| is_text(value)) {
            mistakes.push(format!("{place} field {name:?}: expected a name and a list of values, each 1 to {MAX_FIELD_BYTES} bytes"));
        }
    }
}

impl Rule {
    /// The same rule with these answers as proofs that the requested object does not exist.
    pub fn with_absence(self, absence: Vec<Absence>) -> Rule {
        Rule { absence, ..self }
    }

    /// Answers that prove, beside 404, that the requested object does not exist.
    pub fn absence(&self) -> &[Absence] {
        &self.absence
    }

    /// Expands the rule into lines, in the order in which it was written.
    pub fn lines(&self) -> Vec<Line> {
        let mut lines: Vec<Line> = self
            .methods
            .iter()
            .map(|method| Line {
                method: method.clone(),
                path: self.path.clone(),
                query: Vec::new(),
                form: Vec::new(),
                access: self.access,
                absence: self.absence.clone(),
            })
            .collect();
        let spread =
            |lines: Vec<Line>, values: &BTreeSet<String>, add: &dyn Fn(&mut Line, String)| {
                let mut wider = Vec::with_capacity(lines.len().saturating_mul(values.len()));
                for line in lines {
                    for value in values {
                        let mut line = line.clone();
                        add(&mut line, value.clone());
                        wider.push(line);
                    }
                }
                wider
            };
        for (name, values) in &self.query {
            lines = spread(lines, values, &|line, value| {
                line.query.push((name.clone(), value))
            });
        }
        for (name, values) in &self.form {
            lines = spread(lines, values, &|line, value| {
                line.form.push((name.clone(), value))
            });
        }
        lines
    }
}

impl TryFrom<RawRule> for Rule {
    type Error = String;

    fn try_from(raw: RawRule) -> Result<Rule, String> {
        raw.read().map_err(|mistakes| mistakes.join("; "))
    }
}

impl From<Rule> for RawRule {
    fn from(rule: Rule) -> RawRule {
        RawRule {
            methods: rule.methods.iter().map(Method::to_string).collect(),
            path: rule.path.as_str().to_owned(),
            query: rule.query,
            form: rule.form,
            access: word(rule.access).to_owned(),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let methods: Vec<_> = self.methods.iter().map(Method::as_str).collect();
        write!(formatter, "{} {}", methods.join(","), self.path)?;
        for (place, fields) in [("?", &self.query), ("form ", &self.form)] {
            for (name, values) in fields {
                let values: Vec<_> = values.iter().map(String::as_str).collect();
                write!(formatter, " {place}{name}={}", values.join("|"))?;
            }
        }
        write!(formatter, " ({})", word(self.access))
    }
}

fn word(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write",
    }
}

#[cfg(test)]
mod tests;
