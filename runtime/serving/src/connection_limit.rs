//! Limits the number of open connections: evicts the one that has waited longest when a new one would be too many. And
//! limits their requests: evicts the connection with the most. Knows nothing of TLS or HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

/// Maximum number of open connections. Probes and scrapers need a handful; a slow one costs some 35 KiB, so that all of
/// them stay below 16 MiB.
pub(crate) const MOST: usize = 400;
/// Maximum number of requests of all connections together: those without an answer so far, and those whose answer is in
/// memory. More than connections, so that the one with the most has several of them.
pub(crate) const MOST_REQUESTS: usize = 2 * MOST;

/// The open connections. When there are too many, the one is closed that has waited longest: for its client to send a
/// request, to send the next one, or to read the answer. So a new client that asks is answered, whatever the others do.
/// A connection whose request is being worked on is closed only if all are, or if it has the most when there are too many
/// requests: HTTP/2 has hundreds on one connection.
#[derive(Clone, Default)]
pub(crate) struct Slots(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    /// The number of the newest connection.
    newest: u64,
    connections: BTreeMap<u64, Connection>,
}

struct Connection {
    /// Requests without an answer so far.
    working: usize,
    /// Answers that its client has not taken yet.
    unread: usize,
    /// When it was opened, last sent a request or last got an answer.
    since: Instant,
    /// `None` until the connection's task is spawned.
    task: Option<AbortHandle>,
}

/// The place of one connection; it is free again when this is dropped.
pub(crate) struct Slot {
    slots: Slots,
    number: u64,
}

/// A request that is being worked on; dropped with the answer, or when the client has gone.
pub(crate) struct Working<'a>(&'a Slot);

/// An answer in memory; dropped when it is sent, or when the client has gone.
pub(crate) struct Unread {
    slots: Slots,
    number: u64,
}

impl Slots {
    /// A place for a new connection; if there is none, that of another connection.
    pub(crate) fn take(&self) -> Slot {
        let mut open = self.0.lock();
        if open.connections.len() >= MOST {
            let ranks = open.connections.iter();
            let first = ranks.min_by_key(|(_, one)| (one.working > 0, one.since));
            if let Some(number) = first.map(|(number, _)| *number) {
                open.close(number);
            }
        }
        open.newest += 1;
        let number = open.newest;
        let connection = Connection {
            working: 0,
            unread: 0,
            since: Instant::now(),
            task: None,
        };
        open.connections.insert(number, connection);
        Slot {
            slots: self.clone(),
            number,
        }
    }

    /// Sets the task that is aborted when this connection loses its place.
    pub(crate) fn runs(&self, number: u64, task: AbortHandle) {
        if let Some(connection) = self.0.lock().connections.get_mut(&number) {
            connection.task = Some(task);
        }
    }

    /// Makes room for one more request, at the expense of the connection with the most.
    fn make_room(&self) {
        let mut open = self.0.lock();
        let requests = open.connections.values().map(Connection::requests);
        if requests.sum::<usize>() < MOST_REQUESTS {
            return;
        }
        let ranks = open.connections.iter();
        let first = ranks.max_by_key(|(_, one)| one.requests());
        if let Some(number) = first.map(|(number, _)| *number) {
            open.close(number);
        }
    }
}

impl Open {
    /// Closes a connection, with all of its requests.
    fn close(&mut self, number: u64) {
        let gone = self.connections.remove(&number);
        if let Some(task) = gone.and_then(|connection| connection.task) {
            task.abort();
        }
    }
}

impl Connection {
    fn requests(&self) -> usize {
        self.working + self.unread
    }
}

