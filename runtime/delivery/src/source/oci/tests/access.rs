//! Authentication: logins are sent to the registry and its token endpoint only, and shown in no text.

mod elsewhere;

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::Response;
use ccm_core::rollout::Release;
use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::json;
use tokio::sync::watch;
use url::Url;

use super::fake_registry::{
    AllAt, Asked, FakeRegistry, RegistryContent, login, module, redirect, source, source_with,
    status, timeouts,
};
use super::proxies::{Tunnels, tls};
use crate::source::oci::login::RegistryCredentials;
use crate::source::oci::registry::{Site, redirected};
use crate::source::oci::{Mirror, OciSource};
use crate::source::{Source as _, SourceErrorKind};

/// base64 of `robot:canary-9f2`.
const BASIC: &str = "Basic cm9ib3Q6Y2FuYXJ5LTlmMg==";
const PASSWORD: &str = "canary-9f2";

fn challenge(text: &str) -> Response {
    let answer = Response::builder()
        .status(401)
        .header("www-authenticate", text);
    answer.body(Body::empty()).unwrap()
}

fn needs(authorization: &'static str, asked: &Asked, how: &str) -> Option<Response> {
    (asked.authorization.as_deref() != Some(authorization)).then(|| challenge(how))
}

async fn basic() -> FakeRegistry {
    let (content, _) = RegistryContent::with(&module(100));
    FakeRegistry::start(content, |asked| needs(BASIC, asked, "Basic realm=\"test\"")).await
}

/// A registry that accepts the tokens of its own token endpoint, whose requests `issue` answers.
async fn bearer(issue: impl Fn(&Asked) -> Response + Send + Sync + 'static) -> FakeRegistry {
    let (content, _) = RegistryContent::with(&module(100));
    let host = Arc::new(OnceLock::<String>::new());
    let own = host.clone();
    let fake = FakeRegistry::start(content, move |asked| {
        if is_for_token(asked) {
            return Some(issue(asked));
        }
        let how = format!(
            "Bearer realm=\"http://{}/token\",service=\"shelf\",scope=\"repository:other/secret:push\"",
            own.get().unwrap()
        );
        needs("Bearer t0ken", asked, &how)
    })
    .await;
    host.set(fake.host.clone()).unwrap();
    fake
}

fn is_for_token(asked: &Asked) -> bool {
    asked.path.starts_with("/token")
}

fn token() -> Response {
    Response::new(Body::from(json!({"token": "t0ken"}).to_string()))
}

#[tokio::test]
async fn a_password_is_shown_when_the_registry_asks_for_it_and_only_then() {
    let fake = basic().await;
    let mut settings = fake.settings(":1");
    settings.credentials = watch::channel(Some(login(&fake.host, PASSWORD))).1;
    source(settings).next().await.unwrap();
    let shown: Vec<_> = fake
        .asked()
        .into_iter()
        .map(|asked| asked.authorization)
        .collect();
    assert_eq!(shown[0], None);
    assert!(
        shown[1..]
            .iter()
            .all(|shown| shown.as_deref() == Some(BASIC)),
        "{shown:?}"
    );
}

#[tokio::test]
async fn without_a_login_or_with_a_wrong_one_access_is_denied() {
    let fake = basic().await;
    let cases = [
        (None, "wants a login, and none is configured for it"),
        (
            Some(login("elsewhere.example", PASSWORD)),
            "wants a login, and none is configured for it",
        ),
        (Some(login(&fake.host, "wrong-77")), "answered 401"),
    ];
    for (credentials, expected) in cases {
        let mut settings = fake.settings(":1");
        settings.credentials = watch::channel(credentials).1;
        let error = source(settings).next().await.err().unwrap();
        assert_eq!(error.kind, SourceErrorKind::Denied, "{error}");
        let why = &error.why;
        assert!(why.contains(expected) && !why.contains("wrong-77"), "{why}");
    }
}

#[tokio::test]
async fn a_login_that_is_rotated_is_used_at_once_after_a_denial() {
    let fake = basic().await;
    let mut settings = fake.settings(":1");
    // The next regular poll comes after the end of this test.
    settings.access.poll = Duration::from_secs(3600);
    let (sender, receiver) = watch::channel(Some(login(&fake.host, "old")));
    settings.credentials = receiver;
    let mut source = source(settings);
    assert_eq!(
        source.next().await.err().map(|error| error.kind),
        Some(SourceErrorKind::Denied)
    );
    sender.send_replace(Some(login(&fake.host, PASSWORD)));
    source.next().await.unwrap();
}

