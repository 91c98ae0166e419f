//! Storage of a provider's record: in the cluster's object `Provider`, or in memory. Decides nothing; records read are
//! untrusted input.
//!
//! | Store | Record | Orders |
//! |---|---|---|
//! | [`ClusterRecordStore`] | the object's `status`, for every replica | the object's annotations |
//! | [`MemoryRecordStore`] | this process, and a file if there is a folder | set by the owner of the store |

mod annotations;
mod cluster;
mod conditions;
mod event;
mod memory;
pub mod status;
mod status_json;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;

use ccm_core::rollout::{Order, Orders, Record, RolloutEvent};
use ccm_host::CallLimits;
use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::Instant;

pub use cluster::{ClusterRecordStore, provider_resource};
pub use memory::MemoryRecordStore;

/// Stores the record of one provider.
pub trait RecordStore: Send + Sync {
    /// Subscribes to what was read last and to every later read.
    fn seen(&self) -> watch::Receiver<StoredRecord>;

    /// Reads the current record from the storage; a new leader starts from it.
    fn read(&self) -> RecordFuture<'_, StoredRecord>;

    /// Replaces the stored record and status by those of the report.
    fn write<'a>(&'a self, report: &'a Report) -> RecordFuture<'a, ()>;

    /// When the last report has to be written again although its write succeeded: it is not shown yet.
    fn show_again(&self) -> Option<Instant> {
        None
    }

    /// Removes a completed order.
    fn clear<'a>(&'a self, order: &'a Order) -> RecordFuture<'a, ()>;

    /// The record found in the cluster when storage moved there; returned once.
    fn inherited(&self) -> Option<Inherited> {
        None
    }

    /// Publishes an Event for people. Best effort.
    fn record_event<'a>(&'a self, event: &'a RolloutEvent) -> RecordFuture<'a, ()>;
}

/// Future of one operation of a record store.
pub type RecordFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, RecordStoreError>> + Send + 'a>>;

/// Result of reading a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredRecord {
    /// Nothing was read yet; the text says why.
    Unknown(String),
    /// The state that was read.
    Known {
        /// `None`: no record was ever written.
        record: Option<Box<Record>>,
        /// Orders given by people.
        orders: Orders,
    },
}

impl Default for StoredRecord {
    fn default() -> StoredRecord {
        StoredRecord::Unknown("it was not read yet".to_owned())
    }
}

/// The record found in the cluster when storage moved there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inherited {
    /// The record.
    pub record: Box<Record>,
    /// Whether it takes the place of this process's own, which began without any. Otherwise only its rejections and
    /// approvals count.
    pub prevails: bool,
}

/// A record and additional status that only people read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The record that replicas act on.
    pub record: Record,
    /// The configured location of the module.
    pub source: String,
    /// Error of the source; empty if there is none.
    pub source_trouble: String,
    /// Whether a version answers calls in the process that writes.
    pub is_serving: bool,
    /// The version that answers calls, for people, if it is another one than the recorded active version.
    pub stands_in: Option<String>,
    /// Limits of the serving version.
    pub limits: Option<Limits>,
    /// Why the version that serves cannot do its work, such as a credential that the cloud refuses; empty if it can.
    pub impairment: String,
    /// Whether the spec of the provider's object is used.
    pub specification: Specification,
    /// Whether the status is for people only, because the module is part of the program. Set by the store.
    pub is_informational: bool,
    /// The recorded versions that stay in the object while the status is for people only: replicas have obeyed them, and
    /// will again. Set by the store.
    pub kept: Option<Record>,
}

impl Report {
    /// Whether no version serves, and a trouble is recorded.
    fn is_unserved(&self) -> bool {
        !self.is_serving && !self.record.trouble.is_empty()
    }
}

/// Whether replicas act otherwise on `stored` than on `record`. Both count in the form in which records are stored, which
/// shortens texts; what only people read does not count.
pub(crate) fn acts_otherwise(record: &Record, stored: &Record) -> bool {
    let acted_on = |record: &Record| {
        let status = serde_json::to_value(status_json::write(record)).unwrap_or_default();
        Record {
            trial: None,
            trouble: String::new(),
            ..status_json::read(&status)
        }
    };
    acted_on(record) != acted_on(stored)
}

/// Whether the `spec` of a provider's object is used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Specification {
    /// The generation of the spec that was read last. `None`: objects are not read, or this one has no spec.
    pub generation: Option<i64>,
    /// The object's UID: an object that was created again with the same spec has to be written to, too.
    pub uid: Option<String>,
    /// Why the spec is not used; `None` if it is used.
    pub refusal: Option<SpecRefusal>,
    /// Whether the provider exists because of its object: then the object is not created again once it was deleted.
    pub is_source: bool,
}

impl Specification {
    /// Whether the spec was read: the file does not override it, and it is within the number of specs that are read.
    pub fn is_read(&self) -> bool {
        let refusal = self.refusal.as_ref();
        self.is_source && refusal.is_none_or(|refusal| refusal.reason != RefusalReason::TooMany)
    }

    /// Why the provider does not do what its spec says although the spec has no mistake; empty: it does, or the edit has one.
    pub(crate) fn trouble(&self) -> &str {
        match &self.refusal {
            Some(SpecRefusal {
                reason: RefusalReason::Conflict | RefusalReason::NotApplied,
                message,
            }) => message,
            Some(_) | None => "",
        }
    }
}

/// Why a spec is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecRefusal {
    /// Reason of the condition `Accepted`.
    pub reason: RefusalReason,
    /// Message of the condition, for people.
    pub message: String,
}

ccm_core::named_enum! {
    /// The reason of the condition `Accepted` of a spec that is not used.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum RefusalReason {
        /// The spec has mistakes, which the message lists.
        InvalidSpec = "InvalidSpec",
        /// The spec names a Secret of another namespace than the flags allow.
        SecretNotAllowed = "SecretNotAllowed",
        /// The provider cannot run beside the providers that were accepted before it.
        Conflict = "Conflict",
        /// Too many older objects have a spec, so that this one is not read.
        TooMany = "TooMany",
        /// The spec is valid, but the provider cannot be created now.
        NotApplied = "NotApplied",
        /// The file of `--config` has a provider of this name.
        OverriddenByFile = "OverriddenByFile",
    }
}

/// Effective limits of the serving version, from the operator's limits, its manifest and the leader's machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Limits of one call.
    #[serde(flatten)]
    pub call: CallLimits,
    /// Memory of all concurrent calls together, including what the host holds for them but not the copies of nodes that
    /// they are about, in MiB. `None`: the available memory is unknown.
    #[serde(rename = "memoryShareMiB")]
    pub memory_share_mib: Option<u32>,
}

/// Why a read or write failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordStoreError {
    /// This process does not lead, or is losing the lead.
    #[error("only the leader writes")]
    NotLeader,
    /// Temporary failure, with its reason.
    #[error("{0}")]
    Unavailable(String),
    /// Permanent failure, with its reason: retrying does not help until the cause is removed.
    #[error("{0}")]
    Refused(String),
}
