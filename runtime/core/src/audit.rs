//! Every change at a cloud and every deletion of a node, as one record that is written down: by whom, for what,
//! why, and how it ended. Values only; whoever writes them adds the time and the leader.
//!
//! A record never holds a body, a query, a header's value or a whole path: the path is the pattern of the rule that
//! let the request through. What was sent is there as a SHA-256, by which one request can be found again in a cloud's or
//! a proxy's log, and two can be seen to be the same, without a copy of what they said.

mod attempt;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use thiserror::Error;

use crate::brake::{Brake, BudgetLevel};
use crate::effect::{ClusterError, Outcome};
use crate::moment::Moment;
use crate::permit::{CloudRequest, Refusal};

pub use attempt::Attempt;

/// Texts in a record are cut after so many characters. The longest name of an object has 253.
const MOST_CHARACTERS: usize = 512;

/// The object that a change is for, and the decision that led to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subject {
    /// `node`, `service`; empty when the call is about no single object.
    pub kind: &'static str,
    /// `metadata.namespace`, if the kind has namespaces.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// Why: the difference that was found, or the decision; for people.
    pub reason: String,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{}/{namespace}/{}", self.kind, self.name),
            None => write!(f, "{}/{}", self.kind, self.name),
        }
    }
}

/// Which module of which provider decided.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Author {
    /// The provider's name.
    pub provider: String,
    /// `sha256:…` of its module; empty when there is no module.
    pub digest: String,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// One request that may have changed something at the cloud.
    CloudMutation {
        /// Upper case.
        method: String,
        /// Name, and port unless it is the scheme's own.
        host: String,
        /// The path pattern of the rule that admitted it.
        path: String,
        /// Of the whole request, in lower-case hexadecimal digits.
        sha256: String,
    },
    /// A Node object was deleted from the cluster.
    NodeDeletion,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The cloud, or the API server, answered with this status.
    Answered {
        /// The HTTP status.
        status: u16,
        /// What the cloud calls the request.
        request_id: Option<String>,
    },
    /// It was done; for acts whose status nobody sees.
    Done,
    /// It was refused; for acts whose status nobody sees. The text is a fixed word.
    Refused(&'static str),
    /// There is no complete answer. Whether it was done is not known.
    Unknown,
}

/// How full a brake's budget was after the act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrakeState {
    /// Which brake.
    pub brake: Brake,
    /// How full.
    pub standing: BudgetLevel,
}

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// Which module decided.
    pub author: Author,
    /// For which object, and why.
    pub subject: Subject,
    /// What was done.
    pub act: Act,
    /// How it ended.
    pub end: End,
    /// From the moment before it was sent to its end; `None` when nobody waited for the end.
    pub took: Option<Duration>,
    /// The budget that it was taken from, if there is one.
    pub brake: Option<BrakeState>,
}

/// Who held the lease when the record was written, and how often it had changed hands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leader {
    /// `spec.holderIdentity`; empty without leader election.
    pub identity: String,
    /// `spec.leaseTransitions`.
    pub transitions: u64,
}

/// The change cannot be recorded, and therefore must not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the audit log cannot be written")]
pub struct Unrecordable;

/// Something that a permit did not let through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused<'a> {
    /// What the call is about.
    pub subject: &'a Subject,
    /// What was to be sent.
    pub request: &'a CloudRequest,
    /// Why it was not.
    pub refusal: Refusal,
    /// What the provider logged last in this call: its own words for what it was about to do.
    pub said: Option<&'a str>,
}

/// Told about every change at a cloud, before and after it, and about every deletion of a node. An implementation
/// writes records; tests also crash here, before or after the k-th change.
pub trait AuditSink: Send + Sync {
    /// The request is about to be written to the wire. Exactly one record follows when this succeeds.
    ///
    /// # Errors
    /// The record could not be written, so that the request must not be sent.
    fn before(&self, request: &CloudRequest) -> Result<(), Unrecordable>;

    /// It ended, or nobody waits for its end any more.
    fn after(&self, record: &AuditRecord);

    /// It was not sent. In plan mode the first refusal of an object is what the plan reports.
    fn refused(&self, refused: &Refused<'_>);

    /// A module asked for what it is not granted. It may do so as often as it likes; so not each one has to be written.
    fn attempted(&self, attempt: &Attempt<'_>) {
        let _ = attempt;
    }

    /// A node is about to be deleted. One [`AuditSink::deleted`] follows when this succeeds.
    ///
    /// # Errors
    /// The record could not be written, so that the node must not be deleted.
    fn before_deletion(&self, subject: &Subject) -> Result<(), Unrecordable> {
        let _ = subject;
        Ok(())
    }

    /// The deletion of a node has ended.
    fn deleted(&self, record: &AuditRecord) {
        let _ = record;
    }
}

impl fmt::Debug for dyn AuditSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditSink")
    }
}