#[tokio::test]
async fn a_token_is_asked_for_our_own_repository_whatever_the_registry_asks_for() {
    // Anonymously, with a login, and with a wrong one.
    for (password, user, is_let_in) in [
        (None, None, true),
        (Some(PASSWORD), Some(BASIC), true),
        (Some("wrong"), Some(BASIC), false),
    ] {
        let fake = bearer(move |asked| match asked.authorization.as_deref() == user {
            true => Response::new(Body::from(json!({"access_token": "t0ken"}).to_string())),
            false => status(401),
        })
        .await;
        let mut settings = fake.settings(":1");
        settings.credentials =
            watch::channel(password.map(|password| login(&fake.host, password))).1;
        match source(settings).next().await {
            Ok(_) => assert!(is_let_in),
            Err(error) => assert!(
                !is_let_in
                    && error
                        .to_string()
                        .contains("gives no token: it answered 401"),
                "{error}"
            ),
        }
        let asked: Vec<Asked> = fake.asked().into_iter().filter(is_for_token).collect();
        let path = "/token?service=shelf&scope=repository%3Aclouds%2Fexample%3Apull";
        assert!(
            asked.iter().all(|asked| asked.path == path) && asked.len() == 1,
            "{asked:?}"
        );
        // The login is sent to the token endpoint only.
        assert_eq!(
            fake.count(|asked| {
                !is_for_token(asked) && asked.authorization.as_deref() == Some(BASIC)
            }),
            0
        );
    }
}

#[tokio::test]
async fn a_token_that_is_kept_is_exchanged_or_shown_as_it_is() {
    for (kind, exchanges) in [("registrytoken", 0), ("identitytoken", 1)] {
        let fake = bearer(|asked| {
            let is_exchange = asked.method == Method::POST && asked.path == "/token";
            match is_exchange && asked.authorization.is_none() {
                true => token(),
                false => status(400),
            }
        })
        .await;
        let text = json!({"auths": {&fake.host: {kind: "t0ken"}}}).to_string();
        let mut settings = fake.settings(":1");
        let credentials = RegistryCredentials::parse_docker_config(&text).unwrap();
        settings.credentials = watch::channel(Some(credentials)).1;
        source(settings).next().await.unwrap();
        assert_eq!(fake.count(is_for_token), exchanges, "{kind}");
    }
}

#[test]
fn docker_io_is_where_its_api_is() {
    let open = |host: &str, repository: &str| {
        let site = Site::new(host, repository, true).unwrap();
        site.join("manifests/1").unwrap().to_string()
    };
    let cases = [
        (
            "docker.io",
            "alpine",
            "https://registry-1.docker.io/v2/library/alpine/manifests/1",
        ),
        (
            "docker.io",
            "a/b",
            "https://registry-1.docker.io/v2/a/b/manifests/1",
        ),
        ("ghcr.io", "b", "https://ghcr.io/v2/b/manifests/1"),
        (
            "reg.example:5000",
            "b",
            "https://reg.example:5000/v2/b/manifests/1",
        ),
        (
            "10.0.0.1:5000",
            "b",
            "https://10.0.0.1:5000/v2/b/manifests/1",
        ),
        (
            "127.0.0.1:5000",
            "b",
            "http://127.0.0.1:5000/v2/b/manifests/1",
        ),
        ("[::1]:5000", "b", "http://[::1]:5000/v2/b/manifests/1"),
        (
            "localhost:5000",
            "b",
            "http://localhost:5000/v2/b/manifests/1",
        ),
        (
            "localhost.example",
            "b",
            "https://localhost.example/v2/b/manifests/1",
        ),
    ];
    for (host, repository, expected) in cases {
        assert_eq!(open(host, repository), expected);
    }
}

