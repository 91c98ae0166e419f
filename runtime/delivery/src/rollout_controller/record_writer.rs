//! Writes the record in its own task, so that a swap or a roll-back never waits for the API server. A failed write is
//! retried with the latest record only. Completed orders are removed in a second task, after the record that says so is
//! written: until then a restart would undo them, and the next leader has to carry them out again.

use std::sync::Arc;
use std::time::Duration;

use ccm_core::reconciliation::retry::Backoff;
use ccm_core::rollout::{Order, RolloutEvent};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::record::{RecordStore, RecordStoreError, Report};

/// Backoff while the record cannot be written. One leader asks the API server for a handful of providers.
const AGAIN: Backoff = Backoff {
    first: Duration::from_millis(50),
    most: Duration::from_secs(30),
};
/// Attempts at removing an order or publishing an Event before the next one is handled.
const TRIES: u32 = 8;

enum Write {
    /// The order, and the rewrite that has to be done before.
    ClearOrder(Order, u64),
    RecordEvent(RolloutEvent),
}

/// The report to write, and how often a rewrite of it was requested.
type PendingReport = Option<(Report, u64)>;

/// Counts the records that are still to be written. Clones share the count.
#[derive(Clone, Default)]
pub struct UnwrittenRecords(Arc<Unwritten>);

#[derive(Default)]
struct Unwritten {
    count: watch::Sender<usize>,
    /// Changed to end the pauses after failed writes, also after one that is under way.
    at_once: watch::Sender<u64>,
}

