//! The audit record of a request that a module attempted and that was not granted. Values only.
//!
//! No rule matches the request, so there is no pattern to record in place of the path; unlike the record of a change,
//! this one contains the egress layer's description, which holds no credential, no query and no body.

use serde_json::{Value, json};

use super::{Author, Leader, Subject, plain};

/// A request that matches no rule of the grant, or that is malformed. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt<'a> {
    /// The module that made the request.
    pub author: Author,
    /// The object that the call is about.
    pub subject: &'a Subject,
    /// The target as the module named it, safe to display.
    pub target: &'a str,
    /// The method as the module named it.
    pub method: &'a str,
    /// `denied`: not granted. `invalid`: malformed.
    pub outcome: &'static str,
    /// Why it was refused, human-readable.
    pub refusal: &'a str,
}

impl Attempt<'_> {
    /// The record as one JSON object, like [`super::AuditRecord::to_json`]. `unwritten` is the number of this
    /// provider's attempts that were not recorded since its last record.
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
