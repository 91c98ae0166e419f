//! Where a provider's record is kept: in the object `Provider` of the cluster, or in memory. Decides nothing; what is
//! read is somebody else's word and is read as such.
//!
//! | Book | Record | Orders |
//! |---|---|---|
//! | [`ClusterRecordStore`] | the object's `status`, for every replica | the object's annotations |
//! | [`MemoryRecordStore`] | this process, and a file if there is a folder | whoever holds the book |

mod annotations;
mod cluster;
mod conditions;
mod event;
mod memory;
mod status_json;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;

use ccm_core::rollout::{Order, Orders, Record, RolloutEvent};
use ccm_host::CallLimits;
use serde::Serialize;
use thiserror::Error;
use tokio::sync::watch;

pub use cluster::ClusterRecordStore;
pub use memory::MemoryRecordStore;

/// The record of one provider.
pub trait RecordStore: Send + Sync {
    /// What was read last, and whatever is read from now on.
    fn seen(&self) -> watch::Receiver<Seen>;

    /// Reads what is written down at this moment: whoever begins to lead builds on it.
    fn read(&self) -> Told<'_, Seen>;

    /// Writes it down.
    fn write<'a>(&'a self, report: &'a Report) -> Told<'a, ()>;

    /// Takes an order away that is done.
    fn clear<'a>(&'a self, order: &'a Order) -> Told<'a, ()>;

    /// What stood where the record is kept from now on, once it was read there. Told once.
    fn inherited(&self) -> Option<Box<Record>> {
        None
    }

    /// Tells people. Best effort.
    fn tell<'a>(&'a self, event: &'a RolloutEvent) -> Told<'a, ()>;
}

/// The future of one turn of a page.
pub type Told<'a, T> = Pin<Box<dyn Future<Output = Result<T, RecordStoreError>> + Send + 'a>>;

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// Nothing yet, for this reason.
    Unknown(String),
    /// This.
    Known {
        /// `None`: nothing was ever written down.
        record: Option<Box<Record>>,
        /// What people order.
        orders: Orders,
    },
}

impl Default for Seen {
    fn default() -> Seen {
        Seen::Unknown("it was not read yet".to_owned())
    }
}

/// What is written down, and what only people are interested in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// What replicas go by.
    pub record: Record,
    /// The configured place of the module.
    pub source: String,
    /// What is wrong with it; empty: nothing.
    pub source_trouble: String,
    /// Whether a version answers calls in the process that writes.
    pub is_serving: bool,
    /// What that version may use.
    pub limits: Option<Limits>,
}

/// What the version that serves may use, by the operator's limits, its manifest and the machine of the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// One call.
    #[serde(flatten)]
    pub call: CallLimits,
    /// All calls under way together, what the host holds for them included, in MiB. `None`: nothing says how much memory
    /// there is.
    #[serde(rename = "memoryShareMiB")]
    pub memory_share_mib: Option<u32>,
}

/// Why nothing was written or read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordStoreError {
    /// This process does not lead, or stops to.
    #[error("only the leader writes")]
    NotLeader,
    /// Not now.
    #[error("{0}")]
    Unavailable(String),
    /// Not like this: what is wrong has to be changed by somebody.
    #[error("{0}")]
    Refused(String),
}
