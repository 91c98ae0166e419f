//! Which users the server accepts: bearer tokens in every form, and the cluster's own settings, which may change, be
//! unreachable or refused.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Mutex;

use http::{HeaderValue, Request, Response, StatusCode};
use kube::client::Body;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tower::service_fn;

use super::*;
use crate::server::tests::world::Authority;
use crate::settings::{HeaderNames, RequestHeader};

#[test]
fn a_bearer_token_is_read_as_go_reads_it() {
    for (value, expected) in [
        ("Bearer abc", Some("abc")),
        ("bearer   abc ", Some("abc")),
        ("Bearer", None),
        ("Bearer ", None),
        ("Basic abc", None),
        ("", None),
    ] {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
        assert_eq!(bearer(&headers), expected, "{value:?}");
    }
}

/// A client whose certificate has this name.
fn peer(authority: &Authority, name: &str) -> PeerCertificates {
    let (certificate, _) = authority.issue(name, &[], &[]);
    PeerCertificates([CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()].into())
}

/// The API server's answer to a request for the ConfigMap.
type Answer = Arc<Mutex<(StatusCode, Value)>>;

fn config_map(data: &Value) -> (StatusCode, Value) {
    (
        StatusCode::OK,
        json!({"metadata": {"name": "extension-apiserver-authentication"}, "data": data}),
    )
}

fn failed(code: StatusCode) -> (StatusCode, Value) {
    let reason = code.canonical_reason();
    (
        code,
        json!({"kind": "Status", "status": "Failure", "reason": reason, "message": "no", "code": code.as_u16()}),
    )
}

fn client(answer: &Answer) -> Client {
    let answer = answer.clone();
    let api_server = service_fn(move |_: Request<Body>| {
        let (code, body) = answer.lock().unwrap().clone();
        let answer = Response::builder().status(code);
        std::future::ready(answer.body(Body::from(serde_json::to_vec(&body).unwrap())))
    });
    Client::new(api_server, "default")
}

/// Settings without flags: all authorities come from the cluster.
fn settings(tolerates_failed_lookup: bool) -> Authentication {
    Authentication {
        cluster: None,
        cache: Duration::from_secs(10),
        client_ca: None,
        request_header: None,
        skips_lookup: false,
        tolerates_failed_lookup,
    }
}

/// The user's name; `None` if the credentials are invalid.
async fn name(authenticator: &Authenticator, peer: &PeerCertificates) -> Option<String> {
    let user = authenticator.user(peer, &HeaderMap::new()).await;
    user.ok().map(|user| user.name)
}

#[tokio::test(start_paused = true)]
async fn trust_follows_the_clusters_settings_and_outlasts_their_absence() {
    let (old, new) = (Authority::new(), Authority::new());
    let (of_old, of_new) = (peer(&old, "jane"), peer(&new, "joe"));
    let answer = Answer::new(Mutex::new(config_map(
        &json!({"client-ca-file": old.pem()}),
    )));
    let authenticator = Authenticator::new(settings(false), Some(client(&answer))).await;
    let authenticator = Arc::new(authenticator.ok().unwrap());
    tokio::spawn(authenticator.clone().follow());
    let both = async || {
        (
            name(&authenticator, &of_old).await,
            name(&authenticator, &of_new).await,
        )
    };
    let (jane, joe) = (Some("jane".to_owned()), Some("joe".to_owned()));
    assert_eq!(both().await, (jane.clone(), None));

    *answer.lock().unwrap() = config_map(&json!({"client-ca-file": new.pem()}));
    assert_eq!(
        both().await,
        (jane, None),
        "it is read again from time to time only"
    );
    let next = LOOK + Duration::from_secs(1);
    tokio::time::sleep(next).await;
    assert_eq!(both().await, (None, joe.clone()));

    *answer.lock().unwrap() = failed(StatusCode::INTERNAL_SERVER_ERROR);
    tokio::time::sleep(next).await;
    assert_eq!(
        both().await,
        (None, joe),
        "what cannot be read changes nothing"
    );

    *answer.lock().unwrap() = config_map(&json!({"client-ca-file": "nonsense"}));
    tokio::time::sleep(next).await;
    let anonymous = Some("system:anonymous".to_owned());
    assert_eq!(
        both().await,
        (anonymous.clone(), anonymous),
        "vouches for nobody"
    );
}

