//! How many refusals of one provider are written down: a module that asks again and again for what it is not granted fills
//! no disk. The others are counted, and the next one that is written says how many there were.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// So many of one provider in each [`WINDOW`]: enough to see what it tries.
const MOST: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);

/// See the module's documentation. Providers are few: they stand in the configuration.
#[derive(Default)]
pub(super) struct Refusals(HashMap<String, Window>);

struct Window {
    begun: Instant,
    written: u32,
    unwritten: u64,
}

impl Refusals {
    /// Whether one more of this provider is written down; `Some` is the number of those that were not since the last one.
    pub(super) fn next(&mut self, provider: &str, now: Instant) -> Option<u64> {
        let fresh = Window {
            begun: now,
            written: 0,
            unwritten: 0,
        };
        let window = self.0.entry(provider.to_owned()).or_insert(fresh);
        if now.saturating_duration_since(window.begun) >= WINDOW {
            (window.begun, window.written) = (now, 0);
        }
        if window.written == MOST {
            window.unwritten = window.unwritten.saturating_add(1);
            return None;
        }
        window.written += 1;
        Some(std::mem::take(&mut window.unwritten))
    }
}
