//! The gate in front of the endpoints: authentication, then authorisation. Refused requests are answered with
//! Kubernetes Status objects, as upstream's (PROC-075).

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use serde_json::json;

use crate::authentication::{Authenticator, PeerCertificates, User};
use crate::authorization::Authorizer;

/// Authentication and authorisation, in this order.
pub(crate) struct Gate {
    pub authenticator: Arc<Authenticator>,
    pub authorizer: Authorizer,
}

/// Lets requests through whose user may read the path.
pub(crate) async fn pass(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<PeerCertificates>();
    let peer = peer.cloned().unwrap_or_default();
    let Ok(user) = gate.authenticator.user(&peer, request.headers()).await else {
        return refused(
            StatusCode::UNAUTHORIZED,
            "Unauthorized",
            "Unauthorized".to_owned(),
        );
    };
    let verb = request.method().as_str().to_ascii_lowercase();
    let path = request.uri().path();
    if !gate.authorizer.allows(&user, &verb, path).await {
        return forbidden(&user, &verb, path);
    }
    next.run(request).await
}

fn forbidden(user: &User, verb: &str, path: &str) -> Response {
    let message = format!(
        "forbidden: User {:?} cannot {verb} path {path:?}",
        user.name
    );
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
    use kube::core::Status;

    use super::*;

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