/// As upstream: such a certificate names nobody, and a request with it is one without.
#[tokio::test]
async fn a_client_certificate_without_a_name_is_no_credential() {
    let (authority, other) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("clients.crt");
    std::fs::write(&file, authority.pem()).unwrap();
    let settings = Authentication {
        client_ca: Some(file),
        ..settings(false)
    };
    let authenticator = Authenticator::new(settings, None).await.ok().unwrap();
    let anonymous = Some("system:anonymous".to_owned());
    assert_eq!(name(&authenticator, &peer(&authority, "")).await, anonymous);
    assert_eq!(name(&authenticator, &peer(&other, "")).await, None);
}

#[tokio::test(start_paused = true)]
async fn trust_follows_the_files_of_the_flags() {
    let (old, new) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("clients.crt");
    std::fs::write(&file, old.pem()).unwrap();
    let settings = Authentication {
        client_ca: Some(file.clone()),
        ..settings(false)
    };
    let authenticator = Arc::new(Authenticator::new(settings, None).await.ok().unwrap());
    tokio::spawn(authenticator.clone().follow());
    let next = LOOK + Duration::from_secs(1);
    for (text, is_news) in [
        (new.pem(), true),
        ("half of".to_owned(), true),
        (old.pem(), false),
    ] {
        std::fs::write(&file, text).unwrap();
        tokio::time::sleep(next).await;
        let found = name(&authenticator, &peer(&new, "joe")).await;
        assert_eq!(found.is_some(), is_news);
    }
}

#[tokio::test(start_paused = true)]
async fn proc_076_a_refused_look_up_ends_the_start_unless_it_is_tolerated() {
    let authority = Authority::new();
    let answer = Answer::new(Mutex::new(failed(StatusCode::FORBIDDEN)));
    let strict = Authenticator::new(settings(false), Some(client(&answer))).await;
    assert!(matches!(
        strict.err(),
        Some(ServingError::ClusterSettings(_))
    ));

    let tolerant = Authenticator::new(settings(true), Some(client(&answer))).await;
    let tolerant = Arc::new(tolerant.ok().unwrap());
    tokio::spawn(tolerant.clone().follow());
    let jane = peer(&authority, "jane");
    let anonymous = Some("system:anonymous".to_owned());
    assert_eq!(name(&tolerant, &jane).await, anonymous);
    *answer.lock().unwrap() = config_map(&json!({"client-ca-file": authority.pem()}));
    tokio::time::sleep(RETRY + Duration::from_secs(1)).await;
    assert_eq!(name(&tolerant, &jane).await, Some("jane".to_owned()));
}

#[tokio::test]
async fn proc_076_the_cluster_is_looked_up_unless_the_flags_say_all_or_forbid_it() {
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.crt");
    std::fs::write(&ca, Authority::new().pem()).unwrap();
    let header = RequestHeader {
        ca: ca.clone(),
        headers: HeaderNames {
            allowed_names: Vec::new(),
            user: Vec::new(),
            uid: Vec::new(),
            group: Vec::new(),
            extra: Vec::new(),
        },
    };
    for (client_ca, request_header, skips_lookup, starts) in [
        (None, None, false, false),
        (Some(&ca), None, false, false),
        (None, Some(&header), false, false),
        (Some(&ca), Some(&header), false, true),
        (None, None, true, true),
    ] {
        let answer = Answer::new(Mutex::new(failed(StatusCode::FORBIDDEN)));
        let settings = Authentication {
            client_ca: client_ca.cloned(),
            request_header: request_header.cloned(),
            skips_lookup,
            ..settings(false)
        };
        let begun = Authenticator::new(settings.clone(), Some(client(&answer))).await;
        assert_eq!(begun.is_ok(), starts, "{settings:?}");
    }
}