#[test]
fn a_redirect_never_leads_away_from_tls() {
    let cases = [
        (
            "https://a/v2/x",
            "https://b/y?sig=1",
            Some("https://b/y?sig=1"),
        ),
        ("https://a/v2/x", "/y", Some("https://a/y")),
        ("https://a/v2/x", "//b/y", Some("https://b/y")),
        ("https://a/v2/x", "http://b/y", None),
        ("https://a/v2/x", "http://a/y", None),
        ("https://a/v2/x", "ftp://a/y", None),
        ("http://127.0.0.1/v2/x", "https://b/y", Some("https://b/y")),
        ("https://a/v2/x", "https://", None),
    ];
    for (from, to, expected) in cases {
        let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_static(to))]);
        let found = redirected(&Url::parse(from).unwrap(), &headers);
        assert_eq!(
            found.ok().as_ref().map(Url::as_str),
            expected,
            "{from} to {to}"
        );
    }
    let from = Url::parse("https://a/").unwrap();
    assert!(redirected(&from, &HeaderMap::new()).is_err());
}

#[tokio::test]
async fn nothing_is_sent_to_where_the_registry_redirects_or_for_tokens_to_a_forbidden_address() {
    let (content, _) = RegistryContent::with(&module(100));
    let storage = FakeRegistry::honest(content.clone()).await;
    let there = storage.host.clone();
    let fake = FakeRegistry::start(content, move |asked| {
        needs(BASIC, asked, "Basic realm=\"test\"").or_else(|| {
            asked
                .is_blob()
                .then(|| redirect(&format!("http://{there}{}", asked.path)))
        })
    })
    .await;
    let mut settings = fake.settings(":1");
    settings.credentials = watch::channel(Some(login(&fake.host, PASSWORD))).1;
    settings.access.addresses = vec!["127.0.0.0/8".parse().unwrap()];
    source(settings).next().await.unwrap();
    assert_eq!(storage.count(Asked::is_blob), 1);
    assert_eq!(storage.count(|asked| asked.authorization.is_some()), 0);

    for (realm, expected) in [
        (
            "https://169.254.169.254/token",
            "169.254.169.254 is not asked",
        ),
        ("https://10.0.0.1/token", "10.0.0.1 is not asked"),
        (
            "http://10.0.0.1/token",
            "for a token to 10.0.0.1, without TLS",
        ),
        (
            "http://127.0.0.1:1/",
            "for a token to 127.0.0.1:1, without TLS",
        ),
    ] {
        let how = format!("Bearer realm=\"{realm}\"");
        let fake =
            FakeRegistry::start(RegistryContent::default(), move |_| Some(challenge(&how))).await;
        let error = fake.bring().await.err().unwrap();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// Otherwise it could have the login sent to any port of this machine.
#[tokio::test]
async fn a7_for_a_registry_with_tls_no_token_is_asked_for_without_tls() {
    let local = FakeRegistry::start(RegistryContent::default(), |_| Some(token())).await;
    let (_, port) = local.host.rsplit_once(':').unwrap();
    let own = FakeRegistry::honest(RegistryContent::default()).await;
    for name in ["127.0.0.1", "localhost"] {
        let how = format!("Bearer realm=\"http://{name}:{port}/token\"");
        let mirror =
            FakeRegistry::start(RegistryContent::default(), move |_| Some(challenge(&how))).await;
        let (tls, ca) = tls();
        let proxy = Tunnels::start("200 OK", tls, mirror.host.clone()).await;
        let mut settings = own.settings(":1");
        settings.access.mirrors = vec![Mirror::parse("registry.test").unwrap()];
        settings.credentials = watch::channel(Some(login("registry.test", PASSWORD))).1;
        settings.access.ca_pem = Some(ca);
        settings.access.proxy = Some(proxy.grant(""));
        settings.access.addresses = vec!["127.0.0.0/8".parse().unwrap()];
        let lookup = Arc::new(AllAt(Ipv4Addr::LOCALHOST.into()));
        let error = source_with(settings, lookup, timeouts()).next().await;
        let error = error.err().unwrap().to_string();
        let expected = format!("registry.test sends us for a token to {name}:{port}, without TLS");
        assert!(error.contains(&expected), "{error}");
    }
    assert_eq!(local.count(|_| true), 0);
}

#[tokio::test]
async fn no_error_shows_what_a_registry_sends_back_of_a_login() {
    // The registry repeats the credentials that it received, in every part of an answer that can hold them.
    type Lie = fn(&str) -> Response;
    let lies: [Lie; 5] = [
        |text| {
            Response::builder()
                .status(403)
                .body(Body::from(format!(
                    "{{\"errors\":[{{\"code\":\"{text}\",\"message\":\"{text}\"}}]}}"
                )))
                .unwrap()
        },
        |text| {
            Response::builder()
                .header("docker-content-digest", text)
                .header("content-type", text)
                .body(Body::from(text.to_owned()))
                .unwrap()
        },
        |text| redirect(&format!("http://10.0.0.1/{text}?sig={text}")),
        |text| {
            challenge(&format!(
                "Bearer realm=\"http://10.0.0.1/{text}\",service=\"{text}\""
            ))
        },
        |text| {
            Response::builder()
                .status(500)
                .header("x-reason", text)
                .body(Body::from(text.to_owned()))
                .unwrap()
        },
    ];
    for lie in lies {
        let fake = FakeRegistry::start(RegistryContent::default(), move |asked| {
            Some(match asked.authorization.as_deref() {
                Some(text) => lie(&format!("{text}{PASSWORD}")),
                None => challenge("Basic"),
            })
        })
        .await;
        let mut settings = fake.settings(":1");
        settings.credentials = watch::channel(Some(login(&fake.host, PASSWORD))).1;
        let error = source(settings).next().await.err().unwrap();
        let text = format!("{error} {error:?}");
        assert!(
            !text.contains(PASSWORD) && !text.contains("cm9ib3Q"),
            "{text}"
        );
        assert!(
            fake.count(|asked| asked.method == Method::HEAD && asked.authorization.is_some()) > 0
        );
    }
}

#[tokio::test]
async fn a_ca_file_without_a_certificate_is_refused_before_anybody_is_asked() {
    let fake = FakeRegistry::start(RegistryContent::default(), |_| None).await;
    for text in ["", "no certificate"] {
        let mut settings = fake.settings(":1");
        settings.access.ca_pem = Some(text.to_owned());
        let opened = OciSource::new("place".to_owned(), settings);
        let why = opened.err().unwrap().to_string();
        assert!(why.contains("CA certificates cannot be read"), "{why}");
    }
    assert_eq!(fake.count(|_| true), 0);
}

#[tokio::test]
async fn a_token_endpoint_that_wants_to_be_left_alone_is() {
    let is_busy = AtomicBool::new(true);
    let fake = bearer(move |_| {
        let busy = Response::builder().status(429).header("retry-after", "2");
        match is_busy.swap(false, Ordering::SeqCst) {
            true => busy.body(Body::empty()).unwrap(),
            false => token(),
        }
    })
    .await;
    let mut settings = fake.settings(":1");
    settings.access.poll = Duration::from_millis(1);
    let mut source = source(settings);
    let error = source.next().await.err().unwrap();
    assert_eq!(error.kind, SourceErrorKind::Unavailable, "{error}");
    let from = Instant::now();
    source.next().await.unwrap();
    // A lower bound only: the poll may be late, but not early.
    assert!(from.elapsed() > Duration::from_millis(1900));
}

#[tokio::test]
async fn a_version_is_fetched_again_with_the_login_of_now() {
    // `robot:old`. Some registries answer an expired login with 403, and ask for none.
    const OLD: &str = "Basic cm9ib3Q6b2xk";
    let wasm = module(100);
    let (content, digest) = RegistryContent::with(&wasm);
    let is_expired = Arc::new(AtomicBool::new(false));
    let expired = is_expired.clone();
    let fake = FakeRegistry::start(content, move |asked| {
        let good = match expired.load(Ordering::SeqCst) {
            true => BASIC,
            false => OLD,
        };
        match asked.authorization.as_deref() {
            None => Some(challenge("Basic realm=\"test\"")),
            Some(shown) => (shown != good).then(|| status(403)),
        }
    })
    .await;
    let mut settings = fake.settings(&format!("@{digest}"));
    let (sender, receiver) = watch::channel(Some(login(&fake.host, "old")));
    settings.credentials = receiver;
    let mut source = source(settings);
    let artifact = source.next().await.unwrap();
    is_expired.store(true, Ordering::SeqCst);
    sender.send_replace(Some(login(&fake.host, PASSWORD)));
    let release = Release {
        digest: artifact.digest.to_string(),
        version: String::new(),
        origin: artifact.origin.clone(),
    };
    let again = source.again(&release).await;
    assert_eq!(again.map(|artifact| artifact.digest), Ok(artifact.digest));
    let is_of_now = |asked: &Asked| asked.authorization.as_deref() == Some(BASIC);
    assert!(fake.count(is_of_now) > 0);
}
