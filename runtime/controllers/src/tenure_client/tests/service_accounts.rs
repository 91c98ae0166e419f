//! Clients with an identity of their own: the requests for their tokens, and how long they are used.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ccm_core::safety::tenure::Tenure;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::{answer, listener};
use crate::RestClients;
use crate::tenure_client::{TokenSource, client_of};

/// How the API server answers the base client.
#[derive(Clone, Copy)]
struct Issuer {
    /// Whether the ServiceAccount exists.
    exists: bool,
    /// Lifetime of tokens, in seconds.
    seconds: i64,
    /// Number of requests that it refuses first.
    refuses: usize,
}

/// A base client, and the requests sent through it.
fn base(issuer: Issuer) -> (Client, Arc<std::sync::Mutex<Vec<String>>>) {
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let issued = Arc::new(AtomicUsize::new(0));
    let exists = Arc::new(AtomicUsize::new(usize::from(issuer.exists)));
    let log = asked.clone();
    let service = service_fn(move |request: Request<Body>| {
        let (log, issued, exists) = (log.clone(), issued.clone(), exists.clone());
        async move {
            let line = format!("{} {}", request.method(), request.uri().path());
            let is_token = line.ends_with("/token");
            let (is_post, body) = (request.method() == Method::POST, request.into_body());
            let body: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
            log.lock().unwrap().push(line);
            assert!(is_post);
            let (status, answer) = if !is_token {
                exists.store(1, Ordering::SeqCst);
                (201, body)
            } else if exists.load(Ordering::SeqCst) == 0 {
                (
                    404,
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound", "message": "not found"}),
                )
            } else if log.lock().unwrap().len() <= issuer.refuses {
                (
                    500,
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "message": "no"}),
                )
            } else {
                assert_eq!(body["spec"]["expirationSeconds"], 3600);
                let number = issued.fetch_add(1, Ordering::SeqCst);
                let end = Timestamp::now() + SignedDuration::from_secs(issuer.seconds);
                let status = json!({"token": format!("token-{number}"), "expirationTimestamp": end.to_string()});
                (201, json!({"spec": body["spec"], "status": status}))
            };
            let answer = Body::from(serde_json::to_vec(&answer)?);
            Ok::<_, BoxError>(Response::builder().status(status).body(answer)?)
        }
    });
    (Client::new(service, "default"), asked)
}

/// Sends two requests as the ServiceAccount; returns the tokens that were sent.
async fn tokens(issuer: Issuer) -> ([String; 2], Vec<String>) {
    let (base, asked) = base(issuer);
    let (listener, mut config) = listener("http").await;
    // The credential of the kubeconfig is not sent.
    config.auth_info.token = Some("base".to_owned().into());
    let nodes: Api<Node> = Api::all(identity(base, &config));
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        [answer(&mut stream).await, answer(&mut stream).await]
    });
    nodes.get("worker-1").await.unwrap();
    nodes.get("worker-1").await.unwrap();
    let tokens = served.await.unwrap().map(|request| {
        let mut lines = request.lines();
        let token = lines.find_map(|line| line.strip_prefix("authorization: Bearer "));
        token.unwrap().to_owned()
    });
    let asked = asked.lock().unwrap().clone();
    (tokens, asked)
}

fn identity(base: Client, config: &Config) -> Client {
    let tokens = TokenSource::new(base, "kube-system", "node-controller");
    let tenure = Arc::new(Tenure::unlimited());
    client_of(tokens, config, tenure, None, &RestClients::default()).unwrap()
}

const TOKEN: &str = "POST /api/v1/namespaces/kube-system/serviceaccounts/node-controller/token";
const ACCOUNT: &str = "POST /api/v1/namespaces/kube-system/serviceaccounts";

#[tokio::test]
async fn proc_030_a_token_is_used_for_four_fifths_of_its_life() {
    let issuer = Issuer {
        exists: true,
        seconds: 3600,
        refuses: 0,
    };
    let (sent, asked) = tokens(issuer).await;
    assert_eq!(sent, ["token-0", "token-0"]);
    assert_eq!(asked, [TOKEN]);
    // An API server whose clock is behind, or ours that is ahead: it judges its tokens by its own clock.
    for seconds in [-1, 5] {
        let (sent, asked) = tokens(Issuer { seconds, ..issuer }).await;
        assert_eq!(sent, ["token-0", "token-0"]);
        assert_eq!(asked, [TOKEN]);
    }
}

#[tokio::test]
async fn proc_030_a_missing_service_account_is_created() {
    let (sent, asked) = tokens(Issuer {
        exists: false,
        seconds: 3600,
        refuses: 0,
    })
    .await;
    assert_eq!(sent, ["token-0", "token-0"]);
    assert_eq!(asked, [TOKEN, ACCOUNT, TOKEN]);
}

#[tokio::test]
async fn proc_030_a_token_that_is_refused_is_asked_for_again() {
    let (sent, asked) = tokens(Issuer {
        exists: true,
        seconds: 3600,
        refuses: 2,
    })
    .await;
    assert_eq!(sent, ["token-0", "token-0"]);
    assert_eq!(asked, [TOKEN; 3]);
}