/// Such as the proxy in front of several API servers none of which has started yet.
#[tokio::test(start_paused = true)]
async fn proc_076_an_answer_that_passes_by_itself_ends_no_start() {
    let authority = Authority::new();
    let jane = peer(&authority, "jane");
    for code in [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::INTERNAL_SERVER_ERROR,
        StatusCode::SERVICE_UNAVAILABLE,
    ] {
        let answer = Answer::new(Mutex::new(failed(code)));
        let begun = Authenticator::new(settings(false), Some(client(&answer))).await;
        let begun = Arc::new(begun.ok().unwrap());
        tokio::spawn(begun.clone().follow());
        *answer.lock().unwrap() = config_map(&json!({"client-ca-file": authority.pem()}));
        tokio::time::sleep(RETRY + Duration::from_secs(1)).await;
        assert_eq!(name(&begun, &jane).await, Some("jane".to_owned()));
    }
}

#[tokio::test]
async fn proc_075_a_front_proxy_names_all_of_a_user_by_the_headers_that_the_cluster_publishes() {
    let proxies = Authority::new();
    let answer = Answer::new(Mutex::new(config_map(&json!({
        "requestheader-client-ca-file": proxies.pem(),
        "requestheader-allowed-names": r#"["front-proxy"]"#,
        "requestheader-username-headers": r#"["X-User", "X-Other-User"]"#,
        "requestheader-uid-headers": r#"["X-Uid"]"#,
        "requestheader-group-headers": r#"["X-Group"]"#,
        "requestheader-extra-headers-prefix": r#"["X-Extra-"]"#,
    }))));
    let authenticator = Authenticator::new(settings(false), Some(client(&answer))).await;
    let authenticator = authenticator.ok().unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("x-other-user", "jane"),
        ("x-uid", "u-1"),
        ("x-group", "developers"),
        ("x-group", "testers"),
        ("x-extra-scopes", "read"),
        ("x-extra-scopes", "list"),
        // As Go reads it: a name in any script, no group without a name, an escaped key of any characters.
        ("x-group", "Prüfer"),
        ("x-group", ""),
        ("x-extra-authentication.kubernetes.io%2fpod-name", "web-0"),
        ("x-extra-half%2", "1"),
        // A header that is not among the published ones.
        ("x-remote-user", "root"),
        ("x-remote-group", "system:masters"),
    ] {
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    let text = |values: &[&str]| {
        values
            .iter()
            .map(|&value| value.to_owned())
            .collect::<Vec<_>>()
    };
    let expected = User {
        name: "jane".to_owned(),
        uid: "u-1".to_owned(),
        groups: text(&["developers", "testers", "Prüfer", "system:authenticated"]),
        extra: BTreeMap::from([
            ("scopes".to_owned(), text(&["read", "list"])),
            (
                "authentication.kubernetes.io/pod-name".to_owned(),
                text(&["web-0"]),
            ),
            ("half%2".to_owned(), text(&["1"])),
        ]),
    };
    let proxy = peer(&proxies, "front-proxy");
    assert_eq!(authenticator.user(&proxy, &headers).await, Ok(expected));
    let another = peer(&proxies, "another");
    assert_eq!(
        authenticator.user(&another, &headers).await,
        Err(Unauthorized::Invalid)
    );
}