impl Slot {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Records that the connection has sent a complete request; it waits again when the result is dropped.
    pub(crate) fn works(&self) -> Working<'_> {
        self.slots.make_room();
        self.count(|working| working + 1);
        Working(self)
    }

    /// Records an answer that is in memory until the result is dropped.
    pub(crate) fn answers(&self) -> Unread {
        if let Some(connection) = self.slots.0.lock().connections.get_mut(&self.number) {
            connection.unread += 1;
        }
        Unread {
            slots: self.slots.clone(),
            number: self.number,
        }
    }

    /// Completes when the connection has waited for this long.
    pub(crate) async fn waits(&self, limit: Duration) {
        loop {
            let until = match self.slots.0.lock().connections.get(&self.number) {
                None => return,
                Some(connection) if connection.working > 0 => Instant::now() + limit,
                Some(connection) => connection.since + limit,
            };
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }

    fn count(&self, change: impl FnOnce(usize) -> usize) {
        if let Some(connection) = self.slots.0.lock().connections.get_mut(&self.number) {
            connection.working = change(connection.working);
            connection.since = Instant::now();
        }
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.count(|working| working.saturating_sub(1));
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        if let Some(connection) = self.slots.0.lock().connections.get_mut(&self.number) {
            connection.unread = connection.unread.saturating_sub(1);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.0.lock().connections.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::future::pending;

    use super::*;

    /// Data of a connection that lasts until its place is taken.
    struct Lasting {
        slot: Slot,
        task: tokio::task::JoinHandle<()>,
    }

    impl Lasting {
        async fn open(slots: &Slots) -> Lasting {
            tokio::time::advance(Duration::from_millis(1)).await;
            let slot = slots.take();
            let task = tokio::spawn(pending());
            slots.runs(slot.number(), task.abort_handle());
            Lasting { slot, task }
        }

        async fn is_gone(&self) -> bool {
            tokio::task::yield_now().await;
            self.task.is_finished()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_has_waited_longest_gives_way() {
        let slots = Slots::default();
        let mut all = Vec::new();
        for _ in 0..MOST {
            all.push(Lasting::open(&slots).await);
        }
        // The first has sent a request since then, and the second's is being worked on.
        tokio::time::advance(Duration::from_millis(1)).await;
        drop(all[0].slot.works());
        let working = all[1].slot.works();
        let newcomer = Lasting::open(&slots).await;
        assert!(all[2].is_gone().await, "the third has waited longest");
        assert!(!all[0].is_gone().await && !all[1].is_gone().await);
        for connection in &all[3..] {
            drop(connection.slot.works());
        }
        drop(newcomer.slot.works());
        let _next = Lasting::open(&slots).await;
        assert!(all[0].is_gone().await, "it has waited longest by now");
        assert!(!all[1].is_gone().await);
        drop(working);
    }

    #[tokio::test(start_paused = true)]
    async fn a_newcomer_has_a_place_though_all_are_worked_on() {
        let slots = Slots::default();
        let mut all = Vec::new();
        for _ in 0..MOST {
            all.push(Lasting::open(&slots).await);
        }
        let working: Vec<_> = all.iter().map(|one| one.slot.works()).collect();
        let _newcomer = Lasting::open(&slots).await;
        assert!(all[0].is_gone().await);
        assert!(!all[1].is_gone().await);
        drop(working);
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_with_the_most_requests_gives_way_when_they_are_too_many() {
        for is_answered in [false, true] {
            let slots = Slots::default();
            let greedy = Lasting::open(&slots).await;
            let modest = Lasting::open(&slots).await;
            let (mut working, mut unread) = (Vec::new(), Vec::new());
            for _ in 1..MOST_REQUESTS {
                let request = greedy.slot.works();
                match is_answered {
                    false => working.push(request),
                    true => unread.push(greedy.slot.answers()),
                }
            }
            let last = modest.slot.works();
            assert!(!greedy.is_gone().await, "{is_answered}");
            let one_more = modest.slot.works();
            assert!(greedy.is_gone().await, "{is_answered}");
            assert!(!modest.is_gone().await, "{is_answered}");
            drop((working, unread, last, one_more));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_waits_from_its_last_answer_on() {
        let slots = Slots::default();
        let slot = slots.take();
        let (second, begun) = (Duration::from_secs(1), Instant::now());
        let working = slot.works();
        let waits = slot.waits(10 * second);
        let answers = async {
            tokio::time::sleep(25 * second).await;
            drop(working);
        };
        tokio::join!(waits, answers);
        assert_eq!(begun.elapsed(), 35 * second);
    }
}
