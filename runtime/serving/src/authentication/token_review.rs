//! Bearer tokens, which the API server reviews. Answers are kept for a short while, by a hash of the token.

use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::Client;
use kube::api::{Api, PostParams};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::{Unauthorized, User};
use crate::access_cache::AccessCache;

/// Time limit of a review, as upstream's (PROC-034).
const REVIEW: Duration = Duration::from_secs(10);
/// Reviews under way at most: made-up tokens cannot flood the API server.
const REVIEWS: usize = 8;
/// A token is never longer; the API server's own are two kilobytes.
const LONGEST: usize = 16 * 1024;

pub(super) struct TokenReviewer {
    reviews: Api<TokenReview>,
    /// `None`: the token belongs to nobody.
    known: AccessCache<[u8; 32], Option<User>>,
    time: Duration,
    under_way: Semaphore,
}

impl TokenReviewer {
    pub(super) fn new(client: Client, time: Duration) -> TokenReviewer {
        TokenReviewer {
            reviews: Api::all(client),
            known: AccessCache::new(),
            time,
            under_way: Semaphore::new(REVIEWS),
        }
    }

    /// The user whom the token belongs to.
    ///
    /// # Errors
    /// The API server does not know it, or cannot be asked.
    pub(super) async fn user(&self, token: &str) -> Result<User, Unauthorized> {
        if token.len() > LONGEST {
            return Err(Unauthorized);
        }
        let key: [u8; 32] = Sha256::digest(token).into();
        let now = Instant::now();
        if let Some(user) = self.known.get(&key, now) {
            return user.ok_or(Unauthorized);
        }
        let review = timeout(REVIEW, self.review(token)).await;
        let user = review.map_err(|_| Unauthorized)??;
        self.known.put(key, user.clone(), now, self.time);
        user.ok_or(Unauthorized)
    }

    async fn review(&self, token: &str) -> Result<Option<User>, Unauthorized> {
        let _slot = self.under_way.acquire().await.map_err(|_| Unauthorized)?;
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let answer = self.reviews.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(|error| {
            // The error may quote what was sent.
            let status = crate::gate::status_code(&error);
            tracing::warn!(status, "the API server cannot review a token");
            Unauthorized
        })?;
        let status = answer.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true));
        Ok(user.map(|user| User {
            name: user.username.unwrap_or_default(),
            uid: user.uid.unwrap_or_default(),
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        }))
    }
}
