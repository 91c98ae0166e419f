//! Writes the audit log: one line of JSON for each change at the cloud, each deletion of a node and a sample of a
//! module's refused attempts, with the time and the leader. To a file, to standard output, or to the ordinary log, in
//! the form that the log has.
//!
//! A change is not made if its record cannot be written. When a disk fills up, records of changes already on the wire
//! may not be writable: they are kept in memory, written first when there is room again, and no other changes are made
//! until then. Changes on the wire when the process ends are recorded as `unknown` beforehand; when it is killed, they
//! have no record.
//!
//! Lines are written to the kernel one by one and not synced to the disk: a killed process loses no written line, a
//! machine that loses power may. The file is opened for each line, so that it can be moved away at any time.

mod log_line;
mod refusals;

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use ccm_core::safety::audit::{
    Act, Attempt, AuditRecord, AuditSink, Author, End, Leader, Refused, Subject, Unrecordable,
};
use ccm_core::safety::permit::CloudRequest;
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;

use crate::flags::AuditLog;
use refusals::Refusals;

/// Only the operator may read the records.
const FILE_MODE: u32 = 0o600;

/// A writer of records that name this leader. All writers derived from one another share the output.
#[derive(Clone)]
pub(crate) struct AuditWriter {
    lines: Arc<Lines>,
    leader: Leader,
}

/// The output, the lines that wait for it, and the changes under way.
struct Lines {
    place: AuditLog,
    waiting: Mutex<Waiting>,
    /// Locked before `waiting`.
    under_way: Mutex<UnderWay>,
    refusals: Mutex<Refusals>,
}

/// Changes that were announced and have not ended.
enum UnderWay {
    /// Each with its record if it does not end, and its leader.
    Changes(Vec<(AuditRecord, Leader)>),
    /// The process is about to end: every change has its record, and no other begins.
    Over,
}

/// Lines that could not be written yet.
#[derive(Default)]
struct Waiting {
    lines: VecDeque<Value>,
    /// Whether the output currently ends with an incomplete line.
    is_torn: bool,
    is_failing: bool,
}

impl AuditWriter {
    /// Opens a writer for a process without leader election.
    ///
    /// # Errors
    /// The file cannot be written; nothing has been changed yet.
    pub(crate) fn open(place: &AuditLog) -> anyhow::Result<AuditWriter> {
        if let AuditLog::File(path) = place {
            // Opening a FIFO would block until it has a reader.
            if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
                bail!("the audit log {} is not a regular file", path.display());
            }
            append(path)
                .with_context(|| format!("cannot write the audit log {}", path.display()))?;
        }
        Ok(AuditWriter {
            lines: Arc::new(Lines {
                place: place.clone(),
                waiting: Mutex::default(),
                under_way: Mutex::new(UnderWay::Changes(Vec::new())),
                refusals: Mutex::default(),
            }),
            leader: Leader::default(),
        })
    }

    /// A writer to the same output for changes made under a lease: its holder, and its number of transitions.
    pub(crate) fn led_by(&self, identity: &str, transitions: u64) -> AuditWriter {
        AuditWriter {
            lines: self.lines.clone(),
            leader: Leader {
                identity: identity.to_owned(),
                transitions,
            },
        }
    }

    /// Records the changes under way as `unknown`, because the process is about to end. No others begin.
    pub(crate) fn end(&self) {
        let mut under_way = self.lines.under_way.lock();
        if let UnderWay::Changes(changes) = std::mem::replace(&mut *under_way, UnderWay::Over) {
            for (record, leader) in changes {
                self.lines.write(&record, &leader);
            }
        }
    }

    fn begin(&self, author: &Author, subject: &Subject, act: Act) -> Result<(), Unrecordable> {
        let mut under_way = self.lines.under_way.lock();
        let UnderWay::Changes(changes) = &mut *under_way else {
            return Err(Unrecordable);
        };
        self.lines.ready()?;
        let record = AuditRecord {
            author: author.clone(),
            subject: subject.clone(),
            act,
            end: End::Unknown,
            took: None,
            brake: None,
        };
        changes.push((record, self.leader.clone()));
        Ok(())
    }

    fn write(&self, record: &AuditRecord) {
        // Held until the line is written, so that the process does not end in between.
        let mut under_way = self.lines.under_way.lock();
        let UnderWay::Changes(changes) = &mut *under_way else {
            return;
        };
        let is_it = |(begun, _): &(AuditRecord, Leader)| {
            (&begun.author, &begun.subject, &begun.act)
                == (&record.author, &record.subject, &record.act)
        };
        if let Some(index) = changes.iter().position(is_it) {
            changes.remove(index);
        }
        self.lines.write(record, &self.leader);
    }
}