#[tokio::test]
async fn proc_075_who_is_no_front_proxy_is_known_by_other_credentials() {
    // One authority for proxies and clients: a client's certificate passes as a proxy's, except for its name.
    let both = Authority::new();
    let answer = Answer::new(Mutex::new(config_map(&json!({
        "client-ca-file": both.pem(),
        "requestheader-client-ca-file": both.pem(),
        "requestheader-allowed-names": r#"["front-proxy"]"#,
        "requestheader-username-headers": r#"["X-Remote-User"]"#,
    }))));
    let authenticator = Authenticator::new(settings(false), Some(client(&answer))).await;
    let authenticator = authenticator.ok().unwrap();
    let (jane, headers) = (
        peer(&both, "jane"),
        HeaderMap::from_iter([(
            "x-remote-user".parse::<http::HeaderName>().unwrap(),
            "root".parse().unwrap(),
        )]),
    );
    for headers in [HeaderMap::new(), headers] {
        let user = authenticator.user(&jane, &headers).await;
        assert_eq!(user.map(|user| user.name), Ok("jane".to_owned()));
    }
}

#[tokio::test]
async fn proc_075_a_valid_token_counts_beside_the_certificate_of_a_proxy_that_is_not_allowed() {
    let proxies = Authority::new();
    let answer = Answer::new(Mutex::new(config_map(&json!({
        "requestheader-client-ca-file": proxies.pem(),
        "requestheader-allowed-names": r#"["front-proxy"]"#,
        "requestheader-username-headers": r#"["X-Remote-User"]"#,
    }))));
    let authenticator = Authenticator::new(settings(false), Some(client(&answer))).await;
    let authenticator = authenticator.ok().unwrap();
    *answer.lock().unwrap() = (
        StatusCode::CREATED,
        json!({
            "metadata": {}, "spec": {},
            "status": {"authenticated": true, "user": {"username": "joe"}},
        }),
    );
    let headers = HeaderMap::from_iter([(AUTHORIZATION, "Bearer abc".parse().unwrap())]);
    let another = peer(&proxies, "another");
    let user = authenticator.user(&another, &headers).await;
    assert_eq!(user.map(|user| user.name), Ok("joe".to_owned()));
}

