//! What targets share because the cloud counts it together: those of the same provider, at the same endpoint, with the same
//! credential, whichever generation of the provider sends. Two providers share nothing, so that none of them can hold the
//! other back; nor does a version on trial hold back the one that serves.
//!
//! | | asked to wait by the cloud | requests |
//! |---|---|---|
//! | what serves | holds all generations | the whole budget |
//! | what is tried | holds this generation alone | a tenth, which counts in the whole as well |

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use http::header::HeaderMap;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::rate_limit_hold::RateLimitHold;
use super::target::Target;
use super::token_bucket::TokenBucket;
use crate::grant::RequestBudget;

/// The accounts of all providers of a host. One is forgotten with the last target that has it.
#[derive(Default)]
pub(crate) struct QuotaGroups(Mutex<HashMap<Key, Weak<QuotaGroup>>>);

/// Rather than the parts themselves, because one of them is a credential.
type Key = [u8; 32];

/// What all generations have together.
#[derive(Default)]
struct QuotaGroup {
    rate_limit_hold: RateLimitHold,
    sent: TokenBucket,
    /// By versions on trial, one after the other: a new one has no more than was left.
    tried: TokenBucket,
}

/// What one generation has of an account.
pub(super) struct QuotaShare {
    quota: Arc<QuotaGroup>,
    budget: RequestBudget,
    /// What the cloud asked of this generation while it was on trial.
    own: RateLimitHold,
    serves: AtomicBool,
}

impl QuotaGroups {
    /// Lets a target of this provider have the account that there is, or a new one.
    pub(super) fn share(&self, provider: &str, target: &mut Target) {
        let key = key(provider, target);
        let mut quota_groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        quota_groups.retain(|_, quota| quota.strong_count() > 0);
        match quota_groups.get(&key).and_then(Weak::upgrade) {
            Some(quota) => target.share.quota = quota,
            None => {
                quota_groups.insert(key, Arc::downgrade(&target.share.quota));
            }
        }
    }
}

impl QuotaShare {
    /// Of a generation that serves, with an account of its own.
    pub(super) fn new(budget: RequestBudget) -> QuotaShare {
        QuotaShare {
            quota: Arc::default(),
            budget,
            own: RateLimitHold::default(),
            serves: AtomicBool::new(true),
        }
    }

    /// The generation is on trial from now on, or serves.
    pub(super) fn serves(&self, serves: bool) {
        self.serves.store(serves, Ordering::Release);
    }

    fn is_on_trial(&self) -> bool {
        !self.serves.load(Ordering::Acquire)
    }

    /// Hears an answer.
    pub(super) fn hear(&self, status: u16, headers: &HeaderMap, now: Instant, wall: SystemTime) {
        let rate_limit_hold = match self.is_on_trial() {
            true => &self.own,
            false => &self.quota.rate_limit_hold,
        };
        rate_limit_hold.hear(status, headers, now, wall);
    }

    /// How long the cloud still wants to be left alone.
    pub(super) fn held(&self, now: Instant) -> Option<Duration> {
        self.own
            .remaining(now)
            .max(self.quota.rate_limit_hold.remaining(now))
    }

    /// Takes one request out of the budget, and says how long it has to wait for its turn.
    ///
    /// # Errors
    /// It would have to wait for longer than `most`: so long. Then nothing was taken.
    pub(super) fn take(&self, now: Instant, most: Duration) -> Result<Duration, Duration> {
        if !self.is_on_trial() {
            return self.quota.sent.take(self.budget, now, most);
        }
        let tenth = self.budget.tenth();
        let tried = self.quota.tried.take(tenth, now, most)?;
        match self.quota.sent.take(self.budget, now, most) {
            Ok(sent) => Ok(tried.max(sent)),
            Err(wait) => {
                self.quota.tried.put_back(tenth);
                Err(wait)
            }
        }
    }

    /// How long there is no request left in the budget.
    pub(super) fn spent(&self, now: Instant) -> Option<Duration> {
        let tried = match self.is_on_trial() {
            true => self.quota.tried.wait(self.budget.tenth(), now),
            false => Duration::ZERO,
        };
        let wait = tried.max(self.quota.sent.wait(self.budget, now));
        Some(wait).filter(|wait| !wait.is_zero())
    }
}

