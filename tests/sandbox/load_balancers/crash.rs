//! The deliberate death of a manager: around one of its writes, to the cluster or to the cloud. Requests that it had
//! sent may still arrive; nothing else of it goes on. Knows neither cluster nor cloud.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ccm_core::safety::audit::{AuditRecord, AuditSink, Refused, Subject, Unrecordable};
use ccm_core::safety::permit::CloudRequest;
use tokio::sync::watch;

/// When the manager dies, relative to the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before the write is sent.
    Before,
    /// After it is sent: it may or may not arrive.
    Sent,
    /// After it is done; its answer is never read.
    After,
}

impl Moment {
    pub(crate) const ALL: [Moment; 3] = [Moment::Before, Moment::Sent, Moment::After];
}

/// The life of one manager. Clones are the same life.
#[derive(Clone)]
pub(crate) struct Life {
    shared: Arc<Shared>,
}

struct Shared {
    /// The number of its last write, from 1, and when it dies. `None`: it lives on.
    death: Option<(u64, Moment)>,
    writes: AtomicU64,
    ends_with_this_answer: AtomicBool,
    over: watch::Sender<bool>,
}

impl Life {
    pub(crate) fn new(death: Option<(u64, Moment)>) -> Life {
        let shared = Shared {
            death,
            writes: AtomicU64::new(0),
            ends_with_this_answer: AtomicBool::new(false),
            over: watch::Sender::new(false),
        };
        Life {
            shared: Arc::new(shared),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        *self.shared.over.borrow()
    }

    /// Waits for the death of the manager.
    pub(crate) async fn ended(&self) {
        let mut over = self.shared.over.subscribe();
        // The sender lives as long as `self`.
        let _ = over.wait_for(|is_over| *is_over).await;
    }

    /// Never returns if the manager is dead.
    pub(crate) async fn wait_if_over(&self) {
        if self.is_over() {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn end(&self) {
        self.shared.over.send_replace(true);
    }

    /// Counts a write; returns when the manager dies if this is its last one.
    pub(crate) fn write(&self) -> Option<Moment> {
        let number = self.shared.writes.fetch_add(1, Ordering::SeqCst) + 1;
        let (last, moment) = self.shared.death?;
        (number == last).then_some(moment)
    }
}

/// The sink stands where a request is written to the wire, below buffers and pools.
impl AuditSink for Life {
    fn before(&self, _: &Subject, _: &CloudRequest) -> Result<(), Unrecordable> {
        if self.is_over() {
            return Err(Unrecordable);
        }
        match self.write() {
            None => Ok(()),
            Some(Moment::Before) => {
                self.end();
                Err(Unrecordable)
            }
            Some(Moment::Sent) => {
                self.end();
                Ok(())
            }
            Some(Moment::After) => {
                let shared = &self.shared;
                shared.ends_with_this_answer.store(true, Ordering::SeqCst);
                Ok(())
            }
        }
    }

    fn after(&self, _: &AuditRecord) {
        if self.shared.ends_with_this_answer.load(Ordering::SeqCst) {
            self.end();
        }
    }

    fn refused(&self, _: &Refused<'_>) {}
}
