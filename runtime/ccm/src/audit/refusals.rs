//! Limits the recorded refusals of each provider, so that a module that keeps sending requests without a grant cannot
//! fill the disk. Further ones are counted, and the next written record states their number.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Maximum number of records per provider in each [`WINDOW`]: enough to see what the module tries.
const MOST: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);

/// The refusals that were recorded of each provider in its current window. Bounded by the number of configured providers.
#[derive(Default)]
pub(super) struct Refusals(HashMap<String, Window>);

struct Window {
    begun: Instant,
    written: u32,
    unwritten: u64,
}

impl Refusals {
    /// Whether to write the next refusal; `Some` holds the number of refusals dropped since the last written one.
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

    /// Counts a refusal that could not be written, and those before it.
    pub(super) fn lost(&mut self, provider: &str, unwritten: u64) {
        if let Some(window) = self.0.get_mut(provider) {
            window.unwritten = unwritten.saturating_add(1);
        }
    }
}
