//! Request quotas that targets share because the cloud counts them together: targets of the same provider, with the
//! same endpoint and credential, in all generations of the provider. Two providers share nothing, so neither can
//! hold the other back; a version on trial cannot hold back the serving one.
//!
//! | Version | rate-limit hold by the cloud | requests |
//! |---|---|---|
//! | serving | holds all generations | the whole budget |
//! | on trial | holds this generation alone | a tenth, which also counts against the whole budget |

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use ccm_metrics::requests::StatedRemaining;
use http::header::HeaderMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::cloud_quota::{CloudQuota, StatedQuota};
use super::rate_limit_hold::RateLimitHold;
use super::target::Target;
use super::token_bucket::TokenBucket;
use crate::digest::sha256_of_parts;
use crate::grant::RequestBudget;

/// Minimum time for which a metric shows a statement of the cloud: a full budget is reported as full at once, and
/// scrapes are half a minute apart. Also the whole time if the cloud does not say when its window ends.
const SHOWN: Duration = Duration::from_secs(60);

/// Quota groups of all providers of a host. A group is dropped with the last target that uses it.
#[derive(Default)]
pub(crate) struct QuotaGroups(Mutex<HashMap<Key, Weak<QuotaGroup>>>);

/// SHA-256 of provider, endpoint and credential; a hash, because the credential must not be stored here.
type Key = [u8; 32];

/// Quota shared by all generations.
#[derive(Default)]
struct QuotaGroup {
    rate_limit_hold: RateLimitHold,
    stated: StatedQuota,
    sent: TokenBucket,
    /// Requests of versions on trial; a new version on trial inherits the remaining budget.
    tried: TokenBucket,
}

/// One generation's view of a quota group.
pub(super) struct QuotaShare {
    quota: Arc<QuotaGroup>,
    budget: RequestBudget,
    /// Rate-limit hold that the cloud set for this generation while it was on trial.
    own: RateLimitHold,
    serves: AtomicBool,
}

impl QuotaGroups {
    /// Lets a target of this provider join its existing quota group, or registers a new one.
    pub(super) fn share(&self, provider: &str, target: &mut Target) {
        let key = key(provider, target);
        let mut quota_groups = self.0.lock();
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
    /// Share of a serving generation, with a quota group of its own.
    pub(super) fn new(budget: RequestBudget) -> QuotaShare {
        QuotaShare {
            quota: Arc::default(),
            budget,
            own: RateLimitHold::default(),
            serves: AtomicBool::new(true),
        }
    }

    /// Sets whether the generation serves or is on trial.
    pub(super) fn serves(&self, serves: bool) {
        self.serves.store(serves, Ordering::Release);
    }

    fn is_on_trial(&self) -> bool {
        !self.serves.load(Ordering::Acquire)
    }

    /// Processes the status and headers of an answer.
    pub(super) fn observe(&self, status: u16, headers: &HeaderMap, now: Instant, wall: SystemTime) {
        let rate_limit_hold = match self.is_on_trial() {
            true => &self.own,
            false => &self.quota.rate_limit_hold,
        };
        rate_limit_hold.observe(status, headers, now, wall);
        self.quota.stated.observe(headers, now, wall);
    }

    /// The cloud's last statement about its own rate limit.
    pub(super) fn stated(&self, now: Instant) -> Option<CloudQuota> {
        self.quota.stated.last(now)
    }

    /// The last statement for a metric, which shows it until the cloud's window ends or no generation uses the quota.
    pub(super) fn shown(&self, quota: &CloudQuota) -> StatedRemaining {
        let least = SHOWN.saturating_sub(quota.age);
        let quota_group: Weak<QuotaGroup> = Arc::downgrade(&self.quota);
        StatedRemaining {
            remaining: quota.remaining,
            lasts: quota.reset.unwrap_or_default().max(least),
            listener: quota_group,
        }
    }

    /// Remaining rate-limit hold of this generation; `None` if there is no hold.
    pub(super) fn held(&self, now: Instant) -> Option<Duration> {
        self.own
            .remaining(now)
            .max(self.quota.rate_limit_hold.remaining(now))
    }

    /// Takes one request out of the budget; returns it, and how long it has to wait before it is sent.
    ///
    /// # Errors
    /// The wait, if it would exceed `most`. Then nothing is taken.
    pub(super) fn take(
        &self,
        now: Instant,
        most: Duration,
    ) -> Result<(TakenRequest<'_>, Duration), Duration> {
        let mut taken = TakenRequest {
            at: now,
            from: Vec::with_capacity(2),
        };
        let mut wait = taken.take(&self.quota.sent, self.budget, most)?;
        if self.is_on_trial() {
            let tenth = self.budget.tenth();
            wait = wait.max(taken.take(&self.quota.tried, tenth, most)?);
        }
        Ok((taken, wait))
    }

    /// The budget of this generation, and the requests of it that may be sent now.
    pub(super) fn left(&self, now: Instant) -> (RequestBudget, u32) {
        let sent = self.quota.sent.left(self.budget, now);
        match self.is_on_trial() {
            true => {
                let tenth = self.budget.tenth();
                (tenth, sent.min(self.quota.tried.left(tenth, now)))
            }
            false => (self.budget, sent),
        }
    }

    /// Time until the budget has a request again; `None` if it has one now.
    pub(super) fn spent(&self, now: Instant) -> Option<Duration> {
        let tried = match self.is_on_trial() {
            true => self.quota.tried.wait(self.budget.tenth(), now),
            false => Duration::ZERO,
        };
        let wait = tried.max(self.quota.sent.wait(self.budget, now));
        Some(wait).filter(|wait| !wait.is_zero())
    }
}

/// A request that was taken out of one or two budgets. If it is dropped, it was not sent, and goes back.
pub(super) struct TakenRequest<'a> {
    at: Instant,
    from: Vec<(&'a TokenBucket, RequestBudget)>,
}

impl<'a> TakenRequest<'a> {
    fn take(
        &mut self,
        bucket: &'a TokenBucket,
        budget: RequestBudget,
        most: Duration,
    ) -> Result<Duration, Duration> {
        let wait = bucket.take(budget, self.at, most)?;
        self.from.push((bucket, budget));
        Ok(wait)
    }