impl UnwrittenRecords {
    /// Has failed writes tried again at once, and completes when no record is left to be written.
    pub async fn written(&self) {
        self.0.at_once.send_modify(|times| *times += 1);
        // The sender is `self`, so that the channel cannot be closed.
        let _ = self.0.count.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Counts one more record, until the returned value is dropped.
    pub fn add(&self) -> UnwrittenRecord {
        self.0.count.send_modify(|count| *count += 1);
        UnwrittenRecord(self.clone())
    }
}

/// Counts one record until it is dropped.
#[must_use]
pub struct UnwrittenRecord(UnwrittenRecords);

impl Drop for UnwrittenRecord {
    fn drop(&mut self) {
        let count = &self.0.0.count;
        count.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// The tasks that write one provider's record, and the latest report for them. Dropping it ends the tasks.
pub(super) struct RecordWriter {
    report: watch::Sender<PendingReport>,
    /// Counts the report until it is written.
    unwritten: Arc<Mutex<Option<UnwrittenRecord>>>,
    records: UnwrittenRecords,
    queue: mpsc::UnboundedSender<Write>,
    rewrites: u64,
    /// They end by a panic, if at all.
    pub(super) tasks: JoinSet<()>,
}

impl RecordWriter {
    /// Starts the tasks with nothing to write.
    pub(super) fn start(
        name: String,
        record_store: Arc<dyn RecordStore>,
        records: UnwrittenRecords,
    ) -> RecordWriter {
        let (report, reports) = watch::channel(None);
        let (queue, queued) = mpsc::unbounded_channel();
        let (done, rewritten) = watch::channel(0);
        let unwritten = Arc::default();
        let report_writer = ReportWriter {
            name: name.clone(),
            record_store: record_store.clone(),
            reports,
            rewritten: done,
            unwritten: Arc::clone(&unwritten),
            records: records.clone(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(report_writer.run());
        tasks.spawn(write_queued(name, record_store, queued, rewritten));
        RecordWriter {
            report,
            unwritten,
            records,
            queue,
            rewrites: 0,
            tasks,
        }
    }

    /// Submits a report; does nothing if it is already pending or written.
    pub(super) fn submit_report(&self, report: Report) {
        let new = Some((report, self.rewrites));
        let mut unwritten = self.unwritten.lock();
        let is_new = self.report.send_if_modified(|report| {
            let is_new = *report != new;
            if is_new {
                *report = new;
            }
            is_new
        });
        if is_new {
            unwritten.get_or_insert_with(|| self.records.add());
        }
    }

    /// Forces a rewrite: the written record is gone or outdated.
    pub(super) fn force_rewrite(&mut self) {
        self.rewrites += 1;
    }

    /// Stops writing, because another process leads.
    pub(super) fn stop_writing(&self) {
        self.report.send_replace(None);
        *self.unwritten.lock() = None;
    }

    /// Submits a completed order for removal, after the report that is submitted next is written.
    pub(super) fn clear_order(&mut self, order: Order) {
        // Also if the report is the one that was written last.
        self.force_rewrite();
        // The receiving task lives as long as this value.
        let _ = self.queue.send(Write::ClearOrder(order, self.rewrites));
    }

    /// Submits an Event for publication.
    pub(super) fn record_event(&self, event: RolloutEvent) {
        let _ = self.queue.send(Write::RecordEvent(event));
    }
}

/// The task that writes the latest report.
struct ReportWriter {
    name: String,
    record_store: Arc<dyn RecordStore>,
    reports: watch::Receiver<PendingReport>,
    rewritten: watch::Sender<u64>,
    unwritten: Arc<Mutex<Option<UnwrittenRecord>>>,
    records: UnwrittenRecords,
}

impl ReportWriter {
    async fn run(mut self) {
        let mut at_once = self.records.0.at_once.subscribe();
        let mut failures = 0;
        let mut last_error = String::new();
        loop {
            let report = self.reports.borrow_and_update().clone();
            let (mut again, mut show_again) = (None, None);
            if let Some((report, rewrites)) = report {
                match self.record_store.write(&report).await {
                    Ok(()) => {
                        self.rewritten.send_replace(rewrites);
                        self.count_as_written();
                        show_again = self.record_store.show_again();
                        failures = 0;
                        last_error.clear();
                    }
                    Err(error) => {
                        if matches!(error, RecordStoreError::Refused(_)) {
                            // A person has to act: nobody need wait for that.
                            self.count_as_written();
                        }
                        failures += 1;
                        again = Some(AGAIN.after(failures));
                        let text = error.to_string();
                        if error != RecordStoreError::NotLeader && text != last_error {
                            tracing::warn!(target: "rollout", provider = %self.name, error = %text, "the record cannot be written; trying again");
                            last_error = text;
                        }
                    }
                }
            }
            let is_over = match again {
                // A newer report includes the failed one, but does not shorten the backoff.
                Some(delay) => tokio::select! {
                    () = tokio::time::sleep(delay) => false,
                    _ = at_once.changed() => false,
                },
                None => tokio::select! {
                    changed = self.reports.changed() => changed.is_err(),
                    () = reached(show_again) => false,
                },
            };
            if is_over {
                return;
            }
        }
    }

    /// Counts the report no longer, unless there is a newer one.
    fn count_as_written(&self) {
        let mut unwritten = self.unwritten.lock();
        if !self.reports.has_changed().unwrap_or(false) {
            *unwritten = None;
        }
    }
}

/// Completes at this time; `None`: never.
async fn reached(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

async fn write_queued(
    name: String,
    record_store: Arc<dyn RecordStore>,
    mut queued: mpsc::UnboundedReceiver<Write>,
    mut rewritten: watch::Receiver<u64>,
) {
    let mut left = Vec::new();
    loop {
        let next = tokio::select! {
            next = queued.recv() => next.map(|next| vec![next]),
            done = rewritten.changed() => done.is_ok().then(|| std::mem::take(&mut left)),
            () = tokio::time::sleep(AGAIN.most), if !left.is_empty() => Some(std::mem::take(&mut left)),
        };
        let Some(writes) = next else { return };
        for write in writes {
            if matches!(write, Write::ClearOrder(_, after) if *rewritten.borrow() < after) {
                left.push(write);
                continue;
            }
            if let Err(error) = perform(record_store.as_ref(), &write).await {
                tracing::warn!(target: "rollout", provider = %name, %error, "the result could not be recorded in an Event");
                // Only orders are retried: a late Event is of little value, but an annotation that stays in place could
                // not be used for another order.
                if matches!(write, Write::ClearOrder(..)) {
                    left.push(write);
                }
            }
        }
    }
}

async fn perform(record_store: &dyn RecordStore, write: &Write) -> Result<(), RecordStoreError> {
    let mut failures = 0;
    loop {
        let done = match write {
            Write::ClearOrder(order, _) => record_store.clear(order).await,
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::record::{RecordFuture, StoredRecord};

    /// A store that can be read, and written to once it `is_up`. Until then a write fails, after five seconds if it `is_slow`,
    /// or is refused if it `refuses`. While it `keeps_orders` it refuses to remove one.
    #[derive(Default)]
    struct Stored {
        is_up: AtomicBool,
        is_slow: AtomicBool,
        refuses: AtomicBool,
        keeps_orders: AtomicBool,
        done: Mutex<Vec<String>>,
    }

    impl Stored {
        fn did(&self, what: impl Into<String>) -> RecordFuture<'_, ()> {
            self.done.lock().push(what.into());
            Box::pin(async { Ok(()) })
        }
    }

    impl RecordStore for Stored {
        fn seen(&self) -> watch::Receiver<StoredRecord> {
            watch::channel(StoredRecord::default()).1
        }

        fn read(&self) -> RecordFuture<'_, StoredRecord> {
            Box::pin(async { Ok(StoredRecord::default()) })
        }

        fn write<'a>(&'a self, report: &'a Report) -> RecordFuture<'a, ()> {
            if self.is_up.load(Ordering::Relaxed) {
                return self.did(&report.source);
            }
            if self.refuses.load(Ordering::Relaxed) {
                return Box::pin(async { Err(RecordStoreError::Refused("403".to_owned())) });
            }
            let time = u64::from(self.is_slow.load(Ordering::Relaxed)) * 5;
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(time)).await;
                Err(RecordStoreError::Unavailable("away".to_owned()))
            })
        }

        fn clear<'a>(&'a self, order: &'a Order) -> RecordFuture<'a, ()> {
            if self.keeps_orders.load(Ordering::Relaxed) {
                return Box::pin(async { Err(RecordStoreError::Refused("403".to_owned())) });
            }
            self.did(format!("{order:?}"))
        }

        fn record_event<'a>(&'a self, event: &'a RolloutEvent) -> RecordFuture<'a, ()> {
            self.did(event.reason)
        }
    }

    /// The report of this source.
    fn report(source: &str) -> Report {
        Report {
            source: source.to_owned(),
            ..Report::default()
        }
    }

    fn event() -> RolloutEvent {
        RolloutEvent {
            event_type: ccm_core::cloud::EventType::Normal,
            reason: "ProviderRolledBack",
            message: String::new(),
            release: None,
        }
    }

    /// The next leader would try a rejected version again.
    #[tokio::test(start_paused = true)]
    async fn what_was_decided_while_the_api_server_was_away_is_written_before_the_end() {
        let (store, records) = (Arc::new(Stored::default()), UnwrittenRecords::default());
        let writer = RecordWriter::start("cloud".to_owned(), store.clone(), records.clone());
        records.written().await;
        writer.submit_report(report("rejected"));
        // By then the next attempt is seconds away.
        tokio::time::sleep(Duration::from_secs(20)).await;
        store.is_up.store(true, Ordering::Relaxed);
        let written = tokio::time::timeout(Duration::from_secs(1), records.written());
        written.await.unwrap();
        assert_eq!(*store.done.lock(), ["rejected"]);
        writer.submit_report(report("rejected, too"));
        writer.stop_writing();
        records.written().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_fails_meanwhile_is_tried_again_at_once_as_well() {
        let (store, records) = (Arc::new(Stored::default()), UnwrittenRecords::default());
        let writer = RecordWriter::start("cloud".to_owned(), store.clone(), records.clone());
        writer.submit_report(report("rejected"));
        // The write that begins after 25.55 s fails after 30.55 s; the next one would follow after 25.6 s more.
        tokio::time::sleep(Duration::from_secs(25)).await;
        store.is_slow.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(2)).await;
        store.is_up.store(true, Ordering::Relaxed);
        let written = tokio::time::timeout(Duration::from_secs(5), records.written());
        written.await.unwrap();
        assert_eq!(*store.done.lock(), ["rejected"]);
    }

    /// Only a person can change that, and the Lease is given back before.
    #[tokio::test(start_paused = true)]
    async fn a_record_that_the_cluster_refuses_keeps_no_end_waiting() {
        let (store, records) = (Arc::new(Stored::default()), UnwrittenRecords::default());
        store.refuses.store(true, Ordering::Relaxed);
        let writer = RecordWriter::start("cloud".to_owned(), store, records.clone());
        writer.submit_report(report("rejected"));
        let written = tokio::time::timeout(Duration::from_secs(1), records.written());
        written.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_pauses_of_an_outage_make_those_of_the_next_one_no_longer() {
        let (store, records) = (Arc::new(Stored::default()), UnwrittenRecords::default());
        let writer = RecordWriter::start("cloud".to_owned(), store.clone(), records);
        writer.submit_report(report("first"));
        tokio::time::sleep(Duration::from_secs(120)).await;
        store.is_up.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(120)).await;
        store.is_up.store(false, Ordering::Relaxed);
        writer.submit_report(report("second"));
        tokio::time::sleep(Duration::from_millis(10)).await;
        store.is_up.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(*store.done.lock(), ["first", "second"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_stays_until_its_result_is_stored_so_that_the_next_leader_carries_it_out() {
        let store = Arc::new(Stored::default());
        let mut writer = RecordWriter::start(
            "cloud".to_owned(),
            store.clone(),
            UnwrittenRecords::default(),
        );
        let later = || tokio::time::sleep(Duration::from_secs(120));
        writer.submit_report(report("before"));
        later().await;
        writer.clear_order(Order::RollBack);
        writer.clear_order(Order::Retry("sha256:1".to_owned()));
        writer.record_event(event());
        writer.submit_report(report("after"));
        later().await;
        assert_eq!(*store.done.lock(), ["ProviderRolledBack"]);
        store.is_up.store(true, Ordering::Relaxed);
        later().await;
        let expected = [
            "ProviderRolledBack",
            "after",
            "RollBack",
            "Retry(\"sha256:1\")",
        ];
        assert_eq!(*store.done.lock(), expected);

        // An order that changes nothing in the record.
        writer.clear_order(Order::RollBack);
        writer.submit_report(report("after"));
        later().await;
        assert_eq!(store.done.lock()[4..], ["after", "RollBack"]);

        // An order that may not be removed yet.
        store.keeps_orders.store(true, Ordering::Relaxed);
        writer.clear_order(Order::RollBack);
        writer.submit_report(report("refused"));
        later().await;
        assert_eq!(store.done.lock()[6..], ["refused"]);
        store.keeps_orders.store(false, Ordering::Relaxed);
        later().await;
        assert_eq!(store.done.lock()[6..], ["refused", "RollBack"]);
    }
}
