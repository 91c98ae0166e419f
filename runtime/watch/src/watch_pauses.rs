//! The pauses between the attempts of a watch.

use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use kube::runtime::watcher::{DefaultBackoff, Error, Event, Result};
use tokio::time::Instant;

/// How long a watch has to run for its end to be no failure.
const RUN: Duration = Duration::from_secs(5);

/// The events of a watch, with a pause after each error: kube's, from 0.8 s to 30 s, and the first one again after two
/// minutes without a failure, as in client-go, or after a watch that has run: one that is cut off every few seconds would
/// otherwise see nothing for most of the time.
///
/// kube's own [`DefaultBackoff`] goes back to the first one at each event, and the first event of a list comes before its
/// request: a list that is refused would be asked for every second.
pub fn with_pauses<K: Send>(
    events: impl Stream<Item = Result<Event<K>>> + Send,
) -> impl Stream<Item = Result<Event<K>>> + Send {
    let start = (Box::pin(events), Attempts::new(), Duration::ZERO);
    stream::unfold(start, |(mut events, mut attempts, pause)| async move {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
            attempts.begun = Instant::now();
        }
        let event = events.next().await?;
        let pause = match &event {
            Ok(event) => {
                attempts.saw(event);
                Duration::ZERO
            }
            Err(error) => attempts.failed(error),
        };
        Some((event, (events, attempts, pause)))
    })
}

struct Attempts {
    pauses: DefaultBackoff,
    /// When the present one began: after the last pause, or with the end of a list.
    begun: Instant,
    /// Whether the objects are listed, so that they are watched.
    is_listed: bool,
    /// Whether the watch has shown a change.
    has_shown: bool,
}

impl Attempts {
    fn new() -> Attempts {
        Attempts {
            pauses: DefaultBackoff::default(),
            begun: Instant::now(),
            is_listed: false,
            has_shown: false,
        }
    }

    fn saw<K>(&mut self, event: &Event<K>) {
        match event {
            Event::Init => self.is_listed = false,
            Event::InitApply(_) => {}
            Event::InitDone => {
                self.is_listed = true;
                self.begun = Instant::now();
            }
            Event::Apply(_) | Event::Delete(_) => self.has_shown = true,
        }
    }

    /// The pause after this error.
    fn failed(&mut self, error: &Error) -> Duration {
        let was_watching =
            self.is_listed && matches!(error, Error::WatchFailed(_) | Error::WatchError(_));
        if was_watching && (self.has_shown || self.begun.elapsed() >= RUN) {
            self.pauses = DefaultBackoff::default();
        }
        self.has_shown = false;
        // It has no end.
        self.pauses.next().unwrap_or_default()
    }
}
