//! When to retry after a failure. One table; no randomness and no clock.
//!
//! There is no jitter on purpose: nodes that failed in one batch are retried together, and so are asked in one batch
//! again.

use std::time::Duration;

use crate::cloud::error::ProviderError;
use crate::cloud::load_balancer::Pending;
use crate::reconciliation::conclusion::Next;
use crate::reconciliation::effect::ClusterError;

/// Exponential backoff: `first · 2ⁿ⁻¹` after n failures, at most `most`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Delay after the first failure.
    pub first: Duration,
    /// Upper bound of the delay.
    pub most: Duration,
}

/// After repeated write conflicts: client-go's per-item limiter (NODE-003), without its token bucket shared by all
/// items, because the API server's priority and fairness does that.
const CONTENDED: Backoff = Backoff {
    first: Duration::from_millis(5),
    most: Duration::from_secs(1000),
};

/// While the API server does not answer. An object rarely causes that, and the API server protects itself. The ceiling is
/// lower than in NODE-003, so that a long outage is not followed by a long wait.
pub const AWAY: Backoff = Backoff {
    first: Duration::from_millis(5),
    most: Duration::from_secs(30),
};

/// While the cloud does not answer, or does not know a machine yet. New machines appear in clouds' inventories at a
/// pace of about one second; a user waits at most five minutes after an outage.
pub const CLOUD: Backoff = Backoff {
    first: Duration::from_secs(1),
    most: Duration::from_secs(300),
};

/// When a person has to change something first. Starts slower, so that a wrong credential does not lock an account.
pub const PERSON: Backoff = Backoff {
    first: Duration::from_secs(10),
    most: Duration::from_secs(300),
};

/// Bounds for the delay that a throttling cloud requests; values outside are clamped.
const ASKED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));

/// Range of the delay that a provider may request for a pending operation; values outside are clamped.
pub(crate) const POLLED: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(600));

/// The delay until a provider is asked about a pending operation again.
pub(crate) fn polled(pending: &Pending) -> Duration {
    pending.retry_after.clamp(POLLED.0, POLLED.1)
}

impl Backoff {
    /// The delay after `failures` consecutive failures, the latest included; 0 counts as 1.
    pub fn after(self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.first.saturating_mul(1 << doublings).min(self.most)
    }
}

/// When to repeat a cloud call that failed with `error`, for the `failures`-th time in a row (from 1).
pub fn after(error: &ProviderError, failures: u32) -> Next<Duration> {
    match error {
        ProviderError::Throttled {
            retry_after: Some(asked),
            ..
        } => Next::NotBefore((*asked).clamp(ASKED.0, ASKED.1)),
        ProviderError::Throttled {
            retry_after: None, ..
        } => Next::NotBefore(CLOUD.after(failures)),
        ProviderError::Elsewhere => Next::OnChange,
        ProviderError::Held(again) => Next::At(braked(*again)),
        ProviderError::Unavailable(_)
        | ProviderError::Interrupted(_)
        | ProviderError::NotBegun(_)
        | ProviderError::TimedOut(_)
        | ProviderError::Trapped(_)
        | ProviderError::Internal(_)
        | ProviderError::Conflict { .. } => Next::At(CLOUD.after(failures)),
        ProviderError::Invalid(_) | ProviderError::Denied(_) | ProviderError::Unsupported(_) => {
            Next::At(PERSON.after(failures))
        }
    }
}

/// The backoff after the API server has not performed a request.
pub fn cluster(error: &ClusterError) -> Backoff {
    match error {
        ClusterError::Conflict(_) => CONTENDED,
        ClusterError::Unavailable(_) => AWAY,
        ClusterError::Busy { retry_after, .. } => Backoff {
            first: (*retry_after).min(AWAY.most),
            ..AWAY
        },
        // Repeating the request does not help; a person has to change something.
        ClusterError::Rejected(_) | ClusterError::Denied(_) => CLOUD,
    }
}

/// The delay while a brake holds a change that gets budget `again` from now. Clamped: otherwise every object would ask
/// for the ten-minute budget at the moment the first change is free.
pub fn braked(again: Duration) -> Duration {
    again.clamp(CLOUD.first, CLOUD.most)
}

