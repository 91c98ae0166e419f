//! What a module tried and was not granted, as one record. Values only.
//!
//! Its path has no rule whose pattern could be written instead; so, unlike the record of a change, this one has what the
//! egress says of it. That holds no credential, no query and no body.

use serde_json::{Value, json};

use super::{Author, Leader, Subject, plain};

/// A request that no rule of the grant lets through, or that is none. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt<'a> {
    /// Which module asked.
    pub author: Author,
    /// What the call is about.
    pub subject: &'a Subject,
    /// The target as the module named it, fit to be shown.
    pub target: &'a str,
    /// The method as the module named it.
    pub method: &'a str,
    /// `denied`: it is not granted. `invalid`: it is not a request.
    pub outcome: &'static str,
    /// Why, for people.
    pub refusal: &'a str,
}

impl Attempt<'_> {
    /// The record as one JSON object, like [`super::AuditRecord::to_json`]. `unwritten` says how many of this provider had no
    /// record since the last one that has.
    pub fn to_json(&self, time: &str, leader: &Leader, unwritten: u64) -> Value {
        json!({
            "time": time,
            "kind": "refused",
            "leader": leader.to_json(),
            "provider": self.author.to_json(),
            "object": self.subject.to_json(),
            "reason": plain(&self.subject.reason),
            "target": plain(self.target),
            "method": plain(self.method),
            "outcome": self.outcome,
            "refusal": plain(self.refusal),
            "unwritten": unwritten,
        })
    }
}
