//! One line of a grant, and the requests that it admits.
//!
//! Requested and granted rights are both compared as lines. Pure functions over values.

use std::fmt;

use ccm_core::safety::permit::Access;
use http::Method;
use serde::Deserialize;

use super::word;
use crate::egress::path::{CanonicalPath, PathPattern};

/// One line of a grant: one method, one path pattern, one value per field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Method of the requests.
    pub method: Method,
    /// Pattern of the paths, below the target's base path.
    pub path: PathPattern,
    /// Fields that must be in the query exactly once, with this value.
    pub query: Vec<(String, String)>,
    /// Fields that must be in the form exactly once, with this value.
    pub form: Vec<(String, String)>,
    /// Whether a request on this line changes anything.
    pub access: Access,
    /// Answers that prove, beside 404, that the requested object does not exist.
    pub absence: Vec<Absence>,
}

/// An answer by which a cloud says that the requested object does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Absence {
    /// Status of the answer.
    pub status: u16,
    /// Text that the body contains.
    pub contains: String,
}

impl Absence {
    /// Shortest text, in bytes. A shorter one would match by chance.
    const MIN_TEXT: usize = 4;
    /// Longest text, in bytes.
    const MAX_TEXT: usize = 256;
    /// Statuses that are about the request, its sender, a proxy or the moment, and never about an object.
    const NEVER: [u16; 12] = [401, 403, 404, 405, 407, 408, 423, 425, 429, 502, 503, 504];

    /// Checks status and text.
    ///
    /// # Errors
    /// A human-readable description of the mistake.
    pub fn check(&self) -> Result<(), String> {
        let Absence { status, contains } = self;
        if !(400..=599).contains(status) || Absence::NEVER.contains(status) {
            return Err(format!(
                "absence: status {status}: expected one of 400 to 599 that can say that an object is not there; 404 needs no entry"
            ));
        }
        let length = Absence::MIN_TEXT..=Absence::MAX_TEXT;
        if !length.contains(&contains.len()) || contains.chars().any(char::is_control) {
            return Err(format!(
                "absence: status {status}: contains: expected a text of {} to {} bytes that stands for absence alone",
                Absence::MIN_TEXT,
                Absence::MAX_TEXT
            ));
        }
        Ok(())
    }

    fn is(&self, status: u16, body: &[u8]) -> bool {
        let text = self.contains.as_bytes();
        self.status == status && memchr::memmem::find(body, text).is_some()
    }
}

/// The parts of a request that rules inspect.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Method of the request.
    pub method: &'a Method,
    /// Path as it will be sent.
    pub path: &'a CanonicalPath,
    /// Query as it will be sent.
    pub query: &'a [(String, String)],
    /// Fields of the body, if it is a form.
    pub form: Option<&'a [(String, String)]>,
}

impl Line {
    /// Whether the line admits this request.
    pub fn admits(&self, asked: &Asked<'_>) -> bool {
        let form = asked.form.unwrap_or_default();
        // A server that looks for a field in both places must not find another value in the other one.
        let elsewhere = |fields: &[(String, String)], other: &[(String, String)]| {
            fields
                .iter()
                .any(|(name, _)| other.iter().any(|(theirs, _)| theirs == name))
        };
        self.is_at(asked)
            && self.query.iter().all(|field| is_once(field, asked.query))
            && self.form.iter().all(|field| is_once(field, form))
            && !elsewhere(&self.query, form)
            && !elsewhere(&self.form, asked.query)
    }

    /// Whether method and path match the line, regardless of fields.
    pub fn is_at(&self, asked: &Asked<'_>) -> bool {
        *asked.method == self.method && self.path.matches(asked.path)
    }

    /// Path pattern and fields, as logs, metrics and audit records name a request: where a cloud has a single path, the
    /// path alone says nothing. The whole text comes from the rule, and none of it from the guest.
    pub fn label(&self) -> String {
        format!("{}{}", self.path, self.fields())
    }

    /// The fields of a label, each after a space; empty without any.
    pub fn fields(&self) -> String {
        let fields = self.query.iter().chain(&self.form);
        fields
            .map(|(name, value)| format!(" {name}={value}"))
            .collect()
    }

    /// Whether this answer proves that the requested object does not exist.
    pub fn proves_absence(&self, status: u16, body: &[u8]) -> bool {
        status == 404 && self.path.names_one_object()
            || self.absence.iter().any(|one| one.is(status, body))
    }

    /// Whether this line admits everything that `requested` admits, with sufficient access. A grant to read does not
    /// cover a request to write.
    pub fn covers(&self, requested: &Line) -> bool {
        let subset = |ours: &[(String, String)], theirs: &[(String, String)]| {
            ours.iter().all(|field| theirs.contains(field))
        };
        self.method == requested.method
            && self.path.covers(&requested.path)
            && subset(&self.query, &requested.query)
            && subset(&self.form, &requested.form)
            && (self.access == Access::Write || requested.access == Access::Read)
    }
}

/// First line that admits the request; lines keep the order of the grant.
pub fn first<'a>(lines: &'a [Line], asked: &Asked<'_>) -> Option<&'a Line> {
    lines.iter().find(|line| line.admits(asked))
}

fn is_once((name, value): &(String, String), given: &[(String, String)]) -> bool {
    let mut same = given.iter().filter(|(theirs, _)| theirs == name);
    same.next().is_some_and(|(_, theirs)| theirs == value) && same.next().is_none()
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.method, self.path)?;
        for (name, value) in &self.query {
            write!(formatter, " ?{name}={value}")?;
        }
        for (name, value) in &self.form {
            write!(formatter, " form {name}={value}")?;
        }
        write!(formatter, " ({})", word(self.access))
    }
}
