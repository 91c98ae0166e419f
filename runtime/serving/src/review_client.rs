//! Reviews of users, which the API server answers. All kinds have the same bounds: a timeout, a number of requests
//! under way, and a number of kept answers. Changes nothing in the cluster: a review is created only to be answered.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use kube::api::{Api, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::access_cache::AccessCache;

/// Time limit of a review, as upstream's (PROC-034).
const TIME: Duration = Duration::from_secs(10);
/// Maximum reviews of one kind under way: made-up tokens and paths cannot flood the API server.
const UNDER_WAY: usize = 8;

/// Reviews of the kind `R`. Answers `A` are kept by `K`.
pub(crate) struct Reviews<R, K, A> {
    api: Api<R>,
    /// The kind of review, for the log.
    what: &'static str,
    known: AccessCache<K, A>,
    under_way: Semaphore,
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
        let now = Instant::now();
        if let Some(known) = self.known.get(&key, now) {
            return Some(known);
        }
        let answer = timeout(TIME, self.ask(review())).await.ok()??;
        let answer = read(answer);
        let time = kept(&answer);
        self.known.put(key, answer.clone(), now, time);
        Some(answer)
    }

    async fn ask(&self, review: R) -> Option<R> {
        let _slot = self.under_way.acquire().await.ok()?;
        let answer = self.api.create(&PostParams::default(), &review).await;
        answer
            .inspect_err(|error| {
                // The error may quote the request.
                let status = crate::access_control::status_code(error);
                tracing::warn!(status, "the API server cannot review {}", self.what);
            })
            .ok()
    }
}
