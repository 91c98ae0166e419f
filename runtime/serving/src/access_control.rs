//! The gate in front of the endpoints: authentication, then authorisation. Refused requests are answered with
//! Kubernetes Status objects, as upstream's (PROC-075).

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use ccm_core::go_text::Quoted;
use http::StatusCode;
use serde_json::json;

use crate::authentication::{Authenticator, PeerCertificates, Unauthorized, User};
use crate::authorization::{AccessDecision, Authorizer};
use crate::told_reason::ToldReason;

/// Characters of a verb and of a path in a refusal. Both are the client's, who may leave the answer unread.
const MOST_SHOWN: usize = 1024;

/// Authentication and authorisation, in this order.
pub(crate) struct Gate {
    pub authenticator: Arc<Authenticator>,
    pub authorizer: Authorizer,
    /// Limits the lines about invalid credentials, of which anybody can send any number.
    pub unauthorized_log: ToldReason,
}

/// Lets requests through whose user may read the path.
pub(crate) async fn pass(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<PeerCertificates>();
    let peer = peer.cloned().unwrap_or_default();
    let verb = request.method().as_str().to_ascii_lowercase();
    let path = request.uri().path();
    let user = match gate.authenticator.user(&peer, request.headers()).await {
        Ok(user) => user,
        Err(refusal) => {
            // That a review failed has a line of its own.
            if refusal == Unauthorized::Invalid
                && gate.unauthorized_log.is_due("invalid", Instant::now())
            {
                tracing::warn!(
                    verb,
                    path,
                    "refused a request whose credentials are invalid; this is logged at most once a minute"
                );
            }
            return refused(
                StatusCode::UNAUTHORIZED,
                "Unauthorized",
                "Unauthorized".to_owned(),
            );
        }
    };
    match gate.authorizer.access(&user, &verb, path).await {
        AccessDecision::Allowed => next.run(request).await,
        AccessDecision::Denied => {
            tracing::debug!(
                user = user.name,
                verb,
                path,
                "refused a request whose user lacks the right to it"
            );
            forbidden(&user, &verb, path)
        }
        AccessDecision::Unknown => {
            // Plain text, as upstream's: no right is missing as far as anybody knows.
            let text = format!(
                "Internal Server Error: {}: the API server could not review the access\n",
                Quoted(path)
            );
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

fn forbidden(user: &User, verb: &str, path: &str) -> Response {
    let shown = |text: &str| text.chars().take(MOST_SHOWN).collect::<String>();
    let (name, verb, path) = (&user.name, shown(verb), shown(path));
    let (name, path) = (Quoted(name), Quoted(&path));
    let message = format!("forbidden: User {name} cannot {verb} path {path}");
    refused(StatusCode::FORBIDDEN, "Forbidden", message)
}

/// A Status object that gives the reason of a refusal.
pub(crate) fn refused(code: StatusCode, reason: &str, message: String) -> Response {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code.as_u16(),
    });
    (code, Json(status)).into_response()
}

/// Whether the API server cannot be reached, or cannot serve yet: what passes by itself. Other errors, such as missing
/// rights, are its answer.
pub fn is_unanswered(error: &kube::Error) -> bool {
    matches!(status_code(error), 0 | 429 | 500..)
}

/// HTTP status of an API error; 0 if the server could not be asked.
pub(crate) fn status_code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fmt::Debug;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use axum::Router;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use kube::Client;
    use kube::core::Status;
    use serde_json::Value;
    use tower::{ServiceExt as _, service_fn};
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;
    use crate::settings::{Authentication, Authorization};
    use crate::told_reason::ONCE_A_MINUTE;

    /// A router behind the gate, where the API server answers each review so.
    async fn gated(code: u16, review: &Value) -> Router {
        gated_by(move |_| code, review).await
    }

    /// The same, with the code of each request to the API server by its number.
    async fn gated_by(
        code: impl Fn(usize) -> u16 + Clone + Send + 'static,
        review: &Value,
    ) -> Router {
        let body = serde_json::to_vec(review).unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let api_server = service_fn(move |_: http::Request<kube::client::Body>| {
            let number = requests.fetch_add(1, Ordering::Relaxed);
            let answer = http::Response::builder().status(code(number));
            std::future::ready(answer.body(kube::client::Body::from(body.clone())))
        });
        let client = Client::new(api_server, "default");
        let authentication = Authentication {
            cluster: None,
            cache: Duration::ZERO,
            client_ca: None,
            request_header: None,
            skips_lookup: true,
            tolerates_failed_lookup: false,
        };
        let authorization = Authorization {
            cluster: None,
            cache_allowed: Duration::ZERO,
            cache_denied: Duration::ZERO,
            always_allowed: Vec::new(),
        };
        let authenticator = Authenticator::new(authentication, Some(client.clone())).await;
        let gate = Arc::new(Gate {
            authenticator: Arc::new(authenticator.ok().unwrap()),
            authorizer: Authorizer::new(authorization, Some(client)),
            unauthorized_log: ToldReason::new(ONCE_A_MINUTE),
        });
        let router = Router::new().route("/metrics", get(async || "all of them"));
        router.layer(from_fn_with_state(gate, pass))
    }

    /// The status of the answer to `GET /metrics` with this token.
    async fn answered(router: &Router, token: Option<&str>) -> StatusCode {
        let mut request = http::Request::get("/metrics");
        if let Some(token) = token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let request = request.body(axum::body::Body::empty()).unwrap();
        router.clone().oneshot(request).await.unwrap().status()
    }

    #[tokio::test(start_paused = true)]
    async fn proc_075_only_the_api_servers_refusal_is_a_refusal() {
        let review = |status: Value| json!({"metadata": {}, "spec": {}, "status": status});
        let failed = |code: u16| json!({"kind": "Status", "status": "Failure", "message": "no", "reason": "", "code": code});
        for (code, body, expected) in [
            (201, review(json!({"allowed": true})), StatusCode::OK),
            (
                201,
                review(json!({"allowed": false})),
                StatusCode::FORBIDDEN,
            ),
            // One authorizer of the API server allows it, and another one forbids it.
            (
                201,
                review(json!({"allowed": true, "denied": true})),
                StatusCode::FORBIDDEN,
            ),
            // It was not reviewed at all.
            (403, failed(403), StatusCode::INTERNAL_SERVER_ERROR),
            (503, failed(503), StatusCode::INTERNAL_SERVER_ERROR),
        ] {
            let router = gated(code, &body).await;
            assert_eq!(answered(&router, None).await, expected, "{code} {body}");
        }
    }

    #[tokio::test]
    async fn the_log_names_who_is_refused_and_bounds_what_strangers_write_there() {
        let review = json!({"metadata": {}, "spec": {}, "status": {"allowed": false}});
        let router = gated(201, &review).await;
        let log = RecordedLines::default();
        let _recording = tracing::subscriber::set_default(log.clone());
        for _ in 0..2 {
            assert_eq!(answered(&router, None).await, StatusCode::FORBIDDEN);
            let status = answered(&router, Some("made-up")).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED);
        }
        let lines = log.0.lock().unwrap().clone();
        let at = |level: Level| lines.iter().filter(move |(of, _)| *of == level);
        assert_eq!(at(Level::WARN).count(), 1, "{lines:?}");
        assert_eq!(at(Level::DEBUG).count(), 2, "{lines:?}");
        for (level, line) in &lines {
            assert!(line.contains("verb=get path=/metrics "), "{line}");
            let names = line.contains("user=system:anonymous ");
            assert_eq!(names, *level == Level::DEBUG, "{line}");
            assert!(!line.contains("made-up"), "{line}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_was_not_reviewed_is_not_called_invalid() {
        for code in [403, 503] {
            let failed = json!({"kind": "Status", "status": "Failure", "message": "no", "reason": "", "code": code});
            let router = gated(code, &failed).await;
            let log = RecordedLines::default();
            let _recording = tracing::subscriber::set_default(log.clone());
            for _ in 0..2 {
                let status = answered(&router, Some("valid")).await;
                assert_eq!(status, StatusCode::UNAUTHORIZED);
            }
            let lines = log.0.lock().unwrap().clone();
            let [(Level::WARN, line)] = &lines[..] else {
                panic!("{code}: {lines:?}");
            };
            assert!(line.contains("cannot review a token"), "{line}");
            assert!(line.contains(&format!("reason=status {code} ")), "{line}");
        }
    }

    /// An overloaded API server fails in several ways in turns.
    #[tokio::test(start_paused = true)]
    async fn reviews_that_fail_for_changing_reasons_write_one_line() {
        let failed = json!({"kind": "Status", "status": "Failure", "message": "no", "reason": "", "code": 503});
        // Each review is tried five times.
        let code = |number: usize| {
            if (number / 5).is_multiple_of(2) {
                503
            } else {
                429
            }
        };
        let router = gated_by(code, &failed).await;
        let log = RecordedLines::default();
        let _recording = tracing::subscriber::set_default(log.clone());
        for token in ["a", "b", "c"] {
            let status = answered(&router, Some(token)).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED);
        }
        let lines = log.0.lock().unwrap().clone();
        assert_eq!(lines.len(), 1, "{lines:?}");
    }

    /// The lines of this crate in the log, with their fields as `name=value`.
    #[derive(Clone, Default)]
    struct RecordedLines(Arc<Mutex<Vec<(Level, String)>>>);

    struct Fields(String);

    impl Visit for Fields {
        fn record_str(&mut self, field: &Field, value: &str) {
            self.0 += &format!("{}={value} ", field.name());
        }

        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            self.0 += &format!("{}={value:?} ", field.name());
        }
    }

    impl Subscriber for RecordedLines {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target().starts_with("ccm_serving::")
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut fields = Fields(String::new());
            event.record(&mut fields);
            let line = (*event.metadata().level(), fields.0);
            self.0.lock().unwrap().push(line);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn what_passes_by_itself_is_no_answer() {
        for (code, expected) in [
            (401, false),
            (403, false),
            (404, false),
            (429, true),
            (500, true),
            (503, true),
        ] {
            let status = Status::failure("", "").with_code(code);
            let error = kube::Error::Api(Box::new(status));
            assert_eq!(is_unanswered(&error), expected, "{code}");
        }
        let away = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert!(is_unanswered(&kube::Error::Service(Box::new(away))));
    }
}
