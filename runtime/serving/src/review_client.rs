//! Reviews of users, which the API server answers. All kinds have the same bounds: a timeout, a number of requests
//! under way, and a number of kept answers. Changes nothing in the cluster: a review is created only to be answered.

use std::error::Error;
use std::fmt::Debug;
use std::hash::Hash;
use std::io;
use std::time::Duration;

use kube::api::{Api, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use crate::access_cache::AccessCache;
use crate::access_control::{is_unanswered, status_code};
use crate::told_reason::{ONCE_A_MINUTE, ToldReason};

/// Time limit of a review, as upstream's (PROC-034).
const TIME: Duration = Duration::from_secs(10);
/// Attempts at a review, the pause after the first one, and how much longer each further pause is; upstream's (PROC-034).
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(500);
const GROWTH: f64 = 1.5;
/// Maximum reviews of one kind under way: made-up tokens and paths cannot flood the API server.
const UNDER_WAY: usize = 8;

/// Reviews of the kind `R`. Answers `A` are kept by `K`.
pub(crate) struct Reviews<R, K, A> {
    api: Api<R>,
    /// The kind of review, for the log.
    what: &'static str,
    known: AccessCache<K, A>,
    under_way: Semaphore,
    /// Limits the lines about failed reviews, of which anybody can cause any number.
    told: ToldReason,
}

impl<R, K, A> Reviews<R, K, A>
where
    R: Clone + Debug + Serialize + DeserializeOwned,
    K: Hash + Eq + Clone,
    A: Clone,
{
    pub(crate) fn new(api: Api<R>, what: &'static str) -> Reviews<R, K, A> {
        Reviews {
            api,
            what,
            known: AccessCache::new(),
            under_way: Semaphore::new(UNDER_WAY),
            told: ToldReason::new(ONCE_A_MINUTE),
        }
    }

    /// The kept answer, or else the API server's to `review`, converted by `read` and kept for the time that `kept`
    /// returns. `None`: there is no answer, and nothing is kept.
    pub(crate) async fn answer(
        &self,
        key: K,
        review: impl FnOnce() -> R,
        read: impl FnOnce(R) -> A,
        kept: impl FnOnce(&A) -> Duration,
    ) -> Option<A> {
        let now = Instant::now().into_std();
        if let Some(known) = self.known.get(&key, now) {
            return Some(known);
        }
        let answer = match timeout(TIME, self.ask(&review())).await {
            Ok(Ok(answer)) => read(answer),
            // The error may quote the request.
            Ok(Err(error)) => return self.failed(&format!("status {}", status_code(&error))),
            Err(_) => return self.failed("no answer in time"),
        };
        let time = kept(&answer);
        self.known.put(key, answer.clone(), now, time);
        Some(answer)
    }

    /// Without an answer, for this reason.
    fn failed(&self, reason: &str) -> Option<A> {
        if self.told.is_due("failed", Instant::now().into_std()) {
            let what = self.what;
            tracing::warn!(
                reason,
                "the API server cannot review {what}; this is logged at most once a minute"
            );
        }
        None
    }

    /// The API server's answer. What passes by itself is asked for again.
    async fn ask(&self, review: &R) -> kube::Result<R> {
        let (mut tries, mut pause) = (TRIES, PAUSE);
        loop {
            let answer = self.ask_once(review).await;
            tries -= 1;
            match answer {
                Err(error) if tries > 0 && may_pass(&error) => {}
                answer => return answer,
            }
            sleep(pause).await;
            pause = pause.mul_f64(GROWTH);
        }
    }

    async fn ask_once(&self, review: &R) -> kube::Result<R> {
        // Not held during a pause. The semaphore is never closed.
        let _slot = self.under_way.acquire().await.ok();
        self.api.create(&PostParams::default(), review).await
    }
}

/// Whether another attempt may be answered: the API server is busy, or has ended the connection. As upstream, one that
/// does not listen is not asked again.
fn may_pass(error: &kube::Error) -> bool {
    let first: &(dyn Error + 'static) = error;
    let mut causes = std::iter::successors(Some(first), |error| Error::source(*error));
    let is_away = causes.any(|cause| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.is_some_and(|cause| cause.kind() == io::ErrorKind::ConnectionRefused)
    });
    is_unanswered(error) && !is_away
}
