//! Decides whether a user may read a path, as upstream's delegating authorisation does (PROC-075): some paths are open,
//! `system:masters` may read all, and otherwise the API server is asked.

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::{Api, Client};

use crate::authentication::User;
use crate::review_client::Reviews;
use crate::settings::Authorization;

/// Maximum length of a path, and of a verb, that the API server is asked about, in bytes: both are kept with its answer.
const LONGEST: usize = 1024;

/// The decision about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessDecision {
    Allowed,
    Denied,
    /// The API server could not be asked.
    Unknown,
}

/// Decides whether a user may read a path.
pub(crate) struct Authorizer {
    settings: Authorization,
    reviews: Option<Reviews<SubjectAccessReview, (User, String, String), bool>>,
}

impl Authorizer {
    pub(crate) fn new(settings: Authorization, client: Option<Client>) -> Authorizer {
        Authorizer {
            settings,
            reviews: client.map(|client| Reviews::new(Api::all(client), "an access")),
        }
    }

    /// Whether `user` may request `path`. `verb` is the method in lower case.
    pub(crate) async fn access(&self, user: &User, verb: &str, path: &str) -> AccessDecision {
        if self.is_open(path) || user.groups.iter().any(|group| group == "system:masters") {
            return AccessDecision::Allowed;
        }
        let Some(reviews) = &self.reviews else {
            return AccessDecision::Denied;
        };
        if path.len().max(verb.len()) > LONGEST {
            return AccessDecision::Denied;
        }
        let key = (user.clone(), verb.to_owned(), path.to_owned());
        let answer = reviews.answer(
            key,
            || review(user, verb, path),
            |answer| {
                let status = answer.status;
                // One authorizer that forbids it outweighs all that allow it.
                status.is_some_and(|status| status.allowed && status.denied != Some(true))
            },
            |allowed| match allowed {
                true => self.settings.cache_allowed,
                false => self.settings.cache_denied,
            },
        );
        match answer.await {
            Some(true) => AccessDecision::Allowed,
            Some(false) => AccessDecision::Denied,
            None => AccessDecision::Unknown,
        }
    }

    /// As upstream, the first slash is optional in the settings.
    fn is_open(&self, path: &str) -> bool {
        let path = bare(path);
        let mut open = self.settings.always_allowed.iter();
        open.any(|pattern| match bare(pattern).strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => bare(pattern) == path,
        })
    }
}

fn bare(path: &str) -> &str {
    path.strip_prefix('/').unwrap_or(path)
}

fn review(user: &User, verb: &str, path: &str) -> SubjectAccessReview {
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.name.clone()),
            uid: Some(user.uid.clone()).filter(|uid| !uid.is_empty()),
            groups: Some(user.groups.clone()),
            extra: Some(user.extra.clone()).filter(|extra| !extra.is_empty()),
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(path.to_owned()),
                verb: Some(verb.to_owned()),
            }),
            resource_attributes: None,
        },
        ..SubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use kube::client::Body;
    use serde_json::json;

    use super::*;

    fn authorizer(open: &[&str]) -> Authorizer {
        let settings = Authorization {
            cluster: None,
            cache_allowed: Duration::ZERO,
            cache_denied: Duration::ZERO,
            always_allowed: open.iter().map(|&path| path.to_owned()).collect(),
        };
        Authorizer::new(settings, None)
    }

    #[tokio::test]
    async fn proc_075_open_paths_are_exact_and_masters_may_read_all() {
        let (nobody, mut master) = (User::anonymous(), User::anonymous());
        master.groups.push("system:masters".to_owned());
        let authorizer = authorizer(&["/healthz", "/public/*", "open", "part/*"]);
        for (user, path, expected) in [
            (&nobody, "/healthz", true),
            (&nobody, "/healthz/ping", false),
            (&nobody, "/public/any", true),
            (&nobody, "/open", true),
            (&nobody, "/part/any", true),
            (&nobody, "/part", false),
            (&nobody, "/metrics", false),
            (&master, "/metrics", true),
        ] {
            let access = authorizer.access(user, "get", path).await;
            assert_eq!(access == AccessDecision::Allowed, expected, "{path}");
        }
    }

    #[tokio::test]
    async fn nothing_is_asked_about_a_long_path_or_a_long_method() {
        let asked = Arc::new(AtomicBool::new(false));
        let is_asked = asked.clone();
        let api_server = tower::service_fn(move |_: http::Request<Body>| {
            is_asked.store(true, Ordering::Relaxed);
            let review = json!({"metadata": {}, "spec": {}, "status": {"allowed": true}});
            let answer = http::Response::builder().status(201);
            std::future::ready(answer.body(Body::from(review.to_string().into_bytes())))
        });
        let settings = Authorization {
            cluster: None,
            cache_allowed: Duration::ZERO,
            cache_denied: Duration::ZERO,
            always_allowed: Vec::new(),
        };
        let client = Client::new(api_server, "default");
        let authorizer = Authorizer::new(settings, Some(client));
        let text = |length| "x".repeat(length);
        for (verb, path, expected) in [
            (text(LONGEST), text(LONGEST), true),
            (text(LONGEST + 1), text(1), false),
            (text(1), text(LONGEST + 1), false),
        ] {
            asked.store(false, Ordering::Relaxed);
            let access = authorizer.access(&User::anonymous(), &verb, &path).await;
            let lengths = (verb.len(), path.len());
            assert_eq!(access == AccessDecision::Allowed, expected, "{lengths:?}");
            assert_eq!(asked.load(Ordering::Relaxed), expected, "{lengths:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_permission_and_a_denial_are_each_kept_for_their_own_time() {
        let allows = Arc::new(AtomicBool::new(true));
        let answer = allows.clone();
        let api_server = tower::service_fn(move |_: http::Request<Body>| {
            let status = json!({"allowed": answer.load(Ordering::Relaxed)});
            let review = json!({"metadata": {}, "spec": {}, "status": status}).to_string();
            let answer = http::Response::builder().status(201);
            std::future::ready(answer.body(Body::from(review.into_bytes())))
        });
        let settings = Authorization {
            cluster: None,
            cache_allowed: Duration::from_secs(60),
            cache_denied: Duration::from_secs(5),
            always_allowed: Vec::new(),
        };
        let client = Client::new(api_server, "default");
        let authorizer = Authorizer::new(settings, Some(client));
        for (allowed, seconds, is_kept) in [
            (true, 59, true),
            (true, 60, false),
            (false, 4, true),
            (false, 5, false),
        ] {
            let path = format!("/{allowed}-{seconds}");
            allows.store(allowed, Ordering::Relaxed);
            let first = authorizer.access(&User::anonymous(), "get", &path).await;
            allows.store(!allowed, Ordering::Relaxed);
            tokio::time::advance(Duration::from_secs(seconds)).await;
            let again = authorizer.access(&User::anonymous(), "get", &path).await;
            assert_eq!(first == AccessDecision::Allowed, allowed, "{path}");
            assert_eq!(again == first, is_kept, "{path}");
        }
    }
}
