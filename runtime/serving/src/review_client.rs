//! Questions that the API server answers about users, bounded alike whatever is asked: in time, in how many are under way,
//! and in how many answers are kept. Changes nothing in the cluster: a review is created only to be answered.

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
/// Reviews of one kind under way at most: made-up tokens and paths cannot flood the API server.
const UNDER_WAY: usize = 8;

/// Reviews of the kind `R`. Answers `A` are kept by `K`.
pub(crate) struct Reviews<R, K, A> {
    api: Api<R>,
    /// What is reviewed, for the log.
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

    /// The kept answer, or that to `review`, which `read` understands and which is kept for the time that `kept` says.
    /// `None`: there is no answer, which is not kept.
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
                // The error may quote what was sent.
                let status = crate::access_control::status_code(error);
                tracing::warn!(status, "the API server cannot review {}", self.what);
            })
            .ok()
    }
}
