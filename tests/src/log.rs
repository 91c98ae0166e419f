//! What is logged on one thread of a test program, for its test alone.

use std::sync::LazyLock;

use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Subscriber};

/// While a program has one subscriber only, tracing asks that of the thread which comes to a line of the program first, and
/// keeps its answer for all threads: on a thread of another test there is none, and the line is never heard. So there are
/// always two.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// What this thread logs goes to `subscriber`, until the guard is dropped.
pub fn listen(subscriber: impl Subscriber + Send + Sync) -> DefaultGuard {
    LazyLock::force(&ANOTHER);
    tracing::subscriber::set_default(subscriber)
}
