//! Keeps Events about nodes while an uninitialised node waits for a write, and writes them afterwards: what people read
//! never delays what pods wait for. Never changes what an Event says, nor the order in which Events are begun.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use ccm_core::cloud::CloudEvent;
use ccm_core::node::object::NodeRef;
use futures::stream::{self, StreamExt as _};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::events::{Events, about_node};

/// Maximum number of deferred Events, some 400 bytes each: as many as the largest cluster has nodes. Further ones are
/// written at once.
const MOST: usize = 15_000;
/// Maximum number of deferred Events on the wire: enough to keep an API server busy, few enough that a new node does
/// not wait behind them.
const MOST_AT_ONCE: usize = 8;

/// The nodes of one class (uninitialised or known) that wait for a write or are being written.
pub(crate) struct NodeWrites(watch::Sender<Writes>);

#[derive(Default)]
struct Writes {
    nodes: usize,
    /// Whether no further write may begin.
    is_closed: bool,
}

/// Counts one node until it is dropped.
pub(super) struct NodeWrite<'a>(&'a NodeWrites);

impl Default for NodeWrites {
    fn default() -> NodeWrites {
        NodeWrites(watch::Sender::new(Writes::default()))
    }
}

impl NodeWrites {
    /// Counts one more node.
    pub(super) fn begin(&self) -> NodeWrite<'_> {
        self.0
            .send_modify(|writes| writes.nodes = writes.nodes.saturating_add(1));
        NodeWrite(self)
    }

    /// Lets no further write begin, so that the Events about nodes that have been written are soon complete.
    fn close(&self) {
        self.0.send_modify(|writes| writes.is_closed = true);
    }

    /// Whether no further write may begin.
    pub(crate) fn are_closed(&self) -> bool {
        self.0.borrow().is_closed
    }

    /// Whether no node of this class waits or is being written.
    pub(super) fn are_none(&self) -> bool {
        self.0.borrow().nodes == 0
    }

    /// Completes when this is so.
    async fn wait_for(&self, is_so: impl FnMut(&Writes) -> bool) {
        // The sender is `self`, so that the channel cannot be closed.
        let _ = self.0.subscribe().wait_for(is_so).await;
    }
}

impl Drop for NodeWrite<'_> {
    fn drop(&mut self) {
        let writes = &self.0.0;
        writes.send_if_modified(|writes| {
            writes.nodes = writes.nodes.saturating_sub(1);
            writes.nodes == 0
        });
    }
}

/// An Event that waits to be written.
struct DeferredEvent {
    controller: &'static str,
    node: NodeRef,
    event: CloudEvent,
}

/// The Events that wait to be written.
#[derive(Default)]
pub(crate) struct DeferredEvents {
    state: Mutex<State>,
    /// Notified when an Event is added, and when one is written.
    changed: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<DeferredEvent>,
    /// Number of Events that are being written: taken from `waiting`, or never in it.
    under_way: usize,
}

/// Counts one Event that is being written, until it is dropped.
pub(super) struct Writing<'a>(&'a DeferredEvents);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.under_way = state.under_way.saturating_sub(1);
        drop(state);
        self.0.changed.notify_waiters();
    }
}

impl DeferredEvents {
    /// Adds an Event. `false`: there are too many, and it was not added.
    pub(super) fn add(&self, controller: &'static str, node: &NodeRef, event: &CloudEvent) -> bool {
        let mut state = self.state.lock();
        if state.waiting.len() >= MOST {
            return false;
        }
        state.waiting.push_back(DeferredEvent {
            controller,
            node: node.clone(),
            event: event.clone(),
        });
        drop(state);
        self.changed.notify_waiters();
        true
    }

    /// Writes the Events through `events` whenever `new_nodes` has none or is closed. Never ends.
    pub(crate) async fn write(&self, events: &Events, new_nodes: &NodeWrites) {
        stream::unfold((), |()| async {
            let next = self.next(new_nodes).await;
            Some((next, ()))
        })
        .for_each_concurrent(MOST_AT_ONCE, |(next, writing)| async move {
            let _until_written = writing;
            let about = about_node(&next.node, next.controller);
            // Failures are logged where they occur, and nothing depends on the outcome.
            let _ = events.record(next.controller, &about, &next.event).await;
        })
        .await;
    }

    /// Counts an Event that its reconciliation writes itself, or is about to add.
    pub(super) fn begin(&self) -> Writing<'_> {
        self.state.lock().under_way += 1;
        Writing(self)
    }

    async fn next(&self, new_nodes: &NodeWrites) -> (DeferredEvent, Writing<'_>) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if !self.is_empty() {
                let may_write = |writes: &Writes| writes.nodes == 0 || writes.is_closed;
                new_nodes.wait_for(may_write).await;
            }
            if let Some(next) = self.take() {
                return next;
            }
            changed.await;
        }
    }

    fn take(&self) -> Option<(DeferredEvent, Writing<'_>)> {
        let mut state = self.state.lock();
        let next = state.waiting.pop_front()?;
        state.under_way += 1;
        Some((next, Writing(self)))
    }

    /// Lets no further of these `writes` begin, and Events no longer wait for nodes. Completes when the writes on the
    /// wire are answered and all Events are written, or after `limit`; a log line counts those that are left.
    pub(crate) async fn finish(&self, writes: [&NodeWrites; 2], limit: Duration) {
        writes.iter().for_each(|writes| writes.close());
        let all = async {
            for writes in writes {
                writes.wait_for(|writes| writes.nodes == 0).await;
            }
            loop {
                let mut changed = pin!(self.changed.notified());
                changed.as_mut().enable();
                if self.is_empty() && self.state.lock().under_way == 0 {
                    return;
                }
                changed.await;
            }
        };
        if tokio::time::timeout(limit, all).await.is_err() {
            let state = self.state.lock();
            let lost = state.waiting.len().saturating_add(state.under_way);
            tracing::warn!(
                lost,
                ?limit,
                "nodes, or Events about them, were not written in time"
            );
        }
    }

    fn is_empty(&self) -> bool {
        self.state.lock().waiting.is_empty()
    }
}

#[cfg(test)]
mod tests;
