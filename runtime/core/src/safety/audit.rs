//! Audit records of every change at a cloud and every deletion of a node: author, object, reason and result. Values
//! only; the writer adds the time and the leader.
//!
//! A record never contains a body, a query, a header value or a whole path: the path is the pattern of the rule that
//! admitted the request. A SHA-256 of the request identifies it in a cloud's or proxy's log, and shows whether two
//! requests were equal, without a copy of their contents.

mod attempt;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use thiserror::Error;

use crate::moment::Moment;
use crate::reconciliation::effect::{ClusterError, ObjectKind};
use crate::safety::brake::{Brake, BudgetLevel};
use crate::safety::permit::{CloudRequest, Refusal};

pub use attempt::Attempt;

/// Maximum number of characters of a text in a record. The longest object name has 253.
const MOST_CHARACTERS: usize = 512;

/// The object that a change is for, and the reason for the change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subject {
    /// The object's kind; `None` when the call is about no single object.
    pub kind: Option<ObjectKind>,
    /// `metadata.namespace`, if the kind is namespaced.
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
            Some(namespace) => write!(f, "{}/{namespace}/{}", self.kind(), self.name),
            None => write!(f, "{}/{}", self.kind(), self.name),
        }
    }
}

/// The deciding provider and its module.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Author {
    /// The provider's name, such as `hcloud`.
    pub provider: String,
    /// `sha256:…` of its module; empty when there is no module.
    pub digest: String,
}

/// The change that a record is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// One request that may have changed something at the cloud.
    CloudMutation {
        /// HTTP method, upper case.
        method: String,
        /// Host name, with the port unless it is the scheme's default.
        host: String,
        /// The path pattern of the rule that admitted it.
        path: String,
        /// SHA-256 of method, URL and body, in lower-case hexadecimal digits.
        sha256: String,
    },
    /// A Node object was deleted from the cluster.
    NodeDeletion,
}

impl Act {
    /// The change that this request may make.
    pub fn of(request: &CloudRequest) -> Act {
        Act::CloudMutation {
            method: request.method.clone(),
            host: request.host.clone(),
            path: request.template.clone(),
            sha256: request.sha256.clone(),
        }
    }
}

/// Result of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The cloud or the API server answered with this status.
    Answered {
        /// HTTP status code of the answer.
        status: u16,
        /// The cloud's request ID, sanitised; `None` if the answer has none.
        request_id: Option<String>,
    },
    /// Done; for changes whose status is not visible here.
    Done,
    /// Refused: `not-found`, `conflict`, `rejected` or `denied`; for changes whose status is not visible here.
    Refused(&'static str),
    /// No complete answer. Whether it was done is unknown.
    Unknown,
}

/// A brake's budget after the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrakeState {
    /// The brake that the change is charged to.
    pub brake: Brake,
    /// How much of its budget is taken.
    pub level: BudgetLevel,
}

/// One record of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// The deciding provider and its module.
    pub author: Author,
    /// The object and the reason.
    pub subject: Subject,
    /// The change that was made or attempted.
    pub act: Act,
    /// How the change ended.
    pub end: End,
    /// Time from just before sending to the end; `None` when the end was not awaited.
    pub took: Option<Duration>,
    /// The budget that it was taken from, if there is one.
    pub brake: Option<BrakeState>,
}

/// Holder of the lease when the record was written, and number of lease transitions.
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

/// A request that a permit refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused<'a> {
    /// The object that the call is about.
    pub subject: &'a Subject,
    /// The request, which is not sent.
    pub request: &'a CloudRequest,
    /// Why it was refused.
    pub refusal: Refusal,
    /// The provider's last log line in this call: its own description of the change.
    pub log_line: Option<&'a str>,
}

/// Notified before and after every change at a cloud and every deletion of a node. An implementation writes records;
/// tests also inject crashes here, before or after the k-th change.
pub trait AuditSink: Send + Sync {
    /// The request about this object is about to be sent. Exactly one record follows if this succeeds.
    ///
    /// # Errors
    /// The record could not be written, so that the request must not be sent.
    fn before(&self, subject: &Subject, request: &CloudRequest) -> Result<(), Unrecordable>;

    /// The request or the deletion ended, or its end is not awaited any more.
    fn after(&self, record: &AuditRecord);

    /// The request is not sent. In plan mode the first refusal for an object goes into the plan.
    fn refused(&self, refused: &Refused<'_>);

    /// A module requested what it is not granted. It may do so any number of times, so not every attempt has to be
    /// written.
    fn attempted(&self, attempt: &Attempt<'_>) {
        let _ = attempt;
    }

    /// A node is about to be deleted, on this provider's answers. Exactly one record follows if this succeeds.
    ///
    /// # Errors
    /// The record could not be written, so that the node must not be deleted.
    fn before_deletion(&self, author: &Author, subject: &Subject) -> Result<(), Unrecordable> {
        let _ = (author, subject);
        Ok(())
    }
}

impl fmt::Debug for dyn AuditSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditSink")
    }
}

/// Ignores everything: for calls that change nothing, such as a self-check, and for programs without an audit log.
#[derive(Debug, Clone, Copy)]
pub struct NoAudit;

impl AuditSink for NoAudit {
    fn before(&self, _: &Subject, _: &CloudRequest) -> Result<(), Unrecordable> {
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
    /// The kind's name, empty without a kind.
    fn kind(&self) -> &'static str {
        self.kind.map_or("", ObjectKind::as_str)
    }

    fn to_json(&self) -> Value {
        json!({
            "kind": self.kind(),
            "namespace": self.namespace.as_deref().map(plain),
            "name": plain(&self.name),
            "uid": plain(&self.uid),
        })
    }
}

impl AuditRecord {
    /// The record as one JSON object. Serialised, it is one line whatever its texts contain: JSON escapes line ends.
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
        let brake = self.brake.map(|BrakeState { brake, level }| {
            json!({
                "name": brake.as_str(),
                "taken": level.taken,
                "left": level.allowed.saturating_sub(level.taken),
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

/// A node deletion in progress. Recorded on drop, hence also when its end is not awaited.
pub struct Deletion {
    sink: Arc<dyn AuditSink>,
    began: Moment,
    record: AuditRecord,
}

impl Deletion {
    /// Must be called immediately before the request is sent.
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
        sink.before_deletion(&author, &subject)?;
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

    /// Takes the API server's answer, or its absence. `None`: the object did not exist any more.
    pub fn ended(mut self, now: Moment, result: &Result<Option<()>, ClusterError>) {
        self.record.took = Some(self.began.until(now));
        self.record.end = match result {
            Ok(Some(())) => End::Done,
            Ok(None) => End::Refused("not-found"),
            Err(ClusterError::Conflict(_)) => End::Refused("conflict"),
            Err(ClusterError::Rejected(_)) => End::Refused("rejected"),
            Err(ClusterError::Denied(_)) => End::Refused("denied"),
            Err(ClusterError::Busy { .. }) => End::Refused("busy"),
            Err(ClusterError::Unavailable(_)) => End::Unknown,
        };
    }
}

impl Drop for Deletion {
    fn drop(&mut self) {
        self.sink.after(&self.record);
    }
}

/// Replaces control characters and truncates. Names come from tenants, reasons from clouds.
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

/// A cloud's request ID, truncated, with unusual characters replaced: the cloud chose it, and it must be searchable.
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
