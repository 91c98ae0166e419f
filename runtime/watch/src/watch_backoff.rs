//! The delays between the attempts of a watch. Waits for nothing itself.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;

/// kube's delays, from 0.8 s to 30 s, and back to the first one after two minutes without a failure, as in client-go.
///
/// [`DefaultBackoff`] itself goes back to the first one at each event, and the first event of a list comes before its
/// request: a list that is refused would be asked for every second.
#[derive(Default)]
pub struct WatchBackoff(DefaultBackoff);

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next()
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {}
}