impl Lines {
    fn write(&self, record: &AuditRecord, leader: &Leader) {
        let time = format!("{:.3}", Timestamp::now());
        self.add(record.to_json(&time, leader));
    }

    fn add(&self, line: Value) {
        let mut waiting = self.waiting.lock();
        waiting.lines.push_back(line);
        self.flush(&mut waiting);
    }

    /// Whether the next record can be written, as far as can be known in advance.
    fn ready(&self) -> Result<(), Unrecordable> {
        let mut waiting = self.waiting.lock();
        self.flush(&mut waiting);
        let result = match &self.place {
            _ if !waiting.lines.is_empty() => return Err(Unrecordable),
            AuditLog::File(path) => append(path).map(drop),
            AuditLog::Log | AuditLog::Stdout => Ok(()),
        };
        log_transition(&mut waiting, &result);
        result.map_err(|_| Unrecordable)
    }

    /// Writes waiting lines, oldest first, until one fails.
    fn flush(&self, waiting: &mut Waiting) {
        while let Some(line) = waiting.lines.front() {
            let is_torn = &mut waiting.is_torn;
            let result = match &self.place {
                AuditLog::Log => {
                    log_line::write(line);
                    Ok(())
                }
                AuditLog::Stdout => put(&mut io::stdout().lock(), &line.to_string(), is_torn),
                AuditLog::File(path) => {
                    append(path).and_then(|mut file| put(&mut file, &line.to_string(), is_torn))
                }
            };
            let has_failed = result.is_err();
            log_transition(waiting, &result);
            if has_failed {
                return;
            }
            waiting.lines.pop_front();
        }
    }
}

/// Logs once when writes start to fail, and once when they succeed again.
fn log_transition(waiting: &mut Waiting, result: &io::Result<()>) {
    match result {
        Err(error) if !waiting.is_failing => {
            tracing::error!(%error, "the audit log cannot be written: nothing is changed at the cloud and no node is deleted until it can");
        }
        Ok(()) if waiting.is_failing => tracing::info!("the audit log is written again"),
        Ok(()) | Err(_) => {}
    }
    waiting.is_failing = result.is_err();
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(FILE_MODE)
        .open(path)
}

/// Writes a whole line, or returns an error. After an incomplete line it starts a new one.
fn put(out: &mut impl Write, line: &str, is_torn: &mut bool) -> io::Result<()> {
    let begin = if *is_torn { "\n" } else { "" };
    let text = format!("{begin}{line}\n");
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match out.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                *is_torn = true;
                rest = rest.get(written..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    out.flush()?;
    *is_torn = false;
    Ok(())
}

impl AuditSink for AuditWriter {
    fn before(&self, subject: &Subject, request: &CloudRequest) -> Result<(), Unrecordable> {
        self.begin(&request.author, subject, Act::of(request))
    }

    fn after(&self, record: &AuditRecord) {
        self.write(record);
    }

    /// A refusal is no change, and the egress has already logged it: only a debug log line.
    fn refused(&self, refused: &Refused<'_>) {
        let Refused {
            subject,
            request,
            refusal,
            ..
        } = refused;
        tracing::debug!(target: "audit", object = %subject, method = request.method, path = request.template, %refusal, "not sent");
    }

    /// Writes the record at once or drops it: a module can cause any number of them, so none is kept in memory.
    fn attempted(&self, attempt: &Attempt<'_>) {
        let mut refusals = self.lines.refusals.lock();
        let Some(unwritten) = refusals.next(&attempt.author.provider, Instant::now()) else {
            return;
        };
        if self.lines.ready().is_err() {
            return refusals.lost(&attempt.author.provider, unwritten);
        }
        let time = format!("{:.3}", Timestamp::now());
        self.lines
            .add(attempt.to_json(&time, &self.leader, unwritten));
    }

    fn before_deletion(&self, author: &Author, subject: &Subject) -> Result<(), Unrecordable> {
        self.begin(author, subject, Act::NodeDeletion)
    }
}

#[cfg(test)]
mod tests;