/// Hears nothing: for calls that change nothing, such as a self-check, and for programs without an audit log.
#[derive(Debug, Clone, Copy)]
pub struct NoAudit;

impl AuditSink for NoAudit {
    fn before(&self, _: &CloudRequest) -> Result<(), Unrecordable> {
        Ok(())
    }

    fn after(&self, _: &AuditRecord) {}

    fn refused(&self, _: &Refused<'_>) {}
}

impl Leader {
    fn to_json(&self) -> Value {
        json!({ "identity": plain(&self.identity), "transitions": self.transitions })
    }
}

impl Author {
    fn to_json(&self) -> Value {
        json!({ "name": plain(&self.provider), "digest": plain(&self.digest) })
    }
}

impl Subject {
    fn to_json(&self) -> Value {
        json!({
            "kind": self.kind,
            "namespace": self.namespace.as_deref().map(plain),
            "name": plain(&self.name),
            "uid": plain(&self.uid),
        })
    }
}

impl AuditRecord {
    /// The record as one JSON object. Serialised, it is one line whatever its texts hold: JSON escapes line ends.
    pub fn to_json(&self, time: &str, leader: &Leader) -> Value {
        let (kind, method, host, path, sha256) = match &self.act {
            Act::CloudMutation {
                method,
                host,
                path,
                sha256,
            } => (
                "cloud-mutation",
                method.as_str(),
                Some(host.as_str()),
                path.as_str(),
                Some(sha256.as_str()),
            ),
            Act::NodeDeletion => (
                "node-deletion",
                "DELETE",
                None,
                "/api/v1/nodes/{name}",
                None,
            ),
        };
        let (outcome, status, request_id) = match &self.end {
            End::Answered { status, request_id } => {
                ("answered", Some(*status), request_id.as_deref())
            }
            End::Done => ("done", None, None),
            End::Refused(word) => (*word, None, None),
            End::Unknown => ("unknown", None, None),
        };
        let brake = self.brake.map(|BrakeState { brake, standing }| {
            json!({
                "name": brake.as_str(),
                "taken": standing.taken,
                "left": standing.allowed.saturating_sub(standing.taken),
            })
        });
        json!({
            "time": time,
            "kind": kind,
            "leader": leader.to_json(),
            "provider": self.author.to_json(),
            "object": self.subject.to_json(),
            "reason": plain(&self.subject.reason),
            "method": plain(method),
            "host": host.map(plain),
            "path": plain(path),
            "sha256": sha256,
            "outcome": outcome,
            "status": status,
            "requestId": request_id.and_then(sanitised),
            "ms": self.took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
            "brake": brake,
        })
    }
}

/// The deletion of a node under way. Recorded when it ends, also when nobody waits for it any more.
pub struct Deletion {
    sink: Arc<dyn AuditSink>,
    began: Moment,
    record: AuditRecord,
}

impl Deletion {
    /// To be called immediately before the request is sent.
    ///
    /// # Errors
    /// It could not be recorded, so that the node must not be deleted.
    pub fn begin(
        sink: Arc<dyn AuditSink>,
        author: Author,
        subject: Subject,
        brake: Option<BrakeState>,
        now: Moment,
    ) -> Result<Deletion, Unrecordable> {
        sink.before_deletion(&subject)?;
        Ok(Deletion {
            sink,
            began: now,
            record: AuditRecord {
                author,
                subject,
                act: Act::NodeDeletion,
                end: End::Unknown,
                took: None,
                brake,
            },
        })
    }

    /// The API server's answer is here, or will not come.
    pub fn ended(mut self, now: Moment, outcome: &Outcome) {
        self.record.took = Some(self.began.until(now));
        self.record.end = match outcome {
            Outcome::Deleted => End::Done,
            Outcome::Node(Ok(None)) => End::Refused("not-found"),
            Outcome::Node(Err(ClusterError::Conflict(_))) => End::Refused("conflict"),
            Outcome::Node(Err(ClusterError::Rejected(_))) => End::Refused("rejected"),
            Outcome::Node(Err(ClusterError::Denied(_))) => End::Refused("denied"),
            _ => End::Unknown,
        };
    }
}

impl Drop for Deletion {
    fn drop(&mut self) {
        self.sink.deleted(&self.record);
    }
}

/// A text without control characters, and not too long. Names come from tenants, reasons from clouds.
fn plain(text: &str) -> String {
    let visible = |letter: char| {
        if letter.is_control() {
            '\u{fffd}'
        } else {
            letter
        }
    };
    text.chars().map(visible).take(MOST_CHARACTERS).collect()
}

/// What a cloud calls a request, if it looks like a name: the cloud chose it, and it is to be searched for.
pub fn sanitised(request_id: &str) -> Option<String> {
    const MOST: usize = 128;
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.:/=+".contains(letter);
    let name: String = request_id
        .chars()
        .take(MOST)
        .map(|letter| if is_name(letter) { letter } else { '?' })
        .collect();
    Some(name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests;