/// Whether the error persists until a person changes something, so that it justifies an Event at once.
pub fn needs_a_person(error: &ProviderError) -> bool {
    matches!(
        error,
        ProviderError::Invalid(_) | ProviderError::Denied(_) | ProviderError::Unsupported(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_003_delays_double_from_five_milliseconds_to_a_thousand_seconds() {
        let delays: Vec<u128> = (0..=4)
            .map(|failures| CONTENDED.after(failures).as_millis())
            .collect();
        assert_eq!(delays, [5, 5, 10, 20, 40]);
        assert_eq!(CONTENDED.after(18).as_millis(), 655_360);
        for failures in [19, 32, 33, u32::MAX] {
            assert_eq!(CONTENDED.after(failures), Duration::from_secs(1000));
        }
    }

    #[test]
    fn an_api_server_that_was_away_is_tried_again_within_half_a_minute() {
        let away = cluster(&ClusterError::Unavailable(String::new()));
        assert_eq!(away.after(1), Duration::from_millis(5));
        assert_eq!(away.after(u32::MAX), Duration::from_secs(30));
        let contended = cluster(&ClusterError::Conflict(String::new()));
        assert_eq!(contended.after(u32::MAX), Duration::from_secs(1000));
        assert_eq!(cluster(&ClusterError::Rejected(String::new())), CLOUD);
    }

    #[test]
    fn an_api_server_that_asks_for_a_pause_gets_it_up_to_half_a_minute() {
        for (asked, delays) in [(1, [1, 2, 4]), (7, [7, 14, 28]), (600, [30, 30, 30])] {
            let busy = cluster(&ClusterError::Busy {
                message: String::new(),
                retry_after: Duration::from_secs(asked),
            });
            let found = [1, 2, 3].map(|failures| busy.after(failures).as_secs());
            assert_eq!(found, delays, "{asked}");
        }
    }

    #[test]
    fn what_the_cloud_asks_for_is_honoured_within_one_second_and_one_hour() {
        for (asked, honoured) in [(0, 1), (1, 1), (90, 90), (3600, 3600), (86_400, 3600)] {
            let error = ProviderError::Throttled {
                message: String::new(),
                retry_after: Some(Duration::from_secs(asked)),
            };
            assert_eq!(
                after(&error, 5),
                Next::NotBefore(Duration::from_secs(honoured))
            );
        }
        let silent = ProviderError::Throttled {
            message: String::new(),
            retry_after: None,
        };
        assert_eq!(after(&silent, 3), Next::NotBefore(Duration::from_secs(4)));
    }

    #[test]
    fn a_persons_mistake_is_retried_slower_than_an_outage() {
        let outage = ProviderError::Unavailable(String::new());
        let mistake = ProviderError::Denied(String::new());
        assert_eq!(after(&outage, 1), Next::At(Duration::from_secs(1)));
        assert_eq!(after(&outage, 40), Next::At(Duration::from_secs(300)));
        for blameless in [ProviderError::Interrupted, ProviderError::NotBegun] {
            let blameless = blameless(String::new());
            assert_eq!(after(&blameless, 1), after(&outage, 1));
            assert!(!blameless.is_crash() && !needs_a_person(&blameless));
        }
        assert_eq!(after(&mistake, 1), Next::At(Duration::from_secs(10)));
        assert_eq!(after(&mistake, 40), Next::At(Duration::from_secs(300)));
        assert_eq!(after(&ProviderError::Elsewhere, 1), Next::OnChange);
        assert!(needs_a_person(&mistake) && !needs_a_person(&outage));
        // The configuration may change, or the module.
        for kind in [ProviderError::Invalid, ProviderError::Unsupported] {
            let other = kind(String::new());
            assert_eq!(after(&other, 1), after(&mistake, 1), "{other}");
            assert!(needs_a_person(&other), "{other}");
        }
        let crashes = [
            ProviderError::TimedOut,
            ProviderError::Trapped,
            ProviderError::Internal,
        ];
        for kind in crashes {
            let crash = kind(String::new());
            assert_eq!(after(&crash, 1), after(&outage, 1), "{crash}");
            assert!(crash.is_crash() && !needs_a_person(&crash), "{crash}");
        }
    }

    #[test]
    fn what_a_brake_holds_is_tried_again_within_one_second_and_five_minutes() {
        for (again, pause) in [(0, 1), (90, 90), (600, 300)] {
            let held = ProviderError::Held(Duration::from_secs(again));
            let expected = Next::At(Duration::from_secs(pause));
            assert_eq!(after(&held, 5), expected, "{again}");
        }
    }
}