fn key(provider: &str, target: &Target) -> Key {
    let (name, value) = target.credential().unwrap_or_default();
    let mut hash = Sha256::new();
    for part in [
        provider.as_bytes(),
        target.endpoint.as_str().as_bytes(),
        name.as_bytes(),
        value,
    ] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use http::StatusCode;
    use http::header::{HeaderValue, RETRY_AFTER};

    use super::*;

    const PATIENT: Duration = Duration::from_secs(2);
    const HALF_A_MINUTE: Duration = Duration::from_secs(30);

    /// What serves and what is tried, with so many requests in an hour.
    fn shares(requests: u32) -> [QuotaShare; 2] {
        let budget = RequestBudget {
            requests: requests.try_into().unwrap(),
            per: Duration::from_secs(3600),
        };
        let serving = QuotaShare::new(budget);
        let tried = QuotaShare {
            quota: serving.quota.clone(),
            ..QuotaShare::new(budget)
        };
        tried.serves(false);
        [serving, tried]
    }

    fn sent(share: &QuotaShare, now: Instant) -> usize {
        let times = (0..1000).filter(|_| share.take(now, PATIENT).is_ok());
        times.count()
    }

    fn throttled(share: &QuotaShare, now: Instant) {
        let after = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("30"))]);
        let status = StatusCode::TOO_MANY_REQUESTS.as_u16();
        share.hear(status, &after, now, SystemTime::now());
    }

    #[test]
    fn what_is_tried_is_held_by_what_the_serving_version_heard_and_never_the_other_way_round() {
        let ([serving, tried], now) = (shares(100), Instant::now());
        throttled(&tried, now);
        assert_eq!(
            (serving.held(now), tried.held(now)),
            (None, Some(HALF_A_MINUTE))
        );
        let later = now + HALF_A_MINUTE;
        throttled(&serving, later);
        let held = Some(HALF_A_MINUTE);
        assert_eq!((serving.held(later), tried.held(later)), (held, held));
        // In its place it is heard for all that come after it.
        let last = later + HALF_A_MINUTE;
        tried.serves(true);
        throttled(&tried, last);
        assert_eq!((serving.held(last), tried.held(last)), (held, held));
    }

    #[test]
    fn what_is_tried_has_a_tenth_which_is_a_part_of_the_whole() {
        let ([serving, tried], now) = (shares(100), Instant::now());
        assert_eq!(sent(&tried, now), 10);
        assert!(tried.spent(now).is_some() && serving.spent(now).is_none());
        assert_eq!(sent(&serving, now), 90);
        assert!(serving.spent(now).is_some());
        // When all is spent, nothing is left for what is tried, either.
        let ([serving, tried], now) = (shares(100), Instant::now());
        assert_eq!((sent(&serving, now), sent(&tried, now)), (100, 0));
    }

    #[test]
    fn what_serves_in_the_end_has_the_whole_and_the_next_one_on_trial_what_was_left() {
        let ([serving, tried], now) = (shares(100), Instant::now());
        assert_eq!(sent(&tried, now), 10);
        let next = QuotaShare {
            quota: serving.quota.clone(),
            ..QuotaShare::new(serving.budget)
        };
        next.serves(false);
        assert_eq!(sent(&next, now), 0);
        tried.serves(true);
        assert_eq!(sent(&tried, now), 90);
    }

    #[test]
    fn what_the_whole_budget_refuses_costs_nothing_of_the_tenth() {
        let ([serving, tried], now) = (shares(100), Instant::now());
        assert_eq!((sent(&serving, now), sent(&tried, now)), (100, 0));
        // In six minutes ten come back to the whole, and one would to the tenth.
        let later = now + Duration::from_secs(360);
        assert_eq!(sent(&tried, later), 10);
    }

    #[test]
    fn a_tenth_is_never_nothing() {
        let ([_, tried], now) = (shares(3), Instant::now());
        assert_eq!(sent(&tried, now), 1);
    }
}