#[tokio::test]
async fn a_published_list_that_cannot_be_parsed_lets_no_proxy_name_users() {
    let proxies = Authority::new();
    let headers = HeaderMap::from_iter([(
        "x-remote-user".parse::<http::HeaderName>().unwrap(),
        "root".parse().unwrap(),
    )]);
    let any = peer(&proxies, "another");
    for (allowed, expected) in [
        (r#"["another"]"#, "root"),
        ("[]", "root"),
        ("null", "root"),
        // Meant as a list of one name: not a list that allows every name.
        ("front-proxy", "system:anonymous"),
        (r#"["front-proxy""#, "system:anonymous"),
    ] {
        let answer = Answer::new(Mutex::new(config_map(&json!({
            "requestheader-client-ca-file": proxies.pem(),
            "requestheader-allowed-names": allowed,
            "requestheader-username-headers": r#"["X-Remote-User"]"#,
        }))));
        let authenticator = Authenticator::new(settings(false), Some(client(&answer))).await;
        let user = authenticator.ok().unwrap().user(&any, &headers).await;
        let name = user.map(|user| user.name);
        assert_eq!(name, Ok(expected.to_owned()), "{allowed}");
    }
}

#[tokio::test]
async fn proc_075_a_user_that_is_named_as_nobody_is_not_called_authenticated() {
    let proxies = Authority::new();
    let answer = Answer::new(Mutex::new(config_map(&json!({
        "requestheader-client-ca-file": proxies.pem(),
        "requestheader-username-headers": r#"["X-Remote-User"]"#,
        "requestheader-group-headers": r#"["X-Remote-Group"]"#,
    }))));
    let authenticator = Authenticator::new(settings(false), Some(client(&answer))).await;
    let authenticator = authenticator.ok().unwrap();
    let proxy = peer(&proxies, "front-proxy");
    for (name, group, expected) in [
        ("jane", "testers", &["testers", "system:authenticated"][..]),
        ("jane", "system:authenticated", &["system:authenticated"]),
        ("system:anonymous", "testers", &["testers"]),
        ("x", "system:unauthenticated", &["system:unauthenticated"]),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert("x-remote-user", name.parse().unwrap());
        headers.insert("x-remote-group", group.parse().unwrap());
        let user = authenticator.user(&proxy, &headers).await.unwrap();
        assert_eq!(user.groups, expected, "{name}, {group}");
    }
}

/// The API server's answer to a review of a token.
fn reviewed(status: &Value) -> (StatusCode, Value) {
    let review = json!({"metadata": {}, "spec": {}, "status": status});
    (StatusCode::CREATED, review)
}

fn with_token() -> HeaderMap {
    HeaderMap::from_iter([(AUTHORIZATION, "Bearer abc".parse().unwrap())])
}

#[tokio::test(start_paused = true)]
async fn proc_075_a_review_that_failed_is_kept_for_ten_seconds_at_most() {
    let invalid = json!({"authenticated": false});
    // A made-up token, or an authenticator of the API server that is away.
    let failed = json!({"authenticated": false, "error": "the webhook does not answer"});
    for (first, seconds, is_kept) in [
        (&invalid, 11, true),
        (&failed, 9, true),
        (&failed, 11, false),
    ] {
        let answer = Answer::new(Mutex::new(config_map(&json!({}))));
        let settings = Authentication {
            cache: Duration::from_secs(60),
            ..settings(false)
        };
        let authenticator = Authenticator::new(settings, Some(client(&answer))).await;
        let authenticator = authenticator.ok().unwrap();
        let nobody = PeerCertificates::default();
        *answer.lock().unwrap() = reviewed(first);
        let refused = authenticator.user(&nobody, &with_token()).await;
        assert_eq!(refused, Err(Unauthorized::Invalid));
        *answer.lock().unwrap() =
            reviewed(&json!({"authenticated": true, "user": {"username": "joe"}}));
        tokio::time::advance(Duration::from_secs(seconds)).await;
        let again = authenticator.user(&nobody, &with_token()).await;
        assert_eq!(again.is_err(), is_kept, "{first} after {seconds} s");
    }
}

#[tokio::test]
async fn a_token_that_is_longer_than_any_is_not_reviewed() {
    let answer = Answer::new(Mutex::new(config_map(&json!({}))));
    let authenticator = Authenticator::new(settings(false), Some(client(&answer))).await;
    let authenticator = authenticator.ok().unwrap();
    *answer.lock().unwrap() =
        reviewed(&json!({"authenticated": true, "user": {"username": "joe"}}));
    for (length, is_reviewed) in [(16 * 1024, true), (16 * 1024 + 1, false)] {
        let token = format!("Bearer {}", "x".repeat(length));
        let headers = HeaderMap::from_iter([(AUTHORIZATION, token.parse().unwrap())]);
        let nobody = PeerCertificates::default();
        let found = authenticator.user(&nobody, &headers).await;
        assert_eq!(found.is_ok(), is_reviewed, "{length}");
    }
}

#[tokio::test(start_paused = true)]
async fn proc_034_a_review_that_the_api_server_cannot_make_yet_is_asked_for_again() {
    for code in [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::INTERNAL_SERVER_ERROR,
    ] {
        let answer = Answer::new(Mutex::new(config_map(&json!({}))));
        let authenticator = Authenticator::new(settings(false), Some(client(&answer))).await;
        let authenticator = authenticator.ok().unwrap();
        *answer.lock().unwrap() = failed(code);
        let (nobody, headers) = (PeerCertificates::default(), with_token());
        let recovers = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            *answer.lock().unwrap() =
                reviewed(&json!({"authenticated": true, "user": {"username": "joe"}}));
        };
        let (user, ()) = tokio::join!(authenticator.user(&nobody, &headers), recovers);
        assert_eq!(user.map(|user| user.name), Ok("joe".to_owned()), "{code}");
    }
}
