//! What answers of the API server mean, and how long they are waited for.
#![allow(clippy::unwrap_used, reason = "tests")]

use k8s_openapi::api::core::v1::Node;
use kube::core::Status;

use super::*;

fn api_error(code: u16) -> kube::Error {
    let status: Status = serde_json::from_value(serde_json::json!({
        "status": "Failure", "message": "m", "reason": "", "code": code
    }))
    .unwrap();
    kube::Error::Api(Box::new(status))
}

#[test]
fn every_answer_of_the_api_server_has_one_meaning() {
    for (code, expected) in [
        (400, "rejected"),
        (401, "denied"),
        (403, "denied"),
        (405, "rejected"),
        (409, "conflict"),
        (413, "rejected"),
        (415, "rejected"),
        (422, "rejected"),
        (429, "unavailable"),
        (500, "unavailable"),
        (503, "unavailable"),
        (504, "unavailable"),
    ] {
        let error = meaning::<Node>(api_error(code)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{code}: {error}");
    }
    assert_eq!(meaning::<Node>(api_error(404)), Ok(None));
}

#[test]
fn a_busy_api_server_that_says_for_how_long_is_left_alone_for_so_long() {
    let status: Status = serde_json::from_value(serde_json::json!({
        "status": "Failure", "message": "m", "reason": "TooManyRequests", "code": 429,
        "details": { "retryAfterSeconds": 7 },
    }))
    .unwrap();
    let busy = ClusterError::Busy {
        message: "m (429)".to_owned(),
        retry_after: Duration::from_secs(7),
    };
    let refused = kube::Error::Api(Box::new(status));
    assert_eq!(meaning::<Node>(refused), Err(busy));
}

/// As with an admission webhook that does not answer and is then ignored.
#[tokio::test(start_paused = true)]
async fn a_request_may_take_as_long_as_the_api_server_waits_for_webhooks() {
    let tenure = Tenure::unlimited();
    for (seconds, is_answered) in [(25, true), (59, true), (61, false)] {
        let request = async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok(())
        };
        let answer = in_time(&tenure, request).await;
        assert_eq!(answer.is_ok(), is_answered, "{seconds} s: {answer:?}");
    }
}
