//! Token bucket for a request budget. It never sleeps; the clock is an argument.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::grant::RequestBudget;

/// Bucket, full at first. Stored as the moment when it is full again, so that it fits any budget: after a change of
/// the budget, requests already spent still count.
#[derive(Debug, Default)]
pub(super) struct TokenBucket {
    /// `None`: full.
    spent: Mutex<Option<SpentTokens>>,
}

#[derive(Debug, Clone, Copy)]
struct SpentTokens {
    /// When the bucket was last full.
    since: Instant,
    /// When it is full again.
    full: Instant,
}

impl TokenBucket {
    /// Takes one request and returns its wait. Waiting requests queue up: each next one waits longer.
    ///
    /// # Errors
    /// The wait, if it would exceed `most`. Then nothing is taken.
    pub(super) fn take(
        &self,
        budget: RequestBudget,
        now: Instant,
        most: Duration,
    ) -> Result<Duration, Duration> {
        let mut state = self.spent.lock();
        // A larger budget in force before may have spent more than this one ever grants.
        let spent = left(*state, now).min(budget.per.saturating_add(most));
        let since = state
            .filter(|state| now < state.full)
            .map_or(now, |state| state.since.min(now));
        let next = spent + budget.per / budget.requests.get();
        let wait = next.saturating_sub(budget.per);
        let (spent, end) = match wait > most {
            true => (spent, Err(wait)),
            false => (next, Ok(wait)),
        };
        *state = now
            .checked_add(spent)
            .map(|full| SpentTokens { since, full });
        end
    }

    /// Returns one request that was taken at `taken` and not sent. If the bucket has been full since, the request has
    /// come back by itself.
    pub(super) fn put_back(&self, budget: RequestBudget, taken: Instant) {
        let mut state = self.spent.lock();
        if let Some(spent) = &mut *state
            && spent.since <= taken
        {
            let step = budget.per / budget.requests.get();
            spent.full = spent.full.checked_sub(step).unwrap_or(spent.since);
        }
    }

    /// Requests that may be sent now.
    pub(super) fn left(&self, budget: RequestBudget, now: Instant) -> u32 {
        let spent = self.spent.lock();
        let step = (budget.per / budget.requests.get()).max(Duration::from_nanos(1));
        let free = budget.per.saturating_sub(left(*spent, now));
        let requests = u32::try_from(free.as_nanos() / step.as_nanos()).unwrap_or(u32::MAX);
        requests.min(budget.requests.get())
    }

    /// Wait of the next request.
    pub(super) fn wait(&self, budget: RequestBudget, now: Instant) -> Duration {
        let spent = self.spent.lock();
        let next = left(*spent, now) + budget.per / budget.requests.get();
        next.saturating_sub(budget.per)
    }
}

fn left(spent: Option<SpentTokens>, now: Instant) -> Duration {
    spent
        .map(|spent| spent.full.saturating_duration_since(now))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const LONGEST_WAIT: Duration = Duration::from_secs(2);

    fn budget(requests: u32, seconds: u64) -> RequestBudget {
        RequestBudget {
            requests: requests.try_into().unwrap(),
            per: Duration::from_secs(seconds),
        }
    }

    /// Waits of `count` simultaneous requests, in milliseconds; refused ones as negative numbers.
    fn waits(bucket: &TokenBucket, budget: RequestBudget, now: Instant, count: usize) -> Vec<i128> {
        let ms = |wait: Duration| i128::try_from(wait.as_millis()).unwrap();
        let wait = |_| match bucket.take(budget, now, LONGEST_WAIT) {
            Ok(wait) => ms(wait),
            Err(wait) => -ms(wait),
        };
        (0..count).map(wait).collect()
    }

    #[test]
    fn a_full_bucket_gives_all_at_once_and_then_as_many_as_come_back() {
        let (bucket, now) = (TokenBucket::default(), Instant::now());
        let three = budget(3, 3);
        assert_eq!(bucket.left(three, now), 3);
        assert_eq!(waits(&bucket, three, now, 3), [0, 0, 0]);
        assert_eq!(bucket.left(three, now), 0);
        assert_eq!(bucket.left(three, now + Duration::from_secs(2)), 2);
        assert_eq!(bucket.wait(three, now), Duration::from_secs(1));
        // Two requests wait; the refused ones took nothing.
        assert_eq!(waits(&bucket, three, now, 4), [1000, 2000, -3000, -3000]);
        let later = now + Duration::from_secs(3);
        assert_eq!(waits(&bucket, three, later, 2), [0, 1000]);
        let idle = later + Duration::from_secs(3600);
        assert_eq!(waits(&bucket, three, idle, 4), [0, 0, 0, 1000]);
    }

    #[test]
    fn of_a_slow_one_nobody_waits_and_what_was_refused_costs_nothing() {
        let (bucket, now) = (TokenBucket::default(), Instant::now());
        let slow = budget(2, 7200);
        assert_eq!(waits(&bucket, slow, now, 2), [0, 0]);
        let refused = waits(&bucket, slow, now, 1000);
        assert!(
            refused.iter().all(|wait| *wait == -3_600_000),
            "{refused:?}"
        );
        let later = now + Duration::from_secs(3600);
        assert_eq!(waits(&bucket, slow, later, 2), [0, -3_600_000]);
    }

    #[test]
    fn what_comes_back_late_comes_back_once() {
        let (bucket, now) = (TokenBucket::default(), Instant::now());
        let three = budget(3, 3);
        assert_eq!(waits(&bucket, three, now, 3), [0, 0, 0]);
        bucket.put_back(three, now);
        assert_eq!(bucket.left(three, now), 1);
        // The bucket is full again, and the other requests are not missing in it.
        let later = now + Duration::from_secs(10);
        assert_eq!(waits(&bucket, three, later, 3), [0, 0, 0]);
        bucket.put_back(three, now);
        assert_eq!(bucket.left(three, later), 0);
        bucket.put_back(three, later);
        assert_eq!(bucket.left(three, later), 1);
    }

    #[test]
    fn another_budget_goes_on_with_what_was_spent_and_is_full_in_its_own_time() {
        let (bucket, now) = (TokenBucket::default(), Instant::now());
        let (slow, fast) = (budget(10, 3600), budget(10, 10));
        waits(&bucket, slow, now, 10);
        assert!(bucket.take(fast, now, LONGEST_WAIT).is_err());
        let later = now + Duration::from_secs(12);
        assert_eq!(waits(&bucket, fast, later, 2), [0, 0]);
        // A bucket that was hardly used stays nearly full under another budget.
        let (bucket, wide) = (TokenBucket::default(), budget(1000, 10));
        waits(&bucket, wide, now, 1);
        assert_eq!(waits(&bucket, slow, now, 10)[..9], [0; 9]);
    }
}
