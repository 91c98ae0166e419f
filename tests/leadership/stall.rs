//! Whether the machine was too busy to say anything about time: a thread that sleeps for a moment again and again, and
//! notes by how much it was woken late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(20);

/// Whoever is woken this much late may miss a renewal.
const MUCH: Duration = Duration::from_millis(300);

/// The watch, until it is dropped.
pub(crate) struct Stalls {
    /// In milliseconds, since the last question.
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

    /// The longest time for which the machine stood still since the last question, if that was long.
    pub(crate) fn take(&self) -> Option<Duration> {
        let longest = Duration::from_millis(self.longest.swap(0, Ordering::Relaxed));
        (longest >= MUCH).then_some(longest)
    }
}
