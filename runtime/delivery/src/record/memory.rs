//! Record store in memory, optionally backed by a file: rejected versions stay rejected after a restart, also in a
//! cluster that does not know the kind `Provider`.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ccm_core::rollout::{Order, Orders, Record, RolloutEvent};
use ccm_host::Digest;
use serde_json::Value;
use tokio::sync::watch;

use super::{RecordFuture, RecordStore, RecordStoreError, Report, StoredRecord, status_json};

/// Largest file that is read, in bytes: a hundred times the size of a full record.
const MOST_BYTES: u64 = 8 << 20;
/// Extension of the file that replaces the one of a record.
const NEW: &str = "json.new";

/// The record of one provider, and the file that backs it.
pub struct MemoryRecordStore {
    file: Option<PathBuf>,
    seen: watch::Sender<StoredRecord>,
}

impl Default for MemoryRecordStore {
    fn default() -> MemoryRecordStore {
        MemoryRecordStore::new()
    }
}

impl MemoryRecordStore {
    /// Creates a store without a file: the record is lost with the process.
    pub fn new() -> MemoryRecordStore {
        MemoryRecordStore::with(None, None)
    }

    /// Creates the store of the provider `name` in this folder. An unreadable file counts as absent and is logged.
    pub fn kept_in(folder: &Path, name: &str) -> MemoryRecordStore {
        let [file, _] = MemoryRecordStore::files(folder, name);
        let record = load(&file).unwrap_or_else(|error| {
            tracing::warn!(target: "rollout", provider = name, file = %file.display(), %error, "the record cannot be read; a new one is begun");
            None
        });
        MemoryRecordStore::with(Some(file), record)
    }

    /// The files of the provider `name` in this folder: its record, and what an interrupted write left of the next one.
    pub(crate) fn files(folder: &Path, name: &str) -> [PathBuf; 2] {
        let file = folder.join(format!("{name}.record.json"));
        let new = file.with_extension(NEW);
        [file, new]
    }

    /// Forgets the versions of other bytes, and that these were rejected: nothing else may serve. What else was rejected, and
    /// what was approved, stays.
    pub fn with_only(self, digest: &Digest) -> MemoryRecordStore {
        let digest = digest.to_string();
        self.seen.send_modify(|seen| {
            if let StoredRecord::Known {
                record: Some(record),
                ..
            } = seen
            {
                record.active.take_if(|it| it.release.digest != digest);
                record.previous.take_if(|it| it.digest != digest);
                record.trial.take_if(|it| it.release.digest != digest);
                record.rejected.retain(|it| it.digest != digest);
            }
        });
        self
    }

    fn with(file: Option<PathBuf>, record: Option<Record>) -> MemoryRecordStore {
        let seen = StoredRecord::Known {
            record: record.map(Box::new),
            orders: Orders::default(),
        };
        MemoryRecordStore {
            file,
            seen: watch::Sender::new(seen),
        }
    }

    /// Forgets the record, and removes its files: it is stored elsewhere from now on.
    pub(super) fn forget(&self) {
        if let Some(file) = &self.file {
            for path in [file, &file.with_extension(NEW)] {
                // A file that cannot be removed now is tried again the next time.
                let _ = std::fs::remove_file(path);
            }
        }
        self.seen.send_if_modified(|seen| match seen {
            StoredRecord::Known { record, .. } => record.take().is_some(),
            StoredRecord::Unknown(_) => false,
        });
    }

    /// Whether nothing is stored.
    pub(super) fn is_empty(&self) -> bool {
        matches!(
            *self.seen.borrow(),
            StoredRecord::Known { record: None, .. }
        )
    }

    /// Sets the orders; called by the owner of the store.
    pub fn order(&self, new: Orders) {
        self.seen.send_if_modified(|seen| match seen {
            StoredRecord::Known { orders, .. } if *orders != new => {
                *orders = new;
                true
            }
            _ => false,
        });
    }

    /// Saves the record before publishing it. If the file cannot be written, the record still applies in this process.
    fn keep(&self, new: &Record) -> std::io::Result<()> {
        let kept = match &self.file {
            Some(file) => save(file, new),
            None => Ok(()),
        };
        self.seen.send_if_modified(|seen| match seen {
            StoredRecord::Known { record, .. } if record.as_deref() != Some(new) => {
                *record = Some(Box::new(new.clone()));
                true
            }
            _ => false,
        });
        kept
    }
}

impl RecordStore for MemoryRecordStore {
    fn seen(&self) -> watch::Receiver<StoredRecord> {
        self.seen.subscribe()
    }

    fn read(&self) -> RecordFuture<'_, StoredRecord> {
        let seen = self.seen.borrow().clone();
        Box::pin(async move { Ok(seen) })
    }

    /// Writes synchronously: the file is small and local.
    fn write<'a>(&'a self, report: &'a Report) -> RecordFuture<'a, ()> {
        Box::pin(async move {
            self.keep(&report.record).map_err(|error| {
                RecordStoreError::Unavailable(format!("the record cannot be kept: {error}"))
            })
        })
    }

    fn clear<'a>(&'a self, order: &'a Order) -> RecordFuture<'a, ()> {
        self.seen.send_if_modified(|seen| {
            let StoredRecord::Known { orders, .. } = seen else {
                return false;
            };
            match order {
                Order::RollBack => std::mem::take(&mut orders.roll_back),
                Order::Retry(digest) => orders.retry.take_if(|it| it == digest).is_some(),
            }
        });
        Box::pin(async { Ok(()) })
    }

    /// Does nothing: the log already contains the event.
    fn record_event<'a>(&'a self, _: &'a RolloutEvent) -> RecordFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}

fn load(file: &Path) -> std::io::Result<Option<Record>> {
    let size = match std::fs::metadata(file) {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        Ok(_) => return Err(std::io::Error::other("not a regular file")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if size > MOST_BYTES {
        return Err(std::io::Error::other("too large"));
    }
    let value: Value = serde_json::from_slice(&std::fs::read(file)?)?;
    Ok(Some(status_json::read(&value)))
}

/// Writes atomically, also if the machine loses power: to a temporary file, which then replaces the old one.
fn save(file: &Path, record: &Record) -> std::io::Result<()> {
    let beside = file.with_extension(NEW);
    let mut open = std::fs::OpenOptions::new();
    let mut new = open
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)?;
    new.write_all(&serde_json::to_vec(&status_json::write(record))?)?;
    new.sync_all()?;
    std::fs::rename(&beside, file)?;
    let folder = file.parent().filter(|folder| *folder != Path::new(""));
    std::fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
