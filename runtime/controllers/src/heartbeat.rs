//! Notices a controller that is no longer polled: because its runtime's threads hang, or because it computes without
//! end. Each health check wakes the controllers; one that a check has woken and that has not run since then hangs.
//! Costs nothing between checks. Says nothing about whether what a controller does is right, and nothing about the
//! cloud.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ccm_core::moment::Moment;
use futures::task::AtomicWaker;
use parking_lot::Mutex;

use crate::clock::boottime;

/// How long after a check a woken future may take to run: less than a kubelet's default period of 10 s, so that the
/// second probe after a hang fails, at most 20 s after the hang began. With three failures the container is restarted
/// within a minute.
const HANG: Duration = Duration::from_secs(8);

/// The monitored parts of the process, by name. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Heartbeats(Arc<Mutex<Beats>>);

#[derive(Debug, Default)]
struct Beats {
    next: u64,
    running: BTreeMap<(&'static str, u64), Arc<Beat>>,
}

/// A running future, and whether it was polled since the last check.
#[derive(Debug, Default)]
struct Beat {
    waker: AtomicWaker,
    /// Milliseconds of the first check since the future was last polled; 0: none.
    asked: AtomicU64,
}

impl Heartbeats {
    /// Whether every running future of this name is polled. True if there is none.
    ///
    /// # Errors
    /// One was woken and has not been polled for too long; the text gives the time.
    pub fn health(&self, name: &str) -> Result<(), String> {
        self.health_at(name, boottime())
    }

    fn health_at(&self, name: &str, now: Moment) -> Result<(), String> {
        let now = millis(now);
        let beats = self.0.lock();
        let own = beats.running.iter().filter(|((of, _), _)| *of == name);
        let silent = own.map(|(_, beat)| beat.ask(now)).max();
        match silent {
            Some(silent) if silent >= HANG => Err(format!("not polled for {} s", silent.as_secs())),
            _ => Ok(()),
        }
    }

    /// Drives a future, and monitors it under this name.
    pub async fn monitored<F: Future>(&self, name: &'static str, future: F) -> F::Output {
        let entry = self.begin(name);
        let mut future = pin!(future);
        poll_fn(|context| {
            entry.beat.waker.register(context.waker());
            let output = future.as_mut().poll(context);
            entry.beat.asked.store(0, Ordering::Release);
            output
        })
        .await
    }

    /// Drives a future that may be missing; without one it never completes.
    pub(crate) async fn when(&self, name: &'static str, future: Option<impl Future<Output = ()>>) {
        match future {
            Some(future) => self.monitored(name, future).await,
            None => std::future::pending().await,
        }
    }

    fn begin(&self, name: &'static str) -> Entry<'_> {
        let beat = Arc::new(Beat::default());
        let mut beats = self.0.lock();
        beats.next += 1;
        let key = (name, beats.next);
        beats.running.insert(key, beat.clone());
        Entry {
            beats: self,
            key,
            beat,
        }
    }
}

impl Beat {
    /// Wakes the future. Returns for how long it has not been polled since the first unanswered check.
    fn ask(&self, now: u64) -> Duration {
        let first = self
            .asked
            .compare_exchange(0, now, Ordering::AcqRel, Ordering::Acquire);
        self.waker.wake();
        match first {
            Ok(_) => Duration::ZERO,
            Err(asked) => Duration::from_millis(now.saturating_sub(asked)),
        }
    }
}

/// The entry of one running future, removed with it.
struct Entry<'a> {
    beats: &'a Heartbeats,
    key: (&'static str, u64),
    beat: Arc<Beat>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.beats.0.lock().running.remove(&self.key);
    }
}

fn millis(moment: Moment) -> u64 {
    u64::try_from(moment.0.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn proc_072_what_is_woken_and_does_not_run_hangs() {
        let beats = Heartbeats::default();
        let (now, later) = (boottime(), boottime().after(HANG));
        assert_eq!(beats.health_at("node", now), Ok(()), "it does not run");
        let mut idle = pin!(beats.monitored("node", std::future::pending::<()>()));
        assert!(futures::poll!(idle.as_mut()).is_pending());
        // The first check after an hour without checks reports no hang.
        assert_eq!(beats.health_at("node", now), Ok(()));
        assert!(
            beats.health_at("node", later).is_err(),
            "it was woken and has not run"
        );
        assert_eq!(beats.health_at("route", later), Ok(()));
        assert!(futures::poll!(idle.as_mut()).is_pending());
        assert_eq!(beats.health_at("node", later), Ok(()));
    }

    #[tokio::test]
    async fn one_of_several_that_hangs_is_enough_and_an_end_is_no_hang() {
        let beats = Heartbeats::default();
        let (now, later) = (boottime(), boottime().after(HANG));
        let (first, second) = (beats.begin("node"), beats.begin("node"));
        assert_eq!(beats.health_at("node", now), Ok(()));
        first.beat.asked.store(0, Ordering::Release);
        assert!(beats.health_at("node", later).is_err());
        drop(second);
        assert_eq!(beats.health_at("node", later), Ok(()));
        assert_eq!(beats.monitored("node", async { 3 }).await, 3);
    }

    #[tokio::test]
    async fn a_check_wakes_what_runs() {
        let beats = Heartbeats::default();
        let own = beats.clone();
        let task = tokio::spawn(async move {
            own.monitored("node", std::future::pending::<()>()).await;
        });
        tokio::task::yield_now().await;
        assert_eq!(beats.health_at("node", boottime()), Ok(()));
        tokio::task::yield_now().await;
        assert_eq!(beats.health_at("node", boottime().after(HANG)), Ok(()));
        task.abort();
    }
}
