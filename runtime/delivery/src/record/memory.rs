//! A record in memory, and in a file where there is a folder: what is rejected stays rejected after a restart, also in
//! a cluster that does not know the kind `Provider`.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ccm_core::rollout::{Order, Orders, Record, RolloutEvent};
use serde_json::Value;
use tokio::sync::watch;

use super::{RecordStore, RecordStoreError, Report, Seen, Told, status_json};

/// The largest file that is read: a hundred times what a full record takes.
const MOST_BYTES: u64 = 8 << 20;

/// See the module's documentation.
pub struct MemoryRecordStore {
    file: Option<PathBuf>,
    seen: watch::Sender<Seen>,
}

impl Default for MemoryRecordStore {
    fn default() -> MemoryRecordStore {
        MemoryRecordStore::new()
    }
}

impl MemoryRecordStore {
    /// A book that is forgotten with the process.
    pub fn new() -> MemoryRecordStore {
        MemoryRecordStore::with(None, None)
    }

    /// The book of the provider `name` in this folder. What cannot be read is nothing that was ever written; the log
    /// says so.
    pub fn kept_in(folder: &Path, name: &str) -> MemoryRecordStore {
        let file = folder.join(format!("{name}.record.json"));
        let record = load(&file).unwrap_or_else(|error| {
            tracing::warn!(target: "rollout", provider = name, file = %file.display(), %error, "the record cannot be read; it begins anew");
            None
        });
        MemoryRecordStore::with(Some(file), record)
    }

    fn with(file: Option<PathBuf>, record: Option<Record>) -> MemoryRecordStore {
        let seen = Seen::Known {
            record: record.map(Box::new),
            orders: Orders::default(),
        };
        MemoryRecordStore {
            file,
            seen: watch::Sender::new(seen),
        }
    }

    /// Orders, of whoever holds the book.
    pub fn order(&self, new: Orders) {
        self.seen.send_if_modified(|seen| match seen {
            Seen::Known { orders, .. } if *orders != new => {
                *orders = new;
                true
            }
            _ => false,
        });
    }

    /// Whoever sees it can rely on the file, unless that cannot be written: then this process goes by it all the same.
    fn keep(&self, new: &Record) -> std::io::Result<()> {
        let kept = match &self.file {
            Some(file) => save(file, new),
            None => Ok(()),
        };
        self.seen.send_if_modified(|seen| match seen {
            Seen::Known { record, .. } if record.as_deref() != Some(new) => {
                *record = Some(Box::new(new.clone()));
                true
            }
            _ => false,
        });
        kept
    }
}

impl RecordStore for MemoryRecordStore {
    fn seen(&self) -> watch::Receiver<Seen> {
        self.seen.subscribe()
    }

    fn read(&self) -> Told<'_, Seen> {
        let seen = self.seen.borrow().clone();
        Box::pin(async move { Ok(seen) })
    }

    /// The file is small and local: written where we stand.
    fn write<'a>(&'a self, report: &'a Report) -> Told<'a, ()> {
        Box::pin(async move {
            self.keep(&report.record).map_err(|error| {
                RecordStoreError::Unavailable(format!("the record cannot be kept: {error}"))
            })
        })
    }

    fn clear<'a>(&'a self, order: &'a Order) -> Told<'a, ()> {
        self.seen.send_if_modified(|seen| {
            let Seen::Known { orders, .. } = seen else {
                return false;
            };
            match order {
                Order::RollBack => std::mem::take(&mut orders.roll_back),
                Order::Retry(digest) => orders.retry.take_if(|it| it == digest).is_some(),
            }
        });
        Box::pin(async { Ok(()) })
    }

    /// The log has it.
    fn tell<'a>(&'a self, _: &'a RolloutEvent) -> Told<'a, ()> {
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

/// Whole or not at all: beside it first, then in its place.
fn save(file: &Path, record: &Record) -> std::io::Result<()> {
    let beside = file.with_extension("json.new");
    let mut open = std::fs::OpenOptions::new();
    let mut new = open
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)?;
    new.write_all(
        Value::Object(status_json::write(record))
            .to_string()
            .as_bytes(),
    )?;
    new.sync_all()?;
    std::fs::rename(&beside, file)
}
