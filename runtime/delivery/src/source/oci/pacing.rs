//! Schedules the polls of a registry: tags in the operator's interval, failures with growing delays, and a pinned
//! artifact never again once it was fetched.

use std::future::pending;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::login::RegistryCredentials;
use super::registry_error::RegistryError;

/// Delay after a first failure; doubled by each further one, up to the interval.
const FIRST: Duration = Duration::from_secs(2);
/// Maximum number of doublings: enough to reach any interval.
const MOST_DOUBLINGS: u32 = 12;
/// Random part of a delay, so that replicas started together do not poll together.
const JITTER: f64 = 0.2;

/// Schedule of one location.
pub(super) struct Pacing {
    poll: Duration,
    is_pinned: bool,
    failures: u32,
    next: Next,
}

#[derive(Clone, Copy)]
enum Next {
    Now,
    At(Instant),
    /// When the credentials change, or at this time.
    Login(Instant),
    Never,
}

impl Pacing {
    pub(super) fn new(poll: Duration, is_pinned: bool) -> Self {
        Self {
            poll,
            is_pinned,
            failures: 0,
            next: Next::Now,
        }
    }

    /// Waits until the next poll is due. Cancel-safe.
    pub(super) async fn wait(
        &self,
        credentials: &mut watch::Receiver<Option<RegistryCredentials>>,
    ) {
        match self.next {
            Next::Now => {}
            Next::At(time) => sleep_until(time).await,
            Next::Login(time) => tokio::select! {
                () = sleep_until(time) => {}
                () = changed(credentials) => {}
            },
            Next::Never => pending().await,
        }
    }

    /// Records that the artifact was fetched or is unchanged.
    pub(super) fn had(&mut self) {
        self.failures = 0;
        self.next = match self.is_pinned {
            true => Next::Never,
            false => Next::At(Instant::now() + jittered(self.poll, chance())),
        };
    }

    /// Records a failed poll.
    pub(super) fn failed(&mut self, trouble: &RegistryError) {
        if trouble.is_lasting && self.is_pinned {
            self.next = Next::Never;
            return;
        }
        let doubled = FIRST * 2_u32.saturating_pow(self.failures.min(MOST_DOUBLINGS));
        self.failures = self.failures.saturating_add(1);
        let pause = match trouble.is_lasting {
            true => self.poll,
            false => doubled.min(self.poll),
        };
        let pause = jittered(pause, chance()).max(trouble.wait.unwrap_or_default());
        let time = Instant::now() + pause;
        self.next = match trouble.is_about_credentials() {
            true => Next::Login(time),
            false => Next::At(time),
        };
    }
}

async fn changed(credentials: &mut watch::Receiver<Option<RegistryCredentials>>) {
    // The credentials never change again; only time passes.
    if credentials.changed().await.is_err() {
        pending().await
    }
}

/// A random number between 0 and 1.
fn chance() -> f64 {
    getrandom::u32().map_or(0.5, |random| f64::from(random) / f64::from(u32::MAX))
}

fn jittered(pause: Duration, chance: f64) -> Duration {
    pause.mul_f64(1.0 + JITTER * (chance - 0.5))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::watch;
    use tokio::time::{Instant, timeout};

    use super::super::registry_error::RegistryError;
    use super::{Pacing, jittered};

    const POLL: Duration = Duration::from_secs(300);

    /// The length of a wait; `None`: longer than ten years.
    async fn wait(pacing: &Pacing) -> Option<Duration> {
        let from = Instant::now();
        let mut credentials = watch::channel(None).1;
        let waited = timeout(
            Duration::from_secs(315_360_000),
            pacing.wait(&mut credentials),
        )
        .await;
        waited.is_ok().then(|| from.elapsed())
    }

    fn near(waited: Option<Duration>, expected: Duration) -> bool {
        let range = expected.mul_f64(0.89)..=expected.mul_f64(1.11);
        waited.is_some_and(|waited| range.contains(&waited))
    }

    #[tokio::test(start_paused = true)]
    async fn a_tag_is_looked_at_in_its_interval_and_a_digest_never_again() {
        let mut tag = Pacing::new(POLL, false);
        assert_eq!(wait(&tag).await, Some(Duration::ZERO));
        tag.had();
        assert!(near(wait(&tag).await, POLL));
        // The failures of an earlier outage make no later one longer.
        for seconds in [2, 4] {
            tag.failed(&RegistryError::unavailable("x"));
            assert!(near(wait(&tag).await, Duration::from_secs(seconds)));
        }
        tag.had();
        tag.failed(&RegistryError::unavailable("x"));
        assert!(near(wait(&tag).await, Duration::from_secs(2)));
        let mut digest = Pacing::new(POLL, true);
        assert_eq!(wait(&digest).await, Some(Duration::ZERO));
        digest.failed(&RegistryError::unavailable("x"));
        assert!(near(wait(&digest).await, Duration::from_secs(2)));
        digest.had();
        assert_eq!(wait(&digest).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_looked_at_ever_more_seldom_and_as_the_registry_wants() {
        for is_pinned in [true, false] {
            let mut pacing = Pacing::new(POLL, is_pinned);
            for seconds in [2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
                pacing.failed(&RegistryError::unavailable("x"));
                assert!(
                    near(wait(&pacing).await, Duration::from_secs(seconds)),
                    "{seconds}"
                );
            }
            let mut busy = RegistryError::unavailable("x");
            busy.wait = Some(Duration::from_secs(1000));
            pacing.failed(&busy);
            assert!(wait(&pacing).await >= Some(Duration::from_secs(1000)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_never_will_be_a_module_is_looked_at_in_the_interval_or_never() {
        let trouble = RegistryError::unusable("x");
        let mut tag = Pacing::new(POLL, false);
        tag.failed(&trouble);
        assert!(near(wait(&tag).await, POLL));
        let mut digest = Pacing::new(POLL, true);
        digest.failed(&trouble);
        assert_eq!(wait(&digest).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_denial_ends_with_other_credentials() {
        let mut pacing = Pacing::new(POLL, false);
        for _ in 0..20 {
            pacing.failed(&RegistryError::denied("x"));
        }
        let (sender, mut credentials) = watch::channel(None);
        let from = Instant::now();
        sender.send_replace(None);
        pacing.wait(&mut credentials).await;
        assert_eq!(from.elapsed(), Duration::ZERO);
    }

    #[test]
    fn a_tenth_is_left_to_chance_in_both_directions() {
        assert_eq!(jittered(POLL, 0.0), Duration::from_secs(270));
        assert_eq!(jittered(POLL, 1.0), Duration::from_secs(330));
    }
}
