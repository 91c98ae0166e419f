//! Bearer tokens, which the API server reviews. Answers are kept for a short while, by a hash of the token.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::{Api, Client};
use sha2::{Digest as _, Sha256};

use super::{Unauthorized, User};
use crate::review_client::Reviews;

/// Maximum length of a token, in bytes; the API server's own are two kilobytes.
const LONGEST: usize = 16 * 1024;
/// Maximum time for which a review with an error counts: the flag's default. An API server answers so about every token
/// that is made up, so that upstream, which keeps none of these, has each request of such a client reviewed.
const FAILED_TIME: Duration = Duration::from_secs(10);

/// Why a token names no user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// It is valid for no user.
    Invalid,
    /// The token is made up, or an authenticator of the API server that may know it has failed.
    Failed,
}

pub(super) struct TokenReviewer {
    reviews: Reviews<TokenReview, [u8; 32], Result<User, Refusal>>,
    time: Duration,
}

impl TokenReviewer {
    pub(super) fn new(client: Client, time: Duration) -> TokenReviewer {
        TokenReviewer {
            reviews: Reviews::new(Api::all(client), "a token"),
            time,
        }
    }

    /// The user of the token.
    ///
    /// # Errors
    /// The API server does not know it, or cannot be asked.
    pub(super) async fn user(&self, token: &str) -> Result<User, Unauthorized> {
        if token.len() > LONGEST {
            return Err(Unauthorized::Invalid);
        }
        let key: [u8; 32] = Sha256::digest(token).into();
        let kept = |answer: &Result<User, Refusal>| match answer {
            Err(Refusal::Failed) => self.time.min(FAILED_TIME),
            Ok(_) | Err(Refusal::Invalid) => self.time,
        };
        let answer = self.reviews.answer(key, || review(token), user, kept);
        let answer = answer.await.ok_or(Unauthorized::NotReviewed)?;
        answer.map_err(|_| Unauthorized::Invalid)
    }
}

fn review(token: &str) -> TokenReview {
    TokenReview {
        spec: TokenReviewSpec {
            token: Some(token.to_owned()),
            ..TokenReviewSpec::default()
        },
        ..TokenReview::default()
    }
}

fn user(answer: TokenReview) -> Result<User, Refusal> {
    let status = answer.status.unwrap_or_default();
    let refusal = match status.error.as_deref() {
        None | Some("") => Refusal::Invalid,
        Some(_) => Refusal::Failed,
    };
    let user = status.user.filter(|_| status.authenticated == Some(true));
    let user = user.ok_or(refusal)?;
    Ok(User {
        name: user.username.unwrap_or_default(),
        uid: user.uid.unwrap_or_default(),
        groups: user.groups.unwrap_or_default(),
        extra: user.extra.unwrap_or_default(),
    })
}
