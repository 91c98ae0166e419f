//! Detects that the machine was too busy for statements about time: a thread sleeps for a moment again and again, and
//! measures how late it wakes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(20);

/// A process that wakes this late may miss a renewal.
const MUCH: Duration = Duration::from_millis(300);

/// The watch, until it is dropped.
pub(crate) struct Stalls {
    /// In milliseconds, since `take` was called last.
    longest: Arc<AtomicU64>,
}

impl Stalls {
    pub(crate) fn watch() -> Self {
        let longest = Arc::new(AtomicU64::new(0));
        let noted = Arc::downgrade(&longest);
        thread::spawn(move || {
            while let Some(longest) = noted.upgrade() {
                let began = Instant::now();
                thread::sleep(NAP);
                let late = began.elapsed().saturating_sub(NAP).as_millis();
                longest.fetch_max(u64::try_from(late).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        });
        Self { longest }
    }

    /// The longest stall of the machine since the last call, if it was long.
    pub(crate) fn take(&self) -> Option<Duration> {
        let longest = Duration::from_millis(self.longest.swap(0, Ordering::Relaxed));
        (longest >= MUCH).then_some(longest)
    }
}
