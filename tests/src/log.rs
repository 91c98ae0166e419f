//! Captures the log output of one test's thread, and reads that of a process.

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

/// The severity of a line in klog's form: `I`, `W` or `E`; `None` for other lines.
pub fn severity(line: &str) -> Option<char> {
    let (severity, rest) = line.split_at_checked(1)?;
    let is_date =
        rest.split(' ').next()?.len() == 4 && rest.starts_with(|one: char| one.is_ascii_digit());
    let severity = severity.chars().next()?;
    (is_date && "IWE".contains(severity)).then_some(severity)
}