    /// The request is sent.
    pub(super) fn spend(mut self) {
        self.from.clear();
    }
}

impl Drop for TakenRequest<'_> {
    fn drop(&mut self) {
        for (bucket, budget) in &self.from {
            bucket.put_back(*budget, self.at);
        }
    }
}

fn key(provider: &str, target: &Target) -> Key {
    sha256_of_parts([
        provider.as_bytes(),
        target.endpoint.as_str().as_bytes(),
        &target.identity,
    ])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use http::StatusCode;
    use http::header::{HeaderValue, RETRY_AFTER};
    use serde_json::json;

    use super::*;
    use crate::egress::{Egress, EgressLimits};
    use crate::grant::{Credential, Secret};
    use crate::manifest::Manifest;

    const LONGEST_WAIT: Duration = Duration::from_secs(2);
    const HALF_A_MINUTE: Duration = Duration::from_secs(30);

    /// Shares of a serving version and of one on trial, with this many requests per hour.
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
        let taken = (0..1000).filter_map(|_| share.take(now, LONGEST_WAIT).ok());
        taken.map(|(request, _)| request.spend()).count()
    }

    fn throttled(share: &QuotaShare, now: Instant) {
        let after = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("30"))]);
        let status = StatusCode::TOO_MANY_REQUESTS.as_u16();
        share.observe(status, &after, now, SystemTime::now());
    }

    /// An egress of this provider with one target.
    fn egress(provider: &str, endpoint: &str, token: &str) -> Egress {
        let manifest = json!({
            "contract": "0.2.0", "name": "test", "version": "1",
            "targets": [{
                "name": "api", "endpoint": "https://cloud.test", "auth": "bearer",
                "rules": [{ "methods": ["GET"], "path": "/", "access": "read" }],
            }],
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
        let mut grants = manifest.as_grants();
        grants.targets[0].endpoint = endpoint.parse().unwrap();
        grants.targets[0].credential = Credential::Bearer(Secret::new(token.to_owned()));
        let granted = manifest.narrow(grants).unwrap();
        Egress::new(provider, &granted, EgressLimits::standard()).unwrap()
    }

    #[test]
    fn a_quota_is_of_one_provider_endpoint_and_credential() {
        let (endpoint, token) = ("http://127.0.0.1:9", "token-7d1f0a3c9e");
        let quota_groups = QuotaGroups::default();
        let first = egress("one", endpoint, token).sharing(&quota_groups);
        for (provider, endpoint, token, is_shared) in [
            ("one", endpoint, token, true),
            ("two", endpoint, token, false),
            ("one", "http://127.0.0.1:8", token, false),
            ("one", endpoint, "token-5f0a3c9e7d", false),
        ] {
            let second = egress(provider, endpoint, token).sharing(&quota_groups);
            let [one, other] = [&first, &second].map(|egress| &egress.targets[0].share.quota);
            let found = Arc::ptr_eq(one, other);
            assert_eq!(found, is_shared, "{provider} {endpoint} {token}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_egress_is_held_by_its_cloud_and_by_a_spent_budget() {
        let new = || egress("one", "http://127.0.0.1:9", "token-7d1f0a3c9e");
        let (limited, spent, now) = (new(), new(), Instant::now());
        throttled(&limited.targets[0].share, now);
        assert_eq!(limited.held_for(), Some(HALF_A_MINUTE));
        assert_eq!(spent.held_for(), None);
        spent.serves(false);
        sent(&spent.targets[0].share, now);
        assert!(spent.held_for().is_some());
        spent.serves(true);
        assert_eq!(spent.held_for(), None);
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
        // Once it serves, its holds apply to all versions.
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
        // When the whole budget is spent, a version on trial gets nothing, either.
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
        // In six minutes ten requests come back to the whole budget, and one would to the tenth.
        let later = now + Duration::from_secs(360);
        assert_eq!(sent(&tried, later), 10);
    }

    #[test]
    fn what_a_cloud_said_is_shown_until_its_window_ends_and_at_least_for_two_scrapes() {
        let share = QuotaShare::new(RequestBudget::default());
        let second = Duration::from_secs(1);
        for (reset, age, lasts) in [
            (None, 0, 60),
            (None, 59, 1),
            (None, 61, 0),
            (Some(0), 0, 60),
            (Some(0), 70, 0),
            (Some(3600), 0, 3600),
            (Some(90), 30, 90),
        ] {
            let quota = CloudQuota {
                remaining: 7,
                limit: None,
                reset: reset.map(|reset| reset * second),
                age: age * second,
            };
            let shown = share.shown(&quota);
            assert_eq!(
                (shown.remaining, shown.lasts),
                (7, lasts * second),
                "{quota:?}"
            );
        }
        let shown = share.shown(&CloudQuota {
            remaining: 7,
            limit: None,
            reset: None,
            age: Duration::ZERO,
        });
        assert_eq!(shown.listener.strong_count(), 1);
        drop(share);
        assert_eq!(shown.listener.strong_count(), 0);
    }

    #[test]
    fn a_tenth_is_never_nothing() {
        let ([_, tried], now) = (shares(3), Instant::now());
        assert_eq!(sent(&tried, now), 1);
    }
}
