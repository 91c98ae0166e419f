//! When no more requests come to a cloud: checks are counted, and not time. However slow the machine is, the controllers, on
//! the same thread, do what is due between two of them.

use std::cell::Cell;

/// The checks in a row that have found no new request.
pub(crate) struct Quiet(Cell<(usize, u32)>);

impl Quiet {
    /// Begins at so many requests.
    pub(crate) fn from(requests: usize) -> Quiet {
        Quiet(Cell::new((requests, 0)))
    }

    /// Counts one more check, at so many requests, and returns how many there are in a row.
    pub(crate) fn check(&self, requests: usize) -> u32 {
        let (before, checks) = self.0.get();
        let checks = if requests == before { checks + 1 } else { 0 };
        self.0.set((requests, checks));
        checks
    }
}
