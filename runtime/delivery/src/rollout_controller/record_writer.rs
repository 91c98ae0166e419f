//! Writes the record in its own task, so that a swap or a roll-back never waits for the API server. A failed write is
//! retried with the latest record only; completed orders are removed in a second task.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::retry::Backoff;
use ccm_core::rollout::{Order, RolloutEvent};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use crate::record::{RecordStore, RecordStoreError, Report};

/// Backoff while the record cannot be written. One leader asks the API server for a handful of providers.
const AGAIN: Backoff = Backoff {
    first: Duration::from_millis(50),
    most: Duration::from_secs(30),
};
/// Attempts at removing an order or publishing an Event before the next note is handled.
const TRIES: u32 = 8;

enum Note {
    Clear(Order),
    Tell(RolloutEvent),
}

/// The report to write, and how often a rewrite of it was requested.
type PendingReport = Option<(Report, u64)>;

/// See the module's documentation. Dropping it ends the tasks.
pub(super) struct RecordWriter {
    page: watch::Sender<PendingReport>,
    notes: mpsc::UnboundedSender<Note>,
    times: u64,
    tasks: [AbortHandle; 2],
}

impl RecordWriter {
    /// Starts the tasks with nothing to write.
    pub(super) fn start(name: String, store_of_record: Arc<dyn RecordStore>) -> RecordWriter {
        let (page, pages) = watch::channel(None);
        let (notes, noted) = mpsc::unbounded_channel();
        let writer = tokio::spawn(write(name.clone(), store_of_record.clone(), pages));
        let notary = tokio::spawn(note(name, store_of_record, noted));
        RecordWriter {
            page,
            notes,
            times: 0,
            tasks: [writer.abort_handle(), notary.abort_handle()],
        }
    }

    /// Submits a report; does nothing if it is already pending or written.
    pub(super) fn writes(&self, report: Report) {
        let new = Some((report, self.times));
        self.page.send_if_modified(|page| {
            let is_new = *page != new;
            if is_new {
                *page = new;
            }
            is_new
        });
    }

    /// Forces a rewrite: the written record is gone or outdated.
    pub(super) fn writes_anew(&mut self) {
        self.times += 1;
    }

    /// Stops writing, because another process leads.
    pub(super) fn rests(&self) {
        self.page.send_replace(None);
    }

    /// Submits a completed order for removal.
    pub(super) fn clears(&self, order: Order) {
        // The receiving task lives as long as this value.
        let _ = self.notes.send(Note::Clear(order));
    }

    /// Submits an Event for publication.
    pub(super) fn tells(&self, event: RolloutEvent) {
        let _ = self.notes.send(Note::Tell(event));
    }
}

impl Drop for RecordWriter {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn write(
    name: String,
    store_of_record: Arc<dyn RecordStore>,
    mut pages: watch::Receiver<PendingReport>,
) {
    let mut failures = 0;
    let mut said = String::new();
    loop {
        let page = pages.borrow_and_update().clone();
        let mut again = None;
        if let Some((report, _)) = page {
            match store_of_record.write(&report).await {
                Ok(()) => {
                    failures = 0;
                    said.clear();
                }
                Err(error) => {
                    failures += 1;
                    again = Some(AGAIN.after(failures));
                    let text = error.to_string();
                    if error != RecordStoreError::NotLeader && text != said {
                        tracing::warn!(target: "rollout", provider = %name, error = %text, "the record cannot be written; trying again");
                        said = text;
                    }
                }
            }
        }
        let is_over = match again {
            // A newer report includes the failed one, but does not shorten the backoff.
            Some(delay) => {
                tokio::time::sleep(delay).await;
                false
            }
            None => pages.changed().await.is_err(),
        };
        if is_over {
            return;
        }
    }
}

async fn note(
    name: String,
    store_of_record: Arc<dyn RecordStore>,
    mut noted: mpsc::UnboundedReceiver<Note>,
) {
    let mut left = Vec::new();
    loop {
        let note = tokio::select! {
            note = noted.recv() => note,
            () = tokio::time::sleep(AGAIN.most), if !left.is_empty() => left.pop(),
        };
        let Some(note) = note else { return };
        if let Err(error) = carry_out(store_of_record.as_ref(), &note).await {
            tracing::warn!(target: "rollout", provider = %name, %error, "the result could not be recorded in an Event");
            // Only orders are retried: a late Event is of little value, but an annotation that stays in place could not
            // be used for another order.
            if matches!(note, Note::Clear(_)) {
                left.push(note);
            }
        }
    }
}

async fn carry_out(store_of_record: &dyn RecordStore, note: &Note) -> Result<(), RecordStoreError> {
    let mut failures = 0;
    loop {
        let done = match note {
            Note::Clear(order) => store_of_record.clear(order).await,
            Note::Tell(event) => store_of_record.record_event(event).await,
        };
        failures += 1;
        match done {
            Err(RecordStoreError::Unavailable(_) | RecordStoreError::NotLeader)
                if failures < TRIES =>
            {
                tokio::time::sleep(AGAIN.after(failures)).await;
            }
            done => return done,
        }
    }
}
