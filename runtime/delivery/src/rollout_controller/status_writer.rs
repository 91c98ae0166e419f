//! Writes down what was decided, in a task of its own: a swap or a roll-back never waits for the API server. What could
//! not be written is written later, the latest only; orders that are done are taken away in their turn.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::retry::Backoff;
use ccm_core::rollout::{Order, RolloutEvent};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use crate::record::{RecordStore, RecordStoreError, Report};

/// While the record cannot be written. The API server is asked by one leader for a handful of providers.
const AGAIN: Backoff = Backoff {
    first: Duration::from_millis(50),
    most: Duration::from_secs(30),
};
/// How often an order is taken away or an Event told before something else has its turn.
const TRIES: u32 = 8;

enum Note {
    Clear(Order),
    Tell(RolloutEvent),
}

/// What has to be written, and how often somebody wanted it written again.
type PendingReport = Option<(Report, u64)>;

/// See the module's documentation. The tasks end with it.
pub(super) struct StatusWriter {
    page: watch::Sender<PendingReport>,
    notes: mpsc::UnboundedSender<Note>,
    times: u64,
    tasks: [AbortHandle; 2],
}

impl StatusWriter {
    /// Nothing is to be written yet.
    pub(super) fn start(name: String, store_of_record: Arc<dyn RecordStore>) -> StatusWriter {
        let (page, pages) = watch::channel(None);
        let (notes, noted) = mpsc::unbounded_channel();
        let writer = tokio::spawn(write(name.clone(), store_of_record.clone(), pages));
        let notary = tokio::spawn(note(name, store_of_record, noted));
        StatusWriter {
            page,
            notes,
            times: 0,
            tasks: [writer.abort_handle(), notary.abort_handle()],
        }
    }

    /// This is to be written.
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

    /// What was written is not there any more.
    pub(super) fn writes_anew(&mut self) {
        self.times += 1;
    }

    /// Nothing is to be written: somebody else leads.
    pub(super) fn rests(&self) {
        self.page.send_replace(None);
    }

    /// This order is done.
    pub(super) fn clears(&self, order: Order) {
        // The task ends with us only.
        let _ = self.notes.send(Note::Clear(order));
    }

    /// People should hear of it.
    pub(super) fn tells(&self, event: RolloutEvent) {
        let _ = self.notes.send(Note::Tell(event));
    }
}

impl Drop for StatusWriter {
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
            // A newer page has the older one's news in it, but is no reason to hurry.
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
            tracing::warn!(target: "rollout", provider = %name, %error, "what was done could not be told");
            // An Event is worth less the older it is; an order that stays would never be heard again.
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
            Note::Tell(event) => store_of_record.tell(event).await,
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
