//! Writes the record in its own task, so that a swap or a roll-back never waits for the API server. A failed write is
//! retried with the latest record only; completed orders are removed in a second task.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::reconciliation::retry::Backoff;
use ccm_core::rollout::{Order, RolloutEvent};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use crate::record::{RecordStore, RecordStoreError, Report};

/// Backoff while the record cannot be written. One leader asks the API server for a handful of providers.
const AGAIN: Backoff = Backoff {
    first: Duration::from_millis(50),
    most: Duration::from_secs(30),
};
/// Attempts at removing an order or publishing an Event before the next one is handled.
const TRIES: u32 = 8;

enum Write {
    ClearOrder(Order),
    RecordEvent(RolloutEvent),
}

/// The report to write, and how often a rewrite of it was requested.
type PendingReport = Option<(Report, u64)>;

/// See the module's documentation. Dropping it ends the tasks.
pub(super) struct RecordWriter {
    report: watch::Sender<PendingReport>,
    queue: mpsc::UnboundedSender<Write>,
    rewrites: u64,
    tasks: [AbortHandle; 2],
}

impl RecordWriter {
    /// Starts the tasks with nothing to write.
    pub(super) fn start(name: String, record_store: Arc<dyn RecordStore>) -> RecordWriter {
        let (report, reports) = watch::channel(None);
        let (queue, queued) = mpsc::unbounded_channel();
        let report_writer =
            tokio::spawn(write_reports(name.clone(), record_store.clone(), reports));
        let queue_writer = tokio::spawn(write_queued(name, record_store, queued));
        RecordWriter {
            report,
            queue,
            rewrites: 0,
            tasks: [report_writer.abort_handle(), queue_writer.abort_handle()],
        }
    }

    /// Submits a report; does nothing if it is already pending or written.
    pub(super) fn submit_report(&self, report: Report) {
        let new = Some((report, self.rewrites));
        self.report.send_if_modified(|report| {
            let is_new = *report != new;
            if is_new {
                *report = new;
            }
            is_new
        });
    }

    /// Forces a rewrite: the written record is gone or outdated.
    pub(super) fn force_rewrite(&mut self) {
        self.rewrites += 1;
    }

    /// Stops writing, because another process leads.
    pub(super) fn stop_writing(&self) {
        self.report.send_replace(None);
    }

    /// Submits a completed order for removal.
    pub(super) fn clear_order(&self, order: Order) {
        // The receiving task lives as long as this value.
        let _ = self.queue.send(Write::ClearOrder(order));
    }

    /// Submits an Event for publication.
    pub(super) fn record_event(&self, event: RolloutEvent) {
        let _ = self.queue.send(Write::RecordEvent(event));
    }
}

impl Drop for RecordWriter {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn write_reports(
    name: String,
    record_store: Arc<dyn RecordStore>,
    mut reports: watch::Receiver<PendingReport>,
) {
    let mut failures = 0;
    let mut last_error = String::new();
    loop {
        let report = reports.borrow_and_update().clone();
        let mut again = None;
        if let Some((report, _)) = report {
            match record_store.write(&report).await {
                Ok(()) => {
                    failures = 0;
                    last_error.clear();
                }
                Err(error) => {
                    failures += 1;
                    again = Some(AGAIN.after(failures));
                    let text = error.to_string();
                    if error != RecordStoreError::NotLeader && text != last_error {
                        tracing::warn!(target: "rollout", provider = %name, error = %text, "the record cannot be written; trying again");
                        last_error = text;
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
            None => reports.changed().await.is_err(),
        };
        if is_over {
            return;
        }
    }
}

async fn write_queued(
    name: String,
    record_store: Arc<dyn RecordStore>,
    mut queued: mpsc::UnboundedReceiver<Write>,
) {
    let mut left = Vec::new();
    loop {
        let next = tokio::select! {
            next = queued.recv() => next,
            () = tokio::time::sleep(AGAIN.most), if !left.is_empty() => left.pop(),
        };
        let Some(write) = next else { return };
        if let Err(error) = perform(record_store.as_ref(), &write).await {
            tracing::warn!(target: "rollout", provider = %name, %error, "the result could not be recorded in an Event");
            // Only orders are retried: a late Event is of little value, but an annotation that stays in place could not
            // be used for another order.
            if matches!(write, Write::ClearOrder(_)) {
                left.push(write);
            }
        }
    }
}

async fn perform(record_store: &dyn RecordStore, write: &Write) -> Result<(), RecordStoreError> {
    let mut failures = 0;
    loop {
        let done = match write {
            Write::ClearOrder(order) => record_store.clear(order).await,
            Write::RecordEvent(event) => record_store.record_event(event).await,
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
