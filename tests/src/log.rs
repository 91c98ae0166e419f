//! Captures the log output of one test's thread.

use std::sync::LazyLock;

use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Subscriber};

/// With a single subscriber, tracing asks only the thread that first reaches a log line, and caches the answer for all
/// threads: if that thread belongs to another test without a subscriber, the line is never recorded. A second
/// subscriber prevents this.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// Sends this thread's log output to `subscriber` until the guard is dropped.
pub fn listen(subscriber: impl Subscriber + Send + Sync) -> DefaultGuard {
    LazyLock::force(&ANOTHER);
    tracing::subscriber::set_default(subscriber)
}
