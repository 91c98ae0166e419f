//! Notices a tokio runtime that no longer runs tasks, because all of its threads hang or compute without end. A task on
//! it stores a stamp every second; a check on another thread compares the last stamp with the time. The result does not
//! depend on when the checks are made: a stall is as old as its last stamp.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::health::Health;

/// Time between two stamps.
const INTERVAL: Duration = Duration::from_secs(1);
/// Age of the last stamp from which the runtime counts as stalled. A probe every 10 s, which is kubelet's default, sees
/// it 18 s after the stall began at the latest; a runtime that is merely busy leaves several stamps in this time.
const LIMIT: Duration = Duration::from_secs(8);

/// The last stamp of a runtime. Clones share it.
#[derive(Debug, Clone)]
pub struct RuntimeHeartbeat {
    begun: Instant,
    /// Milliseconds from the start to the last stamp.
    stamped: Arc<AtomicU64>,
    limit: Duration,
}

impl RuntimeHeartbeat {
    /// Watches the runtime of the caller until it ends. Requires a tokio runtime.
    pub fn start() -> RuntimeHeartbeat {
        RuntimeHeartbeat::with(INTERVAL, LIMIT)
    }

    pub(crate) fn with(interval: Duration, limit: Duration) -> RuntimeHeartbeat {
        // Both clocks stop while the machine sleeps, so that waking up is no stall.
        let begun = Instant::now();
        let heartbeat = RuntimeHeartbeat {
            begun,
            stamped: Arc::default(),
            limit,
        };
        let stamped = heartbeat.stamped.clone();
        tokio::spawn(async move {
            loop {
                stamped.store(millis(begun.elapsed()), Ordering::Release);
                tokio::time::sleep(interval).await;
            }
        });
        heartbeat
    }

    /// Whether the runtime runs tasks.
    ///
    /// # Errors
    /// The runtime has run no task for too long; the text says for how long.
    pub fn health(&self) -> Health {
        self.health_after(self.begun.elapsed())
    }

    fn health_after(&self, time: Duration) -> Health {
        let stamped = Duration::from_millis(self.stamped.load(Ordering::Acquire));
        let silent = time.saturating_sub(stamped);
        match silent >= self.limit {
            true => Err(format!("no task has run for {} s", silent.as_secs())),
            false => Ok(()),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_probe_every_ten_seconds_sees_a_stall_within_twenty() {
        let heartbeat = RuntimeHeartbeat::start();
        // The runtime stalls just after this stamp. The first probe comes at any time of the next ten seconds.
        heartbeat.stamped.store(60_000, Ordering::Release);
        for first in 0..10_000 {
            let mut probes = (60_000 + first..).step_by(10_000);
            let seen = probes.find(|probe| {
                let probe = Duration::from_millis(*probe);
                heartbeat.health_after(probe).is_err()
            });
            assert!(seen.is_some_and(|seen| seen < 80_000), "{seen:?}");
        }
        assert_eq!(heartbeat.health_after(Duration::from_secs(67)), Ok(()));
    }
}
